//! What every layout of checkpoints on a medium promises ([`Store`]), what a restore returns, and
//! the errors.

use crate::Memory;
use core::fmt;

/// Keeps checkpoints of memory across power cuts: slots for whole images ([`Slots`](crate::Slots)),
/// or another layout.
///
/// # Safety
/// The `Checkpointer` resumes a program with the memory that `load` wrote. An implementation
/// promises what [`Images`](crate::Images) does:
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

/// What a restore found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Restored {
    /// The sequence number of the image; wraps.
    pub sequence: u32,
    /// The context that was given to the checkpoint.
    pub context: u32,
    /// The name of the checkpoint; zero outside of an [`Archive`](crate::Archive).
    pub name: u32,
    /// Newer images that were completed and are damaged. The program continues from an older state
    /// than it once had. No power cut causes this.
    pub damaged: u8,
    /// Slots that hold an incomplete image: an interrupted checkpoint, damage, or an image of an
    /// older format.
    pub unfinished: u8,
}

/// Why a checkpoint or a restore failed. Images that were valid before are still valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error<E> {
    /// The range is too small for this image. Nothing was written.
    TooSmall {
        /// The bytes that the range needs to hold the image in each slot.
        needed: u32,
    },
    /// The tables in RAM have too few cells for this memory. Nothing was written.
    TablesTooSmall {
        /// The number of cells needed.
        cells: u32,
    },
    /// The range does not begin at a multiple of
    /// [`Contract::alignment`](nvmem::device::Contract::alignment), or lies outside of the medium.
    BadRange,
    /// There is no image: no checkpoint was ever completed here.
    NoImage,
    /// There are only checkpoints in the format of an older version of this crate. Memory is
    /// unchanged. The next checkpoint replaces them.
    OlderFormat,
    /// The newest checkpoint of an [`Archive`](crate::Archive) cannot be deleted: roll back to
    /// another one first.
    Newest,
    /// The images belong to another program. Memory is unchanged.
    OtherProgram {
        /// The `program` number that the image was written with.
        found: u64,
    },
    /// The images are of memory with other segments. Memory is unchanged.
    OtherMemory,
    /// From a restore: there are images, but none is intact. No power cut can cause this. Memory is
    /// unchanged. From a checkpoint: the bytes written differ from those announced, and the
    /// checkpoint before it stays valid.
    Damaged,
    /// The image read differently after it had been checked. Memory holds a part of it, and the
    /// program must start again.
    PartlyRestored,
    /// `restore` was not called since power-on: the checkpoint would replace the state that is
    /// still to be restored. Nothing was written.
    NotRestored,
    /// The program could not be resumed from this call. It runs on another stack than the one
    /// described, in a handler that preempted another one, or in a thread of an operating system.
    /// Nothing was written.
    NotResumable,
    /// The `Checkpointer` lies in memory that its own images hold. Nothing was written.
    InsideSegments,
    /// The driver of the medium failed. A failed checkpoint may be tried again.
    Medium(E),
}

impl<E: fmt::Debug> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooSmall { needed } => write!(f, "the range needs {needed} bytes"),
            Error::TablesTooSmall { cells } => write!(f, "the tables in RAM need {cells} cells"),
            Error::BadRange => f.write_str("the range is misaligned or outside of the medium"),
            Error::Newest => f.write_str("the newest checkpoint cannot be deleted"),
            Error::NoImage => f.write_str("no checkpoint was ever completed here"),
            Error::OlderFormat => f.write_str("the checkpoints have an older format"),
            Error::OtherProgram { found } => {
                write!(f, "the image belongs to program {found:#x}")
            }
            Error::OtherMemory => f.write_str("the image is of memory with other segments"),
            Error::Damaged => f.write_str("no image is intact"),
            Error::PartlyRestored => {
                f.write_str("the image changed while it was restored; memory holds a part of it")
            }
            Error::NotRestored => f.write_str("a checkpoint was taken before `restore` was called"),
            Error::NotResumable => f.write_str("the program cannot be resumed from this call"),
            Error::InsideSegments => {
                f.write_str("the checkpointer lies in memory that its images hold")
            }
            Error::Medium(e) => write!(f, "the medium failed: {e:?}"),
        }
    }
}
impl<E: fmt::Debug> core::error::Error for Error<E> {}
