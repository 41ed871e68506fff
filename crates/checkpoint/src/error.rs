//! The errors of checkpoints and restores.

use core::fmt;

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
