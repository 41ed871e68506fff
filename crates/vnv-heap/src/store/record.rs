//! The record that decides which state counts, and the pin records.
//!
//! ```text
//!  slot = sequence number mod 2      the newest valid record counts (wrapping comparison)
//!  +----------+------------+----------+--------+
//!  | seq 32   | state 16   | pins 16  | crc 32 |    state: running, persisted, committed
//!  +----------+------------+----------+--------+
//!  order of stores:  everything before -> flush -> record -> flush -> everything after
//! ```
//!
//! Why it is safe: a torn record has a wrong checksum, and the other slot still holds the previous
//! record. A record that was complete and then lost a bit looks similar; `judge_broken` tells the
//! two apart or refuses.

use super::geometry::{APPLIED, RECORD_STRIDE, RECORDS};
use super::{Fail, Store};
use crate::error::Word;
use crate::plain::as_bytes;
use crate::promise::Promise;
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
        let intact =
            (RUNNING.into()..=COMMITTED.into()).contains(&state) && check(seq, second) == crc;
        (intact || planted!("vnv-heap/record-unchecked")).then_some(Record {
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

/// A pin record: the object's number, the unit of its frame, its length, and its pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pin {
    pub(crate) id: u16,
    pub(crate) at: u16,
    pub(crate) len: u16,
    pub(crate) pins: u16,
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// Reads the newest valid record and continues from it. Returns its state, 0 if there is none.
    pub(super) fn find_record(&mut self) -> Result<Word, Fail> {
        let mut state = 0;
        let mut broken = None;
        for i in 0..2 {
            let mut words = [0; 3];
            self.get(RECORDS + i * RECORD_STRIDE, as_bytes(&mut words))?;
            match Record::of_words(&words) {
                Some(r) if state == 0 || r.is_later_than(self.seq) => {
                    (self.seq, self.pinned, state) = (r.seq, r.pins, r.state.into());
                }
                Some(_) => {}
                None => broken = Some(words),
            }
        }
        match broken {
            Some(words) if state != 0 && !planted!("vnv-heap/damaged-record-forgotten") => {
                self.judge_broken(&words, state)
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
    fn judge_broken(&mut self, words: &Words, state: Word) -> Result<Word, Fail> {
        let next = self.seq.wrapping_add(1);
        let (new_state, most) = match state as u8 {
            COMMITTED => (COMMITTED, 0),
            // Another persist may have come before, with any number of pins.
            PERSISTED => (RUNNING, self.geometry.pins() + 1),
            _ => return Ok(state),
        };
        let byte = |words: &Words, i: usize| words[i / 4].to_ne_bytes()[i % 4];
        let record = |seq, state, pins| Record { seq, state, pins }.words();
        let new = record(next, new_state, 0);
        let not_new = (0..12)
            .filter(|i| byte(words, *i) != byte(&new, *i))
            .count();
        if P::SNAPSHOT && not_new <= 1 {
            self.put_record_of(next, COMMITTED, 0)?;
            return Ok(state);
        }
        let mut odd = 12;
        for n in 0..=most {
            let old = match n {
                0 if next == 1 => [0; 3],
                0 => record(next.wrapping_sub(2), new_state, 0),
                n => record(next.wrapping_sub(2), PERSISTED, n - 1),
            };
            let (mut neither, mut begun) = (0, false);
            for i in 0..12 {
                let (b, new, old) = (byte(words, i), byte(&new, i), byte(&old, i));
                // On a medium that tears after a prefix, no new byte follows an old one.
                let is_new = b == new && !(begun && S::CONTRACT.torn == Torn::Prefix);
                begun |= b != new;
                neither += u8::from(!is_new && b != old);
            }
            odd = odd.min(neither);
        }
        match odd {
            0 => Ok(state),
            _ if not_new <= 1 => Ok(new_state.into()),
            1 => Ok(state),
            _ => Err(Fail::RECORD),
        }
    }

    /// Writes the next record: after everything that was written before, and before everything that
    /// follows.
    #[inline(always)]
    pub(super) fn put_record(&mut self, state: u8, pins: u16) -> Result<(), Fail> {
        self.put_record_of(self.seq.wrapping_add(1), state, pins)
    }

    /// The same with this sequence number.
    #[inline(never)]
    pub(super) fn put_record_of(&mut self, seq: u32, state: u8, pins: u16) -> Result<(), Fail> {
        let r = Record { seq, state, pins };
        let slot = if planted!("vnv-heap/record-overwrites") {
            0
        } else {
            seq
        };
        if !planted!("vnv-heap/no-flush-before-record") {
            self.flush()?;
        }
        self.put(
            RECORDS + (slot % 2) * RECORD_STRIDE,
            as_bytes(&mut r.words()),
        )?;
        if !planted!("vnv-heap/no-flush-after-record") {
            self.flush()?;
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
        let at = self.geometry.pin(i).ok_or(Fail::FULL)?;
        let mut b = [0; 8];
        for (to, v) in b
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip([pin.id, pin.at, pin.len, pin.pins])
        {
            *to = v.to_le_bytes();
        }
        self.put(at, &b)
    }

    /// The `i`-th pin record of the last persist.
    pub(crate) fn read_pin(&mut self, i: u16) -> Result<Pin, Fail> {
        let at = self.geometry.pin(i).ok_or(Fail::FULL)?;
        let mut b = [0; 8];
        self.get(at, &mut b)?;
        let [i0, i1, a0, a1, l0, l1, p0, p1] = b;
        Ok(Pin {
            id: u16::from_le_bytes([i0, i1]),
            at: u16::from_le_bytes([a0, a1]),
            len: u16::from_le_bytes([l0, l1]),
            pins: u16::from_le_bytes([p0, p1]),
        })
    }

    /// The most pins that can be recorded.
    pub(crate) fn max_pins(&self) -> u16 {
        self.geometry.pins()
    }

    /// The most bytes that one call writes.
    #[inline(always)]
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
        self.get(APPLIED, &mut b)?;
        Ok(u32::from_le_bytes(b))
    }

    /// Writes the applied word: the table shows the last commit completely.
    pub(super) fn put_applied(&mut self) -> Result<(), Fail> {
        if !planted!("vnv-heap/no-flush-before-applied") {
            self.flush()?;
        }
        self.put(APPLIED, &applied_word(self.seq).to_le_bytes())?;
        self.flush()
    }
}
