//! Where everything lies in a table, and what its words mean. docs/SPEC.md shows the same as pictures.

use crate::error::Setting;
use nvmem::superblock::Superblock;
use nvmem::{Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"RPLY";
/// Version of the format.
pub(crate) const VERSION: u16 = 2;
/// The deepest nesting of loops that a table can be made for.
pub const MAX_LOOPS: usize = 7;
/// Units before the record headers of a half: the start word, the upper part of the counter, the version.
pub(crate) const PREFIX: u32 = 3;

/// How much a table can hold; fixed when it is formatted and read from the medium afterwards. **Cost**: everything twice,
/// because each frame has two halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Records outside of any loop; each step, input or loop is one. At most 127, or 62 on a medium with 16-bit units.
    pub steps: u16,
    /// Bytes for their results. What a step may need for its error, 4 bytes (6 on 16-bit units) if it has a smaller result,
    /// must be left when it runs.
    pub step_bytes: u16,
    /// Records in one iteration of a loop, the loops inside it counted as one each. As many at most.
    pub loop_steps: u16,
    /// Bytes for their results, as in `step_bytes`.
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
        Geometry::new::<M>(&superblock::<M>(self).params).map_or(0, |g| g.len)
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}

/// The halves of one level, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// From the start word to behind the last record header: where the payload begins.
    pub heads: usize,
    /// All of it.
    pub size: usize,
}

/// Byte offsets of the parts of a table, and how it counts. The unit is the model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub seq_max: u32,
    /// Levels, the program's included.
    pub levels: usize,
    pub rooms: [Room; 2],
    /// Units of messages.
    pub outbox_units: u32,
    pub frames: usize,
    pub len: usize,
}

/// Head word, two numbers, messages; if there are any.
pub(crate) const OUTBOX: usize = Superblock::BYTES;

impl Geometry {
    pub const NONE: Geometry = Geometry {
        seq_max: 0,
        levels: 0,
        rooms: [Room { heads: 0, size: 0 }; 2],
        outbox_units: 0,
        frames: 0,
        len: 0,
    };

    /// The division that the parameters of a superblock tell, which may be any numbers.
    pub fn new<M: Model>(p: &[u32; 8]) -> Result<Geometry, Setting> {
        let unit = M::Unit::BYTES as u32;
        let most = if unit == 2 { 62 } else { 127 };
        if p[param::UNIT] != unit {
            return Err(Setting::Unit);
        }
        if p[param::STEPS].wrapping_sub(1) >= most {
            return Err(Setting::Steps);
        }
        let loops = p[param::LOOPS];
        if loops > MAX_LOOPS as u32 {
            return Err(Setting::Loops);
        }
        if loops > 0 && p[param::LOOP_STEPS].wrapping_sub(1) >= most {
            return Err(Setting::LoopSteps);
        }
        if p[param::SEQ_BITS].wrapping_sub(3) > 13 {
            return Err(Setting::SeqBits);
        }
        let bytes = p[param::BYTES] | p[param::LOOP_BYTES] | p[param::OUTBOX];
        if bytes > u16::MAX.into() {
            return Err(Setting::Length);
        }
        // A unit is a power of 2; without a remainder no panic is linked.
        let whole = |bytes: u32| (bytes + unit - 1) & !(unit - 1);
        let room = |slots: u32, bytes: u32| {
            let heads = (PREFIX + slots) * unit;
            (heads, heads + whole(bytes))
        };
        let top = room(p[param::STEPS], p[param::BYTES]);
        let inner = match loops {
            0 => (0, 0),
            _ => room(p[param::LOOP_STEPS], p[param::LOOP_BYTES]),
        };
        let outbox = whole(p[param::OUTBOX]);
        let mut frames = OUTBOX as u32;
        if outbox > 0 {
            frames += (unit + 8 + outbox).next_multiple_of(8);
        }
        let len = frames + 2 * top.1 + 2 * inner.1 * loops;
        let len = len.next_multiple_of(8);
        if usize::try_from(len).is_err() {
            return Err(Setting::Length);
        }
        // All are smaller than `len`.
        let room = |(heads, size)| Room {
            heads: heads as usize,
            size: size as usize,
        };
        Ok(Geometry {
            seq_max: (1 << p[param::SEQ_BITS].min(unit * 4)) - 1,
            levels: 1 + loops as usize,
            rooms: [room(top), room(inner)],
            outbox_units: outbox / unit,
            frames: frames as usize,
            len: len as usize,
        })
    }

    pub fn room(&self, level: usize) -> &Room {
        &self.rooms[usize::from(level > 0)]
    }
    /// The start word of the first half of a level; the second half is behind it.
    pub fn first(&self, level: usize) -> usize {
        let [top, inner] = &self.rooms;
        match level {
            0 => self.frames,
            l => self.frames + 2 * top.size + 2 * inner.size * (l - 1),
        }
    }
    pub fn next(&self, seq: u32) -> u32 {
        if seq >= self.seq_max { 1 } else { seq + 1 }
    }
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
