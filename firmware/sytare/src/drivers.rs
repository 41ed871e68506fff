//! Drivers, each with what makes it restorable.

mod adc;
mod leds;
mod pause;
mod radio;
mod reg;
mod spi;

pub use adc::Adc;
pub use leds::Leds;
pub use pause::{Pause, Progress, Timer};
pub use radio::{Packet, Radio};
pub use spi::Spi;

/// A device does not answer in time.
#[derive(Clone, Copy, Debug)]
pub struct Silent;
