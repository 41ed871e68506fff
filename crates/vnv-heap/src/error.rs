//! Errors.

use core::fmt;
use core::num::NonZero;
use nvmem::LayoutMismatch;

/// Why an operation failed. The heap stays consistent, and objects that the error does not name
/// stay readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error<E> {
    /// A guard holds the object in a way that excludes this use.
    Busy,
    /// The medium has no space left, or no free entry in its table of
    /// [`Config::objects`](crate::Config::objects), or a queue has no free place. With the snapshot
    /// promise a commit may free space on the medium.
    Full,
    /// Everything that could be evicted is pinned, or the object is larger than the RAM.
    RamFull,
    /// Pinned objects use up the dirty limit.
    DirtyLimit,
    /// The heap is between a persist and its restore.
    Suspended,
    /// No heap is attached to this [`Saver`](crate::Saver).
    Detached,
    /// Persists interrupt the operation so often that it makes no progress.
    NoProgress,
    /// The bytes of this object are not those that were written, or are not a value of its type.
    Damaged {
        /// Its number.
        object: u16,
    },
    /// The medium failed during a commit. Commit again first.
    Unfinished,
    /// The driver of the medium failed. A part of a write may have arrived; the next attempt
    /// repeats it.
    Medium(E),
}

impl<E: fmt::Debug> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("another guard holds the object"),
            Error::Full => f.write_str("the queue, the medium or its table of objects is full"),
            Error::RamFull => {
                f.write_str("no space in RAM: all objects are pinned, or the object is too large")
            }
            Error::DirtyLimit => f.write_str("pinned objects use up the dirty limit"),
            Error::Suspended => {
                f.write_str("the heap is suspended between a persist and its restore")
            }
            Error::Detached => f.write_str("no heap is attached"),
            Error::NoProgress => f.write_str("persists interrupt the operation too often"),
            Error::Unfinished => f.write_str("an earlier commit is not finished"),
            Error::Damaged { object } => write!(f, "object {object} is damaged"),
            Error::Medium(e) => write!(f, "the medium failed: {e:?}"),
        }
    }
}
impl<E: fmt::Debug> core::error::Error for Error<E> {}

/// Why a section or an open failed, in one word, so that its result is returned in registers. The
/// store keeps the medium's error meanwhile: [`Store::error`](crate::store::Store::error) and
/// [`Store::refused`](crate::store::Store::refused) combine the two. A result with the driver's own
/// error would go through memory at each call, because it is generic and of any size. So would one
/// whose success is smaller than a word: a success gives a word, or nothing. The price is space in
/// the heap for one value of the driver's, and a persist in an interrupt sets aside the error that
/// the interrupted operation has still to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fail(NonZero<Word>);

/// As wide as a pointer, so that a result with either comes in two registers; but at least a code
/// and an object's number.
#[cfg(target_pointer_width = "16")]
pub(crate) type Word = u32;
#[cfg(not(target_pointer_width = "16"))]
pub(crate) type Word = usize;

impl Fail {
    pub(crate) const BUSY: Fail = Fail::of(1);
    pub(crate) const FULL: Fail = Fail::of(2);
    pub(crate) const RAM_FULL: Fail = Fail::of(3);
    pub(crate) const DIRTY_LIMIT: Fail = Fail::of(4);
    pub(crate) const SUSPENDED: Fail = Fail::of(5);
    pub(crate) const NO_PROGRESS: Fail = Fail::of(6);
    /// An object's number follows from bit 16 on.
    const DAMAGED: Fail = Fail::of(7);
    pub(crate) const UNFINISHED: Fail = Fail::of(8);
    /// The medium failed.
    pub(crate) const MEDIUM: Fail = Fail::of(9);

    // Why a heap is not opened.
    pub(crate) const FOREIGN: Fail = Fail::of(10);
    pub(crate) const INTERRUPTED: Fail = Fail::of(11);
    pub(crate) const HEADER: Fail = Fail::of(12);
    pub(crate) const RECORD: Fail = Fail::of(13);
    pub(crate) const TABLE: Fail = Fail::of(14);
    pub(crate) const TYPES: Fail = Fail::of(15);
    /// The bytes needed follow from bit 8 on: fewer than 2^20.
    const TOO_SMALL: Fail = Fail::of(16);
    const RAM_TOO_SMALL: Fail = Fail::of(17);
    /// The copy of the superblock follows from bit 8 on.
    const LAYOUT: Fail = Fail::of(18);

    // No failures.
    /// Not finished: call again in the next section.
    pub(crate) const PENDING: Fail = Fail::of(19);
    /// The medium was formatted, and needs its root.
    pub(crate) const BLANK: Fail = Fail::of(20);

    /// The medium was formatted for more than the budget allows.
    pub(crate) const BUDGET: Fail = Fail::of(21);

    const fn of(code: Word) -> Fail {
        match NonZero::new(code) {
            Some(code) => Fail(code),
            None => Fail(NonZero::<Word>::MIN),
        }
    }

    /// This object is damaged.
    pub(crate) fn damaged(object: u16) -> Fail {
        Fail(Fail::DAMAGED.0 | Word::from(object) << 16)
    }

    /// This copy of the superblock, 0 or 1, is of other types.
    pub(crate) fn layout(copy: usize) -> Fail {
        Fail(Fail::LAYOUT.0 | (copy as Word) << 8)
    }

    /// The copy, if that is the reason.
    pub(crate) fn other_layout(self) -> Option<u32> {
        let copy = self.0.get() >> 8;
        (self.0.get() & 0xFF == Fail::LAYOUT.0.get()).then_some(copy as u32)
    }

    /// The medium needs so many bytes.
    pub(crate) fn too_small(needed: u32) -> Fail {
        Fail(Fail::TOO_SMALL.0 | (needed as Word) << 8)
    }

    /// The RAM needs so many bytes.
    pub(crate) fn ram_too_small(needed: usize) -> Fail {
        Fail(Fail::RAM_TOO_SMALL.0 | (needed as Word) << 8)
    }

    /// The error of an open; `medium` is the driver's error, if any. [`Fail::layout`] needs more
    /// information.
    pub(crate) fn refusal<E>(self, medium: Option<E>) -> OpenError<E> {
        let needed = (self.0.get() >> 8) as u32;
        match self {
            Fail::FOREIGN => OpenError::Foreign,
            Fail::INTERRUPTED => OpenError::Interrupted,
            Fail::HEADER => OpenError::Damaged(Component::Header),
            Fail::RECORD => OpenError::Damaged(Component::Record),
            Fail::TABLE => OpenError::Damaged(Component::Table),
            Fail::BUDGET => OpenError::Config(
                "the medium was formatted for more objects or pins than the budget allows: lower the dirty limit",
            ),
            Fail::TYPES => {
                OpenError::Config("more than 14 types with handles are reached from the root")
            }
            _ if self.is_damage() => {
                OpenError::Damaged(Component::Object((self.0.get() >> 16) as u16))
            }
            _ => match Fail::of(self.0.get() & 0xFF) {
                Fail::TOO_SMALL => OpenError::TooSmall { needed },
                Fail::RAM_TOO_SMALL => OpenError::RamTooSmall { needed },
                _ => OpenError::Failed(self.error(medium)),
            },
        }
    }

    /// Whether an object is damaged.
    pub(crate) fn is_damage(self) -> bool {
        self.0.get() as u16 == Fail::DAMAGED.0.get() as u16
    }

    /// The error of an operation; `medium` is the driver's error, if any.
    pub(crate) fn error<E>(self, medium: Option<E>) -> Error<E> {
        match (self, medium) {
            (Fail::MEDIUM, Some(e)) => Error::Medium(e),
            (Fail::BUSY, _) => Error::Busy,
            (Fail::FULL, _) => Error::Full,
            (Fail::RAM_FULL, _) => Error::RamFull,
            (Fail::DIRTY_LIMIT, _) => Error::DirtyLimit,
            (Fail::SUSPENDED, _) => Error::Suspended,
            (Fail::NO_PROGRESS, _) => Error::NoProgress,
            _ if self.is_damage() => Error::Damaged {
                object: (self.0.get() >> 16) as u16,
            },
            _ => Error::Unfinished,
        }
    }
}

impl<E> Error<E> {
    /// Without the driver's error, for a caller that does not know its type.
    pub(crate) fn erase(self) -> Error<()> {
        match self {
            Error::Busy => Error::Busy,
            Error::Full => Error::Full,
            Error::RamFull => Error::RamFull,
            Error::DirtyLimit => Error::DirtyLimit,
            Error::Suspended => Error::Suspended,
            Error::Detached => Error::Detached,
            Error::NoProgress => Error::NoProgress,
            Error::Damaged { object } => Error::Damaged { object },
            Error::Unfinished => Error::Unfinished,
            Error::Medium(_) => Error::Medium(()),
        }
    }
}

/// An operation that failed, with the value that it was given. `?` turns it into an [`Error`] and
/// drops the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rejected<T, E> {
    /// Why it failed.
    pub error: Error<E>,
    /// The value that was given.
    pub value: T,
}

impl<T, E: fmt::Debug> fmt::Debug for Rejected<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
impl<T, E: fmt::Debug> fmt::Display for Rejected<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
impl<T, E: fmt::Debug> core::error::Error for Rejected<T, E> {}

impl<T, E> From<Rejected<T, E>> for Error<E> {
    fn from(r: Rejected<T, E>) -> Self {
        r.error
    }
}
impl<T, E> From<Rejected<T, E>> for OpenError<E> {
    fn from(r: Rejected<T, E>) -> Self {
        OpenError::Failed(r.error)
    }
}

/// The damaged part of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Component {
    /// The superblock.
    Header,
    /// The record of the last persist or commit.
    Record,
    /// The table of objects.
    Table,
    /// The bitmap of used units.
    Bitmap,
    /// The block of this object.
    Object(u16),
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Component::Header => f.write_str("the header"),
            Component::Record => f.write_str("the record of the last save"),
            Component::Table => f.write_str("the table of objects"),
            Component::Bitmap => f.write_str("the map of used units"),
            Component::Object(id) => write!(f, "the block of object {id}"),
        }
    }
}

/// Why a heap was not opened. Nothing was written, unless the variant says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError<E> {
    /// The medium holds something else. Erase it yourself if it is not needed.
    Foreign,
    /// It holds a heap with other types, or of the other promise.
    LayoutMismatch(LayoutMismatch),
    /// It holds a heap that is damaged: no power cut leaves it in this state.
    Damaged(Component),
    /// The power went without a completed persist: a just-in-time heap is then a mixture of old and
    /// new.
    Interrupted,
    /// The medium is too small for the configuration.
    TooSmall {
        /// Bytes needed.
        needed: u32,
    },
    /// The RAM is too small.
    RamTooSmall {
        /// Bytes needed.
        needed: u32,
    },
    /// The configuration contradicts itself, or the medium.
    Config(&'static str),
    /// An operation failed while formatting or checking.
    Failed(Error<E>),
}

impl<E> From<Error<E>> for OpenError<E> {
    fn from(e: Error<E>) -> Self {
        OpenError::Failed(e)
    }
}

impl<E: fmt::Debug> fmt::Display for OpenError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Foreign => f.write_str("the medium holds something other than a heap"),
            OpenError::LayoutMismatch(e) => e.fmt(f),
            OpenError::Damaged(p) => write!(f, "{p} is damaged"),
            OpenError::Interrupted => f.write_str("the power went without a completed persist"),
            OpenError::TooSmall { needed } => write!(f, "the medium needs {needed} bytes"),
            OpenError::RamTooSmall { needed } => write!(f, "the RAM needs {needed} bytes"),
            OpenError::Config(why) => f.write_str(why),
            OpenError::Failed(e) => e.fmt(f),
        }
    }
}
impl<E: fmt::Debug> core::error::Error for OpenError<E> {}
