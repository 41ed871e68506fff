//! The trait that all layouts of checkpoints on a medium implement.

use crate::{Error, Images, Memory, Mode, Restored};
use core::fmt;
use nvmem::device::Medium;

/// Keeps checkpoints of memory across power cuts: slots for whole images ([`Slots`]), or another
/// layout.
///
/// # Safety
/// The `Checkpointer` resumes a program with the memory that `load` wrote. An implementation
/// promises what [`Images`] does:
/// - A checkpoint becomes valid atomically, wherever the power is cut. A checkpoint that was once
///   restored, or whose `save` returned, is never followed by an older one.
/// - When `load` succeeds, memory and context are those given to one `save`.
/// - When it returns any error but [`Error::PartlyRestored`] and [`Error::Medium`], no byte of
///   memory was written.
pub unsafe trait Store {
    /// The error of the medium's driver.
    type Error: fmt::Debug;

    /// Saves `memory`. The checkpoint is valid when this returns. [`load`](Self::load) gives
    /// `context` back.
    ///
    /// **Power loss**: the previous checkpoint is valid, or this one. **Errors**: the previous
    /// checkpoint stays valid, except after [`Error::Medium`], which is like a power cut.
    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<Self::Error>>;

    /// Restores the valid checkpoint. Memory that it does not hold is left as it is. The medium is
    /// scanned again; nothing remembered in RAM is trusted.
    ///
    /// **Power loss**: may be repeated. **Errors**: after [`Error::PartlyRestored`] a part of
    /// memory was written, and after [`Error::Medium`] it may have been. After all others memory is
    /// unchanged.
    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<Self::Error>>;
}

/// Slots for whole images, and the mode that selects what each new image holds.
#[derive(Debug)]
pub struct Slots<D, M, const N: usize = 2> {
    images: Images<D, N>,
    mode: M,
}

impl<D: Medium, M: Mode, const N: usize> Slots<D, M, N> {
    /// Combines opened slots with a mode for new images. Any mode's image can be loaded.
    pub const fn new(images: Images<D, N>, mode: M) -> Self {
        Slots { images, mode }
    }

    /// Returns the slots.
    pub fn into_images(self) -> Images<D, N> {
        self.images
    }
}

// SAFETY: *Checked before it is memory*, *Stable before it is used*: an image is checked and made
// stable before its first byte is written to memory. It is checked again while it is written.
unsafe impl<D: Medium, M: Mode, const N: usize> Store for Slots<D, M, N> {
    type Error = D::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<D::Error>> {
        self.images.checkpoint(&self.mode, memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.images.restore(memory)
    }
}

// SAFETY: *Checked before it is memory*: forwards to a store that keeps the promise.
unsafe impl<S: Store + ?Sized> Store for &mut S {
    type Error = S::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<S::Error>> {
        (**self).save(memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<S::Error>> {
        (**self).load(memory)
    }
}
