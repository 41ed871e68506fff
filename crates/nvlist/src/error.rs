//! Errors.

use nvmem::{Invalid, LayoutMismatch};

/// Why a region could not be opened. Nothing was changed, but for what an interrupted operation left to finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// The region is neither blank nor a Relume image.
    Foreign,
    /// It holds lists, but this part of them is damaged in a way that no power cut can leave.
    Damaged(Component),
    /// It holds something else, or nodes of another type.
    LayoutMismatch(LayoutMismatch),
    /// It was formatted for another number of lists or contexts, another length or another atomic unit.
    ConfigMismatch,
    /// The region has no room for one node, in bytes.
    TooSmall {
        /// A length in bytes that would do.
        needed: usize,
    },
    /// The region is larger than links reach, in bytes.
    TooLarge {
        /// The largest length.
        limit: usize,
    },
    /// A node that is in a list holds no value of its type.
    Invalid(Invalid),
}

/// A part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Component {
    /// Both copies of the superblock.
    Superblock,
    /// An operation record: two are set, or one names an operation that the links do not show.
    Record,
    /// The links of a list.
    Links,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::Foreign => f.write_str("the region holds something that is no node pool"),
            OpenError::Damaged(p) => write!(f, "the node pool's {p:?} is damaged"),
            OpenError::LayoutMismatch(m) => m.fmt(f),
            OpenError::ConfigMismatch => f.write_str(
                "the node pool was formatted for other lists, contexts, another length or unit",
            ),
            OpenError::TooSmall { needed } => {
                write!(f, "the region is too small: {needed} bytes would do")
            }
            OpenError::TooLarge { limit } => {
                write!(f, "the region is too large: at most {limit} bytes")
            }
            OpenError::Invalid(i) => i.fmt(f),
        }
    }
}
impl core::error::Error for OpenError {}

/// A region that could not be opened, and why. The region comes back, so nothing is lost.
pub type OpenFailure<'m, M> = nvmem::Refused<'m, M, OpenError>;

/// All nodes are in use. What was to be stored comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> core::fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Full")
    }
}
impl<T> core::fmt::Display for Full<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("every node of the pool is in use")
    }
}
impl<T> core::error::Error for Full<T> {}
