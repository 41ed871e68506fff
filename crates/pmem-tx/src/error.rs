//! Errors.

use nvmem::{Invalid, LayoutMismatch};

/// Why a transaction did not commit, or an operation in it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// The program aborted the transaction, with a code of its own.
    Aborted(u16),
    /// The journal cannot log `bytes` more in this transaction, or has no entry left. See
    /// [`Config`](crate::Config).
    JournalFull {
        /// The number of bytes that were requested.
        bytes: usize,
    },
    /// No free block is large enough.
    PoolFull {
        /// The number of bytes that were requested.
        bytes: usize,
    },
    /// An index is outside of its array.
    Index {
        /// The index.
        index: usize,
        /// The array's length.
        len: usize,
    },
    /// The handle belongs to another pool, or to an earlier opening of this one.
    WrongPool,
    /// An outer transaction's token was used while a nested transaction is open. Use the token of
    /// the nested body.
    OuterTransaction,
    /// The context's last transaction was prepared and then neither committed nor dropped. Open the
    /// pool again.
    Unfinished,
    /// The caller owns the commit word of this pool and must use `prepare`.
    CallersCommitWord,
    /// The pool keeps its own commit word. Use `tx`, or open the pool with a resolver.
    PoolsCommitWord,
    /// No handle can leave a transaction: about 2^32 openings have taken a session number since the
    /// last reset.
    Sessions,
    /// A stored value is not valid for its type.
    Invalid(Invalid),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Aborted(c) => write!(f, "the transaction was aborted with code {c}"),
            Error::JournalFull { bytes } => write!(
                f,
                "the journal has no space for {bytes} more bytes in one transaction: raise journal_bytes or journal_entries"
            ),
            Error::PoolFull { bytes } => write!(f, "the pool has no free block of {bytes} bytes"),
            Error::Index { index, len } => {
                write!(f, "index {index} is outside of an array of {len}")
            }
            Error::WrongPool => f.write_str(
                "the handle belongs to another pool, or to an earlier opening of this one",
            ),
            Error::OuterTransaction => {
                f.write_str("the token of an outer transaction was used inside a nested one")
            }
            Error::Unfinished => {
                f.write_str("a prepared transaction was neither committed nor dropped")
            }
            Error::CallersCommitWord => {
                f.write_str("this pool's commit word belongs to the caller: use prepare")
            }
            Error::PoolsCommitWord => f.write_str("this pool keeps its own commit word: use tx"),
            Error::Sessions => f.write_str(NO_SESSION),
            Error::Invalid(i) => i.fmt(f),
        }
    }
}
impl core::error::Error for Error {}

const NO_SESSION: &str = "no session number is left: they restart at the next reset";

/// The journal has no space for this many bytes. Functions that every transaction calls return this
/// instead of an [`Error`], because it fits into a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalOverflow(pub usize);
impl From<JournalOverflow> for Error {
    #[inline(always)]
    fn from(JournalOverflow(bytes): JournalOverflow) -> Self {
        Error::JournalFull { bytes }
    }
}

/// Why a context cannot begin a transaction. Small, so that it is returned in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BeginError {
    CallersCommitWord,
    PoolsCommitWord,
    Unfinished,
}
impl From<BeginError> for Error {
    #[inline(always)]
    fn from(busy: BeginError) -> Self {
        match busy {
            BeginError::CallersCommitWord => Error::CallersCommitWord,
            BeginError::PoolsCommitWord => Error::PoolsCommitWord,
            BeginError::Unfinished => Error::Unfinished,
        }
    }
}

impl From<Invalid> for Error {
    fn from(i: Invalid) -> Self {
        Error::Invalid(i)
    }
}

/// Why a region could not be opened as a pool. Nothing was changed, except that an interrupted
/// operation may have been finished.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// The region is neither blank nor a Relume image.
    Foreign,
    /// The region holds a pool, but this component is damaged in a way that no power cut causes.
    Damaged(Component),
    /// The region holds a pool of other types or of another program.
    LayoutMismatch(LayoutMismatch),
    /// The region is too short for the configuration and the roots.
    TooSmall {
        /// A length in bytes that is enough.
        needed: usize,
    },
    /// The region is longer than offsets of this width reach.
    TooLarge {
        /// The largest length in bytes.
        limit: usize,
    },
    /// The pool was formatted for a region of another length.
    OtherLength {
        /// The length in bytes when it was formatted.
        formatted: usize,
    },
    /// The configuration is not possible; the text says why.
    Config(&'static str),
    /// Handles lead to more different types that may hold handles than a walk can keep: see
    /// [`MAX_TYPES`](crate::MAX_TYPES).
    TooManyTypes,
    /// Something reachable from a root is not valid for its type.
    Invalid(Invalid),
    /// The closure that makes the first content returned this error.
    Init(Error),
    /// No session number is left: about 2^32 were taken since the last reset. A pool needs one at
    /// open if it has a resolver or if its contexts preempt each other.
    Sessions,
    /// A transaction was prepared and then neither committed nor dropped. Open the pool again.
    Unfinished,
}

/// A component of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Component {
    /// Both copies of the superblock.
    Superblock,
    /// A context's commit word.
    CommitWord,
    /// A context's journal.
    Journal,
    /// The chain of blocks.
    Heap,
    /// A context's root.
    Root,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::Foreign => f.write_str("the region holds data that is not a pool"),
            OpenError::Damaged(p) => write!(f, "the pool's {p:?} is damaged"),
            OpenError::LayoutMismatch(m) => m.fmt(f),
            OpenError::TooSmall { needed } => {
                write!(f, "the region is too small: {needed} bytes are needed")
            }
            OpenError::TooLarge { limit } => {
                write!(f, "the region is too large: at most {limit} bytes")
            }
            OpenError::OtherLength { formatted } => {
                write!(
                    f,
                    "the pool was formatted for a region of {formatted} bytes"
                )
            }
            OpenError::Config(why) => write!(f, "bad configuration: {why}"),
            OpenError::TooManyTypes => write!(
                f,
                "more than {} types are reached through handles",
                crate::walk::MAX_TYPES
            ),
            OpenError::Invalid(i) => i.fmt(f),
            OpenError::Init(e) => write!(f, "the initial content was refused: {e}"),
            OpenError::Sessions => f.write_str(NO_SESSION),
            OpenError::Unfinished => Error::Unfinished.fmt(f),
        }
    }
}
impl core::error::Error for OpenError {}

/// A region that could not be opened, with the error. The caller gets the region back.
pub type OpenFailure<'m, M> = nvmem::OpenFailure<'m, M, OpenError>;
impl<M> From<OpenFailure<'_, M>> for OpenError {
    fn from(r: OpenFailure<'_, M>) -> Self {
        r.error
    }
}
