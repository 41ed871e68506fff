//! The words of a record: its header and, if needed, units that describe its payload.
//!
//! ```text
//! U = 4   31       24 23   21 20     17 16          8 7          0
//!         | seq (8) | kind   | units   | site (9)    | args ^ site |   units 15: see the next unit
//! U = 2   15   10 9    8 7         0
//!         | seq  | form | site ^ args |        form 1: step without content, 3: loop
//!         | kind | units | args       |        form 2: this second unit describes the payload
//! ```
//!
//! The header is stored last, in one atomic unit: it commits the record. It holds the low bits of
//! the sequence number, so a reader accepts only the one number that must come next. docs/SPEC.md
//! defines the same words.

use crate::layout::STATE;
use crate::table::Table;
use nvmem::{Model, planted};

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CallKind {
    /// A step or a recorded input: its result.
    Done = 1,
    /// A step that consumed handles: the handles, then its result.
    TookHandles = 2,
    /// A failed step: the number of its error.
    Failed = 3,
    /// A loop: its state.
    Loop = 4,
    /// A step that aborted itself: its code.
    Aborted = 5,
}

impl CallKind {
    #[inline(always)]
    fn decode(v: u8) -> Option<CallKind> {
        Some(match v {
            1 => CallKind::Done,
            2 => CallKind::TookHandles,
            3 => CallKind::Failed,
            4 => CallKind::Loop,
            5 => CallKind::Aborted,
            _ => return None,
        })
    }
}

/// The words of a record: one header unit. On 16-bit units a second one at the start of the payload
/// describes it, except for a loop and for a plain step without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderWords {
    /// The header without the sequence number.
    pub header: u32,
    /// The unit that describes the payload; 16-bit units only.
    pub second: Option<u32>,
    /// The length of the content in units, if it does not fit into the words above.
    pub long: Option<u32>,
}

impl HeaderWords {
    #[inline(always)]
    pub const fn extra_units(&self) -> usize {
        self.second.is_some() as usize + self.long.is_some() as usize
    }
}

const LEN32: u32 = 15;
const LEN16: u32 = 31;

/// A flag in an id read from 16-bit units: the record holds only the combined hash of site and
/// arguments.
const BARE: u32 = 1 << 16;

/// The bits of a header that are not the sequence number.
const LOW32: u32 = 0x00ff_ffff;
const LOW16: u32 = 0x03ff;

impl<M: Model> Table<'_, M> {
    /// The medium's atomic unit has 16 bits.
    pub(crate) const NARROW: bool = Self::UNIT == 2;

    /// The id of a call: bits of the hashes of its call site and its arguments. On 32-bit units 9
    /// bits of the site, then 8 bits of the arguments XOR 8 more bits of the site. On 16-bit units
    /// 8 bits of both XORed, and 8 bits of the arguments.
    #[inline(always)]
    pub const fn id(site: u32, args: u32) -> u32 {
        if Self::NARROW {
            (site ^ args) & 0xff | (args & 0xff) << 8
        } else {
            (site & 0x1ff) << 8 | (args ^ site >> 9) & 0xff
        }
    }

    /// The bits of a sequence number that a header holds, in their position.
    #[inline(always)]
    pub fn tag(seq: u32) -> u32 {
        if Self::NARROW {
            (seq & 0x3f) << 10
        } else {
            seq << 24
        }
    }

    /// The header with another sequence number.
    #[inline(always)]
    pub fn with_seq(header: u32, seq: u32) -> u32 {
        header & if Self::NARROW { LOW16 } else { LOW32 } | Self::tag(seq)
    }

    /// Whether `header` is a record's header with the sequence number `seq`.
    #[inline(always)]
    pub fn has_seq(header: u32, seq: u32) -> bool {
        if Self::NARROW {
            header & 0xfc00 == Self::tag(seq) && header & 0x0300 != 0
        } else {
            header & 0xff00_0000 == Self::tag(seq) && header & 0x00e0_0000 != 0
        }
    }

    /// Encodes the words of a record, without its sequence number. If not `short`, the length has a
    /// unit of its own.
    #[inline(always)]
    pub const fn encode(kind: CallKind, units: u32, short: bool, id: u32) -> HeaderWords {
        let long = if short { None } else { Some(units) };
        if Self::NARROW {
            let form = match kind {
                CallKind::Done if units == 0 && short => 1,
                CallKind::Loop => 3,
                _ => 2,
            };
            let len = if short { units } else { LEN16 };
            let second = (kind as u32) << 13 | len << 8 | id >> 8;
            HeaderWords {
                header: form << 8 | id & 0xff,
                second: if form == 2 { Some(second) } else { None },
                long,
            }
        } else {
            let len = if short { units } else { LEN32 };
            HeaderWords {
                header: (kind as u32) << 21 | len << 17 | id,
                second: None,
                long,
            }
        }
    }

    /// Adds the id of a call to the header of its `shape`.
    #[inline(always)]
    pub fn header(shape: u32, id: u32) -> u32 {
        shape | if Self::NARROW { id & 0xff } else { id }
    }

    /// Whether a length in units fits into the first words of a record.
    pub const fn short(units: u32) -> bool {
        units < if Self::NARROW { LEN16 } else { LEN32 }
    }

    /// Whether two headers are equal except for their sequence numbers.
    #[inline(always)]
    pub fn same_call(header: u32, other: u32) -> bool {
        (header ^ other) & if Self::NARROW { LOW16 } else { LOW32 } == 0
    }

    /// Reads the record whose header is at `at` and whose payload begins at `payload`. `None` if it
    /// is no valid record.
    #[inline(never)]
    pub fn read_record(&self, at: usize, payload: usize) -> Option<RecordView> {
        let header = self.load(at);
        let mut content = payload;
        let mut unit = || {
            let v = (content < at).then(|| self.load(content));
            content += Self::UNIT;
            v
        };
        let (kind, id, mut units, long) = if Self::NARROW {
            let (kind, id, units) = match header >> 8 & 3 {
                1 => (CallKind::Done, header & 0xff | BARE, 0),
                3 => (CallKind::Loop, header & 0xff | BARE, STATE as u32),
                2 => {
                    let s = unit()?;
                    let id = header & 0xff | (s & 0xff) << 8;
                    (CallKind::decode((s >> 13) as u8)?, id, s >> 8 & LEN16)
                }
                _ => return None,
            };
            (kind, id, units, LEN16)
        } else {
            let kind = CallKind::decode((header >> 21 & 7) as u8)?;
            (kind, header & 0x1_ffff, header >> 17 & LEN32, LEN32)
        };
        if units == long {
            units = unit()?;
        }
        // Compared without a sum: an address may have 16 bits.
        if content > at || units as usize > (at - content) / Self::UNIT {
            return None;
        }
        let end = content + units as usize * Self::UNIT;
        Some(RecordView {
            kind,
            id,
            content,
            end,
        })
    }
}

/// A record read from the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordView {
    pub kind: CallKind,
    pub id: u32,
    /// The first byte of its content, after the units that describe it.
    pub content: usize,
    /// The end of its payload.
    pub end: usize,
}

impl RecordView {
    /// Whether the record's id matches the call `id`: (call site, arguments).
    #[inline(always)]
    pub fn matches_call<M: Model>(&self, id: u32) -> (bool, bool) {
        let diff = self.id ^ id;
        let (site, args) = if !Table::<M>::NARROW {
            (diff & 0x1_ff00 == 0, diff & 0xff == 0)
        } else if self.id & BARE == 0 {
            ((diff ^ diff >> 8) & 0xff == 0, diff & 0xff00 == 0)
        } else {
            // The record holds only the combined hash.
            (diff & 0xff == 0, true)
        };
        (
            site || planted!("nv-replay/site-not-compared"),
            args || planted!("nv-replay/arguments-not-compared"),
        )
    }

    /// The bits of the call site's hash, if the record holds them.
    pub fn site<M: Model>(&self) -> Option<u16> {
        if !Table::<M>::NARROW {
            Some((self.id >> 8 & 0x1ff) as u16)
        } else {
            (self.id & BARE == 0).then_some(((self.id ^ self.id >> 8) & 0xff) as u16)
        }
    }
}
