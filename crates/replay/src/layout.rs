//! Where everything lies in a table, and what its words mean. docs/SPEC.md shows the same as pictures.

use crate::error::Setting;
use nvmem::superblock::Superblock;
use nvmem::{Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"RPLY";
/// Version of the format.
pub(crate) const VERSION: u16 = 3;
/// Units of a run's or a loop's state: the start word, and two for the upper part of the counter.
pub(crate) const STATE: usize = 3;

/// How much a table can hold; fixed when it is formatted and read from the medium afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes for what is recorded of the program: one unit for each step, input or loop, and the unit's multiple of their results
    /// (see the README). Of a loop, the records of one iteration at a time; loops inside each other take what each of them
    /// takes. **Cost**: twice, because a new version of the program begins beside the old one.
    pub bytes: u16,
    /// Bytes for what one step sends to the outside; 0 when nothing does.
    pub outbox_bytes: u16,
    /// Width of the sequence number, 3 to 16 bits (at most 8 on a medium with 16-bit units); a small one is for tests.
    /// It is also the pool's.
    pub seq_bits: u8,
}

impl Config {
    /// 512 bytes of records, 64 of output a step.
    pub const DEFAULT: Config = Config {
        bytes: 512,
        outbox_bytes: 64,
        seq_bits: 16,
    };
    /// 96 bytes of records: a dozen of steps with a short result, some of them in a loop; no outbox.
    pub const SMALL: Config = Config {
        bytes: 96,
        outbox_bytes: 0,
        seq_bits: 16,
    };

    /// Nothing at all: to look at what is there. A blank region may be of any size.
    pub(crate) const NONE: Config = Config {
        bytes: 0,
        outbox_bytes: 0,
        seq_bits: 16,
    };

    /// Bytes that the table takes on a medium of the model `M`; 0 if the configuration makes no sense.
    pub fn table_bytes<M: Model>(&self) -> usize {
        Geometry::new::<M>(&superblock::<M>(self).params).map_or(0, |g| g.len)
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}

/// How many of a superblock's parameters count.
pub(crate) const PARAMS: usize = 4;

/// Byte offsets of the parts of a table, and how it counts. The unit is the model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub seq_max: u32,
    pub seq_bits: u8,
    /// Units of messages.
    pub outbox_units: u32,
    /// The state of the program's run.
    pub run: usize,
    /// The first of two areas for records.
    pub areas: usize,
    /// Bytes of one.
    pub area: usize,
    pub len: usize,
}

/// Head word, two numbers, messages; if there are any.
pub(crate) const OUTBOX: usize = Superblock::BYTES;

impl Geometry {
    /// Of no table. Not zeros: a row of them would be a call of `memset`, which a small program may not have yet.
    pub const NONE: Geometry = Geometry {
        seq_max: 1,
        seq_bits: 1,
        outbox_units: 1,
        run: 1,
        areas: 1,
        area: 1,
        len: 1,
    };

    /// The division that the parameters of a superblock tell, which may be any numbers.
    pub fn new<M: Model>(params: &[u32; 8]) -> Result<Geometry, Setting> {
        let unit = M::Unit::BYTES as u32;
        let [area, outbox, bits, stored, ..] = *params;
        if stored != unit {
            return Err(Setting::Unit);
        }
        if bits.wrapping_sub(3) > 13 {
            return Err(Setting::SeqBits);
        }
        // Multiples of 8, of 16 bits: without a remainder no panic is linked.
        let len = OUTBOX as u32 + (outbox & 0xffff) + 4 * unit + 2 * (area & 0xffff);
        if (area | outbox) & !0xfff8 != 0 || usize::try_from(len).is_err() {
            return Err(Setting::Length);
        }
        // All are smaller than `len`.
        let (area, run) = (area as usize, OUTBOX + outbox as usize);
        Ok(Geometry {
            seq_max: (1 << bits.min(unit * 4)) - 1,
            seq_bits: bits as u8,
            outbox_units: outbox.saturating_sub(unit + 8) / unit,
            run,
            areas: run + 4 * unit as usize,
            area,
            len: len as usize,
        })
    }

    #[inline(always)]
    pub fn next(&self, seq: u32) -> u32 {
        if seq >= self.seq_max { 1 } else { seq + 1 }
    }
}

/// The superblock of a table of this configuration. Its parameters: bytes of an area, bytes of the outbox with its head and
/// numbers, multiples of 8; bits of a sequence number; bytes of a unit.
#[inline(always)]
pub(crate) fn superblock<M: Model>(c: &Config) -> Superblock {
    let unit = M::Unit::BYTES as u32;
    let mut outbox = u32::from(c.outbox_bytes);
    if outbox > 0 {
        outbox = (unit + 8 + outbox).next_multiple_of(8);
    }
    let area = u32::from(c.bytes).next_multiple_of(8);
    Superblock {
        kind: KIND,
        version: VERSION,
        fingerprint: 0,
        params: [area, outbox, c.seq_bits.into(), unit, 0, 0, 0, 0],
    }
}
