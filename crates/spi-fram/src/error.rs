//! What can go wrong.

use core::fmt;

/// Why a call failed. After all but [`Error::Bus`] nothing of it went to the chip's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error<E> {
    /// The bus failed. Of a write a prefix may have arrived, as after a power cut.
    Bus(E),
    /// The range does not lie inside of the part. Nothing went on the bus.
    OutOfRange,
    /// The range reaches into blocks that the chip protects, or the chip did not take over a new protection. The
    /// chip itself would drop such a write without a word.
    Protected,
    /// The chip sleeps, and would ignore it: call `wake`. Nothing went on the bus.
    Asleep,
    /// The part does not have this command. Nothing went on the bus.
    Unsupported,
    /// The chip tells another maker or another capacity than the part has.
    WrongDevice,
    /// The ID reads all ones or all zeros, or the status register as no such chip has it: nothing drives the line, or
    /// the chip sleeps.
    NoAnswer,
}

impl<E: fmt::Debug> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Bus(e) => write!(f, "the bus failed: {e:?}"),
            Error::OutOfRange => f.write_str("outside of the memory"),
            Error::Protected => f.write_str("the chip is write protected there"),
            Error::Asleep => f.write_str("the chip sleeps"),
            Error::Unsupported => f.write_str("the part has no such command"),
            Error::WrongDevice => f.write_str("the chip is not the part that was configured"),
            Error::NoAnswer => f.write_str("no chip answers"),
        }
    }
}

impl<E: fmt::Debug> core::error::Error for Error<E> {}
