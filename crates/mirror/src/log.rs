//! Which segments count, and which one is written next.
//!
//! ```text
//!            level
//! erased       0    this boot has erased it and not written it: does not count
//! unreadable   1    no header, or no marker: does not count
//! marked       2    its marker reads as written: the base image is complete
//! confirmed    3    marker and confirmation read as written: the marker is stable
//! ```
//!
//! Without unstable words a header is written last, so a segment is unreadable or confirmed.
//!
//! # Why it is safe on flash
//!
//! *Durable* is what a boot saved and no cut interrupted. It lies in a segment that this boot
//! completed, so all words of it are stable, and each later boot reads it as confirmed. A later
//! boot may find newer segments, whose writing was cut. Nothing outside has seen what is in them.
//! So a boot may use any segment that is not older than the durable one, but must not erase that
//! one.
//!
//! - A boot uses the newest segment that is at least marked, and whose base image is intact. If its
//!   marker was begun, its base image is complete and stable.
//! - Before it shows anything, it completes a segment of its own. So what it read from words that
//!   may be unstable does not matter to later boots. In this boot, records follow that segment.
//! - It never erases the newest segment that reads as confirmed. Of the others it takes one with
//!   the lowest level, and of those the oldest.
//! - It erases the other unreadable segments before the marker of its own. One of them may be torn
//!   so that this boot cannot see it, and have the same number.
//!
//! A cut in a confirmation may read as confirmed at one boot and not at the next. With words that
//! fall so each time, several such cuts in a row can lose the durable segment. The rule above was
//! searched against all such chains, with 2, 3 and 4 segments: with `n` segments, each chain of
//! `2 * n - 2` cuts without a completed save is survived. docs/failure-model/mirror.md says more.

use crate::format::MAX_SEGMENTS;
use core::ops::Range;
use nvmem::planted;
use nvmem::sequence::is_newer;

pub(crate) const ERASED: u8 = 0;
pub(crate) const UNREADABLE: u8 = 1;
pub(crate) const MARKED: u8 = 2;
pub(crate) const CONFIRMED: u8 = 3;

/// The level of all segments before their headers are read.
const ALL_UNREADABLE: u16 = 0x5555 * UNREADABLE as u16;

/// The segments, and where the next record goes.
#[derive(Debug)]
pub(crate) struct Log {
    pub start: u32,
    /// Bytes of a segment.
    pub segment: u32,
    pub count: u8,
    /// Two bits for each segment.
    levels: u16,
    numbers: [u32; MAX_SEGMENTS as usize],
    /// The highest number that was seen or given out, unless the medium is blank.
    highest: u32,
    blank: bool,
    /// See [`Log::tail`]. Apart from the flag, because an `Option` takes a word more.
    last_tail: Tail,
    open: bool,
    /// See [`Log::known`].
    known: Known,
    /// Another mirror has written the range.
    taken: bool,
    /// The check of the last record or base image that this mirror has written, or has tried to; 0
    /// for none.
    pub own_check: u32,
}

/// The end of the records of the open segment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    pub at: u32,
    /// The end of the segment.
    pub end: u32,
    /// The check of the last record.
    pub check: u32,
    /// Where this check lies.
    pub check_at: u32,
}

/// A check on the medium, where it lies; 0 for none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    pub at: u32,
    pub check: u32,
}

impl Log {
    pub(crate) fn new(start: u32, segment: u32, count: u8) -> Log {
        Log {
            start,
            segment,
            count,
            levels: ALL_UNREADABLE,
            numbers: [0; MAX_SEGMENTS as usize],
            highest: 0,
            blank: true,
            last_tail: Tail::default(),
            open: false,
            known: Known::default(),
            taken: false,
            own_check: 0,
        }
    }

    /// Where the next record goes; `None` if the next save begins a segment.
    pub(crate) fn tail(&self) -> Option<Tail> {
        self.open.then_some(self.last_tail)
    }

    /// The next record goes there. The last one stays as it is.
    pub(crate) fn continue_at(&mut self, tail: Tail) {
        (self.last_tail, self.open) = (tail, true);
        self.knows(tail);
    }

    /// A record of the newest segment that only another mirror changes: the last one; or the base
    /// image, if a cut may have left the last one. `None` if nothing is durable.
    pub(crate) fn known(&self) -> Option<Known> {
        (self.known.at != 0 && !self.blank).then_some(self.known)
    }

    /// Whether a record is of this mirror, or was left by the cut of a first save.
    pub(crate) fn is_own(&self, check: u32) -> bool {
        check == self.own_check || self.blank && check == self.known.check
    }

    /// The record that ends there stays as it is.
    pub(crate) fn knows(&mut self, tail: Tail) {
        let Tail {
            check, check_at, ..
        } = tail;
        self.known = Known {
            at: check_at,
            check,
        };
    }

    /// Where the records of the log end, also if the next save begins a segment. `None`: nobody
    /// knows.
    pub(crate) fn end(&self) -> Option<Tail> {
        if planted!("nv-mirror/other-record-unseen") {
            return None;
        }
        (self.last_tail.end != 0).then_some(self.last_tail)
    }

    /// The records of the log end there.
    pub(crate) fn ends_at(&mut self, end: Tail) {
        self.last_tail = end;
    }

    /// This mirror tries to write a segment: what was read before counts no longer. The check of a
    /// header is that of no record.
    pub(crate) fn tries(&mut self, check: u32) {
        if self.own_check == 0 {
            self.own_check = check;
        }
    }

    /// Whether another mirror has written the range.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Another mirror has written the range: no save goes there any more.
    pub(crate) fn take(&mut self) {
        self.open = false;
        self.taken = !planted!("nv-mirror/refused-once");
    }

    /// The next save begins a segment.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Treats the range as never saved. The caller makes sure that no segment counts. What this
    /// boot has erased stays so.
    pub(crate) fn forget(&mut self) {
        (self.blank, self.known) = (true, Known::default());
    }

    /// Where a segment lies.
    pub(crate) fn range(&self, s: u8) -> Range<u32> {
        let at = self.start + u32::from(s) * self.segment;
        at..at + self.segment
    }

    pub(crate) fn level(&self, s: u8) -> u8 {
        (self.levels >> (2 * s) & 3) as u8
    }

    pub(crate) fn set_level(&mut self, s: u8, level: u8) {
        self.levels = self.levels & !(3 << (2 * s)) | u16::from(level) << (2 * s);
    }

    pub(crate) fn number(&self, s: u8) -> u32 {
        self.numbers.get(usize::from(s)).copied().unwrap_or(0)
    }

    /// A header with this number was read or is being written.
    pub(crate) fn set(&mut self, s: u8, level: u8, number: u32) {
        self.set_level(s, level);
        if let Some(n) = self.numbers.get_mut(usize::from(s)) {
            *n = number;
        }
        if self.blank || is_newer(number, self.highest) {
            (self.highest, self.blank) = (number, false);
        }
    }

    /// Something lies in a segment. If it was erased, the save of another mirror has failed there:
    /// it is erased again.
    pub(crate) fn found_begun(&mut self, s: u8) {
        let is_erased = self.level(s) == ERASED;
        if is_erased && !planted!("nv-mirror/erased-stays-erased") {
            self.drop(s);
        }
    }

    /// Whether a segment has a number that is newer than that of the newest one, and did not count
    /// when this mirror was opened. The number is not used again.
    pub(crate) fn is_new(&mut self, s: u8, number: u32, newest: Option<u8>) -> bool {
        let unused = !self.blank && is_newer(number, self.highest);
        if unused && !planted!("nv-mirror/number-used-again") {
            self.highest = number;
        }
        let mut was_there = number == self.number(s) && self.own_check == 0;
        if self.blank && !planted!("nv-mirror/first-number-was-there") {
            // What nobody has saved does not count: its number may come again.
            was_there = false;
        }
        !was_there && newest.is_none_or(|n| is_newer(number, self.number(n)))
    }

    /// The segment does not count.
    pub(crate) fn drop(&mut self, s: u8) {
        self.set_level(s, UNREADABLE);
    }

    /// Whether no segment was found.
    pub(crate) fn is_blank(&self) -> bool {
        self.blank
    }

    pub(crate) fn next_number(&self) -> u32 {
        if self.blank {
            return 1;
        }
        self.highest.wrapping_add(1)
    }

    /// The newest segment of at least this level.
    pub(crate) fn newest(&self, level: u8) -> Option<u8> {
        let all = (0..self.count).filter(|s| self.level(*s) >= level);
        all.reduce(|a, b| {
            if is_newer(self.number(b), self.number(a)) {
                b
            } else {
                a
            }
        })
    }

    // INVARIANT "The durable segment stays": a boot erases the newest segment that reads as
    // confirmed only after it has completed a newer one.
    // Noticed by: log/tests.rs; planted `keeps-newest-marked`, `oldest-first`.

    /// The segment that the next save begins.
    pub(crate) fn target(&self) -> u8 {
        let last = self.count - 1;
        if self.is_blank() {
            // Data of others usually begins at the start of a range, so it stays recognisable.
            return last;
        }
        let durable = if planted!("nv-mirror/keeps-newest-marked") {
            self.newest(MARKED)
        } else {
            self.newest(CONFIRMED)
        };
        let others = (0..self.count).filter(|s| Some(*s) != durable);
        let best = others.reduce(|a, b| {
            let (la, lb) = (self.level(a), self.level(b));
            let better = if la != lb && !planted!("nv-mirror/oldest-first") {
                lb < la
            } else {
                lb >= MARKED && is_newer(self.number(a), self.number(b))
            };
            if better { b } else { a }
        });
        best.unwrap_or(last)
    }

    // INVARIANT "No unseen segment": when a segment begins to count, each other one was seen by
    // this boot, or erased by it: `Mirror::begin` asks here.
    // Noticed by: planted `unseen-not-erased`.

    /// Whether a segment is erased before the target begins to count. In a blank range, only the
    /// target is: if another erase were cut, a later boot could find other data, and no segment.
    pub(crate) fn is_erased_before(&self, s: u8, target: u8) -> bool {
        match self.level(s) {
            ERASED => false,
            UNREADABLE if s != target && planted!("nv-mirror/unseen-not-erased") => false,
            UNREADABLE => s == target || !self.is_blank(),
            _ => s == target,
        }
    }
}

#[cfg(test)]
mod tests;
