//! The table of records, each committed by one store. Knows nothing of programs or pools.
//!
//! One area is a stack: payloads from its start, headers from its end. The records of a loop's iteration follow the loop's
//! own, whose payload is the loop's state: the next iteration is begun by one store there, and those records are no more.
//! A record counts if all before it do and its header carries the next sequence number: its place decides, not how old
//! its number seems. So before a record is committed, whatever lies behind it is looked at, and cleared if it would carry
//! the number after it; and an iteration takes a number that its first place does not follow. That is the whole sweep.

use crate::layout::{Geometry, STATE};
use nvmem::{Model, Region, Unit, mapped, planted};

/// Where the program is among its records: byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The header of the next record that the program comes to.
    pub at: usize,
    /// That behind the last record; `at` when the program has passed all.
    pub end: usize,
    /// The payload of the record at `at`.
    pub payload: usize,
}

impl Cursor {
    /// Nowhere.
    pub const NONE: Cursor = Cursor {
        at: 0,
        end: 0,
        payload: 0,
    };
}

/// Tells bytes, piece by piece.
pub(crate) type Encode<'a> = dyn Fn(&mut dyn FnMut(&[u8])) + 'a;

/// The state of a run or a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// The number behind which the records inside begin.
    pub seq: u32,
    /// The iteration, or the run of the program.
    pub counter: u32,
    /// The loop has ended, and what follows is behind it; the program was begun anew.
    pub done: bool,
}

impl State {
    /// The upper part of a start word.
    #[inline(always)]
    pub fn start_bits(seq: u32, done: bool) -> u32 {
        seq << 1 | u32::from(done)
    }
}

/// An open table.
pub(crate) struct Table<'m, M> {
    pub region: Region<'m, M>,
    pub geo: Geometry,
    /// The end of the current area.
    pub area_end: usize,
}

impl<'m, M: Model> Table<'m, M> {
    pub const UNIT: usize = M::Unit::BYTES;
    /// Bits of a start word that count iterations.
    pub const COUNTER_BITS: u32 = M::Unit::BYTES as u32 * 4 - 1;
    const LOW: u32 = (1 << Self::COUNTER_BITS) - 1;
    /// The bits of a counter.
    pub const COUNTER: u32 = if Self::UNIT == 2 {
        u32::MAX >> (16 - Self::COUNTER_BITS)
    } else {
        u32::MAX
    };

    #[inline(always)]
    pub fn load(&self, off: usize) -> u32 {
        debug_assert!(off + Self::UNIT <= self.region.len());
        // SAFETY: invariant "LoopGuard the table": aligned and inside, as all offsets of `Geometry` and of frames are; initialised as
        // all memory is after power-up, and never lent mutably.
        unsafe { self.region.load(off) }
    }

    #[inline(always)]
    pub fn store(&self, off: usize, v: u32) {
        debug_assert!(off + Self::UNIT <= self.region.len());
        // SAFETY: invariant "LoopGuard the table": aligned and inside; the bytes that `bytes` lends are given back before the next store.
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
        // SAFETY: invariant "LoopGuard the table": inside, and initialised as all memory is after power-up; nothing stores while the slice
        // is in use, which borrows the table and is never kept over a store.
        unsafe { core::slice::from_raw_parts(at, len) }
    }

    /// Which record lies at `at`, from 0.
    pub fn record_index(&self, at: usize) -> u16 {
        ((self.area_end - at) / Self::UNIT - 1) as u16
    }

    /// Nothing is recorded in this area so far. It ends at `top`.
    pub fn empty_area(&self, top: usize) -> Cursor {
        let at = top - Self::UNIT;
        Cursor {
            at,
            end: at,
            payload: top - self.geo.area,
        }
    }

    /// The other area's end.
    pub fn other_area_end(&self) -> usize {
        if planted!("nv-replay/run-in-the-same-area") {
            return self.area_end;
        }
        self.geo.area_end(false) + self.geo.area_end(true) - self.area_end
    }

    /// Whether a place between headers and payloads could be taken for the record behind that with the number `seq`.
    #[inline(never)]
    pub fn is_successor(&self, at: usize, payload: usize, seq: u32) -> bool {
        at >= payload && Self::has_seq(self.load(at), self.geo.next(seq))
    }

    /// Makes sure that nothing at `at`, behind what has the number `seq`, counts with it.
    #[inline]
    pub fn clear_successor(&self, at: usize, payload: usize, seq: u32) {
        if self.is_successor(at, payload, seq) && !planted!("nv-replay/stale-record-not-cleared") {
            self.store(at, 0);
        }
    }

    /// The record counts: its header's store is the commit of its step. `payload` is behind its payload.
    ///
    /// **Power loss**: before the store nothing of it is there, after it all. **Cost**: one store; one more when the header
    /// behind it is stale by exactly a round of numbers.
    ///
    /// The outbox is settled: [`Queue::stage`](crate::outbox::Queue::stage) or [`Table::retire_outbox`].
    #[inline(always)]
    pub fn commit_record(&self, at: usize, payload: usize, seq: u32, header: u32) {
        let header = header | Self::tag(seq);
        if !planted!("nv-replay/cleared-after-commit") {
            self.clear_successor(at - Self::UNIT, payload, seq);
        }
        if !planted!("nv-replay/no-fence-before-header") {
            self.fence();
        }
        if planted!("nv-replay/header-in-two-stores") {
            self.store(at, header ^ 0xff);
        }
        self.store(at, header);
        if !planted!("nv-replay/no-fence-after-header") {
            self.fence();
        }
        if planted!("nv-replay/cleared-after-commit") {
            self.clear_successor(at - Self::UNIT, payload, seq);
        }
    }

    /// Reads the state whose words are at `at`; the number 0 if they are none.
    #[inline]
    pub fn state(&self, at: usize) -> State {
        let w = self.load(at);
        let low = w & Self::LOW;
        let high = self.load(at + Self::upper(low)) << Self::COUNTER_BITS;
        State {
            seq: self.seq(w),
            counter: (high | low) & Self::COUNTER,
            done: w >> Self::COUNTER_BITS & 1 != 0,
        }
    }

    /// The number of the state there.
    #[inline]
    pub fn state_seq(&self, at: usize) -> u32 {
        self.seq(self.load(at))
    }

    #[inline(always)]
    fn seq(&self, start: u32) -> u32 {
        let seq = start >> (Self::COUNTER_BITS + 1);
        if seq <= self.geo.seq_max { seq } else { 0 }
    }

    /// Where the upper part of a counter lies, behind the start word: alternately, so that one can be written while the
    /// other counts.
    #[inline(always)]
    fn upper(low: u32) -> usize {
        let second = low >> (Self::COUNTER_BITS - 1) & 1 != 0;
        if second && !planted!("nv-replay/one-upper-part") {
            2 * Self::UNIT
        } else {
            Self::UNIT
        }
    }

    /// Stores a state at `at`: its [`State::start_bits`] and its counter; it counts with the last store, if the record there does.
    ///
    /// **Power loss**: the old state or the new one. **Cost**: one store; two more in 32,768 of them (in 128 on 16-bit units).
    #[inline(never)]
    pub fn write_state(&self, at: usize, mark: u32, counter: u32) {
        let start = mark << Self::COUNTER_BITS | counter & Self::LOW;
        if planted!("nv-replay/start-before-counter") {
            self.store(at, start);
        }
        let (to, high) = (at + Self::upper(counter), counter >> Self::COUNTER_BITS);
        if self.load(to) != high {
            self.store(to, high);
        }
        if !planted!("nv-replay/no-fence-before-start") {
            self.fence();
        }
        if planted!("nv-replay/start-in-two-stores") {
            self.store(at, start ^ 1 << (Self::COUNTER_BITS + 1));
        }
        self.store(at, start);
        if !planted!("nv-replay/no-fence-after-start") {
            self.fence();
        }
    }

    /// The handles at the head of the content of a record of the kind [`CallKind::TookHandles`](crate::CallKind::TookHandles).
    pub fn given_handles(&self, content: &[u8]) -> impl Iterator<Item = u32> {
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

    /// The state's bytes.
    pub const STATE: usize = STATE * Self::UNIT;
}

/// Where bytes are written, unit by unit, from `to` on. There is room: who writes has looked.
pub(crate) struct UnitWriter<'t, M> {
    table: &'t Table<'t, M>,
    pub to: usize,
    /// Bytes that there were at first.
    pub room: usize,
    /// Bytes of a unit, the last one in its upper bits.
    unit: u32,
    n: usize,
}

impl<'t, M: Model> UnitWriter<'t, M> {
    #[inline(always)]
    pub fn new(table: &'t Table<'t, M>, to: usize, room: usize) -> Self {
        UnitWriter {
            table,
            to,
            room,
            unit: 0,
            n: 0,
        }
    }

    /// One unit.
    #[inline(always)]
    pub fn word(&mut self, v: u32) {
        self.table.store(self.to, v);
        self.to += Table::<M>::UNIT;
    }

    /// Bytes.
    #[inline(never)]
    pub fn bytes(&mut self, b: &[u8]) {
        for b in b {
            let top = 8 * (Table::<M>::UNIT - 1);
            self.unit = self.unit >> 8 | u32::from(*b) << top;
            self.n += 1;
            if self.n == Table::<M>::UNIT {
                self.n = 0;
                // The first byte is the lowest; in memory it is the first.
                self.word(match Table::<M>::UNIT {
                    2 => u16::from_le(self.unit as u16).into(),
                    _ => u32::from_le(self.unit),
                });
            }
        }
    }

    /// Fills the last unit up with zeros.
    #[inline(always)]
    pub fn pad(&mut self) {
        while self.n > 0 {
            self.bytes(&[0])
        }
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
