//! Scans the slots: how far each image was written, judged by head, trailer and commit marker.

use crate::Images;
use crate::layout::{Head, TRAILER, head_crc, marker_word, seed};
use crate::read::Reader;
use nvmem::device::Medium;
use nvmem::planted;

/// How far the writing of a slot's image got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// All bytes are the same: nothing was written since the erase.
    Blank,
    /// The head is invalid.
    Torn,
    /// The head is valid, and the trailer does not match it; or the image was rejected.
    Begun,
    /// Head and trailer match. On media with unstable words the trailer itself may be unstable.
    Complete,
    /// The commit marker matches, so all words before it are stable.
    Marked,
    /// The marker's confirmation matches, so the marker itself is stable.
    Confirmed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub rank: Rank,
    /// The head's sequence number; valid from [`Rank::Begun`] on.
    pub sequence: u32,
}

/// Whether sequence number `a` is later than `b`; they wrap.
pub(crate) fn later(a: u32, b: u32) -> bool {
    if planted!("checkpoint/sequence-does-not-wrap") {
        return a > b;
    }
    a.wrapping_sub(b).cast_signed() > 0
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// Reads bytes at any offset of the medium.
    pub(crate) fn peek<const K: usize>(&mut self, at: u32) -> Result<[u8; K], D::Error> {
        let mut out = [0; K];
        Reader { at }.read(&mut self.medium, &mut out)?;
        Ok(out)
    }

    /// Reads a slot's head. Returns whether it is valid.
    pub(crate) fn read_head(&mut self, slot: usize, head: &mut Head) -> Result<bool, D::Error> {
        let at = self.at(slot);
        Reader { at }.read(&mut self.medium, head.bytes_mut())?;
        Ok(head.is_valid() && self.fits(head.body()))
    }

    /// Whether an image with a body of this size fits in a slot.
    pub(crate) fn fits(&self, body: u32) -> bool {
        Self::SIZES
            .whole(body)
            .is_some_and(|whole| whole <= self.slot)
    }

    /// Reads a slot's head, trailer and marker, and notes its rank.
    fn scan_slot(&mut self, slot: usize) -> Result<(), D::Error> {
        let mut head = Head::unread();
        if !self.read_head(slot, &mut head)? {
            let bytes = head.bytes();
            let blank = bytes.iter().all(|b| Some(b) == bytes.first());
            self.set(slot, if blank { Rank::Blank } else { Rank::Torn }, 0);
            return Ok(());
        }
        let mut rank = Rank::Begun;
        let end = self.at(slot) + Self::SIZES.content(head.body());
        let own = u64::from_le_bytes(self.peek::<{ TRAILER as usize }>(end - TRAILER)?);
        let own_head_crc = head_crc(seed(&head), own as u32);
        if (own >> 32) as u32 == own_head_crc {
            rank = Rank::Confirmed;
            if Self::SIZES.unstable {
                rank = Rank::Complete;
                for (which, reached) in [(0, Rank::Marked), (1, Rank::Confirmed)] {
                    if self.peek(end + which * Self::SIZES.marker())?
                        != marker_word(own_head_crc, which)
                    {
                        break;
                    }
                    rank = reached;
                }
            }
        }
        self.set(slot, rank, head.sequence());
        Ok(())
    }

    pub(crate) fn rank(&self, slot: usize) -> Rank {
        self.slots.get(slot).map_or(Rank::Blank, |s| s.rank)
    }

    pub(crate) fn set(&mut self, slot: usize, rank: Rank, sequence: u32) {
        if let Some(s) = self.slots.get_mut(slot) {
            *s = Slot { rank, sequence };
        }
    }

    pub(crate) fn rank_as(&mut self, slot: usize, rank: Rank) {
        if let Some(s) = self.slots.get_mut(slot) {
            s.rank = rank;
        }
    }

    /// The number of slots that hold an incomplete image.
    pub(crate) fn unfinished(&self) -> u8 {
        let some = |s: &&Slot| matches!(s.rank, Rank::Torn | Rank::Begun | Rank::Complete);
        self.slots.iter().filter(some).count() as u8
    }

    /// Scans all slots.
    pub(crate) fn scan(&mut self) -> Result<(), D::Error> {
        for slot in 0..N {
            self.scan_slot(slot)?;
        }
        self.current = self.candidate();
        Ok(())
    }

    /// The image to restore: the newest with a commit marker. If none has one, no program ever ran
    /// on any of them. Then the oldest complete one is taken: it was written before the others were
    /// begun.
    pub(crate) fn candidate(&self) -> usize {
        let certain = pick(&self.slots, Rank::Marked, true);
        if Self::SIZES.unstable && certain == N {
            return pick(
                &self.slots,
                Rank::Complete,
                planted!("checkpoint/latest-unsure"),
            );
        }
        certain
    }

    /// The slot for the next image: never the current one, nor `spared`. Of the others, the one
    /// least likely to be needed.
    pub(crate) fn target(&self, spared: usize) -> usize {
        if planted!("checkpoint/overwrites-current") {
            return self.current % N;
        }
        stalest(&self.slots, self.current, spared)
    }

    /// A sequence number later than all readable ones.
    pub(crate) fn next_sequence(&self) -> u32 {
        let last = self.slots.get(pick(&self.slots, Rank::Begun, true));
        last.map_or(0, |s| s.sequence).wrapping_add(1)
    }
}

/// The slot with the latest (or oldest) image among those of at least this rank; `slots.len()` if
/// none.
#[inline(never)]
fn pick(slots: &[Slot], least: Rank, latest: bool) -> usize {
    let mut best = slots.len();
    for (i, s) in slots.iter().enumerate() {
        let than = slots.get(best);
        let better = |b: &Slot| later(s.sequence, b.sequence) == latest;
        if s.rank >= least && than.is_none_or(better) {
            best = i;
        }
    }
    best
}

/// The slot of the lowest rank, except `current` and `spared`; among equals, the one with the
/// oldest image.
#[inline(never)]
fn stalest(slots: &[Slot], current: usize, spared: usize) -> usize {
    let (mut best, mut than) = (0, None::<&Slot>);
    for (i, s) in slots.iter().enumerate() {
        let staler =
            |t: &Slot| s.rank < t.rank || s.rank == t.rank && later(t.sequence, s.sequence);
        if i != current && i != spared && than.is_none_or(staler) {
            (best, than) = (i, Some(s));
        }
    }
    best
}
