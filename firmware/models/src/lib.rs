//! Chips on a board, as their drivers and the outside see them: the same for each emulator.
//!
//! A model knows neither addresses nor a bus: an emulator calls it when the program has accessed
//! the register, or sent the byte, that leads to it. No model knows the machine's time: the
//! emulator says how much has passed ([`Chip::elapse`]).
//!
//! | | registers | over a power cut | what the outside has |
//! |---|---|---|---|
//! | [`Leds`] | output, direction | all outputs off | what it saw last |
//! | [`Buttons`] | input, flags, enable | flags are lost | numbers of presses |
//! | [`Timer`] | period, flag | stands still | |
//! | [`Adc`] | control, result | off, no result | voltages |
//! | [`Radio`] | those of a CC2500 | reset values | packets that arrived |
//! | [`Clock`] | alarm, number | kept: it has a battery | how often it was set |
//!
//! What the outside has is not lost in a power cut. A mistake of a driver that a real chip would
//! not tell of is kept in [`Chip::mistake`], for an emulator to look at.
#![forbid(unsafe_code)]

mod adc;
pub mod bench;
mod buttons;
mod clock;
mod leds;
pub mod radio;
mod timer;

pub use adc::Adc;
pub use bench::Bench;
pub use buttons::Buttons;
pub use clock::Clock;
pub use leds::Leds;
pub use radio::Radio;
pub use timer::Timer;

/// A chip on a board.
pub trait Chip {
    /// The power comes on. Registers hold their reset values; what a battery keeps stays, and so
    /// does what the outside has.
    fn reset(&mut self);

    /// So many nanoseconds pass, with the power on.
    fn elapse(&mut self, ns: u64) {
        let _ = ns;
    }

    /// What a driver has done that the chip's data sheet forbids, since the last reset: the first
    /// such mistake.
    fn mistake(&self) -> Option<&'static str> {
        None
    }
}
