//! A record's words: its header, and what describes its payload. docs/SPEC.md shows the same as a table.

use crate::layout::STATE;
use crate::table::Table;
use nvmem::{Model, planted};

/// What a record tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CallKind {
    /// A step, or an input that was recorded: its result.
    Done = 1,
    /// A step that was given handles for good: those, then its result.
    TookHandles = 2,
    /// A step that failed: the number of its error.
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

/// A record's words. One header unit; on 16-bit units, unless it is a plain step without a result or a loop, a second one at
/// the head of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeaderWords {
    /// All but the number.
    pub header: u32,
    /// The unit that describes the payload, on 16-bit units.
    pub second: Option<u32>,
    /// The length in units, where it does not fit into the words above.
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

/// In an id, on 16-bit units: the hash of the arguments alone is not known.
const BARE: u32 = 1 << 16;

/// What of a header is not the number.
const LOW32: u32 = 0x00ff_ffff;
const LOW16: u32 = 0x03ff;

impl<M: Model> Table<'_, M> {
    /// Units are of 16 bits.
    pub(crate) const NARROW: bool = Self::UNIT == 2;

    /// What a record says of who made it: the call site, and what the call was given. In 32-bit units 9 bits of the site and
    /// 8 of the arguments, with 8 more of the site; in 16-bit units 8 of both together, and 8 of the arguments.
    #[inline(always)]
    pub const fn id(site: u32, args: u32) -> u32 {
        if Self::NARROW {
            (site ^ args) & 0xff | (args & 0xff) << 8
        } else {
            (site & 0x1ff) << 8 | (args ^ site >> 9) & 0xff
        }
    }

    /// The bits of a sequence number that a record header has.
    #[inline(always)]
    pub fn tag(seq: u32) -> u32 {
        if Self::NARROW {
            (seq & 0x3f) << 10
        } else {
            seq << 24
        }
    }

    /// The same header for another record number.
    #[inline(always)]
    pub fn with_seq(header: u32, seq: u32) -> u32 {
        header & if Self::NARROW { LOW16 } else { LOW32 } | Self::tag(seq)
    }

    /// Whether `header` is one of the record whose number is `seq`.
    #[inline(always)]
    pub fn has_seq(header: u32, seq: u32) -> bool {
        if Self::NARROW {
            header & 0xfc00 == Self::tag(seq) && header & 0x0300 != 0
        } else {
            header & 0xff00_0000 == Self::tag(seq) && header & 0x00e0_0000 != 0
        }
    }

    /// The words of a record, but for its number. If it is not `short`, its length is apart.
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

    /// The header of a record of this `shape` that the call of this `id` makes.
    #[inline(always)]
    pub fn header(shape: u32, id: u32) -> u32 {
        shape | if Self::NARROW { id & 0xff } else { id }
    }

    /// Whether a length fits into the first words of a record.
    pub const fn short(units: u32) -> bool {
        units < if Self::NARROW { LEN16 } else { LEN32 }
    }

    /// Whether these are the words of one record, but for its number.
    #[inline(always)]
    pub fn same_call(header: u32, other: u32) -> bool {
        (header ^ other) & if Self::NARROW { LOW16 } else { LOW32 } == 0
    }

    /// Reads the record whose header is at `at` and whose payload is at `payload`, if there is such a one.
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
        // Of 16 bits where the address has.
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

/// A record, as found on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordView {
    pub kind: CallKind,
    pub id: u32,
    /// Where its content begins, behind what describes it.
    pub content: usize,
    /// Where it ends.
    pub end: usize,
}

impl RecordView {
    /// Whether the record was made by the call of this `id`: the site, then the arguments.
    #[inline(always)]
    pub fn matches_call<M: Model>(&self, id: u32) -> (bool, bool) {
        let diff = self.id ^ id;
        let (site, args) = if !Table::<M>::NARROW {
            (diff & 0x1_ff00 == 0, diff & 0xff == 0)
        } else if self.id & BARE == 0 {
            ((diff ^ diff >> 8) & 0xff == 0, diff & 0xff00 == 0)
        } else {
            // Only their sum is known.
            (diff & 0xff == 0, true)
        };
        (
            site || planted!("nv-replay/site-not-compared"),
            args || planted!("nv-replay/arguments-not-compared"),
        )
    }

    /// The bits of the call site that can be read from a record, if any.
    pub fn site<M: Model>(&self) -> Option<u16> {
        if !Table::<M>::NARROW {
            Some((self.id >> 8 & 0x1ff) as u16)
        } else {
            (self.id & BARE == 0).then_some(((self.id ^ self.id >> 8) & 0xff) as u16)
        }
    }
}
