//! The replay table: a stack of records, each committed by one store.
//!
//! ```text
//! one area        0                                                area_end
//!                 | payload 0 | payload 1 | payload 2 | free | header 2 | header 1 | header 0 |
//!                               payloads grow ->              <- headers grow
//!
//! record          header:  sequence number | kind | length | id of the call (see below)
//!                 payload: result, or handles and result, or a loop's state
//!
//! state (3 units) start word: sequence number | done | low bits of the counter
//!                 upper counter 0, upper counter 1: the other bits; the highest of the low bits
//!                 says which of the two counts
//!
//! append          1 store the payload                     nothing refers to it yet
//!                 2 clear the header after the new one, if it carries the next number
//!                 3 fence
//!                 4 store the header                      <-- commit
//!                 5 fence
//! ```
//!
//! A record counts if and only if all records before it count and its header carries the next
//! sequence number. Its position decides, never a comparison of which number is newer; so numbers
//! of 3 bits work.
//!
//! Why stale headers are safe. An area holds old headers after the last record: of an earlier
//! iteration, an earlier run, or an earlier round of numbers. Only the header directly after a new
//! record could count, and only with exactly the next number. Step 2 clears it then, before the
//! commit (invariant "Nothing stale behind"). When a new iteration begins, no header can be cleared
//! with the same store, so the start word takes another number instead (`each.rs`).
//!
//! This file knows nothing of programs or pools.
//!
//! # The words of a record
//!
//! ```text
//! U = 4   31       24 23   21 20     17 16          8 7          0
//!         | seq (8) | kind   | units   | call (9)    | args ^ call |   units 15: see the next unit
//! U = 2   15   10 9    8 7         0
//!         | seq  | form | call ^ args |        form 1: step without content, 3: loop
//!         | kind | units | args       |        form 2: this second unit describes the payload
//! ```
//!
//! The header is stored last, in one atomic unit: it commits the record. It holds the low bits of
//! the sequence number, so a reader accepts only the one number that must come next.
//! docs/spec/replay.md defines the same words.
//!
//! # The layout
//!
//! ```text
//! 0          128        run_state     +4 U      area_end(false)   area_end(true) = len
//! | superblock | outbox | run's state | area 0      | area 1      | pool ...
//!                                     payloads ->  <- headers
//! ```
//!
//! A run of the program uses one area; a new version begins in the other one, so that a cut leaves
//! the old run or the new one whole. docs/spec/replay.md defines each byte.

use crate::error::ConfigItem;
use nvmem::superblock::Superblock;
use nvmem::{InOrder16, InOrder32, Model, NumberOwner, Region, Unit, mapped, planted};

/// A word whose store commits: where it goes, as a byte offset, and what it says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommitWord {
    pub at: usize,
    pub word: u32,
}

/// The program's position in the table, as byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The header of the next record.
    pub at: usize,
    /// The header after the last record; equal to `at` when the program has passed all records.
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
    /// The loop has ended, and the records after it are not its own. For a run: it did not begin
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
    /// Whose commits it holds.
    pub owner: NumberOwner,
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
    #[inline(always)]
    pub fn is_successor(&self, at: usize, payload: usize, seq: u32) -> bool {
        at >= payload && Self::has_seq(self.load(at), self.geo.next(seq))
    }

    // One check here, instead of a sweep at a certain number as in the pool: a load, and at most
    // one store in a round of numbers. With the 6 bits of a 16-bit header, an iteration of exactly
    // 31 records needs a store for each record; the check keeps it correct.

    // INVARIANT "Nothing stale behind": when a record or start word is committed, the header after
    // it does not carry the following sequence number. Kept here; by another number for an
    // iteration (`Replay::begin_next`); by a cleared header for a loop of one step
    // (`Replay::enter_step_loop`).
    // Noticed by: planted `stale-record-not-cleared`, `cleared-after-commit`, `number-not-skipped`,
    // `step-loop-header-not-cleared`; tests/suite/crash.rs (`wraps`).
    /// Clears the header at `at` if it would count as the record after number `seq`.
    #[inline(always)]
    pub fn clear_successor(&self, at: usize, payload: usize, seq: u32) {
        if self.is_successor(at, payload, seq) && !planted!("nv-replay/stale-record-not-cleared") {
            self.store(at, 0);
        }
    }

    // INVARIANT "Content before header": a record's content is on the medium before its header.
    // Noticed by: planted `header-before-result`, `no-fence-before-header`.
    /// Commits a record by storing its header, which commits its step. `payload` is the end of its
    /// payload.
    ///
    /// **Power loss**: before the store the record does not count, after it the whole record
    /// counts. **Cost**: one store; one more if the header after it is stale by exactly one round
    /// of numbers.
    ///
    /// The outbox must be staged or retired first: [`Queue::stage`](crate::outbox::Queue::stage) or
    /// [`Table::retire_outbox`].
    #[inline(always)]
    pub fn commit_record(&self, at: usize, payload: usize, seq: u32, header: u32) {
        self.store_commit_word(self.record_word(at, payload, seq, header));
        if planted!("nv-replay/cleared-after-commit") {
            self.clear_successor(at - Self::UNIT, payload, seq);
        }
    }

    /// The commit word of a record. Clears the header after it, if that would count then.
    #[inline(always)]
    pub fn record_word(&self, at: usize, payload: usize, seq: u32, header: u32) -> CommitWord {
        if !planted!("nv-replay/cleared-after-commit") {
            self.clear_successor(at - Self::UNIT, payload, seq);
        }
        let word = header | Self::tag(seq);
        CommitWord { at, word }
    }

    /// Stores a commit word.
    #[inline(always)]
    pub fn store_commit_word(&self, CommitWord { at, word }: CommitWord) {
        if !planted!("nv-replay/no-fence-before-header") {
            self.fence();
        }
        if planted!("nv-replay/header-in-two-stores") {
            self.store(at, word ^ 0xff);
        }
        self.store(at, word);
        if !planted!("nv-replay/no-fence-after-header") {
            self.fence();
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
        let seq = (start >> (Self::COUNTER_BITS + 1)) as u16;
        if seq <= self.geo.seq_max {
            seq.into()
        } else {
            0
        }
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
    /// **Power loss**: the old state or the new one. **Cost**: one store, and one if the upper
    /// counter differs.
    #[inline(never)]
    pub fn write_state(&self, at: usize, mark: u32, counter: u32) {
        self.store_state(at, mark, counter, true)
    }

    /// [`Table::write_state`] over the state of the counter before this one.
    ///
    /// **Cost**: one store; two more once in 32,768 calls (once in 128 on 16-bit units).
    #[inline(always)]
    pub fn write_next_state(&self, at: usize, mark: u32, counter: u32) {
        self.store_state(at, mark, counter, Self::carries(counter))
    }

    /// [`Table::write_next_state`] for a counter that does not [carry](Table::carries).
    ///
    /// **Cost**: one store.
    #[inline(always)]
    pub fn write_start(&self, at: usize, mark: u32, counter: u32) {
        self.store_state(at, mark, counter, false)
    }

    /// Whether the upper counter is another one than that of the counter before this one, or has
    /// another value. True for 0.
    #[inline(always)]
    pub fn carries(counter: u32) -> bool {
        counter & (Self::LOW >> 1) == 0
    }

    /// How many counters away the next one is that [carries](Table::carries).
    #[inline(always)]
    pub fn until_carry(counter: u32) -> u32 {
        let mask = Self::LOW >> 1;
        mask + 1 - (counter & mask)
    }

    /// The start word of a state at `at`, for a caller that stores it. If the counter carries, the
    /// caller stores its upper part first: [`Table::store_upper`].
    #[inline(always)]
    pub fn state_word(at: usize, mark: u32, counter: u32) -> CommitWord {
        let word = Self::start_word(mark, counter);
        CommitWord { at, word }
    }

    /// Stores a start word. The last store makes the state count.
    ///
    /// **Power loss**: the old state or the new one. **Cost**: one store.
    #[inline(always)]
    pub fn store_start(&self, CommitWord { at, word }: CommitWord) {
        if !planted!("nv-replay/no-fence-before-start") {
            self.fence();
        }
        if planted!("nv-replay/start-in-two-stores") {
            self.store(at, word ^ 1 << (Self::COUNTER_BITS + 1));
        }
        self.store(at, word);
        if !planted!("nv-replay/no-fence-after-start") {
            self.fence();
        }
    }

    #[inline(always)]
    fn start_word(mark: u32, counter: u32) -> u32 {
        mark << Self::COUNTER_BITS | counter & Self::LOW
    }

    /// Stores the upper part of a counter that carries.
    ///
    /// **Power loss**: it counts with the start word, for which it has to be durable.
    #[inline(always)]
    pub fn store_upper(&self, at: usize, counter: u32) {
        let (to, high) = (at + Self::upper(counter), counter >> Self::COUNTER_BITS);
        if self.load(to) != high {
            self.store(to, high);
        }
    }

    #[inline(always)]
    fn store_state(&self, at: usize, mark: u32, counter: u32, carries: bool) {
        let start = Self::start_word(mark, counter);
        if planted!("nv-replay/start-before-counter") {
            self.store(at, start);
        }
        if carries {
            self.store_upper(at, counter);
        }
        self.store_start(CommitWord { at, word: start })
    }

    /// The consumed handles at the start of the content of a
    /// [`CallKind::TookHandles`] record.
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
    /// The bytes collected so far for the next unit; the latest is the highest.
    unit: u32,
    n: usize,
}

impl<'t, M: Model> UnitWriter<'t, M> {
    #[inline(always)]
    pub fn new(table: &'t Table<'t, M>, to: usize) -> Self {
        UnitWriter {
            table,
            to,
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
        let mut rest = b;
        // Most results are whole units.
        while self.n == 0
            && let Some((whole, behind)) = rest.split_at_checked(Table::<M>::UNIT)
        {
            let mut unit = [0; 4];
            unit[..whole.len()].copy_from_slice(whole);
            self.word(native(unit, Table::<M>::UNIT));
            rest = behind;
        }
        for b in rest {
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

/// A flag in an id read from 16-bit units: the record holds only the combined hash of call and
/// arguments.
const BARE: u32 = 1 << 16;

/// The bits of a header that are not the sequence number.
const LOW32: u32 = 0x00ff_ffff;
const LOW16: u32 = 0x03ff;

impl<M: Model> Table<'_, M> {
    /// The medium's atomic unit has 16 bits.
    pub(crate) const NARROW: bool = Self::UNIT == 2;

    /// The id of a call: bits of its call hash and of its arguments' hash (signature.rs). On 32-bit
    /// units 9 bits of the call, then 8 bits of the arguments XOR 8 more bits of the call. On
    /// 16-bit units 8 bits of both XORed, and 8 bits of the arguments.
    #[inline(always)]
    pub const fn id(call: u32, args: u32) -> u32 {
        if Self::NARROW {
            (call ^ args) & 0xff | (args & 0xff) << 8
        } else {
            (call & 0x1ff) << 8 | (args ^ call >> 9) & 0xff
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
        // The bits of the number are equal, and those of the form or the kind are not all zero.
        let counts = if Self::NARROW {
            0x0100..LOW16 + 1
        } else {
            0x0020_0000..LOW32 + 1
        };
        counts.contains(&(header ^ Self::tag(seq)))
    }

    /// Whether the bits of `header` that hold a record's sequence number are those of `seq`. True
    /// for each header for which [`Table::has_seq`] is true.
    #[inline(always)]
    pub fn has_tag(header: u32, seq: u32) -> bool {
        header ^ Self::tag(seq) <= if Self::NARROW { LOW16 } else { LOW32 }
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

impl<M: Model> Table<'_, M> {
    /// The bytes of a record's content: handles, result.
    pub fn content(&self, h: &RecordView) -> &[u8] {
        self.bytes(h.content, h.end - h.content)
    }

    /// Whether a later record consumed this handle. If so, another object owns it by now, and it
    /// must not be adopted.
    pub fn given_away_later(&self, f: &Cursor, handle: u32) -> bool {
        let (mut at, mut payload) = (f.at, f.payload);
        while at != f.end {
            let Some(h) = self.read_record(at, payload) else {
                break;
            };
            if h.kind == CallKind::TookHandles
                && self
                    .given_handles(self.content(&h))
                    .any(|given| given == handle)
            {
                return true;
            }
            at -= Self::UNIT;
            payload = h.end;
        }
        false
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
    /// Whether the record's id matches the call `id`: (call hash, arguments).
    #[inline(always)]
    pub fn matches_call<M: Model>(&self, id: u32) -> (bool, bool) {
        let diff = self.id ^ id;
        let (call, args) = if !Table::<M>::NARROW {
            (diff & 0x1_ff00 == 0, diff & 0xff == 0)
        } else if self.id & BARE == 0 {
            ((diff ^ diff >> 8) & 0xff == 0, diff & 0xff00 == 0)
        } else {
            // The record holds only the combined hash.
            (diff & 0xff == 0, true)
        };
        let call = call || planted!("nv-replay/call-not-compared");
        let args = args || planted!("nv-replay/arguments-not-compared");
        (call, args)
    }

    /// The bits of the call hash, if the record holds them.
    pub fn call<M: Model>(&self) -> Option<u16> {
        if !Table::<M>::NARROW {
            Some((self.id >> 8 & 0x1ff) as u16)
        } else {
            (self.id & BARE == 0).then_some(((self.id ^ self.id >> 8) & 0xff) as u16)
        }
    }
}

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"RPLY";
/// Version of the format.
pub(crate) const VERSION: u16 = 5;
/// Version of the format with the tables of several threads.
pub(crate) const VERSION_THREADS: u16 = 7;
/// Units of a run's or a loop's state: the start word and two upper counters.
pub(crate) const STATE: usize = 3;

/// The capacity of a table. It is fixed when the region is formatted, and read from the medium
/// afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes for records. A loop needs room for the records of one iteration, which free their
    /// space when it ends; nested loops add up. A loop that has ended takes 4 units. When a step
    /// runs, one unit must be free for an error (two of 16 bits). A record takes:
    ///
    /// | record | units of 4 bytes | units of 2 bytes |
    /// |---|---|---|
    /// | step, input | 1, and its result | 1, its result, and 1 if there is a result |
    /// | each handle that a step consumes | 1 | 1 |
    /// | loop | 1, and 3 for its state | the same |
    /// | result of 60 bytes (62) or more, or of unknown length | 1 more | 1 more |
    ///
    /// **Cost**: twice this size, because a new version of the program begins in a second area.
    pub bytes: u16,
    /// Bytes for the messages of one step, and for those that the outlet has refused until now; 0
    /// if the program sends none.
    pub outbox_bytes: u16,
    /// Width of the sequence number, 3 to 16 bits (at most 8 on a medium with 16-bit units); small
    /// values are for tests. The pool uses the same width.
    pub seq_bits: u8,
}

impl Config {
    /// 512 bytes of records, 64 bytes of messages per step.
    pub const DEFAULT: Config = Config {
        bytes: 512,
        outbox_bytes: 64,
        seq_bits: 16,
    };
    /// 96 bytes of records: a dozen steps with a short result, some of them in a loop; no outbox.
    pub const SMALL: Config = Config {
        bytes: 96,
        outbox_bytes: 0,
        seq_bits: 16,
    };

    /// Bytes that the table takes on a medium of the model `M`; 0 if the configuration is invalid.
    pub fn table_bytes<M: Model>(&self) -> usize {
        match sizes::<M>(self) {
            _ if !matches!(self.seq_bits, 3..=16) => 0,
            INVALID_SIZES => 0,
            sizes => usize::try_from(table_len::<M>(sizes)).unwrap_or(0),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}

/// Indices of the superblock's parameters: those of a pool with one root, except that the first
/// describes the table.
pub(crate) mod param {
    /// Bytes of an area in the lower half; in the upper half bytes of the outbox with its head and
    /// numbers. Multiples of 8.
    pub const TABLE: usize = 0;
    pub const SEQ_BITS: usize = 3;
    pub const UNIT: usize = 4;
    /// Bytes of the whole region.
    pub const LEN: usize = 5;
    /// Several threads only: the number of a committed migration that is not yet entered in the
    /// tables; 0 if none.
    pub const MIGRATED: usize = 6;
    /// Several threads only: the number of tables, and in the second byte that of shared roots.
    pub const THREADS: usize = 7;

    /// The parameters for which the stored value counts, not today's configuration: sizes of the
    /// table, and of the pool's journal.
    pub const STORED: u8 = 1 << TABLE | 1 << 1 | 1 << 2 | 1 << SEQ_BITS;
    /// The same for several threads.
    pub const STORED_OF_THREADS: u8 = STORED | 1 << MIGRATED;
}

/// Byte offsets of a table's components, and the range of its sequence numbers. The unit is the
/// model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub seq_max: u16,
    /// Bytes of the outbox with its head, count and numbers.
    pub outbox: usize,
    /// Bytes of one of the two record areas, which end the table.
    pub area: usize,
    pub len: usize,
}

/// Offset of the outbox: head word, count of kept messages, two message numbers, messages.
pub(crate) const OUTBOX: usize = Superblock::BYTES;

impl Geometry {
    // INVARIANT "Inside the table": headers and payloads of all records that count lie inside their
    // area, payloads before headers. `Table::read_record` and `Replay::begin` check it for each
    // record.
    // Noticed by: hostile images in tests/suite/hostile.rs; assertions of bounds in debug builds.
    /// Computes the layout from a superblock's parameters, which may be any numbers.
    pub fn new<M: Model>(params: &[u32; 8]) -> Result<Geometry, ConfigItem> {
        let unit = M::Unit::BYTES as u32;
        let (sizes, bits) = (params[param::TABLE], params[param::SEQ_BITS]);
        if bits.wrapping_sub(3) > 13 {
            return Err(ConfigItem::SeqBits);
        }
        let Ok(len) = usize::try_from(table_len::<M>(sizes)) else {
            return Err(ConfigItem::Length);
        };
        // Two 16-bit multiples of 8. A bit test instead of a remainder links no panic.
        if sizes & INVALID_SIZES != 0 {
            return Err(ConfigItem::Length);
        }
        // Both sizes are smaller than `len`.
        Ok(Geometry {
            seq_max: ((1_u32 << bits.min(unit * 4)) - 1) as u16,
            outbox: (sizes >> 16) as usize,
            area: (sizes & 0xffff) as usize,
            len,
        })
    }

    /// The offset of the run's state.
    #[inline(always)]
    pub fn run_state(&self) -> usize {
        OUTBOX + self.outbox
    }

    /// The end of the first or the second area.
    #[inline(always)]
    pub fn area_end(&self, second: bool) -> usize {
        if second {
            self.len
        } else {
            self.len - self.area
        }
    }

    /// Units available for messages.
    #[inline(always)]
    pub fn outbox_units<M: Model>(&self) -> u32 {
        (self.outbox.saturating_sub(2 * M::Unit::BYTES + 8) / M::Unit::BYTES) as u32
    }

    #[inline(always)]
    pub fn next(&self, seq: u32) -> u32 {
        // In 16 bits, which is what a number has: on a 16-bit machine half the work.
        let seq = seq as u16;
        if seq >= self.seq_max {
            1
        } else {
            u32::from(seq + 1)
        }
    }
}

/// Sizes that no table has: each half has bits that no multiple of 8 has.
const INVALID_SIZES: u32 = 0x0007_0007;

/// The first parameter of this configuration's superblock; [`INVALID_SIZES`] if it is invalid.
#[inline(always)]
fn sizes<M: Model>(c: &Config) -> u32 {
    let mut outbox = u32::from(c.outbox_bytes);
    if outbox > 0 {
        outbox = (2 * M::Unit::BYTES as u32 + 8 + outbox).next_multiple_of(8);
    }
    let area = u32::from(c.bytes).next_multiple_of(8);
    if (area | outbox) >> 16 == 0 {
        area | outbox << 16
    } else {
        INVALID_SIZES
    }
}

/// Bytes of a table of these sizes.
#[inline(always)]
fn table_len<M: Model>(sizes: u32) -> u32 {
    OUTBOX as u32 + (sizes >> 16) + 4 * M::Unit::BYTES as u32 + 2 * (sizes & 0xffff)
}

/// The superblock of a table of this configuration, with a pool after it, in a region of `len`
/// bytes.
#[inline(always)]
pub(crate) fn superblock<M: Model>(
    c: &Config,
    pool: Option<pmem_tx::Config>,
    len: usize,
    fingerprint: u64,
) -> Superblock {
    let mut pool =
        pool.unwrap_or_else(|| pmem_tx::Config::for_len(len.saturating_sub(c.table_bytes::<M>())));
    pool.seq_bits = c.seq_bits;
    let mut params = pool.params::<M>(len);
    params[param::TABLE] = sizes::<M>(c);
    Superblock {
        kind: KIND,
        version: VERSION,
        fingerprint,
        params,
    }
}

/// Several threads: the number of tables, which is that of the pool's contexts, and of its shared
/// roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadCount {
    pub tables: usize,
    pub shared: usize,
}

impl ThreadCount {
    /// The parameter of a superblock.
    pub fn encode(self) -> u32 {
        (self.tables | self.shared << 8) as u32
    }
    /// `None` if a parameter cannot be one.
    pub fn decode(param: u32) -> Option<ThreadCount> {
        let count = ThreadCount {
            tables: (param & 0xff) as usize,
            shared: (param >> 8) as usize,
        };
        let possible = (1..=pmem_tx::MAX_CONTEXTS).contains(&count.tables) && count.shared < 256;
        (possible && count.encode() == param).then_some(count)
    }
}

/// The superblock of the tables of several threads, all of this configuration, with a pool after
/// them, in a region of `len` bytes.
pub(crate) fn superblock_of_threads<M: Model>(
    c: &Config,
    count: ThreadCount,
    pool: Option<pmem_tx::Config>,
    len: usize,
    fingerprint: u64,
) -> Superblock {
    let pool = pool.unwrap_or_else(|| {
        let tables = c.table_bytes::<M>().saturating_mul(count.tables);
        pmem_tx::Config::for_len(len.saturating_sub(tables))
    });
    let mut sb = superblock::<M>(c, Some(pool), len, fingerprint);
    sb.version = VERSION_THREADS;
    sb.params[param::THREADS] = count.encode();
    sb
}

/// For inspection tools: the offset of the pool after the tables, and a superblock that describes
/// this pool alone.
#[doc(hidden)]
pub fn pool_region(sb: &Superblock) -> Option<(usize, Superblock)> {
    let count = match (sb.kind, sb.version) {
        (KIND, VERSION) => ThreadCount {
            tables: 1,
            shared: 0,
        },
        (KIND, VERSION_THREADS) => ThreadCount::decode(sb.params[param::THREADS])?,
        _ => return None,
    };
    let table = match sb.params[param::UNIT] {
        2 => Geometry::new::<InOrder16>(&sb.params),
        4 => Geometry::new::<InOrder32>(&sb.params),
        _ => return None,
    };
    let at = (table.ok()?.len - Superblock::BYTES).checked_mul(count.tables)?;
    let mut pool = *sb;
    // As in a pool of its own: the contexts and the shared roots.
    pool.params[param::TABLE] = count.tables as u32;
    pool.params[param::THREADS] = count.shared as u32;
    pool.params[param::LEN] = pool.params[param::LEN].checked_sub(u32::try_from(at).ok()?)?;
    Some((at, pool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The size computed in 128 bits, where nothing wraps; `None` for an invalid configuration.
    fn wide<M: Model>(c: &Config) -> Option<u128> {
        let up8 = |v: u128| v.div_ceil(8) * 8;
        let unit = M::Unit::BYTES as u128;
        let area = up8(c.bytes.into());
        let outbox = match c.outbox_bytes {
            0 => 0,
            n => up8(2 * unit + 8 + u128::from(n)),
        };
        let fits = area < 0x1_0000 && outbox < 0x1_0000 && (3..=16).contains(&c.seq_bits);
        // The superblock, the outbox, the run's state with one unit of padding, two areas.
        fits.then(|| Superblock::BYTES as u128 + outbox + 4 * unit + 2 * area)
    }

    fn right_or_refused<M: Model>(c: Config) {
        let want = wide::<M>(&c);
        assert_eq!(c.table_bytes::<M>() as u128, want.unwrap_or(0), "{c:?}");
        for len in [0, 1024, u32::MAX as usize - 7, usize::MAX & !7] {
            let sb = superblock::<M>(&c, None, len, 0);
            match (Geometry::new::<M>(&sb.params), want) {
                (Ok(geo), Some(want)) => {
                    assert_eq!(geo.len as u128, want);
                    divided::<M>(&geo);
                }
                (Err(_), None) => {}
                (got, want) => panic!("{c:?}: {got:?}, {want:?}"),
            }
        }
    }

    /// The components lie one after the other, and the last one ends where the table ends.
    fn divided<M: Model>(geo: &Geometry) {
        let unit = M::Unit::BYTES;
        assert!(geo.run_state() + STATE * unit <= geo.area_end(false) - geo.area);
        assert_eq!(geo.area_end(true) - geo.area, geo.area_end(false));
        assert_eq!(geo.area_end(true), geo.len);
        let messages = geo.outbox_units::<M>() as usize * unit;
        assert!(messages == 0 || OUTBOX + 2 * unit + 8 + messages <= geo.run_state());
        let mut seq = geo.seq_max.into();
        for want in 1..4 {
            seq = geo.next(seq);
            assert_eq!(seq, want);
        }
    }

    fn config(bytes: u16, outbox_bytes: u16, seq_bits: u8) -> Config {
        Config {
            bytes,
            outbox_bytes,
            seq_bits,
        }
    }

    #[test]
    fn a_tables_size_is_right_or_refused_at_the_extremes() {
        let sizes = [
            0, 1, 7, 8, 9, 0x7fff, 0x8000, 65_515, 65_520, 65_521, 65_528, 65_529, 65_535,
        ];
        for (bytes, outbox) in sizes.iter().flat_map(|a| sizes.map(|b| (*a, b))) {
            for bits in [0, 2, 3, 8, 16, 17, 255] {
                right_or_refused::<InOrder32>(config(bytes, outbox, bits));
                right_or_refused::<InOrder16>(config(bytes, outbox, bits));
            }
        }
    }

    proptest! {
        #[test]
        fn a_tables_size_is_right_or_refused(bytes: u16, outbox: u16, bits: u8) {
            right_or_refused::<InOrder32>(config(bytes, outbox, bits % 20));
            right_or_refused::<InOrder16>(config(bytes, outbox, bits % 20));
        }

        /// Any parameters give components that do not overlap, or an error.
        #[test]
        fn any_parameters_are_divided_or_refused(params: [u32; 8], bits in 0u32..20) {
            let mut params = params;
            for mask in [u32::MAX, 0xfff8_fff8] {
                params[param::TABLE] &= mask;
                params[param::SEQ_BITS] = bits;
                if let Ok(geo) = Geometry::new::<InOrder32>(&params) {
                    divided::<InOrder32>(&geo);
                }
                if let Ok(geo) = Geometry::new::<InOrder16>(&params) {
                    divided::<InOrder16>(&geo);
                }
            }
        }
    }
}
