//! Errors.

use core::fmt;

/// Why a call failed. For every error but [`Error::Bus`], the chip's memory is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error<E> {
    /// The bus failed, or the chip did not acknowledge. A prefix of a write may be stored, as after
    /// a power cut.
    Bus(E),
    /// The range is not inside of the part. Nothing went on the bus.
    OutOfRange,
    /// The part has no device ID. Nothing went on the bus.
    Unsupported,
    /// The chip's ID has another maker or capacity than the configured part.
    WrongDevice,
    /// No chip acknowledges its address: see `init`.
    NoAnswer,
}

impl<E: fmt::Debug> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Bus(e) => write!(f, "the bus failed: {e:?}"),
            Error::OutOfRange => f.write_str("the address range is outside of the memory"),
            Error::Unsupported => f.write_str("the part has no device ID"),
            Error::WrongDevice => f.write_str("the chip is not the configured part"),
            Error::NoAnswer => f.write_str("no chip answers"),
        }
    }
}

impl<E: fmt::Debug> core::error::Error for Error<E> {}
