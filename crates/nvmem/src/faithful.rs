//! Media that return the data written to them.

use crate::device::{Contract, Medium};
use crate::level::WearLevelled;
use crate::model::Model;
use crate::ram::{RamDevice, RamNor};
use crate::region::Region;

// INVARIANT "Media are believed": a library that keeps handles on a medium reads what it wrote
// there. `Faithful` is an `unsafe trait`, whose implementers promise this.
// Noticed by: the compile-fail tests of `vnv-heap`.

/// A medium that returns the data written to it.
///
/// [`Medium`] is a safe trait, so a read may return any bytes. Records and logs cope with that,
/// because they verify a checksum at each read. A heap that stores handles cannot. If a medium
/// loses a write-back, an old block with a correct checksum returns a handle a second time. So a
/// heap requires this trait.
///
/// # Safety
/// From the first operation of an owner to its last, with any previous content:
/// - a successful read returns, for each byte, the value written last, or the value of the first
///   read if none was written;
/// - a write that failed or was cut leaves a state that [`Medium::CONTRACT`] permits, and the state
///   does not change later;
/// - the capacity does not change, and nothing else writes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to return the data written to it",
    label = "a heap needs a medium that implements `nvmem::Faithful`",
    note = "for a memory behind a driver and a bus, promise it yourself: `unsafe {{ nvmem::Trusted::new(medium) }}`; see `nvmem::Faithful` for the conditions",
    note = "for flash, use `WearLevelled` over `Trusted`; RAM devices and mapped regions are faithful already"
)]
pub unsafe trait Faithful: Medium {}

// SAFETY: invariant "Media are believed": the same medium, lent.
unsafe impl<D: Faithful> Faithful for &mut D {}
// SAFETY: invariant "Media are believed": an array.
unsafe impl<const N: usize, const WORD: usize> Faithful for RamDevice<N, WORD> {}
// SAFETY: invariant "Media are believed": as above.
unsafe impl<const WORD: usize, const ERASE: usize, const UNITS: usize> Faithful
    for RamNor<WORD, ERASE, UNITS>
{
}
// SAFETY: invariant "Media are believed": the region owns its memory exclusively, as its creator
// promises, and loads return stored values.
unsafe impl<M: Model> Faithful for Region<'_, M> {}
// SAFETY: invariant "Media are believed": each page is read from the slot that it was written to
// last; the flash below is faithful.
unsafe impl<D: Faithful, const PAGE: usize> Faithful for WearLevelled<'_, D, PAGE> {}

/// A medium that the program declares [`Faithful`]: the driver, its bus and the wiring, which no
/// type can check.
///
/// ```
/// # use nvmem::ram::RamFram;
/// use nvmem::Trusted;
/// # let driver = RamFram::<64>::filled(0);
/// // SAFETY: the chip has this bus for itself, and its driver reports what fails.
/// let medium = unsafe { Trusted::new(driver) };
/// # let _ = medium.into_inner();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trusted<S>(S);

impl<S> Trusted<S> {
    /// # Safety
    /// The medium is [`Faithful`].
    #[inline]
    pub const unsafe fn new(medium: S) -> Self {
        Trusted(medium)
    }

    /// Returns the medium.
    pub fn into_inner(self) -> S {
        self.0
    }
}

// SAFETY: invariant "Media are believed": as the caller of `new` promised.
unsafe impl<S: Medium> Faithful for Trusted<S> {}

impl<S: Medium> Medium for Trusted<S> {
    type Error = S::Error;
    const CONTRACT: Contract = S::CONTRACT;
    #[inline]
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    #[inline]
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), S::Error> {
        self.0.read(at, buf)
    }
    #[inline]
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), S::Error> {
        self.0.write(at, bytes)
    }
    #[inline]
    fn erase(&mut self, from: u32, to: u32) -> Result<(), S::Error> {
        self.0.erase(from, to)
    }
    #[inline]
    fn flush(&mut self) -> Result<(), S::Error> {
        self.0.flush()
    }
}
