//! A replay table: frames of records, each committed by one store. Knows nothing of programs or pools.
//!
//! A frame is the program's, or an iteration's of the loop at its level. Each level has two halves of which one is
//! current; the next iteration begins in the other, so that its start word is the one store that ends this iteration.
//! A record counts if all before it in its half do and its header carries the next sequence number: its place decides,
//! not how old its number seems. So before a record is committed, whatever lies behind it is looked at, and cleared if it
//! would carry the number after it. That is the whole sweep.

use crate::header::{Check, Head, Kind, Words};
use crate::layout::{Geometry, PREFIX};
use nvmem::{Model, Region, Unit, mapped, planted};

/// Where the records of a frame are, and where the program is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// The current half.
    pub half: u32,
    /// How many records it holds.
    pub end: u32,
    /// Units of payload that they take.
    pub end_units: u32,
    /// The sequence number of the last of them, or of the frame's start.
    pub seq: u32,
    /// How many of them the program has passed.
    pub next: u32,
    /// Units of payload of those.
    pub next_units: u32,
    /// The iteration, or the run of the program.
    pub counter: u32,
}

impl Frame {
    pub fn replaying(&self) -> bool {
        self.next < self.end
    }
}

/// Tells bytes, piece by piece.
pub(crate) type Encode<'a> = dyn Fn(&mut dyn FnMut(&[u8])) + 'a;

/// A record's content: owned handles, and bytes that are told piece by piece.
pub(crate) struct Content<'a> {
    pub owned: &'a [u32],
    pub encode: &'a Encode<'a>,
}

impl Content<'_> {
    pub const NONE: Content<'static> = Content {
        owned: &[],
        encode: &|_| {},
    };
}

/// A record of which only the header is missing.
#[must_use]
pub(crate) struct Staged {
    header: u32,
    units: u32,
}

/// What does not fit, and into how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Slots { limit: u32 },
    Units { bytes: u32, limit: u32 },
}

/// An open table.
pub(crate) struct Table<'m, M> {
    pub region: Region<'m, M>,
    pub geo: Geometry,
}

impl<'m, M: Model> Table<'m, M> {
    pub const UNIT: usize = M::Unit::BYTES;

    #[inline(always)]
    pub fn load(&self, off: usize) -> u32 {
        assert!(off + Self::UNIT <= self.region.len());
        // SAFETY: aligned by `Geometry`, inside, initialised as all memory is after power-up, and never lent mutably.
        unsafe { self.region.load(off) }
    }

    #[inline(always)]
    pub fn store(&self, off: usize, v: u32) {
        assert!(off + Self::UNIT <= self.region.len());
        // SAFETY: as in `load`; the bytes that `bytes` lends are given back before the next store.
        unsafe { self.region.store(off, v) }
    }

    pub fn fence(&self) {
        mapped::fence::<M>()
    }

    /// Bytes of the table, to read.
    pub fn bytes(&self, off: usize, len: usize) -> &[u8] {
        assert!(off <= self.region.len() && len <= self.region.len() - off);
        let at = self.region.base().wrapping_add(off);
        mapped::will_read(at, len);
        // SAFETY: inside the region, initialised; nothing stores while the slice is in use, which borrows the table and is
        // never kept over a store.
        unsafe { core::slice::from_raw_parts(at, len) }
    }

    /// Whether a frame can take another record of `units`.
    pub fn fits(&self, level: usize, f: &Frame, units: u32) -> Result<(), Full> {
        let room = self.geo.room(level);
        if f.end >= room.slots {
            return Err(Full::Slots { limit: room.slots });
        }
        if units > room.units - f.end_units {
            let unit = Self::UNIT as u32;
            return Err(Full::Units {
                bytes: units * unit,
                limit: room.units * unit,
            });
        }
        Ok(())
    }

    /// Units that a record with this much content takes, at most.
    pub fn units_for(&self, owned: u32, bytes: usize) -> u32 {
        let units = (bytes as u32).div_ceil(Self::UNIT as u32) + owned;
        let w = self
            .geo
            .encode(1, Kind::Failed, units, Check { site: 0, args: 0 });
        units + w.extra()
    }

    /// Writes a record's content behind those of the frame, and makes its header. Nothing of it counts yet.
    ///
    /// **Power loss**: none of it is looked at. **Cost**: a store for each unit. **Errors**: it does not fit; then part of
    /// it may have been written.
    pub fn stage(
        &self,
        level: usize,
        f: &Frame,
        kind: Kind,
        check: Check,
        content: &Content<'_>,
    ) -> Result<Staged, Full> {
        let mut bytes = 0;
        (content.encode)(&mut |b| bytes += b.len());
        let units = bytes.div_ceil(Self::UNIT) as u32 + content.owned.len() as u32;
        let words = self.geo.encode(self.geo.next(f.seq), kind, units, check);
        self.fits(level, f, words.extra() + units)?;
        if planted!("nv-replay/header-before-result") {
            self.store(self.geo.header(level, f.half, f.end + 1), words.header);
        }
        self.write(level, f.half, f.end_units, &words, content);
        Ok(Staged {
            header: words.header,
            units: words.extra() + units,
        })
    }

    fn write(&self, level: usize, half: u32, from: u32, words: &Words, content: &Content<'_>) {
        let mut at = self.geo.payload(level, half, from);
        let mut put = |v| {
            self.store(at, v);
            at += Self::UNIT;
        };
        words.second.into_iter().for_each(&mut put);
        words.long.into_iter().for_each(&mut put);
        for (i, o) in content.owned.iter().enumerate() {
            // Objects are aligned to 8: the lowest bit marks the last.
            put(o | u32::from(i + 1 == content.owned.len()));
        }
        self.pack(content.encode, &mut put);
    }

    /// The units of bytes that are told piece by piece, in the order of memory, the last filled up with zeros.
    pub fn pack(&self, encode: &Encode<'_>, put: &mut dyn FnMut(u32)) {
        let (mut unit, mut n) = ([0; 4], 0);
        encode(&mut |b| {
            for b in b {
                unit[n] = *b;
                n += 1;
                if n == Self::UNIT {
                    put(native(unit, n));
                    (unit, n) = ([0; 4], 0);
                }
            }
        });
        if n > 0 {
            put(native(unit, Self::UNIT));
        }
    }

    /// Makes sure that nothing behind record `slot` of a half counts once a record with the number `seq` is there.
    fn clear_behind(&self, level: usize, half: u32, slot: u32, seq: u32) {
        if slot < self.geo.room(level).slots {
            let at = self.geo.header(level, half, slot + 1);
            if self.geo.carries(self.load(at), self.geo.next(seq))
                && !planted!("nv-replay/stale-record-not-cleared")
            {
                self.store(at, 0);
            }
        }
    }

    /// The record counts: its header's store is the commit of its step.
    ///
    /// **Power loss**: before the store nothing of it is there, after it all. **Cost**: one store; one more when the header
    /// behind it is stale by exactly a round of numbers.
    pub fn seal(&self, level: usize, f: &mut Frame, s: Staged, sends: u32) {
        let seq = self.geo.next(f.seq);
        match sends {
            0 => self.clear_outbox(seq),
            n => self.stage_outbox(seq, n),
        }
        let at = self.geo.header(level, f.half, f.end + 1);
        if !planted!("nv-replay/cleared-after-commit") {
            self.clear_behind(level, f.half, f.end + 1, seq);
        }
        if !planted!("nv-replay/no-fence-before-header") {
            self.fence();
        }
        if planted!("nv-replay/header-in-two-stores") {
            self.store(at, s.header ^ 0xff);
        }
        self.store(at, s.header);
        if !planted!("nv-replay/no-fence-after-header") {
            self.fence();
        }
        if planted!("nv-replay/cleared-after-commit") {
            self.clear_behind(level, f.half, f.end + 1, seq);
        }
        f.end += 1;
        f.end_units += s.units;
        f.next = f.end;
        f.next_units = f.end_units;
        f.seq = seq;
    }

    /// Writes the start of a frame in a half; it counts with the last store, if its level does.
    pub fn start(&self, level: usize, half: u32, seq: u32, counter: u32, version: u16) -> Frame {
        self.clear_behind(level, half, 0, seq);
        self.put_start(level, half, seq, counter, version);
        Frame {
            half,
            seq,
            counter,
            ..Frame::default()
        }
    }

    /// Its words, the one that counts last.
    pub fn put_start(&self, level: usize, half: u32, seq: u32, counter: u32, version: u16) {
        let at = self.geo.half(level as u32, half) as usize;
        let start = self.geo.start_word(seq, counter);
        if planted!("nv-replay/start-before-counter") {
            self.store(at, start);
        }
        let keep = |i: usize, v: u32| {
            if self.load(at + i * Self::UNIT) != v {
                self.store(at + i * Self::UNIT, v);
            }
        };
        keep(1, self.upper(counter));
        if level == 0 {
            keep(2, version.into());
        }
        self.fence();
        if planted!("nv-replay/start-in-two-stores") {
            self.store(at, start ^ 1 << self.geo.counter_bits());
        }
        self.store(at, start);
        self.fence();
    }

    fn upper(&self, counter: u32) -> u32 {
        counter >> self.geo.counter_bits() & (u32::MAX >> (32 - self.geo.unit * 8))
    }

    /// Ends the iteration and begins the next one, with the next sequence number.
    ///
    /// **Power loss**: it is the old iteration, whole, or the new one, empty. **Cost**: one store; two more in 65,536
    /// iterations (in 256 on 16-bit units); those of [`Table::seal`].
    pub fn advance(&self, level: usize, f: &mut Frame, version: u16) {
        let half = if planted!("nv-replay/one-half") {
            f.half
        } else {
            1 - f.half
        };
        let seq = self.geo.next(f.seq);
        self.clear_outbox(seq);
        *f = self.start(level, half, seq, f.counter.wrapping_add(1), version);
    }

    /// Opens a loop: a record in the frame of `level`, and the first iteration in the level below it.
    ///
    /// **Power loss**: there is no loop, or it is in its first iteration. **Cost**: two stores, and one each if the level
    /// was used before by a longer loop or its counter was high.
    pub fn open_loop(&self, level: usize, f: &mut Frame, check: Check) -> Result<Frame, Full> {
        self.fits(level, f, self.done_units(0))?;
        let seq = self.geo.next(f.seq);
        if planted!("nv-replay/loop-open-before-its-start") {
            let staged = self.stage(level, f, Kind::LoopOpen, check, &Content::NONE)?;
            self.seal(level, f, staged, 0);
            return Ok(self.start(level + 1, 0, seq, 0, 0));
        }
        let other = self.geo.half(level as u32 + 1, 1) as usize;
        if self.load(other) != 0 && !planted!("nv-replay/stale-half-not-cleared") {
            self.store(other, 0);
        }
        let inner = self.start(level + 1, 0, seq, 0, 0);
        let staged = self.stage(level, f, Kind::LoopOpen, check, &Content::NONE)?;
        self.seal(level, f, staged, 0);
        Ok(inner)
    }

    /// Units of the record of a loop that has ended.
    fn done_units(&self, bytes: usize) -> u32 {
        self.units_for(1, bytes)
    }

    /// Ends a loop: its record, the last of the frame, becomes that of one that has ended, and says which number it reached.
    ///
    /// **Power loss**: the loop is in its last iteration, or done. **Cost**: two stores (three on 16-bit units).
    pub fn close_loop(&self, level: usize, f: &mut Frame, reached: u32, check: Check) {
        let content = Content {
            owned: &[],
            encode: &|put| put(&native_bytes(reached, Self::UNIT)[..Self::UNIT]),
        };
        // The number that the open loop's record has: `f.seq` is its own.
        let words = self.geo.encode(f.seq, Kind::LoopDone, 1, check);
        if !planted!("nv-replay/loop-done-without-number") {
            self.write(level, f.half, f.end_units, &words, &content);
        }
        self.clear_behind(level, f.half, f.end, reached);
        self.fence();
        self.store(self.geo.header(level, f.half, f.end), words.header);
        self.fence();
        f.end_units += words.extra() + 1;
        f.next = f.end;
        f.next_units = f.end_units;
        f.seq = reached;
    }

    /// Reads the record behind `slot` others whose payload takes `from` units.
    pub fn record(&self, level: usize, half: u32, slot: u32, from: u32) -> Option<Head> {
        let room = self.geo.room(level);
        if slot >= room.slots {
            return None;
        }
        let head = self
            .geo
            .decode(self.load(self.geo.header(level, half, slot + 1)), |i| {
                let i = from.checked_add(i)?;
                (i < room.units).then(|| self.load(self.geo.payload(level, half, i)))
            })?;
        (from.checked_add(head.total())? <= room.units).then_some(head)
    }

    /// The bytes of a record's content.
    pub fn content(&self, level: usize, half: u32, from: u32, h: &Head) -> &[u8] {
        let at = self.geo.payload(level, half, from + h.extra);
        self.bytes(at, h.units as usize * Self::UNIT)
    }

    /// The handles at the head of the content of a record of the kind [`Kind::Took`].
    pub fn owned(&self, content: &[u8]) -> impl Iterator<Item = u32> {
        let mut last = false;
        content.chunks_exact(Self::UNIT).map_while(move |b| {
            if last {
                return None;
            }
            let mut unit = [0; 4];
            unit[..Self::UNIT].copy_from_slice(b);
            let v = native(unit, Self::UNIT);
            last = v & 1 != 0;
            Some(v & !1)
        })
    }

    /// The version word of the program's current half.
    pub fn version(&self, half: u32) -> u16 {
        let at = self.geo.half(0, half) as usize + (PREFIX as usize - 1) * Self::UNIT;
        self.load(at) as u16
    }
}

/// A unit whose bytes in memory are the first of these.
fn native(b: [u8; 4], unit: usize) -> u32 {
    if unit == 2 {
        u16::from_ne_bytes([b[0], b[1]]).into()
    } else {
        u32::from_ne_bytes(b)
    }
}

/// The bytes in memory of a unit with this value, at the front.
fn native_bytes(v: u32, unit: usize) -> [u8; 4] {
    let mut b = [0; 4];
    match unit {
        2 => b[..2].copy_from_slice(&(v as u16).to_ne_bytes()),
        _ => b = v.to_ne_bytes(),
    }
    b
}
