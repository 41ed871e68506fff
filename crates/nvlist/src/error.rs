//! Errors.

use nvmem::{Invalid, LayoutMismatch};

/// Why a region could not be opened. Nothing was changed, except that an interrupted operation may
/// have been finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// The region is neither blank nor a Relume image.
    Foreign,
    /// The region holds lists, but this component is damaged in a way that no power cut causes.
    Damaged(Component),
    /// The region holds another structure, or nodes of another type.
    LayoutMismatch(LayoutMismatch),
    /// The pool was formatted for another number of lists or contexts, another length or another
    /// atomic unit.
    ConfigMismatch,
    /// The region is too short for one node.
    TooSmall {
        /// A length in bytes that is enough.
        needed: usize,
    },
    /// The region is longer than links reach.
    TooLarge {
        /// The largest length in bytes.
        limit: usize,
    },
    /// A node in a list holds no valid value of its type.
    Invalid(Invalid),
    /// The contexts' numbers are not those of threads of one region, in their order.
    WrongOwner,
}

/// A component of a node pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Component {
    /// Both copies of the superblock.
    Superblock,
    /// The operation records: two are set, or one names an operation that the links contradict.
    Record,
    /// The links of a list.
    Links,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::Foreign => f.write_str("the region holds data that is not a node pool"),
            OpenError::Damaged(p) => write!(f, "the node pool's {p:?} is damaged"),
            OpenError::LayoutMismatch(m) => m.fmt(f),
            OpenError::ConfigMismatch => f.write_str(
                "the node pool was formatted with other lists, contexts, length or atomic unit",
            ),
            OpenError::TooSmall { needed } => {
                write!(f, "the region is too small: {needed} bytes are needed")
            }
            OpenError::TooLarge { limit } => {
                write!(f, "the region is too large: at most {limit} bytes")
            }
            OpenError::Invalid(i) => i.fmt(f),
            OpenError::WrongOwner => {
                f.write_str("the contexts are not resolved by the threads of one region")
            }
        }
    }
}
impl core::error::Error for OpenError {}

/// A region that could not be opened, with the error. The caller gets the region back.
pub type OpenFailure<'m, M> = nvmem::OpenFailure<'m, M, OpenError>;

/// All nodes are in use. The content that was to be stored comes back.
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
