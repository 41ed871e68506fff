//! Records and commits: which state of the image counts.
//!
//! ```text
//!  slot = sequence number mod 2      the newest valid record counts (wrapping comparison)
//!  +----------+------------+----------+--------+
//!  | seq 32   | state 16   | pins 16  | crc 32 |    state: running, persisted, committed
//!  +----------+------------+----------+--------+
//!  order of stores:  everything before -> flush -> record -> flush -> everything after
//!
//!  commit (snapshot promise): one record makes all pending blocks count; then the table follows
//!
//!  before:  entry [old | new]   new blocks, chained through their headers: B3 -> B2 -> B1 -> 0
//!  1. flush, write record COMMITTED(seq+1), flush        <== the commit counts from here
//!  2. for each block of the chain:  entry [new | new], mark the old block's units free
//!     a tombstone:                  entry [0 | 0],     mark the old block's units free
//!  3. flush, write the applied word (seq+1)              table complete
//! ```
//!
//! Why it is safe: a torn record has a wrong checksum, and the other slot still holds the previous
//! record. A record that was complete and then lost a bit looks similar; `judge_broken` tells the
//! two apart or refuses. Before the record of a commit is complete, every entry still names its
//! committed block, and no committed block was overwritten. After it, steps 2 and 3 depend only on
//! what the medium holds; `finish_commit` repeats them at open if the applied word is late. It
//! decides each entry by the record and the applied word only, so it may be cut and repeated. Units
//! are marked free only after the entry no longer needs them.
//!
//! The chain exists because the table may be long and a commit small. It needs no check after a
//! cut: open goes through the table and does not use the chain.

use super::image::{APPLIED, Entries, Entry, RECORD_STRIDE, RECORDS, TOMBSTONE, units_of};
use super::{FREED, MAX_LEN, MarkUnits, SCAN, Store, UNFINISHED};
use crate::config::Promise;
use crate::error::{Fail, Word};
use crate::heap::ROOT;
use crate::plain::as_bytes;
use nvmem::crc::Crc32;
use nvmem::device::Torn;
use nvmem::{Medium, planted};

/// Something may have changed since the last persist.
pub(super) const RUNNING: u8 = 1;
/// The medium holds everything.
pub(super) const PERSISTED: u8 = 2;
/// A commit.
pub(super) const COMMITTED: u8 = 3;

/// The words of a record as they are on the medium.
pub(super) type Words = [u32; 3];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) seq: u32,
    pub(super) state: u8,
    pub(super) pins: u16,
}

impl Record {
    pub(super) fn words(self) -> Words {
        let second = u32::from(self.state) | u32::from(self.pins) << 16;
        [self.seq, second, check(self.seq, second)].map(u32::to_le)
    }

    /// The record in these words, if its checksum is right.
    pub(super) fn of_words(words: &Words) -> Option<Self> {
        let [seq, second, crc] = words.map(u32::from_le);
        let state = second as u16;
        let known = (RUNNING.into()..=COMMITTED.into()).contains(&state);
        let wrong = !known || check(seq, second) != crc;
        if wrong && !planted!("vnv-heap/record-unchecked") {
            return None;
        }
        Some(Record {
            seq,
            state: state as u8,
            pins: (second >> 16) as u16,
        })
    }

    pub(super) fn is_later_than(&self, seq: u32) -> bool {
        if planted!("vnv-heap/record-does-not-wrap") {
            return self.seq > seq;
        }
        (self.seq.wrapping_sub(seq) as i32) > 0
    }
}

/// The applied word of a commit: the lower half of its sequence number, twice, so that no flipped
/// bit turns it into that of another commit.
pub(super) const fn applied_word(seq: u32) -> u32 {
    seq & 0xFFFF | seq << 16
}

/// The checksum of a record.
#[inline(never)]
fn check(seq: u32, second: u32) -> u32 {
    Crc32::new().word(seq).word(second).finish()
}

/// How many bytes cannot come from a cut in the write of `new` over `old`. `in_order`: no new byte
/// follows an old one.
#[inline(never)]
fn neither(bytes: &[u8], new: &[u8], old: &[u8], in_order: bool) -> u32 {
    let (mut count, mut ended) = (0, false);
    for ((b, new), old) in bytes.iter().zip(new).zip(old) {
        let is_new = b == new && !(ended && in_order);
        ended |= b != new;
        count += u32::from(!is_new && b != old);
    }
    count
}

/// A pin record: the object's number, the unit of its frame, its length, and its pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pin {
    pub(crate) id: u16,
    pub(crate) at: u16,
    pub(crate) len: u16,
    pub(crate) pins: u16,
}

impl Pin {
    fn words(self) -> [u32; 2] {
        let word = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        [word(self.id, self.at), word(self.len, self.pins)].map(u32::to_le)
    }

    fn of_words(words: [u32; 2]) -> Self {
        let [first, second] = words.map(u32::from_le);
        Pin {
            id: first as u16,
            at: (first >> 16) as u16,
            len: second as u16,
            pins: (second >> 16) as u16,
        }
    }
}

/// A commit under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit {
    stage: Stage,
    /// Unit runs to mark free, then the new entry to write.
    free: [Option<MarkUnits>; 2],
    /// The object and its new entry.
    then: Option<(u16, Entry)>,
    /// The most blocks that the chain can still have; bounds a damaged chain.
    left: u16,
    /// The table may hold a torn entry: free no block because of an entry.
    keep: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Record,
    /// The next block of the chain.
    Chain(u16),
    /// The next entry of the table.
    Table(u16),
    Applied,
}

impl Commit {
    pub(crate) fn new() -> Self {
        Commit {
            stage: Stage::Record,
            free: [None; 2],
            then: None,
            left: u16::MAX,
            keep: false,
        }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// Reads the newest valid record and continues from it. Returns its state, 0 if there is none.
    /// Its number of pins is not compared with what fits: the checksum covers it, and a cold open
    /// reads no pin.
    pub(super) fn find_record(&mut self) -> Result<Word, Fail> {
        let mut state = 0;
        let mut broken = None;
        for i in 0..2 {
            let mut words = [0; 3];
            self.image
                .get(RECORDS + i * RECORD_STRIDE, as_bytes(&mut words))?;
            match Record::of_words(&words) {
                Some(r) if state == 0 || r.is_later_than(self.seq) => {
                    (self.seq, self.pinned, state) = (r.seq, r.pins, r.state.into());
                }
                Some(_) => {}
                None => broken = Some(words),
            }
        }
        match broken {
            Some(mut words) if state != 0 && !planted!("vnv-heap/damaged-record-forgotten") => {
                self.judge_broken(&mut words, state)
            }
            _ => Ok(state),
        }
    }

    /// Decides what counts when one of the two records is invalid. It may be the newer one, which
    /// decides everything.
    ///
    /// A cut in its write leaves each byte old or new, and nothing was written after it. If it was
    /// complete, a damaged bit leaves one wrong byte: then it counts. A commit's record is then
    /// written again, also after a cut that left the same bytes: everything it promises was on the
    /// medium before its first byte. **Errors**: [`Fail::RECORD`] when both are possible.
    #[cold]
    fn judge_broken(&mut self, words: &mut Words, state: Word) -> Result<Word, Fail> {
        // The state of the record that counts, and that of the one that is written next.
        let (now, new_state) = if P::SNAPSHOT {
            (COMMITTED, COMMITTED)
        } else {
            (PERSISTED, RUNNING)
        };
        if state != now.into() {
            return Ok(state);
        }
        let next = self.seq.wrapping_add(1);
        let record = |seq, state, pins| Record { seq, state, pins }.words();
        let bytes = as_bytes(words);
        let new = &mut record(next, new_state, 0);
        let new = as_bytes(new);
        let in_order = S::CONTRACT.torn == Torn::Prefix;
        let not_new = neither(bytes, new, new, in_order);
        if P::SNAPSHOT && not_new <= 1 {
            self.put_record(COMMITTED, 0)?;
            return Ok(state);
        }
        // What the slot can have held before.
        let mut old = match next {
            1 => [0; 3],
            _ => record(next.wrapping_sub(2), new_state, 0),
        };
        let mut odd = neither(bytes, new, as_bytes(&mut old), in_order);
        if !P::SNAPSHOT {
            // Or another persist came before, with any number of pins.
            for pins in 0..self.image.geometry().pins() + 1 {
                old = record(next.wrapping_sub(2), PERSISTED, pins);
                odd = odd.min(neither(bytes, new, as_bytes(&mut old), in_order));
            }
        }
        match odd {
            0 => Ok(state),
            _ if not_new <= 1 => Ok(new_state.into()),
            1 => Ok(state),
            _ => Err(Fail::RECORD),
        }
    }

    // INVARIANT "Saved before the record": everything that a record commits is on the medium before
    // the record: the flush here.
    // Noticed by: store/tests/crash.rs; planted `no-flush-before-record`.
    /// Writes the next record: after everything that was written before, and before everything that
    /// follows.
    #[inline(never)]
    pub(super) fn put_record(&mut self, state: u8, pins: u16) -> Result<(), Fail> {
        let seq = self.seq.wrapping_add(1);
        let r = Record { seq, state, pins };
        let slot = if planted!("vnv-heap/record-overwrites") {
            0
        } else {
            seq
        };
        if !planted!("vnv-heap/no-flush-before-record") {
            self.image.flush()?;
        }
        self.image.put(
            RECORDS + (slot % 2) * RECORD_STRIDE,
            as_bytes(&mut r.words()),
        )?;
        if !planted!("vnv-heap/no-flush-after-record") {
            self.image.flush()?;
        }
        self.seq = seq;
        self.pinned = pins;
        Ok(())
    }

    /// Just in time: writes a pin record. Call for 0, 1, 2, ... before [`Store::set_persisted`].
    ///
    /// **Power loss**: an open after a reset ignores them. **Cost**: 8 bytes. **Errors**:
    /// [`Error::Full`](crate::Error::Full) when there are more than configured.
    pub(crate) fn write_pin(&mut self, i: u16, pin: Pin) -> Result<(), Fail> {
        let at = self.image.geometry().pin(i).ok_or(Fail::FULL)?;
        self.image.put(at, as_bytes(&mut pin.words()))
    }

    /// The `i`-th pin record of the last persist.
    pub(crate) fn read_pin(&mut self, i: u16) -> Result<Pin, Fail> {
        let at = self.image.geometry().pin(i).ok_or(Fail::FULL)?;
        let mut words = [0; 2];
        self.image.get(at, as_bytes(&mut words))?;
        Ok(Pin::of_words(words))
    }

    /// The most pins that can be recorded.
    pub(crate) fn max_pins(&self) -> u16 {
        self.image.geometry().pins()
    }

    /// The most bytes that one call writes.
    pub(crate) fn burst(&self) -> u16 {
        self.burst
    }

    /// Pins that the last persist recorded.
    pub(crate) fn pinned(&self) -> u16 {
        self.pinned
    }

    /// Just in time: everything is on the medium, with so many pins.
    ///
    /// **Power loss**: before the record is complete, open reports an interruption. **Cost**: 12
    /// bytes; nothing when nothing has changed since the last persist.
    pub(crate) fn set_persisted(&mut self, pins: u16) -> Result<(), Fail> {
        if self.state != 0 || self.pinned != pins {
            self.put_record(PERSISTED, pins)?;
            self.state = 0;
        }
        Ok(())
    }

    pub(super) fn applied(&mut self) -> Result<u32, Fail> {
        let mut b = [0; 4];
        self.image.get(APPLIED, &mut b)?;
        Ok(u32::from_le_bytes(b))
    }

    // INVARIANT "Applied means applied": *applied* has the record's sequence number only when the
    // table is complete.
    // Noticed by: store/tests/crash.rs; planted `no-flush-before-applied`, `late-commit-forgotten`.
    /// Writes the applied word: the table shows the last commit completely.
    pub(super) fn put_applied(&mut self) -> Result<(), Fail> {
        if !planted!("vnv-heap/no-flush-before-applied") {
            self.image.flush()?;
        }
        self.image
            .put(APPLIED, &applied_word(self.seq).to_le_bytes())?;
        self.image.flush()
    }

    /// One step of a commit. All dirty objects were written back before the first one.
    ///
    /// **Power loss**: before the record is complete, the heap is as of the previous commit; after
    /// it, as of this one. **Cost**: 16 bytes; for each object that was written since the last
    /// commit 2 bytes and a bit for each 8 bytes. **Errors**: those of the medium. Nothing else may
    /// change then until another commit has finished: the record may be on the medium, so a change
    /// might belong to it. A new [`Commit`] continues where this one stopped. It leaves each block
    /// that it cannot prove free to the next open.
    pub(crate) fn commit(&mut self, c: &mut Commit) -> Result<(), Fail> {
        if let Some(at) = c.free.iter().position(Option::is_some) {
            if let Some(mark) = &mut c.free[at] {
                self.mark_units(mark)?;
            }
            c.free[at] = None;
            return Err(Fail::PENDING);
        }
        if let Some((id, e)) = c.then {
            if e == Entry::FREE {
                self.image.put_entry(id, e)?;
                self.free_ids = (self.free_ids + 1).min(self.image.geometry().objects);
            } else {
                self.image.put_committed(id, e.committed())?;
            }
            c.then = None;
            return Err(Fail::PENDING);
        }
        match c.stage {
            Stage::Record => {
                self.image.repair_torn_entry()?;
                let late = self.applied()? != applied_word(self.seq);
                self.state |= UNFINISHED;
                if late {
                    // An earlier commit did not finish. Only the medium tells how far it got: scan
                    // the whole table.
                    self.state |= SCAN;
                    (self.chain, c.keep) = (0, true);
                } else {
                    self.put_record(COMMITTED, 0)?;
                }
                c.stage = Stage::Chain(self.chain);
            }
            Stage::Chain(0) => {
                self.chain = 0;
                c.stage = if self.state & SCAN != 0 {
                    Stage::Table(1)
                } else {
                    Stage::Applied
                };
            }
            Stage::Chain(unit) => self.apply_block(c, unit)?,
            Stage::Table(id) if id > self.image.geometry().objects => c.stage = Stage::Applied,
            Stage::Table(id) => self.apply_entries(c, id)?,
            Stage::Applied => {
                self.put_applied()?;
                self.state = 0;
                return Ok(());
            }
        }
        Err(Fail::PENDING)
    }

    fn apply_block(&mut self, c: &mut Commit, unit: u16) -> Result<(), Fail> {
        c.left = c.left.saturating_sub(1);
        let head = match self.image.read_block_header(unit, 0) {
            Ok(h) if c.left > 0 && self.image.geometry().entry(h.id).is_some() => h,
            Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
            // The chain is damaged: scan the table, which holds the same information.
            _ => {
                self.state |= SCAN;
                c.stage = Stage::Chain(0);
                return Ok(());
            }
        };
        c.stage = Stage::Chain(head.prev);
        let len = head.len & !TOMBSTONE;
        let e = self.image.entry(head.id)?;
        if e.pending() == unit {
            c.free[0] = self.former_units(c, head.id, e.committed(), Some(len))?;
            c.then = Some((head.id, Entry::of(unit, unit)));
            return Ok(());
        }
        if e.pending() >= FREED && !e.is_settled() {
            c.free[0] = self.former_units(c, head.id, e.committed(), Some(len))?;
            c.then = Some((head.id, Entry::FREE));
        }
        // A tombstone, or a block whose object was freed after it was written.
        let n = if head.len & TOMBSTONE != 0 {
            1
        } else {
            units_of(len)
        };
        if len <= MAX_LEN && self.image.geometry().has(unit, n) {
            c.free[1] = Some(MarkUnits::free(unit, n));
        }
        Ok(())
    }

    // INVARIANT "Freed is not proved by rot": a block is freed only if its header names its object.
    // Noticed by: a bus that fails at each call, in store/tests/hostile.rs.
    /// The units of an object's former block, if its header proves the object and this length.
    /// Without proof they stay marked until the next open.
    fn former_units(
        &mut self,
        c: &Commit,
        id: u16,
        unit: u16,
        len: Option<u16>,
    ) -> Result<Option<MarkUnits>, Fail> {
        let none = unit == 0 || c.keep;
        if none || planted!("vnv-heap/old-block-kept") {
            return Ok(None);
        }
        match self.image.locate_in(id, unit) {
            Ok(place) => {
                let mut known = match len {
                    Some(len) => place.len == len,
                    None => self.image.is_sound(id, &place)?,
                };
                if planted!("vnv-heap/old-encoded-length-not-checked") {
                    known |= len.is_some();
                }
                Ok(known.then(|| MarkUnits::free(place.unit, units_of(place.len))))
            }
            Err(f) if f.is_damage() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Applies pending entries that the chain did not reach, one a call.
    fn apply_entries(&mut self, c: &mut Commit, id: u16) -> Result<(), Fail> {
        let mut table = Entries::uninit();
        let table = self.image.entries(id, &mut table)?;
        let mut all = (id..).zip(table.iter().map(|e| Entry::decode(*e)));
        let Some((id, e)) = all.find(|(_, e)| !e.is_settled()) else {
            c.stage = Stage::Table(id + table.len() as u16);
            return Ok(());
        };
        c.stage = Stage::Table(id + 1);
        if e.pending() >= FREED {
            c.free[0] = self.former_units(c, id, e.committed(), None)?;
            c.then = Some((id, Entry::FREE));
        } else {
            if let Ok(new) = self.image.locate_in(id, e.pending()) {
                c.free[0] = self.former_units(c, id, e.committed(), Some(new.len))?;
            }
            c.then = Some((id, Entry::of(e.pending(), e.pending())));
        }
        Ok(())
    }

    /// Snapshot, at open: completes the table of the last commit. Pending units of no commit are
    /// dropped.
    ///
    /// Each entry is decided by its pending unit alone, so the next open repairs a torn write to
    /// it. To finish a commit only `committed` is written and `pending` stays, except for a freed
    /// object: its pending unit stays recognisable until the entry is zero.
    pub(super) fn finish_commit(&mut self) -> Result<(), Fail> {
        let applied = self.applied()?;
        let next = self.seq.wrapping_add(1);
        if applied == applied_word(next) {
            // The table shows a commit whose record is damaged now: write the record again.
            self.put_record(COMMITTED, 0)?;
        }
        let late = applied != applied_word(self.seq);
        // The applied word names neither this commit nor the previous one.
        let unknown = late && applied != applied_word(self.seq.wrapping_sub(1));
        let mut id = 1;
        while id <= self.image.geometry().objects {
            let mut table = Entries::uninit();
            let table = self.image.entries(id, &mut table)?;
            for (i, e) in (id..).zip(table) {
                let e = Entry::decode(*e);
                if e.is_settled() {
                    continue;
                }
                if unknown && !planted!("vnv-heap/applied-unchecked") {
                    return Err(Fail::RECORD);
                }
                let late = late && !planted!("vnv-heap/late-commit-forgotten");
                let counts = if late { e.pending() } else { e.committed() };
                if late && counts >= FREED {
                    self.image.put_entry(i, Entry::FREE)?;
                } else if counts != 0 && !self.is_own_block(i, counts)? {
                    if i == ROOT {
                        return Err(Fail::damaged(i));
                    }
                    self.image.mark_lost(i)?;
                } else if late {
                    self.image.put_committed(i, counts)?;
                } else {
                    self.image.put_pending(i, counts)?;
                }
            }
            id += table.len() as u16;
        }
        if late {
            self.put_applied()?;
        }
        Ok(())
    }

    /// Whether the unit named by an unsettled entry can be the object's own block. A freed block
    /// still holds a valid header, and an entry with one flipped bit may lead to it; but then all
    /// its units are free in an intact bitmap. (Clearing the header instead would cost a write for
    /// each object of a commit, a fifteenth of it.) Unsettled entries are few.
    fn is_own_block(&mut self, id: u16, unit: u16) -> Result<bool, Fail> {
        match self.image.locate_in(id, unit) {
            Ok(place) => {
                let taken = self.image.has_unit(&place, true)?;
                if taken || planted!("vnv-heap/former-block-believed") {
                    return Ok(true);
                }
                self.bitmap_lacks_unit()
            }
            Err(f) if f.is_damage() => Ok(false),
            Err(f) => Err(f),
        }
    }

    /// Whether the bitmap is damaged: a settled entry has a block with a free unit.
    #[cold]
    fn bitmap_lacks_unit(&mut self) -> Result<bool, Fail> {
        for id in 1..=self.image.geometry().objects {
            let e = self.image.entry(id)?;
            if e.is_settled()
                && let Ok(place) = self.image.locate_in(id, e.pending())
                && self.image.has_unit(&place, false)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
