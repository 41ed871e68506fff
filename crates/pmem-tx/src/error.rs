//! Errors.

use nvmem::{Invalid, LayoutMismatch};

/// Why a transaction did not commit, or an operation in it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// The program aborted the transaction, with a code of its own.
    Aborted(u16),
    /// The journal cannot log `bytes` more in this transaction, or has no entry left: see `Config`.
    JournalFull {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// No free block is large enough.
    PoolFull {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// An index outside of an array.
    Index {
        /// The index.
        index: usize,
        /// The array's length.
        len: usize,
    },
    /// A handle of another pool, or of an earlier opening of this one.
    WrongPool,
    /// An outer transaction's token was used while a nested one is open: use the token that the nested body was given.
    OuterTransaction,
    /// The context's last transaction was prepared and then neither committed nor dropped: open the pool again.
    Unfinished,
    /// The commit word of this pool belongs to the caller, who must use `prepare`.
    CallersCommitWord,
    /// The pool keeps its own commit word: use `tx`, or open it with a resolver.
    PoolsCommitWord,
    /// No handle can leave a transaction: some 2^32 openings of pools have had handles outside since the last reset.
    Sessions,
    /// A stored value is not what its type says.
    Invalid(Invalid),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Aborted(c) => write!(f, "the transaction was aborted with code {c}"),
            Error::JournalFull { bytes } => write!(
                f,
                "the journal has no room for {bytes} more bytes in one transaction: raise journal_bytes or journal_entries"
            ),
            Error::PoolFull { bytes } => write!(f, "the pool has no free block of {bytes} bytes"),
            Error::Index { index, len } => write!(f, "index {index} in an array of {len}"),
            Error::WrongPool => f.write_str(
                "the handle belongs to another pool, or to an earlier opening of this one",
            ),
            Error::OuterTransaction => {
                f.write_str("an outer transaction's token was used inside a nested one")
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

const NO_SESSION: &str = "session numbers have run out: they begin anew at the next reset";

/// The journal has no room for so many bytes. It fits into a register: what is called from every transaction gives this and
/// not an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalOverflow(pub usize);
impl From<JournalOverflow> for Error {
    #[inline(always)]
    fn from(JournalOverflow(bytes): JournalOverflow) -> Self {
        Error::JournalFull { bytes }
    }
}

/// Why a context begins no transaction; small for the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BeginError {
    CallersCommitWord,
    Unfinished,
}
impl From<BeginError> for Error {
    #[inline(always)]
    fn from(busy: BeginError) -> Self {
        match busy {
            BeginError::CallersCommitWord => Error::CallersCommitWord,
            BeginError::Unfinished => Error::Unfinished,
        }
    }
}

impl From<Invalid> for Error {
    fn from(i: Invalid) -> Self {
        Error::Invalid(i)
    }
}

/// Why a region could not be opened as a pool. Nothing was changed, but for what an interrupted operation left to finish.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// The region is neither blank nor a Relume image.
    Foreign,
    /// It was a pool, but this part of it is damaged in a way that no power cut can leave.
    Damaged(Component),
    /// It is a pool of other types or of another program.
    LayoutMismatch(LayoutMismatch),
    /// The region is smaller than the configuration and the roots need, in bytes.
    TooSmall {
        /// A length in bytes that would do.
        needed: usize,
    },
    /// The region is larger than offsets of this width reach, in bytes.
    TooLarge {
        /// The largest length.
        limit: usize,
    },
    /// The pool was formatted for a region of another length, in bytes.
    OtherLength {
        /// The length when it was formatted.
        formatted: usize,
    },
    /// The configuration makes no sense.
    Config(&'static str),
    /// More types are reached through handles than a walk can hold.
    TooManyTypes,
    /// Something reachable from a root is not what its type says.
    Invalid(Invalid),
    /// The first content could not be made.
    Init(Error),
    /// A pool with a resolver, or whose contexts preempt each other, needs a session number, and some 2^32 were taken since the
    /// last reset, which begins anew.
    Sessions,
    /// A transaction was prepared and then neither committed nor dropped: open the pool again.
    Unfinished,
}

/// A part of a pool.
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
            OpenError::Foreign => f.write_str("the region holds something that is not a pool"),
            OpenError::Damaged(p) => write!(f, "the pool's {p:?} is damaged"),
            OpenError::LayoutMismatch(m) => m.fmt(f),
            OpenError::TooSmall { needed } => {
                write!(f, "the region is too small: {needed} bytes would do")
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
            OpenError::Init(e) => write!(f, "the first content could not be made: {e}"),
            OpenError::Sessions => f.write_str(NO_SESSION),
            OpenError::Unfinished => Error::Unfinished.fmt(f),
        }
    }
}
impl core::error::Error for OpenError {}

/// A region that could not be opened, and why. The region comes back, so nothing is lost.
pub type OpenFailure<'m, M> = nvmem::Refused<'m, M, OpenError>;
impl<M> From<OpenFailure<'_, M>> for OpenError {
    fn from(r: OpenFailure<'_, M>) -> Self {
        r.error
    }
}
