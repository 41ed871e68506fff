//! Errors.

use crate::header::CallKind;

/// Why a step, an input or a loop did not happen. Two words, so that it travels in registers as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(usize)]
pub enum Error {
    /// The step aborted itself, with a code of its own. This is recorded.
    Aborted(u16),
    /// The journal had no room for what the step changed. This is recorded.
    JournalFull,
    /// No free block was large enough. This is recorded.
    PoolFull,
    /// An index outside of an array. This is recorded.
    Index,
    /// A step sends more than the outbox holds. This is recorded.
    OutboxFull,
    /// An outer transaction's token was used while a nested one was open. This is recorded.
    OuterTransaction,
    /// A handle of another pool, or of an earlier opening of this one.
    WrongPool,
    /// The step failed for a reason that the table has no number for. This is recorded.
    Other,
    /// The program has not taken the way that the table records; [`Replay::divergence`](crate::Replay::divergence) says
    /// where. Nothing is done any more in this life: go back to the old program, give the new one another version, or
    /// start over.
    Diverged,
    /// The table has no room for this record and its result. Raise `bytes` of the [`Config`](crate::Config), or put steps
    /// into a loop.
    TableFull,
    /// A loop of more iterations than can be counted.
    LoopTooLong,
    /// More than 8 handles are given to one step for good.
    TooManyHandles,
    /// An error has left the body of a loop: the loop stays in this iteration, and nothing can follow. Open again to go on.
    /// So does a panic that left the body of a loop, an outlet, or a join that had stored, and was caught.
    LoopInterrupted,
}

/// How the program differs from what is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Divergence {
    /// Which record of the table, from 0; those of a loop that runs follow the loop's own.
    pub record: u16,
    /// What differs.
    pub mismatch: Mismatch,
}

/// What differs from the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Mismatch {
    /// A step stands where a loop was, or the other way round.
    Kind,
    /// Another call site.
    Site,
    /// The same call site with other plain arguments, or another handle that is lent.
    Arguments,
    /// The same call site with another handle that is given away.
    Handles,
    /// The recorded bytes are no result of the type that is asked for.
    Result,
    /// The program left an iteration, or ended a loop, before all that is recorded of it was passed.
    RecordsRemain,
    /// The body of a loop has put another runtime in the place of its own.
    Runtime,
}

impl core::fmt::Display for Divergence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let what = match self.mismatch {
            Mismatch::Kind => "a step where a loop was recorded, or a loop where a step was",
            Mismatch::Site => "another call site",
            Mismatch::Arguments => "other arguments",
            Mismatch::Handles => "another handle",
            Mismatch::Result => "a result of another type",
            Mismatch::RecordsRemain => "an end before all records were passed",
            Mismatch::Runtime => "a loop's body has put another runtime in the place of its own",
        };
        write!(f, "the program differs from record {}: {what}", self.record)
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Aborted(c) => return write!(f, "the step was aborted with code {c}"),
            Error::Diverged => "the program has not taken the way that is recorded",
            Error::JournalFull => {
                "the journal has no room for what the step changes: raise journal_bytes or journal_entries"
            }
            Error::PoolFull => "the pool has no free block that is large enough",
            Error::Index => "an index outside of an array",
            Error::OuterTransaction => {
                "an outer transaction's token was used inside a nested one"
            }
            Error::WrongPool => {
                "the handle belongs to another pool, or to an earlier opening of this one"
            }
            Error::TableFull => {
                "the table has no room for the record: raise bytes, or put steps into a loop"
            }
            Error::LoopTooLong => "the loop has more iterations than can be counted",
            Error::OutboxFull => "the step sends more than the outbox holds: raise outbox_bytes",
            Error::TooManyHandles => "a step takes at most 8 handles for good",
            Error::LoopInterrupted => "an error or a panic has left a loop, an outlet or a join: open again to go on",
            Error::Other => "the step failed for a reason that has no number",
        })
    }
}
impl core::error::Error for Error {}

impl From<pmem_tx::Error> for Error {
    #[inline(never)]
    fn from(e: pmem_tx::Error) -> Self {
        use pmem_tx::Error as E;
        match e {
            E::Aborted(c) => Error::Aborted(c),
            E::JournalFull { .. } => Error::JournalFull,
            E::PoolFull { .. } => Error::PoolFull,
            E::Index { .. } => Error::Index,
            E::OuterTransaction => Error::OuterTransaction,
            E::WrongPool => Error::WrongPool,
            _ => Error::Other,
        }
    }
}

/// A step that did not happen, and the arguments that it was given: handles are whole again. `?` makes the [`Error`] of it.
#[derive(Debug)]
pub struct StepError<A> {
    /// Why.
    pub error: Error,
    /// What was passed in.
    pub args: A,
}
impl<A> From<StepError<A>> for Error {
    fn from(f: StepError<A>) -> Error {
        f.error
    }
}

impl Error {
    /// What a table keeps of the error of a step: its number; of an abort, the code.
    pub(crate) fn encode(self) -> (CallKind, u32) {
        match self {
            Error::Aborted(c) => (CallKind::Aborted, c.into()),
            e => (CallKind::Failed, e.number()),
        }
    }

    /// In the order of the variants, so that it is no table.
    #[inline(always)]
    fn number(self) -> u32 {
        match self {
            Error::Aborted(_) => 0,
            Error::JournalFull => 1,
            Error::PoolFull => 2,
            Error::Index => 3,
            Error::OutboxFull => 4,
            Error::OuterTransaction => 5,
            Error::WrongPool => 6,
            Error::Other => 7,
            Error::Diverged => 8,
            Error::TableFull => 9,
            Error::LoopTooLong => 10,
            Error::TooManyHandles => 11,
            Error::LoopInterrupted => 12,
        }
    }

    /// The same, if a table has a number for it.
    pub(crate) fn recorded(self) -> Error {
        if self.number() < Error::Other.number() {
            self
        } else {
            Error::Other
        }
    }

    /// The error that a record of this kind keeps.
    pub(crate) fn decode(kind: CallKind, number: u32) -> Error {
        match number {
            _ if kind == CallKind::Aborted => Error::Aborted(number as u16),
            1 => Error::JournalFull,
            2 => Error::PoolFull,
            3 => Error::Index,
            4 => Error::OutboxFull,
            5 => Error::OuterTransaction,
            6 => Error::WrongPool,
            _ => Error::Other,
        }
    }
}

/// Why a region could not be opened. Nothing was changed, but for what an interrupted operation left to finish.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// The region is neither blank nor what this crate has made.
    Foreign,
    /// It holds a table, but this part of it is damaged in a way that no power cut can leave.
    Damaged(Damage),
    /// It is a table of another version of the format, or something else that a crate of this family has made. Nothing was
    /// written: finish with the program that made it, or erase it.
    OtherFormat,
    /// The configuration makes no sense.
    Config(ConfigItem),
    /// The region is smaller than the configuration and the root need, in bytes.
    TooSmall {
        /// A length in bytes that would do; where not even the table has room, that of the table.
        needed: usize,
    },
    /// The table belongs to another version of the program. [`Options`](crate::Options) says what else can be done.
    OtherVersion {
        /// The version that has run so far.
        recorded: u16,
    },
    /// There are fewer records than are to be kept.
    NoSuchRecord {
        /// How many there are.
        records: u16,
    },
    /// The records that are to be kept cannot be copied: nothing was changed.
    Keep(Error),
    /// The pool cannot be opened.
    Pool(pmem_tx::OpenError),
}

/// What of a configuration makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ConfigItem {
    /// `seq_bits` is too small or too large.
    SeqBits,
    /// The table would be larger than the address space, or can be.
    Length,
    /// The table was formatted for another atomic unit.
    Unit,
}

impl core::fmt::Display for ConfigItem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ConfigItem::SeqBits => "seq_bits is 3 to 16",
            ConfigItem::Length => "the table is larger than the address space",
            ConfigItem::Unit => "the table was formatted for another atomic unit",
        })
    }
}

/// A part of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Damage {
    /// Both copies of the superblock.
    Superblock,
    /// The start word of the program's run.
    Start,
    /// A record, or the start word in it.
    Record {
        /// Which one, from 0.
        record: u16,
    },
    /// The outbox.
    Outbox,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::Foreign => f.write_str("the region holds something that is no replay table"),
            OpenError::Damaged(d) => write!(f, "the replay table is damaged: {d:?}"),
            OpenError::OtherFormat => {
                f.write_str("the region holds a replay table of another format, or something else")
            }
            OpenError::Config(why) => write!(f, "bad configuration: {why}"),
            OpenError::TooSmall { needed } => {
                write!(f, "the region is too small: {needed} bytes are needed")
            }
            OpenError::OtherVersion { recorded } => write!(
                f,
                "version {recorded} of the program has run so far: go on with it, start over, or keep some records"
            ),
            OpenError::NoSuchRecord { records } => write!(f, "there are only {records} records"),
            OpenError::Keep(e) => write!(f, "the records cannot be kept: {e}"),
            OpenError::Pool(e) => e.fmt(f),
        }
    }
}
impl core::error::Error for OpenError {}
impl OpenError {
    /// Of a pool that has so many bytes before it.
    #[inline(always)]
    pub(crate) fn beside(self, table: usize) -> Self {
        match self {
            OpenError::Pool(pmem_tx::OpenError::TooSmall { needed }) => OpenError::TooSmall {
                needed: table.saturating_add(needed),
            },
            e => e,
        }
    }
}
impl From<pmem_tx::OpenError> for OpenError {
    fn from(e: pmem_tx::OpenError) -> Self {
        OpenError::Pool(e)
    }
}

/// A region that could not be opened, and why. The region comes back, so nothing is lost.
pub type OpenFailure<'m, M> = nvmem::Refused<'m, M, OpenError>;
impl<M> From<OpenFailure<'_, M>> for OpenError {
    fn from(r: OpenFailure<'_, M>) -> Self {
        r.error
    }
}
