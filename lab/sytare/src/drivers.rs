//! Drivers, each with what makes it restorable.

mod adc;
mod buttons;
mod leds;
mod pause;
mod radio;
mod reg;
mod spi;

pub use adc::Adc;
pub use buttons::Buttons;
pub use leds::Leds;
pub use pause::{Pause, Progress, Timer};
pub use radio::{Mode, Packet, Radio, Tuned};
pub use spi::Spi;

/// A device does not answer in time.
#[derive(Clone, Copy, Debug)]
pub struct Silent;
