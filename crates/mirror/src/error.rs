//! Why a mirror cannot be opened or saved.

use core::fmt;
use nvmem::LayoutMismatch;

/// Why a mirror cannot be opened or saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum MirrorError<E> {
    /// The medium's error. What was durable stays durable. The next save starts a new segment.
    Medium(E),
    /// The range holds a log of another version of this format, or of another size of the image,
    /// the segments or the medium's word. Nothing was written.
    Layout(LayoutMismatch),
    /// The range holds data that is not a log. Nothing was written.
    Foreign,
    /// The range holds a log that no power cut leaves. Nothing was written.
    Damaged,
    /// The range has fewer bytes than the image needs.
    TooSmall {
        /// The smallest size that suffices, in bytes.
        needed: u32,
    },
    /// The range does not begin at a multiple of the medium's
    /// [`alignment`](nvmem::device::Contract::alignment), or ends outside of the medium.
    BadRange,
    /// Too few or too many segments: see [`Config::segments`](crate::Config::segments).
    BadSegments,
    /// The memory has no room for an image, or for one of more than 262,136 bytes.
    BadMemory,
    /// The owner's region is not the whole region of this mirror. Nothing was saved.
    OtherRegion,
    /// Another mirror has written the range since this one opened it, or since its last save.
    /// Nothing was stored: what the other mirror has saved stays, and what this one has not saved
    /// is lost. It refuses all later saves. Drop it, make sure that the range has one mirror, and
    /// open it again: what was saved last is there. A power cut has the same effect.
    ///
    /// A mirror alone on its range does not get this error, also not after a save that failed or
    /// was cut. There is one exception, at the first save after an open on flash. What was cut may
    /// read as blank at the open, and as whole at the save: a record of one program word, or a
    /// segment whose confirmation was cut and then the erase of it. Nothing that was durable is
    /// lost: open the range again.
    OtherMirror,
}

impl<E: fmt::Debug> fmt::Display for MirrorError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MirrorError::Medium(e) => write!(f, "the medium failed: {e:?}"),
            MirrorError::Layout(e) => write!(f, "{e}"),
            MirrorError::Foreign => f.write_str("the range holds data that is not a mirror's log"),
            MirrorError::Damaged => f.write_str("the mirror's log is damaged"),
            MirrorError::TooSmall { needed } => write!(f, "the range needs {needed} bytes"),
            MirrorError::BadRange => f.write_str("the range is misaligned or outside the medium"),
            MirrorError::BadSegments => f.write_str("too few or too many segments"),
            MirrorError::BadMemory => f.write_str("the memory is too small or too large"),
            MirrorError::OtherRegion => f.write_str("not the whole region of this mirror"),
            MirrorError::OtherMirror => f.write_str("another mirror has written the range"),
        }
    }
}
impl<E: fmt::Debug> core::error::Error for MirrorError<E> {}
