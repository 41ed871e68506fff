//! Errors.

use core::fmt;

/// Why a call failed. For every error but [`Error::Bus`], the chip's memory is unchanged.
///
/// With the feature `defmt`, `Error<E>` has `Format` if the bus error `E` has it. The `DeviceError`
/// of embedded-hal-bus has it with that crate's feature `defmt-03`, which fits `defmt` 1, too:
///
/// ```toml
/// embedded-hal-bus = { version = "0.3", features = ["defmt-03"] }
/// spi-fram = { version = "0.1", features = ["defmt"] }
/// ```
///
/// If a bus error has no `Format` at all, log it as `Debug` and unwrap it without `defmt`:
/// `result.inspect_err(|e| defmt::error!("{}", defmt::Debug2Format(e))).unwrap()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error<E> {
    /// The bus failed. A prefix of a write may be stored, as after a power cut.
    Bus(E),
    /// The range is not inside of the part. Nothing went on the bus.
    OutOfRange,
    /// The range includes protected blocks, or the chip kept its old protection. The chip itself
    /// would drop such a write silently.
    Protected,
    /// The chip sleeps and would ignore the command: call `wake`. Nothing went on the bus.
    Asleep,
    /// The part does not have this command. Nothing went on the bus.
    Unsupported,
    /// The chip's ID has another maker or capacity than the configured part.
    WrongDevice,
    /// The ID reads all ones or all zeros, or the status register has an impossible value: no chip
    /// drives the line, or the chip sleeps.
    NoAnswer,
}

impl<E: fmt::Debug> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Bus(e) => write!(f, "the bus failed: {e:?}"),
            Error::OutOfRange => f.write_str("the address range is outside of the memory"),
            Error::Protected => {
                f.write_str("the address range or the protection setting is write-protected")
            }
            Error::Asleep => f.write_str("the chip is asleep: call wake first"),
            Error::Unsupported => f.write_str("the part does not have this command"),
            Error::WrongDevice => f.write_str("the chip is not the configured part"),
            Error::NoAnswer => f.write_str("no chip answers"),
        }
    }
}

impl<E: fmt::Debug> core::error::Error for Error<E> {}
