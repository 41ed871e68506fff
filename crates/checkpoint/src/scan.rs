//! What the slots hold, told from their ends: heads, trailers, marks.

use crate::Images;
use crate::layout::{Head, TRAILER, mark, seal, seed};
use crate::read::Reader;
use nvmem::device::Medium;
use nvmem::planted;

/// How far a slot's image was brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Nothing was ever written here.
    Blank,
    /// No head that can be read.
    Torn,
    /// A head, and no trailer that is its own; or one that cannot be restored.
    Begun,
    /// Head and trailer. Where words may be unstable, one of them may have been the last that was written.
    Complete,
    /// The first mark, too: what is before it is stable.
    Sealed,
    /// The second mark, too: so is the first.
    Confirmed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub rank: Rank,
    /// That of the head, if there is one: from [`Rank::Begun`] on.
    pub sequence: u32,
}

/// Whether `a` is later than `b`; sequences wrap.
pub(crate) fn later(a: u32, b: u32) -> bool {
    if planted!("checkpoint/sequence-does-not-wrap") {
        return a > b;
    }
    a.wrapping_sub(b).cast_signed() > 0
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// Bytes anywhere in the medium.
    pub(crate) fn peek<const K: usize>(&mut self, at: u32) -> Result<[u8; K], D::Error> {
        let mut out = [0; K];
        Reader { at }.read(&mut self.medium, &mut out)?;
        Ok(out)
    }

    /// Reads a slot's head; whether there is one.
    pub(crate) fn read_head(&mut self, slot: usize, head: &mut Head) -> Result<bool, D::Error> {
        let at = self.at(slot);
        Reader { at }.read(&mut self.medium, head.bytes_mut())?;
        Ok(head.is_one() && self.fits(head.body()))
    }

    /// Whether an image with such a body has room in a slot.
    pub(crate) fn fits(&self, body: u32) -> bool {
        Self::SIZES
            .whole(body)
            .is_some_and(|whole| whole <= self.slot)
    }

    /// Looks at a slot: reads its head, its trailer and its marks.
    fn look(&mut self, slot: usize) -> Result<(), D::Error> {
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
        let own_seal = seal(seed(&head), own as u32);
        if (own >> 32) as u32 == own_seal {
            rank = Rank::Confirmed;
            if Self::SIZES.unstable {
                rank = Rank::Complete;
                for (which, further) in [(0, Rank::Sealed), (1, Rank::Confirmed)] {
                    if self.peek(end + which * Self::SIZES.mark())? != mark(own_seal, which) {
                        break;
                    }
                    rank = further;
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

    /// Slots that hold something, and no image.
    pub(crate) fn unfinished(&self) -> u8 {
        let some = |s: &&Slot| matches!(s.rank, Rank::Torn | Rank::Begun | Rank::Complete);
        self.slots.iter().filter(some).count() as u8
    }

    /// Looks at all slots anew.
    pub(crate) fn scan(&mut self) -> Result<(), D::Error> {
        for slot in 0..N {
            self.look(slot)?;
        }
        self.current = self.candidate();
        Ok(())
    }

    /// The image that counts: the latest of which it is certain that it was completed. When none is certain, nobody has ever
    /// acted upon any of those that are not, and the oldest of them was written before the others were begun.
    pub(crate) fn candidate(&self) -> usize {
        let certain = pick(&self.slots, Rank::Sealed, true);
        if Self::SIZES.unstable && certain == N {
            return pick(
                &self.slots,
                Rank::Complete,
                planted!("checkpoint/latest-unsure"),
            );
        }
        certain
    }

    /// The slot that the next image goes to: not the one that counts, nor the `spared` one; of the others the one that is the least likely to be needed.
    pub(crate) fn target(&self, spared: usize) -> usize {
        if planted!("checkpoint/overwrites-current") {
            return self.current % N;
        }
        stalest(&self.slots, self.current, spared)
    }

    /// A sequence that is later than all that can be read.
    pub(crate) fn next_sequence(&self) -> u32 {
        let last = self.slots.get(pick(&self.slots, Rank::Begun, true));
        last.map_or(0, |s| s.sequence).wrapping_add(1)
    }
}

/// Of the slots that were brought so far the one with the latest image, or the oldest; how many there are, if none was.
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

/// Of the slots but two the one that was brought the least far, and of those the one with the oldest image.
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
