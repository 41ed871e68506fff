//! Where states of memory are kept, whatever the way.

use crate::{Error, Images, Memory, Mode, Restored};
use core::fmt;
use nvmem::device::Medium;

/// Keeps states of memory across power cuts: slots for whole images ([`Slots`]), or another layout.
///
/// # Safety
/// The `Checkpointer` lets a program go on with what `load` has left in memory. So whoever implements this promises what [`Images`]
/// does:
/// - A state counts wholly or not at all, whatever a cut interrupts, and one that was once restored, or whose `save` returned, is
///   never followed by an older one.
/// - When `load` returns a state, memory and context are those that one `save` was given.
/// - When it returns another error than [`Error::Spoilt`] and [`Error::Medium`], no byte of memory was written.
pub unsafe trait Store {
    /// What the driver of the medium fails with.
    type Error: fmt::Debug;

    /// Keeps the state of `memory`, which counts when this returns. `context` is given back by [`load`](Self::load).
    ///
    /// **Power loss**: the state that counted before counts, or this one. **Errors**: the state that counted before does still,
    /// except after [`Error::Medium`], where it is as after a power cut.
    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<Self::Error>>;

    /// Brings memory back to the state that counts. What was not kept of it is left as it is. The medium is looked at anew,
    /// whatever this value knew of it.
    ///
    /// **Power loss**: may be repeated. **Errors**: [`Error::Spoilt`] after a part of memory was written; a medium may fail in the middle;
    /// after all others memory is as it was.
    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<Self::Error>>;
}

/// Slots for whole images, and the mode that says what each of them holds.
#[derive(Debug)]
pub struct Slots<D, M, const N: usize = 2> {
    images: Images<D, N>,
    mode: M,
}

impl<D: Medium, M: Mode, const N: usize> Slots<D, M, N> {
    /// Opened slots, and a mode for what will be saved to them; any mode's image is loaded.
    pub const fn new(images: Images<D, N>, mode: M) -> Self {
        Slots { images, mode }
    }

    /// What was opened.
    pub fn into_images(self) -> Images<D, N> {
        self.images
    }
}

// SAFETY: *Checked before it is memory*, *Stable before it is used*: an image is checked and made stable before the first byte of it is
// written, and checked again as it is.
unsafe impl<D: Medium, M: Mode, const N: usize> Store for Slots<D, M, N> {
    type Error = D::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<D::Error>> {
        self.images.checkpoint(&self.mode, memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.images.restore(memory)
    }
}

// SAFETY: forwarded to one that keeps the promise.
unsafe impl<S: Store + ?Sized> Store for &mut S {
    type Error = S::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<S::Error>> {
        (**self).save(memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<S::Error>> {
        (**self).load(memory)
    }
}
