//! Scenarios of `checkpoint`. On a machine a recursive program, interrupted and brought back in the
//! middle of its recursion; on a host the same media under a program that keeps its state in a
//! buffer.

#[cfg(not(target_os = "none"))]
mod host;
#[cfg(target_os = "none")]
mod interrupted;
#[cfg(target_os = "none")]
mod target;

#[cfg(not(target_os = "none"))]
use host::{flash, fram, fram as interrupted, full};
#[cfg(target_os = "none")]
use interrupted::interrupted;
#[cfg(target_os = "none")]
use target::{flash, fram, full};

use crate::{Group, Mapped, Scenario};
use checkpoint::nvmem::device::{Contract, EraseUnit, Medium, Torn};
use nvmem::{Region, Unit};

/// The scenarios of the image `checkpoint`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "checkpoint",
            primitive: "checkpoint",
            scenarios: &[
                Scenario::long("fram", 2 * SLOT, fram, 64),
                Scenario::long("full", crate::abi::NVM_BYTES, full, 64),
                Scenario::torn("flash", 3 * SLOT, flash, 4096),
            ],
        }
    }
}

/// The scenarios of the image `checkpoint-interrupt`.
pub const fn interrupt_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "checkpoint-interrupt",
            primitive: "checkpoint",
            scenarios: &[Scenario {
                sample: 32,
                ..Scenario::interrupted("handler", 2 * SLOT, interrupted)
            }],
        }
    }
}

/// The mailbox's arguments: planted bugs.
pub(crate) const FORGOTTEN: u16 = 13;
pub(crate) const NO_FPU: u16 = 14;
pub(crate) const OWN_STACK: u16 = 15;
pub(crate) const EARLY: u16 = 16;

/// The number of this build.
const PROGRAM: u64 = 1;
/// Bytes of a slot where an image holds what is in use.
const SLOT: usize = 10 * ERASE as usize;
/// Bytes of an erase unit of the flash, and of a word.
const ERASE: u32 = 128;
const WORD: u32 = 4;

/// NOR flash on mapped memory: a word is programmed once after an erase. The rig lets a cut leave
/// any word between two values that was being written.
struct Flash<'r, M: Mapped>(Region<'r, M>);

/// What the flash refuses.
#[derive(Debug, Clone, Copy)]
enum Refused {
    Range,
    NotErased,
}

impl<M: Mapped> Flash<'_, M> {
    fn check(&self, at: u32, len: u32, of: u32) -> Result<(), Refused> {
        let fits = at
            .checked_add(len)
            .is_some_and(|end| end <= self.capacity());
        (fits && at.is_multiple_of(of) && len.is_multiple_of(of))
            .then_some(())
            .ok_or(Refused::Range)
    }

    fn word(&self, at: u32) -> u32 {
        let (at, unit) = (at as usize, M::Unit::BYTES);
        // SAFETY: inside of the region, which nobody else has; units of two bytes are halves of a
        // word.
        unsafe {
            if unit == 4 {
                self.0.load(at)
            } else {
                self.0.load(at) & 0xFFFF | self.0.load(at + unit) << 16
            }
        }
    }

    fn set(&self, at: u32, word: u32) {
        let (at, unit) = (at as usize, M::Unit::BYTES);
        // SAFETY: as above.
        unsafe {
            self.0.store(at, word);
            if unit == 2 {
                self.0.store(at + unit, word >> 16);
            }
        }
    }
}

impl<M: Mapped> Medium for Flash<'_, M> {
    type Error = Refused;

    const CONTRACT: Contract = Contract {
        name: "flash",
        read_size: WORD,
        write_size: WORD,
        unit: WORD,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: ERASE,
            erased: 0xFF,
            write_once: true,
            endurance: 10_000,
        }),
    };

    fn capacity(&self) -> u32 {
        self.0.len() as u32
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Refused> {
        self.check(at, buf.len() as u32, WORD)?;
        for (to, at) in buf.chunks_exact_mut(4).zip((at..).step_by(4)) {
            to.copy_from_slice(&self.word(at).to_le_bytes());
        }
        Ok(())
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Refused> {
        self.check(at, bytes.len() as u32, WORD)?;
        for (from, at) in bytes.chunks_exact(4).zip((at..).step_by(4)) {
            if self.word(at) != u32::MAX {
                return Err(Refused::NotErased);
            }
            self.set(at, u32::from_le_bytes([from[0], from[1], from[2], from[3]]));
        }
        Ok(())
    }

    /// In an order in which erased words and old ones lie among each other when it is cut.
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Refused> {
        self.check(from, to.saturating_sub(from), ERASE)?;
        for unit in (from..to).step_by(ERASE as usize) {
            for i in 0..ERASE / WORD {
                self.set(unit + i * 13 % (ERASE / WORD) * WORD, u32::MAX);
            }
        }
        Ok(())
    }
}
