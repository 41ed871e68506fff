//! What the device does, on any medium: flash on the device, simulated flash in the test.
#![no_std]

use nvmem::{Medium, Persist, Record, RecordError};

/// What survives a power cut.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Life {
    /// How often the device was switched on.
    pub boots: u32,
    /// How long it has run, in ticks.
    pub ticks: u32,
}

/// The device's memory. Each change is atomic: a power cut leaves the old value or the new one.
pub struct App<D> {
    life: Record<Life, D>,
}

impl<D: Medium> App<D> {
    /// Opens the record in all of `pages`, and counts the boot.
    pub fn boot(medium: D, pages: core::ops::Range<u32>) -> Result<Self, RecordError<D::Error>> {
        let new = Life { boots: 0, ticks: 0 };
        let mut app = App {
            life: Record::open(medium, pages, new)?,
        };
        let Life { boots, ticks } = *app.life();
        let boots = boots + 1;
        app.life.set(Life { boots, ticks })?;
        Ok(app)
    }

    /// Counts a tick. When this returns, it is stored.
    pub fn tick(&mut self) -> Result<(), RecordError<D::Error>> {
        let Life { boots, ticks } = *self.life();
        let ticks = ticks + 1;
        self.life.set(Life { boots, ticks })
    }

    /// What is stored.
    pub fn life(&self) -> &Life {
        self.life.get()
    }
}
