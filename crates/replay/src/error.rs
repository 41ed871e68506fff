//! Errors.

use crate::table::{CallKind, VERSION, VERSION_THREADS};

/// Why a step, an input or a loop did not happen. Two words, so it is returned in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(usize)]
pub enum Error {
    /// The step aborted itself with its own code. Recorded.
    Aborted(u16),
    /// The journal had no room for the step's changes. Recorded.
    JournalFull,
    /// No free block of the pool was large enough. Recorded.
    PoolFull,
    /// An array index was out of range. Recorded.
    Index,
    /// The step's messages did not fit into the outbox, after those that wait. Recorded.
    OutboxFull,
    /// The token of an outer transaction was used while a nested one was open. Recorded.
    OuterTransaction,
    /// The handle belongs to another pool, or to an earlier opening of this pool.
    WrongPool,
    /// The step failed for a reason for which the table has no number. Recorded.
    Other,
    /// The program does not match its records; [`Replay::divergence`](crate::Replay::divergence)
    /// says where. The runtime stops until the next open. Run the old program again, give the new
    /// one another version, or start over.
    Diverged,
    /// The table has no room for the record and its result. Increase `bytes` of the
    /// [`Config`](crate::Config), or put steps into a loop.
    TableFull,
    /// The loop has more iterations than the counter holds.
    LoopTooLong,
    /// The step consumes more than 8 handles.
    TooManyHandles,
    /// An error left the body of a loop. The loop stays in this iteration and the runtime stops
    /// until the next open. A caught panic has the same effect if it left the body of a loop, an
    /// outlet, or a join that had committed.
    LoopInterrupted,
    /// The future of an async loop was dropped inside of an iteration, or a panic has left it. The
    /// loop stays in this iteration and the runtime stops until the next open.
    Cancelled,
    /// An argument is the key to a shared root, and a step that uses this key never ended: its
    /// stack was abandoned. Close the region and open it again.
    KeyInUse,
    /// The medium on which a mirror keeps the region has failed. What was durable stays durable,
    /// and no output has left that is not. The runtime stops until the next open.
    Medium,
    /// What takes part in the step was opened with the numbers of another region or thread. Nothing
    /// was done.
    WrongOwner,
}

/// The first difference between the program and its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Divergence {
    /// The index of the record in the table, from 0. The records of a running loop follow the
    /// loop's own.
    pub record: u16,
    /// The kind of difference.
    pub mismatch: Mismatch,
}

/// How a call differs from the next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Mismatch {
    /// A step where a loop was recorded, or a loop where a step was recorded.
    Kind,
    /// Another kind of call, other types of arguments or result, or another name.
    Call,
    /// The same call with other plain arguments, or another lent handle.
    Arguments,
    /// The same call, but the step consumes another handle.
    Handles,
    /// The recorded bytes are no valid value of the result's type.
    Result,
    /// The program ended an iteration or a loop while records of it were not yet passed, or a
    /// loop's recorded iteration is beyond its end.
    RecordsRemain,
    /// A loop's body has replaced its runtime by another one.
    Runtime,
}

impl core::fmt::Display for Divergence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let what = match self.mismatch {
            Mismatch::Kind => "a step where a loop was recorded, or a loop where a step was",
            Mismatch::Call => "another kind of call, other types or another name",
            Mismatch::Arguments => "other arguments",
            Mismatch::Handles => "another handle is consumed",
            Mismatch::Result => "the recorded bytes are no value of the result's type",
            Mismatch::RecordsRemain => {
                "an iteration or a loop ends before all its records were passed"
            }
            Mismatch::Runtime => "a loop's body has replaced its runtime by another one",
        };
        write!(f, "the program differs from record {}: {what}", self.record)
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Aborted(c) => return write!(f, "the step was aborted with code {c}"),
            Error::Diverged => "the program does not match its records",
            Error::JournalFull => {
                "the journal has no room for what the step changes: increase journal_bytes or journal_entries"
            }
            Error::PoolFull => "the pool has no free block that is large enough",
            Error::Index => "an array index is out of range",
            Error::OuterTransaction => {
                "an outer transaction's token was used inside a nested one"
            }
            Error::WrongPool => {
                "the handle belongs to another pool, or to an earlier opening of this one"
            }
            Error::TableFull => {
                "the table has no room for the record: increase bytes, or put steps into a loop"
            }
            Error::LoopTooLong => "the loop has more iterations than its counter holds",
            Error::OutboxFull => "the outbox has no room for the step's messages: some wait, or outbox_bytes is too small",
            Error::TooManyHandles => "a step can consume at most 8 handles",
            Error::KeyInUse => "a step that was given up has the key: open the region again",
            Error::LoopInterrupted => "an error or a panic left a loop, an outlet or a join: the runtime has stopped until the next open",
            Error::Cancelled => "the future of a loop was dropped inside of an iteration: the runtime has stopped until the next open",
            Error::Medium => "the mirror's medium has failed: the runtime has stopped until the next open",
            Error::WrongOwner => "what takes part in the step was opened with the numbers of another region or thread",
            Error::Other => "the step failed for a reason that the table cannot record",
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

/// The error of a step, with the step's arguments: the caller owns its handles again. `?` converts
/// it to the [`Error`], so a function ends with `rt.step(…)?; Ok(())`.
#[derive(Debug)]
pub struct StepError<A> {
    /// The error.
    pub error: Error,
    /// The arguments of the step.
    pub args: A,
}
impl<A> From<StepError<A>> for Error {
    fn from(f: StepError<A>) -> Error {
        f.error
    }
}

impl Error {
    /// How the table records the error of a step: the code of an abort, or the error's number.
    pub(crate) fn encode(self) -> (CallKind, u32) {
        match self {
            Error::Aborted(c) => (CallKind::Aborted, c.into()),
            e => (CallKind::Failed, e.number()),
        }
    }

    /// In the order of the variants, so that the compiler needs no lookup table.
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
            Error::Cancelled => 13,
            Error::KeyInUse => 14,
            Error::Medium => 15,
            Error::WrongOwner => 16,
        }
    }

    /// The error if it can be recorded, else [`Error::Other`].
    pub(crate) fn recorded(self) -> Error {
        if self.number() < Error::Other.number() {
            self
        } else {
            Error::Other
        }
    }

    /// The error in a record of this kind.
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

/// Why a region could not be opened. The open changed nothing, except that it may have completed an
/// interrupted format.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OpenError {
    /// The region is not blank and holds no data of this crate.
    Foreign,
    /// The table is damaged in a way that no power cut can cause.
    Damaged(Damage),
    /// The region holds data of another crate of this family. Nothing was written.
    OtherFormat,
    /// The region holds a replay table of another version of the format. Nothing was written:
    /// finish with the program that wrote it, or erase it.
    FormatVersion {
        /// The version of the stored format. This crate reads version 5, one table, with
        /// [`Replay`](crate::Replay), and version 7, several tables, with
        /// [`Threads`](crate::Threads).
        stored: u16,
    },
    /// [`Threads::share`](crate::Threads::share) was called before: close the region and open it
    /// again.
    Shared,
    /// The configuration is invalid.
    Config(ConfigItem),
    /// The region is smaller than the configuration and the root need.
    TooSmall {
        /// A sufficient length in bytes. If not even the table fits, the next length that it fits
        /// in; the pool needs more.
        needed: usize,
    },
    /// The table belongs to another version of the program. [`Options`](crate::Options) lists the
    /// alternatives.
    OtherVersion {
        /// The version that wrote the records.
        recorded: u16,
    },
    /// [`Update::Keep`](crate::Update::Keep) asks for more records than there are.
    NoSuchRecord {
        /// The number of records.
        records: u16,
    },
    /// The records to keep cannot be copied: nothing was changed.
    Keep(Error),
    /// The pool cannot be opened.
    Pool(pmem_tx::OpenError),
    /// The medium on which a mirror keeps the region has failed. Messages wait, and none was sent.
    Medium,
}

/// The invalid item of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ConfigItem {
    /// `seq_bits` is out of range.
    SeqBits,
    /// The table would be larger than the address space.
    Length,
    /// The table was formatted for another atomic unit.
    Unit,
}

impl core::fmt::Display for ConfigItem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ConfigItem::SeqBits => "seq_bits must be 3 to 16",
            ConfigItem::Length => "the table is larger than the address space",
            ConfigItem::Unit => "the table was formatted for another atomic unit",
        })
    }
}

/// The damaged component of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Damage {
    /// Both copies of the superblock.
    Superblock,
    /// The start word of the program's run.
    Start,
    /// A record, or the start word in a loop's record.
    Record {
        /// The index of the record, from 0.
        record: u16,
    },
    /// The outbox.
    Outbox,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::Foreign => f.write_str("the region holds data that is no replay table"),
            OpenError::Damaged(d) => write!(f, "the replay table is damaged: {d:?}"),
            OpenError::OtherFormat => f.write_str("the region holds data of another crate"),
            OpenError::FormatVersion { stored: VERSION } => f.write_str(
                "the region holds the replay table of one program: open it with `Replay`",
            ),
            OpenError::FormatVersion {
                stored: VERSION_THREADS,
            } => f.write_str(
                "the region holds the replay tables of several threads: open it with `Threads`",
            ),
            OpenError::FormatVersion { stored } => write!(
                f,
                "the region holds a replay table of format version {stored}, and this crate reads {VERSION} and {VERSION_THREADS}"
            ),
            OpenError::Shared => {
                f.write_str("the threads were handed out before: open the region again")
            }
            OpenError::Config(why) => write!(f, "bad configuration: {why}"),
            OpenError::TooSmall { needed } => {
                write!(
                    f,
                    "the region is too small: at least {needed} bytes are needed"
                )
            }
            OpenError::OtherVersion { recorded } => write!(
                f,
                "the records belong to version {recorded} of the program: run that version, start over, or keep some records"
            ),
            OpenError::NoSuchRecord { records } => write!(f, "there are only {records} records"),
            OpenError::Keep(e) => write!(f, "the records to keep cannot be copied: {e}"),
            OpenError::Pool(e) => e.fmt(f),
            OpenError::Medium => f.write_str("the mirror's medium has failed"),
        }
    }
}
impl core::error::Error for OpenError {}
impl OpenError {
    /// Converts the length that the pool needs to the length of the whole region: `table` bytes
    /// more.
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

/// The region and the reason why it could not be opened.
pub type OpenFailure<'m, M> = nvmem::OpenFailure<'m, M, OpenError>;
impl<M> From<OpenFailure<'_, M>> for OpenError {
    fn from(r: OpenFailure<'_, M>) -> Self {
        r.error
    }
}
