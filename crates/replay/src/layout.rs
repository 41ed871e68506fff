//! Where everything lies in a table, and what its words mean. docs/SPEC.md shows the same as pictures.

use nvmem::superblock::Superblock;
use nvmem::{Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"RPLY";
/// Version of the format.
pub(crate) const VERSION: u16 = 1;
/// The deepest nesting of loops that a table can be made for.
pub const MAX_LOOPS: usize = 7;
/// Frames: the program's and one for each loop.
pub(crate) const MAX_LEVELS: usize = MAX_LOOPS + 1;
/// Units before the record headers of a half: the start word, the upper part of the counter, the version.
pub(crate) const PREFIX: u32 = 3;

/// How much a table can hold; fixed when it is formatted and read from the medium afterwards. **Cost**: everything twice,
/// because each frame has two halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Records outside of any loop; each step, input or loop is one. At most 127, or 62 on a medium with 16-bit units.
    pub steps: u16,
    /// Bytes for their results.
    pub step_bytes: u16,
    /// Records in one iteration of a loop, the loops inside it counted as one each. As many at most.
    pub loop_steps: u16,
    /// Bytes for their results.
    pub loop_bytes: u16,
    /// How deep loops are nested, at most [`MAX_LOOPS`].
    pub loops: u8,
    /// Bytes for what one step sends to the outside; 0 when nothing does.
    pub outbox_bytes: u16,
    /// Width of the sequence number, 3 to 16 bits (at most 8 on a medium with 16-bit units); a small one is for tests.
    /// It is also the pool's.
    pub seq_bits: u8,
}

impl Config {
    /// 32 steps with 128 bytes of results, loops two deep with 16 steps and 64 bytes each, 64 bytes of output a step.
    pub const DEFAULT: Config = Config {
        steps: 32,
        step_bytes: 128,
        loop_steps: 16,
        loop_bytes: 64,
        loops: 2,
        outbox_bytes: 64,
        seq_bits: 16,
    };
    /// 8 steps with 16 bytes of results and one loop of as many; no outbox.
    pub const SMALL: Config = Config {
        steps: 8,
        step_bytes: 16,
        loop_steps: 8,
        loop_bytes: 16,
        loops: 1,
        outbox_bytes: 0,
        seq_bits: 16,
    };

    /// Bytes that the table takes on a medium of the model `M`; 0 if the configuration makes no sense.
    pub fn table_bytes<M: Model>(&self) -> usize {
        Geometry::new::<M>(self).map_or(0, |g| g.len as usize)
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}

/// Records and payload of the halves of one level, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub slots: u32,
    pub units: u32,
}

/// Byte offsets of the parts of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub unit: u32,
    pub seq_max: u32,
    /// Levels, the program's included.
    pub levels: u32,
    pub rooms: [Room; 2],
    /// Head word, two numbers, messages.
    pub outbox: u32,
    /// Units of messages.
    pub outbox_units: u32,
    pub frames: u32,
    pub len: u32,
}

impl Geometry {
    pub fn new<M: Model>(c: &Config) -> Result<Geometry, &'static str> {
        let unit = M::Unit::BYTES as u32;
        let most = if unit == 2 { 62 } else { 127 };
        if c.steps == 0 || c.steps > most {
            return Err("steps is out of range");
        }
        if c.loops as usize > MAX_LOOPS {
            return Err("loops is out of range");
        }
        if c.loops > 0 && (c.loop_steps == 0 || c.loop_steps > most) {
            return Err("loop_steps is out of range");
        }
        if !(3..=16).contains(&c.seq_bits) {
            return Err("seq_bits is between 3 and 16");
        }
        let room = |slots: u16, bytes: u16| Room {
            slots: slots.into(),
            units: u32::from(bytes).div_ceil(unit),
        };
        let rooms = [
            room(c.steps, c.step_bytes),
            room(c.loop_steps, c.loop_bytes),
        ];
        let outbox_units = u32::from(c.outbox_bytes).div_ceil(unit);
        let outbox = Superblock::BYTES as u32;
        let head = if outbox_units == 0 {
            0
        } else {
            (unit + 8 + outbox_units * unit).next_multiple_of(8)
        };
        let mut g = Geometry {
            unit,
            seq_max: (1 << c.seq_bits.min(unit as u8 * 4)) - 1,
            levels: 1 + u32::from(c.loops),
            rooms,
            outbox,
            outbox_units,
            frames: outbox + head,
            len: 0,
        };
        g.len = g.half(g.levels, 0).next_multiple_of(8);
        Ok(g)
    }

    pub fn room(&self, level: usize) -> Room {
        self.rooms[usize::from(level > 0)]
    }
    /// The start word of a half; of the level after the last, the end of all.
    pub fn half(&self, level: u32, half: u32) -> u32 {
        let of = |r: Room| (PREFIX + r.slots + r.units) * self.unit;
        let (top, inner) = (of(self.rooms[0]), of(self.rooms[1]));
        self.frames
            + match level {
                0 => top * half,
                l => 2 * top + inner * (2 * (l - 1) + half),
            }
    }
    /// The header of record `slot`, counted from 1.
    pub fn header(&self, level: usize, half: u32, slot: u32) -> usize {
        debug_assert!(slot >= 1 && slot <= self.room(level).slots);
        (self.half(level as u32, half) + (PREFIX + slot - 1) * self.unit) as usize
    }
    /// Payload unit `i`.
    pub fn payload(&self, level: usize, half: u32, i: u32) -> usize {
        (self.half(level as u32, half) + (PREFIX + self.room(level).slots + i) * self.unit) as usize
    }
    pub fn next(&self, seq: u32) -> u32 {
        if seq >= self.seq_max { 1 } else { seq + 1 }
    }
    /// Bits of a start word that count iterations.
    pub fn counter_bits(&self) -> u32 {
        self.unit * 4
    }
    /// The largest number of iterations of a loop.
    pub fn most_iterations(&self) -> u32 {
        if self.unit == 2 { 1 << 24 } else { u32::MAX }
    }
    /// The start word of a half.
    pub fn start_word(&self, seq: u32, counter: u32) -> u32 {
        let low = (1 << self.counter_bits()) - 1;
        seq << self.counter_bits() | counter & low
    }
    pub fn decode_start(&self, w: u32) -> Option<Start> {
        let bits = self.counter_bits();
        let seq = w >> bits;
        (seq >= 1 && seq <= self.seq_max).then_some(Start {
            seq,
            low: w & ((1 << bits) - 1),
        })
    }
}

/// A start word: a half-table's first sequence number and the low bits of its iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub seq: u32,
    pub low: u32,
}

/// Superblock parameters, by index.
pub(crate) mod param {
    pub const STEPS: usize = 0;
    pub const BYTES: usize = 1;
    pub const LOOP_STEPS: usize = 2;
    pub const LOOP_BYTES: usize = 3;
    pub const LOOPS: usize = 4;
    pub const OUTBOX: usize = 5;
    pub const SEQ_BITS: usize = 6;
    pub const UNIT: usize = 7;
}

pub(crate) fn superblock<M: Model>(c: &Config) -> Superblock {
    let mut params = [0; 8];
    params[param::STEPS] = c.steps.into();
    params[param::BYTES] = c.step_bytes.into();
    params[param::LOOP_STEPS] = c.loop_steps.into();
    params[param::LOOP_BYTES] = c.loop_bytes.into();
    params[param::LOOPS] = c.loops.into();
    params[param::OUTBOX] = c.outbox_bytes.into();
    params[param::SEQ_BITS] = c.seq_bits.into();
    params[param::UNIT] = M::Unit::BYTES as u32;
    Superblock {
        kind: KIND,
        version: VERSION,
        fingerprint: 0,
        params,
    }
}

/// The configuration that a superblock tells, if it can be one.
pub(crate) fn config(sb: &Superblock) -> Option<Config> {
    let p = &sb.params;
    Some(Config {
        steps: p[param::STEPS].try_into().ok()?,
        step_bytes: p[param::BYTES].try_into().ok()?,
        loop_steps: p[param::LOOP_STEPS].try_into().ok()?,
        loop_bytes: p[param::LOOP_BYTES].try_into().ok()?,
        loops: p[param::LOOPS].try_into().ok()?,
        outbox_bytes: p[param::OUTBOX].try_into().ok()?,
        seq_bits: p[param::SEQ_BITS].try_into().ok()?,
    })
}
