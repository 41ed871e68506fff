//! A record's words: its header, and what describes its payload. docs/SPEC.md shows the same as a table.

use crate::table::Table;
use nvmem::{Model, planted};

/// What a record tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Kind {
    /// A step, or an input that was recorded: its result.
    Done = 1,
    /// A step that was given handles for good: those, then its result.
    Took = 2,
    /// A step that failed: its error.
    Failed = 3,
    /// A loop that is running.
    LoopOpen = 4,
    /// A loop that has ended.
    LoopDone = 5,
}

impl Kind {
    fn decode(v: u32) -> Option<Kind> {
        Some(match v {
            1 => Kind::Done,
            2 => Kind::Took,
            3 => Kind::Failed,
            4 => Kind::LoopOpen,
            5 => Kind::LoopDone,
            _ => return None,
        })
    }
}

/// Who made a record: the call site, and what the call was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check {
    pub site: u32,
    pub args: u32,
}

/// A record's words. One header unit; on 16-bit units, unless it is a plain step without a result, a second one at the
/// head of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    pub header: u32,
    /// The unit that describes the payload, on 16-bit units.
    pub second: Option<u32>,
    /// The length in units, where it does not fit into the words above.
    pub long: Option<u32>,
}

impl Words {
    pub fn extra(&self) -> u32 {
        u32::from(self.second.is_some()) + u32::from(self.long.is_some())
    }
}

const LEN32: u32 = 15;
const LEN16: u32 = 31;

/// What of a header is not the number.
const LOW32: u32 = 0x00ff_ffff;
const LOW16: u32 = 0x03ff;

impl<M: Model> Table<'_, M> {
    /// Units are of 16 bits.
    const NARROW: bool = Self::UNIT == 2;

    /// The bits of a sequence number that a record header has.
    fn tag(seq: u32) -> u32 {
        if Self::NARROW {
            (seq & 0x3f) << 10
        } else {
            seq << 24
        }
    }

    /// The same header for another record number.
    pub fn renumber(header: u32, seq: u32) -> u32 {
        header & if Self::NARROW { LOW16 } else { LOW32 } | Self::tag(seq)
    }

    /// Whether `header` is one of the record whose number is `seq`.
    pub fn carries(header: u32, seq: u32) -> bool {
        if Self::NARROW {
            header & 0xfc00 == Self::tag(seq) && header & 0x0300 != 0
        } else {
            header & 0xff00_0000 == Self::tag(seq) && header & 0x00e0_0000 != 0
        }
    }

    #[inline(always)]
    pub fn encode(seq: u32, kind: Kind, units: u32, check: Check) -> Words {
        if Self::NARROW {
            let form = match kind {
                Kind::Done if units == 0 => 1,
                Kind::LoopOpen => 3,
                _ => 2,
            };
            let low = (check.site ^ check.args) & 0xff;
            Words {
                header: Self::tag(seq) | form << 8 | low,
                second: (form == 2)
                    .then(|| (kind as u32) << 13 | units.min(LEN16) << 8 | check.args & 0xff),
                long: (form == 2 && units >= LEN16).then_some(units),
            }
        } else {
            let args = (check.args ^ check.site >> 9) & 0xff;
            Words {
                header: Self::tag(seq)
                    | (kind as u32) << 21
                    | units.min(LEN32) << 17
                    | (check.site & 0x1ff) << 8
                    | args,
                second: None,
                long: (units >= LEN32).then_some(units),
            }
        }
    }

    /// Whether a length fits into the first words of a record.
    pub const fn short(units: u32) -> bool {
        units < if Self::NARROW { LEN16 } else { LEN32 }
    }

    /// Whether these are the words of one record, but for its number.
    #[inline(always)]
    pub fn same(header: u32, other: u32) -> bool {
        (header ^ other) & if Self::NARROW { LOW16 } else { LOW32 } == 0
    }

    /// The kind and the length of a record; `payload` reads the units behind its header. `None` if there is none such.
    pub fn decode(header: u32, mut payload: impl FnMut(u32) -> Option<u32>) -> Option<Head> {
        let (kind, second, mut units, long) = if Self::NARROW {
            let (kind, second, units) = match header >> 8 & 3 {
                1 => (Kind::Done, None, 0),
                3 => (Kind::LoopOpen, None, 0),
                2 => {
                    let s = payload(0)?;
                    (Kind::decode(s >> 13)?, Some(s), s >> 8 & LEN16)
                }
                _ => return None,
            };
            (kind, second, units, LEN16)
        } else {
            let kind = Kind::decode(header >> 21 & 7)?;
            (kind, None, header >> 17 & LEN32, LEN32)
        };
        let mut extra = u32::from(second.is_some());
        if units == long {
            units = payload(extra)?;
            extra += 1;
        }
        Some(Head {
            kind,
            units,
            extra,
            header,
            second,
        })
    }

    /// Whether a record was made by this call: the site, then the arguments.
    pub fn agrees(h: &Head, check: Check) -> (bool, bool) {
        let (site, args) = if Self::NARROW {
            match h.second {
                Some(s) => (
                    (h.header ^ s ^ check.site) & 0xff == 0,
                    (s ^ check.args) & 0xff == 0,
                ),
                // Only their sum is known.
                None => ((h.header ^ check.site ^ check.args) & 0xff == 0, true),
            }
        } else {
            (
                (h.header >> 8 ^ check.site) & 0x1ff == 0,
                (h.header ^ check.args ^ check.site >> 9) & 0xff == 0,
            )
        };
        (
            site || planted!("nv-replay/site-not-compared"),
            args || planted!("nv-replay/arguments-not-compared"),
        )
    }

    /// The bits of the call site that can be read from a record, if any.
    pub fn site(h: &Head) -> Option<u16> {
        if Self::NARROW {
            h.second.map(|s| ((h.header ^ s) & 0xff) as u16)
        } else {
            Some((h.header >> 8 & 0x1ff) as u16)
        }
    }
}

/// A record, as found on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    /// Units of content, behind `extra` units of description.
    pub units: u32,
    pub extra: u32,
    header: u32,
    second: Option<u32>,
}

impl Head {
    pub fn total(&self) -> u32 {
        self.extra.saturating_add(self.units)
    }
}
