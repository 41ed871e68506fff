//! Media whose reads can be believed.

use crate::device::{Contract, Medium};
use crate::level::WearLevelled;
use crate::model::Model;
use crate::ram::{RamDevice, RamNor};
use crate::region::Region;

/// A medium that gives back what was written to it.
///
/// A [`Medium`] is safe to implement, so that code over it may be told anything: what reads with a check each time, as records and
/// logs do, lives with that. What keeps handles on a medium cannot: a write-back that was forgotten gives a handle that was taken out
/// a second time, with a check that is right. So it asks for this.
///
/// # Safety
/// From the first operation of an owner to its last, whatever a medium held before:
/// - a read that succeeds gives, for each byte, what was written there last, or what the first read gave if nothing was;
/// - what a failed write, or one that a power cut interrupted, leaves is as [`Medium::CONTRACT`] says, and stays so;
/// - the capacity does not change, and nobody else writes.
#[diagnostic::on_unimplemented(
    message = "nobody vouches that `{Self}` gives back what was written to it",
    label = "a heap believes all that it reads from this",
    note = "for a memory behind a driver and a bus, vouch yourself: `unsafe {{ nvmem::Trusted::new(medium) }}`; what that promises is at `nvmem::Faithful`",
    note = "flash: `WearLevelled` over `Trusted`; RAM devices and mapped regions need nothing"
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
// SAFETY: invariant "Media are believed": memory that is the region's alone, as its maker vouches, and loads give what stores left.
unsafe impl<M: Model> Faithful for Region<'_, M> {}
// SAFETY: invariant "Media are believed": each page is read from the slot that it was written to last; the flash below is faithful.
unsafe impl<D: Faithful, const PAGE: usize> Faithful for WearLevelled<'_, D, PAGE> {}

/// A medium that the program vouches for: a driver, the bus below it and the wires, which safe code wrote and no type can check.
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

    /// The medium back.
    pub fn into_inner(self) -> S {
        self.0
    }
}

// SAFETY: invariant "Media are believed": as the caller of `new` vouched.
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
