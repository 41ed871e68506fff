//! Errors.

use crate::table::Full;
use nvmem::LayoutMismatch;

/// Why a step, an input or a loop did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// The step aborted itself, with a code of its own. This is recorded.
    Aborted(u16),
    /// An operation inside the step failed. This is recorded.
    Tx(pmem_tx::Error),
    /// The program has not taken the way that the table records. Nothing is done any more in this life: go back to the
    /// old program, give the new one another version, or start over.
    Diverged(Divergence),
    /// The program, or an iteration, makes more records than the table has: at most `limit`. Raise `steps` or
    /// `loop_steps`, or put steps into a loop.
    TableFull {
        /// Records that a frame can hold.
        limit: u16,
    },
    /// The results of the program, or of an iteration, take more bytes than the table has. Raise `step_bytes` or
    /// `loop_bytes`.
    ResultsFull {
        /// Bytes that this result needs.
        bytes: u32,
        /// Bytes that a frame can hold.
        limit: u32,
    },
    /// More loops inside each other than the table has room for.
    LoopsTooDeep {
        /// How many it has.
        limit: u8,
    },
    /// A loop of more iterations than can be counted.
    LoopTooLong {
        /// How many can.
        limit: u32,
    },
    /// A step sends more than the outbox holds. This is recorded.
    OutboxFull {
        /// Bytes of the outbox, 4 for each message included.
        limit: u32,
    },
    /// More handles are given to one step than can be recorded.
    TooManyHandles {
        /// How many can.
        limit: u8,
    },
    /// An error has left the body of a loop: the loop stays in this iteration, and nothing can follow. Open again to go on.
    LoopLeft,
    /// The step failed, when it was first executed, for a reason that the table cannot hold.
    Other,
}

/// How the program differs from what is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Divergence {
    /// How many loops deep.
    pub depth: u8,
    /// Which record of its frame, from 0.
    pub record: u16,
    /// What differs.
    pub what: What,
}

/// What differs from the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum What {
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
    Shorter,
}

impl core::fmt::Display for Divergence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let what = match self.what {
            What::Kind => "a step where a loop was recorded, or a loop where a step was",
            What::Site => "another call site",
            What::Arguments => "other arguments",
            What::Handles => "another handle",
            What::Result => "a result of another type",
            What::Shorter => "an end before all records were passed",
        };
        write!(
            f,
            "the program differs from record {} ({} loops deep): {what}",
            self.record, self.depth
        )
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Aborted(c) => write!(f, "the step was aborted with code {c}"),
            Error::Tx(e) => e.fmt(f),
            Error::Diverged(d) => d.fmt(f),
            Error::TableFull { limit } => write!(
                f,
                "the table holds {limit} records: raise steps or loop_steps, or put steps into a loop"
            ),
            Error::ResultsFull { bytes, limit } => write!(
                f,
                "a result of {bytes} bytes does not fit into {limit}: raise step_bytes or loop_bytes"
            ),
            Error::LoopsTooDeep { limit } => {
                write!(f, "loops are nested more than {limit} deep: raise loops")
            }
            Error::LoopTooLong { limit } => write!(f, "a loop has at most {limit} iterations"),
            Error::OutboxFull { limit } => {
                write!(
                    f,
                    "a step sends more than {limit} bytes: raise outbox_bytes"
                )
            }
            Error::TooManyHandles { limit } => {
                write!(f, "a step takes at most {limit} handles for good")
            }
            Error::LoopLeft => f.write_str("an error has left a loop: open again to go on"),
            Error::Other => f.write_str("the step failed for a reason that is not recorded"),
        }
    }
}
impl core::error::Error for Error {}

impl From<pmem_tx::Error> for Error {
    fn from(e: pmem_tx::Error) -> Self {
        match e {
            pmem_tx::Error::Aborted(c) => Error::Aborted(c),
            e => Error::Tx(e),
        }
    }
}
impl From<Full> for Error {
    fn from(f: Full) -> Self {
        match f {
            Full::Slots { limit } => Error::TableFull {
                limit: limit as u16,
            },
            Full::Units { bytes, limit } => Error::ResultsFull { bytes, limit },
        }
    }
}

/// A step that did not happen, and the arguments that it was given: handles are whole again. `?` makes the [`Error`] of it.
#[derive(Debug)]
pub struct Failed<A> {
    /// Why.
    pub error: Error,
    /// What was passed in.
    pub args: A,
}
impl<A> From<Failed<A>> for Error {
    fn from(f: Failed<A>) -> Error {
        f.error
    }
}

/// A record has at least this much room for an error.
pub(crate) const ERROR_BYTES: usize = 4;

impl Error {
    /// What a table keeps of the error of a step, and how many bytes of it: a word with a number of at most 24 bits and, in
    /// its upper byte, what it is about, 0 for an abort; and a second number, if there is room.
    pub(crate) fn encode(self) -> ([u32; 2], usize) {
        use pmem_tx::Error as E;
        let (tag, a, b, len) = match self {
            Error::Aborted(c) => (0, c.into(), 0, 2),
            Error::Tx(E::JournalFull { bytes }) => (1, bytes, 0, 4),
            Error::Tx(E::PoolFull { bytes }) => (2, bytes, 0, 4),
            Error::Tx(E::Index { index, len }) => (3, index, len, 8),
            Error::OutboxFull { limit } => (4, limit as usize, 0, 4),
            Error::Tx(E::OuterTransaction) => (5, 0, 0, 4),
            Error::Tx(E::WrongPool) => (6, 0, 0, 4),
            _ => (7, 0, 0, 4),
        };
        ([(a as u32).min(0xff_ffff) | tag << 24, b as u32], len)
    }

    /// The error that a table keeps; the second number only if there was room for both.
    #[inline(never)]
    pub(crate) fn decode(first: u32, second: Option<u32>) -> Error {
        use pmem_tx::Error as E;
        let number = first & 0xff_ffff;
        let bytes = number as usize;
        match (first >> 24, second) {
            (0, _) => Error::Aborted(number as u16),
            (1, _) => Error::Tx(E::JournalFull { bytes }),
            (2, _) => Error::Tx(E::PoolFull { bytes }),
            (3, Some(len)) => Error::Tx(E::Index {
                index: bytes,
                len: len as usize,
            }),
            (4, _) => Error::OutboxFull { limit: number },
            (5, _) => Error::Tx(E::OuterTransaction),
            (6, _) => Error::Tx(E::WrongPool),
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
    /// It was made by another version of the format, or is something else.
    LayoutMismatch(LayoutMismatch),
    /// The configuration makes no sense.
    Config(Setting),
    /// The region is too small for the table alone, in bytes.
    TooSmall {
        /// Bytes that the table needs.
        needed: usize,
    },
    /// The table belongs to another version of the program. [`Options`](crate::Options) says what else can be done.
    OtherVersion {
        /// The version that has run so far.
        recorded: u16,
    },
    /// There are records, but the pool that they are about is blank.
    PoolLost,
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
pub enum Setting {
    /// `steps` is 0, or too large.
    Steps,
    /// `loop_steps` is 0, or too large.
    LoopSteps,
    /// `loops` is too large.
    Loops,
    /// `seq_bits` is too small or too large.
    SeqBits,
    /// The table would be larger than the address space, or can be.
    Length,
    /// The table was formatted for another atomic unit.
    Unit,
    /// The pool counts with another width than the table.
    PoolSeqBits,
}

impl core::fmt::Display for Setting {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Setting::Steps => "steps is 1 to 127, or to 62 with 16-bit units",
            Setting::LoopSteps => "loop_steps is 1 to 127, or to 62 with 16-bit units",
            Setting::Loops => "loops is at most 7",
            Setting::SeqBits => "seq_bits is 3 to 16",
            Setting::Length => "the table is larger than the address space",
            Setting::Unit => "the table was formatted for another atomic unit",
            Setting::PoolSeqBits => "the pool counts with another width",
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
    /// The start words of a frame.
    Start {
        /// How many loops deep.
        level: usize,
    },
    /// A record.
    Record {
        /// How many loops deep.
        level: usize,
        /// Which one, from 0.
        slot: usize,
    },
    /// The outbox.
    Outbox,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::Foreign => f.write_str("the region holds something that is no replay table"),
            OpenError::Damaged(d) => write!(f, "the replay table is damaged: {d:?}"),
            OpenError::LayoutMismatch(m) => m.fmt(f),
            OpenError::Config(why) => write!(f, "bad configuration: {why}"),
            OpenError::TooSmall { needed } => {
                write!(f, "the region is too small: the table needs {needed} bytes")
            }
            OpenError::OtherVersion { recorded } => write!(
                f,
                "version {recorded} of the program has run so far: go on with it, start over, or keep some records"
            ),
            OpenError::PoolLost => f.write_str("there are records, but their pool is blank"),
            OpenError::NoSuchRecord { records } => write!(f, "there are only {records} records"),
            OpenError::Keep(e) => write!(f, "the records cannot be kept: {e}"),
            OpenError::Pool(e) => e.fmt(f),
        }
    }
}
impl core::error::Error for OpenError {}

/// A region that could not be opened, and why. The region comes back, so nothing is lost.
pub type Refused<'m, M> = nvmem::Refused<'m, M, OpenError>;
impl<M> From<Refused<'_, M>> for OpenError {
    fn from(r: Refused<'_, M>) -> Self {
        r.error
    }
}
