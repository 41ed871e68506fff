//! The table of records, each committed by one store. Knows nothing of programs or pools.
//!
//! A frame is the program's, or an iteration's of the loop at its level. Each level has two halves of which one is
//! current; the next iteration begins in the other, so that its start word is the one store that ends this iteration.
//! A record counts if all before it in its half do and its header carries the next sequence number: its place decides,
//! not how old its number seems. So before a record is committed, whatever lies behind it is looked at, and cleared if it
//! would carry the number after it. That is the whole sweep.

use crate::header::{Check, Head, Kind, Words};
use crate::layout::{Geometry, PREFIX};
use nvmem::{Model, Region, Unit, mapped, planted};

/// Where the records of a frame are, and where the program is in them: byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// The next record that the program comes to.
    pub at: usize,
    /// Behind the last record; `at` when the program has passed all.
    pub end: usize,
    /// The payload of the record at `at`.
    pub body: usize,
    /// Behind the payload of the last record.
    pub body_end: usize,
    /// The sequence number of the last record, or of the frame's start.
    pub seq: u32,
    /// The iteration, or the run of the program.
    pub counter: u32,
    /// The start word of the current half.
    pub base: usize,
    /// That of the other half.
    pub other: usize,
    /// Behind the last header that this half has room for: where its payload begins.
    pub heads: usize,
    /// The end of the half.
    pub limit: usize,
}

impl Frame {
    pub fn replaying(&self) -> bool {
        self.at != self.end
    }

    /// Goes to the other half.
    pub fn swap(&mut self) {
        let (base, other) = (self.base, self.other);
        self.heads = other + (self.heads - base);
        self.limit = other + (self.limit - base);
        (self.base, self.other) = (other, base);
    }
}

/// Tells bytes, piece by piece.
pub(crate) type Encode<'a> = dyn Fn(&mut dyn FnMut(&[u8])) + 'a;

/// A record of which only the header is missing.
#[must_use]
pub(crate) struct Staged {
    header: u32,
    body_end: usize,
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
    /// Bits of a start word that count iterations.
    pub const COUNTER_BITS: u32 = M::Unit::BYTES as u32 * 4;
    /// The largest number of iterations of a loop.
    pub const MOST_ITERATIONS: u32 = if Self::UNIT == 2 { 1 << 24 } else { u32::MAX };
    const LOW: u32 = (1 << Self::COUNTER_BITS) - 1;

    #[inline(always)]
    pub fn load(&self, off: usize) -> u32 {
        debug_assert!(off + Self::UNIT <= self.region.len());
        // SAFETY: aligned and inside, as all offsets of `Geometry` and of frames are (invariant "Inside the table");
        // initialised as all memory is after power-up, and never lent mutably.
        unsafe { self.region.load(off) }
    }

    #[inline(always)]
    pub fn store(&self, off: usize, v: u32) {
        debug_assert!(off + Self::UNIT <= self.region.len());
        // SAFETY: as in `load`; the bytes that `bytes` lends are given back before the next store.
        unsafe { self.region.store(off, v) }
    }

    #[inline(always)]
    pub fn fence(&self) {
        mapped::fence::<M>()
    }

    /// Bytes of the table, to read.
    #[inline(always)]
    pub fn bytes(&self, off: usize, len: usize) -> &[u8] {
        debug_assert!(off <= self.region.len() && len <= self.region.len() - off);
        let at = self.region.base().wrapping_add(off);
        mapped::will_read(at, len);
        // SAFETY: inside the region as in `load`, initialised; nothing stores while the slice is in use, which borrows the
        // table and is never kept over a store.
        unsafe { core::slice::from_raw_parts(at, len) }
    }

    /// Which record of its frame lies at `at`, from 0.
    pub fn slot(f: &Frame, at: usize) -> usize {
        (at - f.base) / Self::UNIT - PREFIX as usize
    }

    /// Whether a frame can take another record of so many bytes, all of its words but the header included.
    pub fn fits(&self, f: &Frame, bytes: usize) -> Result<(), Full> {
        if f.end >= f.heads {
            return Err(Full::Slots {
                limit: Self::slot(f, f.heads) as u32,
            });
        }
        if bytes > f.limit - f.body_end {
            return Err(Full::Units {
                bytes: bytes as u32,
                limit: (f.limit - f.heads) as u32,
            });
        }
        Ok(())
    }

    /// Bytes that a record takes beyond the header.
    pub fn takes(units: usize) -> usize {
        let extra = usize::from(Self::UNIT == 2) + usize::from(!Self::short(units as u32));
        (units + extra) * Self::UNIT
    }

    /// Makes the header of a record behind those of the frame, and writes what describes its content; gives where that is to be
    /// written. Nothing of it counts yet.
    ///
    /// **Power loss**: none of it is looked at. **Cost**: a store for each unit of description. **Errors**: it does not fit;
    /// then nothing was written.
    #[inline(never)]
    pub fn stage(
        &self,
        f: &Frame,
        kind: Kind,
        units: usize,
        check: Check,
    ) -> Result<(usize, Staged), Full> {
        let words = Self::encode(self.geo.next(f.seq), kind, units as u32, check);
        let body = (units + words.extra() as usize) * Self::UNIT;
        self.fits(f, body)?;
        if planted!("nv-replay/header-before-result") {
            self.store(f.end, words.header);
        }
        let staged = Staged {
            header: words.header,
            body_end: f.body_end + body,
        };
        Ok((self.describe(f.body_end, &words), staged))
    }

    /// Writes the words of a record that are not its header; gives where its content begins.
    fn describe(&self, mut to: usize, words: &Words) -> usize {
        if let Some(w) = words.second {
            self.store(to, w);
            to += Self::UNIT;
        }
        if let Some(w) = words.long {
            self.store(to, w);
            to += Self::UNIT;
        }
        to
    }

    /// Stores bytes that are told piece by piece, the last unit filled up with zeros.
    pub fn pack(&self, mut to: usize, encode: &Encode<'_>) {
        let (mut unit, mut n) = ([0; 4], 0);
        encode(&mut |b| {
            for b in b {
                // Always there: `n` is less than a unit. Written so that no panic is linked.
                if let Some(at) = unit.get_mut(n) {
                    *at = *b;
                }
                n += 1;
                if n == Self::UNIT {
                    self.store(to, native(unit, Self::UNIT));
                    to += Self::UNIT;
                    (unit, n) = ([0; 4], 0);
                }
            }
        });
        if n > 0 {
            self.store(to, native(unit, Self::UNIT));
        }
    }

    /// Makes sure that nothing at `at`, behind a record or start word with the number `seq`, counts with it.
    #[inline(never)]
    fn clear_behind(&self, heads: usize, at: usize, seq: u32) {
        if at < heads
            && Self::carries(self.load(at), self.geo.next(seq))
            && !planted!("nv-replay/stale-record-not-cleared")
        {
            self.store(at, 0);
        }
    }

    /// The record counts: its header's store is the commit of its step.
    ///
    /// **Power loss**: before the store nothing of it is there, after it all. **Cost**: one store; one more when the header
    /// behind it is stale by exactly a round of numbers.
    ///
    /// The outbox is settled: [`Queue::stage`](crate::outbox::Queue::stage) or [`Table::mark_outbox`].
    #[inline(never)]
    pub fn seal(&self, f: &mut Frame, s: Staged) {
        let seq = self.geo.next(f.seq);
        let (at, heads) = (f.end, f.heads);
        if !planted!("nv-replay/cleared-after-commit") {
            self.clear_behind(heads, at + Self::UNIT, seq);
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
            self.clear_behind(heads, at + Self::UNIT, seq);
        }
        f.end += Self::UNIT;
        f.body_end = s.body_end;
        f.at = f.end;
        f.body = f.body_end;
        f.seq = seq;
    }

    /// The first half of a level.
    pub fn first(&self, level: usize) -> Frame {
        let (base, room) = (self.geo.first(level), self.geo.room(level));
        Frame {
            base,
            other: base + room.size,
            heads: base + room.heads,
            limit: base + room.size,
            ..Frame::default()
        }
    }

    /// Nothing is recorded in the half of `f` so far.
    pub fn empty(f: &mut Frame, seq: u32, counter: u32) {
        f.end = f.base + PREFIX as usize * Self::UNIT;
        f.at = f.end;
        f.body_end = f.heads;
        f.body = f.heads;
        f.seq = seq;
        f.counter = counter;
    }

    /// Writes the start of a frame in the half of `f`; it counts with the last store, if its level does.
    #[inline(never)]
    pub fn start(&self, f: &mut Frame, seq: u32, counter: u32, version: Option<u16>) {
        Self::empty(f, seq, counter);
        self.clear_behind(f.heads, f.at, seq);
        self.put_start(f, seq, version);
    }

    /// Its words, the one that counts last.
    pub fn put_start(&self, f: &Frame, seq: u32, version: Option<u16>) {
        let (base, counter) = (f.base, f.counter);
        let start = seq << Self::COUNTER_BITS | counter & Self::LOW;
        if planted!("nv-replay/start-before-counter") {
            self.store(base, start);
        }
        let keep = |i: usize, v: u32| {
            if self.load(base + i * Self::UNIT) != v {
                self.store(base + i * Self::UNIT, v);
            }
        };
        keep(
            1,
            counter >> Self::COUNTER_BITS & (u32::MAX >> (32 - Self::UNIT * 8)),
        );
        if let Some(v) = version {
            keep(2, v.into());
        }
        self.fence();
        if planted!("nv-replay/start-in-two-stores") {
            self.store(base, start ^ 1 << Self::COUNTER_BITS);
        }
        self.store(base, start);
        self.fence();
    }

    /// The number and the low bits of the counter in the start word at `base`, if a frame has begun there.
    pub fn started(&self, base: usize) -> Option<(u32, u32)> {
        let w = self.load(base);
        let seq = w >> Self::COUNTER_BITS;
        (seq >= 1 && seq <= self.geo.seq_max).then_some((seq, w & Self::LOW))
    }

    /// The counter of the frame at `base`.
    pub fn counter(&self, base: usize, low: u32) -> u32 {
        self.load(base + Self::UNIT) << Self::COUNTER_BITS | low
    }

    /// Whether the counter `b` is the one after `a`, as far as start words tell.
    pub fn after(a: u32, b: u32) -> bool {
        b == (a + 1) & Self::LOW
    }

    /// Ends the iteration and begins the next one, with the next sequence number.
    ///
    /// **Power loss**: it is the old iteration, whole, or the new one, empty. **Cost**: one store; two more in 65,536
    /// iterations (in 256 on 16-bit units); those of [`Table::seal`].
    pub fn advance(&self, f: &mut Frame) {
        if !planted!("nv-replay/one-half") {
            f.swap();
        }
        let seq = self.geo.next(f.seq);
        self.mark_outbox(seq, false);
        self.start(f, seq, f.counter.wrapping_add(1), None);
    }

    /// Opens a loop: a record in the frame of `level`, and the first iteration in the level below it, to which `f` goes.
    ///
    /// **Power loss**: there is no loop, or it is in its first iteration. **Cost**: two stores, and one each if the level
    /// was used before by a longer loop or its counter was high. It fits: the caller has looked.
    pub fn open_loop(&self, level: usize, f: &mut Frame, check: Check) {
        let seq = self.geo.next(f.seq);
        let staged = Staged {
            header: Self::encode(seq, Kind::LoopOpen, 0, check).header,
            body_end: f.body_end,
        };
        self.mark_outbox(seq, false);
        let mut inner = self.first(level + 1);
        if planted!("nv-replay/loop-open-before-its-start") {
            self.seal(f, staged);
            self.start(&mut inner, seq, 0, None);
        } else {
            if self.load(inner.other) != 0 && !planted!("nv-replay/stale-half-not-cleared") {
                self.store(inner.other, 0);
            }
            self.start(&mut inner, seq, 0, None);
            self.seal(f, staged);
        }
        *f = inner;
    }

    /// Ends a loop: its record, the last of the frame, becomes that of one that has ended, and says which number it reached.
    ///
    /// **Power loss**: the loop is in its last iteration, or done. **Cost**: two stores (three on 16-bit units).
    pub fn close_loop(&self, f: &mut Frame, reached: u32, check: Check) {
        // The number that the open loop's record has: `f.seq` is its own.
        let words = Self::encode(f.seq, Kind::LoopDone, 1, check);
        if !planted!("nv-replay/loop-done-without-number") {
            let to = self.describe(f.body_end, &words);
            self.store(to, reached);
        }
        self.clear_behind(f.heads, f.end, reached);
        self.fence();
        self.store(f.end - Self::UNIT, words.header);
        self.fence();
        f.body_end += (words.extra() as usize + 1) * Self::UNIT;
        f.at = f.end;
        f.body = f.body_end;
        f.seq = reached;
    }

    /// Reads the record at `at` of a frame whose payload is at `body` and ends, at most, at `limit`.
    #[inline(never)]
    pub fn record(&self, at: usize, body: usize, limit: usize) -> Option<Head> {
        let room = (limit - body) / Self::UNIT;
        let head = Self::decode(self.load(at), |i| {
            ((i as usize) < room).then(|| self.load(body + i as usize * Self::UNIT))
        })?;
        (head.total() as usize <= room).then_some(head)
    }

    /// The bytes of the content of a record whose payload is at `body`.
    pub fn content(&self, body: usize, h: &Head) -> &[u8] {
        let at = body + h.extra as usize * Self::UNIT;
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

    /// The version word of the program's half at `base`.
    pub fn version(&self, base: usize) -> u16 {
        self.load(base + (PREFIX as usize - 1) * Self::UNIT) as u16
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
