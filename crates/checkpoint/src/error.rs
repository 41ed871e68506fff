//! What can go wrong.

use core::fmt;

/// Why there is no new image, or none to restore. The images that were there are as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error<E> {
    /// The range is too small for this image. Nothing was written.
    TooSmall {
        /// The bytes that the range must have to hold it in each slot.
        needed: u32,
    },
    /// The tables in RAM are too small for this memory. Nothing was written.
    Tables {
        /// The cells that they must have.
        cells: u32,
    },
    /// The range does not begin at a multiple of [`Contract::alignment`](nvmem::device::Contract::alignment), or lies outside of the medium.
    BadRange,
    /// There is no image: no checkpoint was ever completed here.
    NoImage,
    /// The newest checkpoint of an [`Archive`](crate::Archive) cannot be deleted: roll back to another one first.
    Newest,
    /// The images that are there are another program's. Memory is as it was.
    OtherProgram {
        /// What that program was opened with.
        found: u64,
    },
    /// The images that are there are of memory with other segments. Memory is as it was.
    OtherMemory,
    /// There are images, and none of them is intact, which no power cut can cause. Memory is as it was. Of a checkpoint: what was written
    /// is not what was announced, and the one before counts.
    Damaged,
    /// The image read differently after it had been checked: memory holds a part of it, and the program must start again.
    Spoilt,
    /// `restore` was not called since the power came: the checkpoint would replace the state that is to be restored. Nothing was written.
    NotRestored,
    /// Nobody could be brought back to here: not on the stack that was described, in a handler that has preempted another one, or
    /// in an operating system's thread. Nothing was written.
    Place,
    /// The `Checkpointer` lies in memory that its images hold. Nothing was written.
    Inside,
    /// The driver of the medium failed. A checkpoint that failed may be tried again.
    Medium(E),
}

impl<E: fmt::Debug> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooSmall { needed } => write!(f, "the range needs {needed} bytes"),
            Error::Tables { cells } => write!(f, "the tables need {cells} cells"),
            Error::BadRange => f.write_str("the range is misaligned or outside of the medium"),
            Error::Newest => f.write_str("the newest checkpoint cannot be deleted"),
            Error::NoImage => f.write_str("there is no image"),
            Error::OtherProgram { found } => {
                write!(f, "the image is another program's, {found:#x}")
            }
            Error::OtherMemory => f.write_str("the image is of memory with other segments"),
            Error::Damaged => f.write_str("no image is intact"),
            Error::Spoilt => f.write_str("the image changed while it was restored"),
            Error::NotRestored => f.write_str("a checkpoint before the state was restored"),
            Error::Place => f.write_str("not a place that can be returned to"),
            Error::Inside => f.write_str("the checkpointer lies in what its images hold"),
            Error::Medium(e) => write!(f, "the medium failed: {e:?}"),
        }
    }
}
impl<E: fmt::Debug> core::error::Error for Error<E> {}
