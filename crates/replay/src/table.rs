//! The replay table: a stack of records, each committed by one store.
//!
//! ```text
//! one area        0                                                area_end
//!                 | payload 0 | payload 1 | payload 2 | free | header 2 | header 1 | header 0 |
//!                               payloads grow ->              <- headers grow
//!
//! record          header:  sequence number | kind | length | id of the call (header.rs)
//!                 payload: result, or handles and result, or a loop's state
//!
//! state (3 units) start word: sequence number | done | low bits of the counter
//!                 upper counter 0, upper counter 1: the other bits; the highest of the low bits
//!                 says which of the two counts
//!
//! append          1 store the payload                     nothing refers to it yet
//!                 2 clear the header behind the new one, if it carries the number after it
//!                 3 fence
//!                 4 store the header                      <-- commit
//!                 5 fence
//! ```
//!
//! A record counts if and only if all records before it count and its header carries the next
//! sequence number. Its place decides, never a comparison of which number is newer; so numbers of 3
//! bits work.
//!
//! Why stale headers are safe. An area holds old headers behind the last record: of an earlier
//! iteration, an earlier run, or an earlier round of numbers. Only the header directly behind a new
//! record could count, and only with exactly the next number. Step 2 clears it then, before the
//! commit (invariant "Nothing stale behind"). When a new iteration begins, no header can be cleared
//! with the same store, so the start word takes another number instead (`each.rs`).
//!
//! This file knows nothing of programs or pools.

use crate::layout::{Geometry, STATE};
use nvmem::{Model, Region, Unit, mapped, planted};

/// The program's position in the table, as byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The header of the next record.
    pub at: usize,
    /// The header behind the last record; equal to `at` when the program has passed all records.
    pub end: usize,
    /// The payload of the record at `at`.
    pub payload: usize,
}

impl Cursor {
    /// No position.
    pub const NONE: Cursor = Cursor {
        at: 0,
        end: 0,
        payload: 0,
    };
}

/// Passes a value's bytes to a callback, in pieces.
pub(crate) type Encode<'a> = dyn Fn(&mut dyn FnMut(&[u8])) + 'a;

/// The state of a run or a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// The sequence number before that of the first record inside.
    pub seq: u32,
    /// The iteration of a loop; for a run its area and the program's version.
    pub counter: u32,
    /// The loop has ended, and the records behind it are not its own. For a run: it did not begin
    /// with the format.
    pub done: bool,
}

impl State {
    /// The bits of a start word above the counter.
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
    /// Bits of the counter in a start word.
    pub const COUNTER_BITS: u32 = M::Unit::BYTES as u32 * 4 - 1;
    const LOW: u32 = (1 << Self::COUNTER_BITS) - 1;
    /// A mask of all bits of a counter.
    pub const COUNTER: u32 = if Self::UNIT == 2 {
        u32::MAX >> (16 - Self::COUNTER_BITS)
    } else {
        u32::MAX
    };

    #[inline(always)]
    pub fn load(&self, off: usize) -> u32 {
        debug_assert!(off + Self::UNIT <= self.region.len());
        // SAFETY: invariant "Inside the table": the offset is aligned and inside, as all offsets of
        // `Geometry` and of cursors are. Memory is initialised after power-up, and never lent
        // mutably.
        unsafe { self.region.load(off) }
    }

    #[inline(always)]
    pub fn store(&self, off: usize, v: u32) {
        debug_assert!(off + Self::UNIT <= self.region.len());
        // SAFETY: invariant "Inside the table": the offset is aligned and inside. No slice of
        // `bytes` is alive during a store.
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
        // SAFETY: invariant "Inside the table": the range is inside, and memory is initialised
        // after power-up. The slice borrows the table, and no caller keeps it over a store.
        unsafe { core::slice::from_raw_parts(at, len) }
    }

    /// The index of the record whose header is at `at`, from 0.
    pub fn record_index(&self, at: usize) -> u16 {
        ((self.area_end - at) / Self::UNIT - 1) as u16
    }

    /// A cursor at the start of the area that ends at `area_end`, without records.
    pub fn empty_area(&self, top: usize) -> Cursor {
        let at = top - Self::UNIT;
        Cursor {
            at,
            end: at,
            payload: top - self.geo.area,
        }
    }

    /// The end of the other area.
    pub fn other_area_end(&self) -> usize {
        if planted!("nv-replay/run-in-the-same-area") {
            return self.area_end;
        }
        self.geo.area_end(false) + self.geo.area_end(true) - self.area_end
    }

    /// Whether the header at `at` would count as the record after number `seq`. False if no header
    /// fits there.
    #[inline(never)]
    pub fn is_successor(&self, at: usize, payload: usize, seq: u32) -> bool {
        at >= payload && Self::has_seq(self.load(at), self.geo.next(seq))
    }

    /// Clears the header at `at` if it would count as the record after number `seq`.
    #[inline]
    pub fn clear_successor(&self, at: usize, payload: usize, seq: u32) {
        if self.is_successor(at, payload, seq) && !planted!("nv-replay/stale-record-not-cleared") {
            self.store(at, 0);
        }
    }

    /// Commits a record by storing its header, which commits its step. `payload` is the end of its
    /// payload.
    ///
    /// **Power loss**: before the store the record does not count, after it the whole record
    /// counts. **Cost**: one store; one more if the header behind it is stale by exactly one round
    /// of numbers.
    ///
    /// The outbox must be staged or retired first: [`Queue::stage`](crate::outbox::Queue::stage) or
    /// [`Table::retire_outbox`].
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

    /// Reads the state at `at`; its `seq` is 0 if it is no valid state.
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

    /// The sequence number of the state at `at`.
    #[inline]
    pub fn state_seq(&self, at: usize) -> u32 {
        self.seq(self.load(at))
    }

    #[inline(always)]
    fn seq(&self, start: u32) -> u32 {
        let seq = start >> (Self::COUNTER_BITS + 1);
        if seq <= self.geo.seq_max { seq } else { 0 }
    }

    /// The offset of the upper counter, relative to the start word. The two alternate, so that one
    /// can be written while the other counts.
    #[inline(always)]
    fn upper(low: u32) -> usize {
        let second = low >> (Self::COUNTER_BITS - 1) & 1 != 0;
        if second && !planted!("nv-replay/one-upper-part") {
            2 * Self::UNIT
        } else {
            Self::UNIT
        }
    }

    /// Stores a state at `at`: its [`State::start_bits`] and its counter. The last store makes it
    /// count.
    ///
    /// **Power loss**: the old state or the new one. **Cost**: one store; two more once in 32,768
    /// calls (once in 128 on 16-bit units).
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

    /// The consumed handles at the start of the content of a
    /// [`CallKind::TookHandles`](crate::CallKind::TookHandles) record.
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

    /// Bytes of a state.
    pub const STATE: usize = STATE * Self::UNIT;
}

/// Writes bytes in whole units from `to` on. The caller has checked that there is room.
pub(crate) struct UnitWriter<'t, M> {
    table: &'t Table<'t, M>,
    pub to: usize,
    /// Free bytes at the start.
    pub room: usize,
    /// The bytes collected so far for the next unit; the latest is the highest.
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

    /// Writes one unit.
    #[inline(always)]
    pub fn word(&mut self, v: u32) {
        self.table.store(self.to, v);
        self.to += Table::<M>::UNIT;
    }

    /// Writes bytes.
    #[inline(never)]
    pub fn bytes(&mut self, b: &[u8]) {
        for b in b {
            let top = 8 * (Table::<M>::UNIT - 1);
            self.unit = self.unit >> 8 | u32::from(*b) << top;
            self.n += 1;
            if self.n == Table::<M>::UNIT {
                self.n = 0;
                // The first byte is the lowest; in memory it comes first.
                self.word(match Table::<M>::UNIT {
                    2 => u16::from_le(self.unit as u16).into(),
                    _ => u32::from_le(self.unit),
                });
            }
        }
    }

    /// Pads the last unit with zeros.
    #[inline(always)]
    pub fn pad(&mut self) {
        while self.n > 0 {
            self.bytes(&[0])
        }
    }
}

/// The unit that has these first bytes in memory.
fn native(b: [u8; 4], unit: usize) -> u32 {
    if unit == 2 {
        u16::from_ne_bytes([b[0], b[1]]).into()
    } else {
        u32::from_ne_bytes(b)
    }
}
