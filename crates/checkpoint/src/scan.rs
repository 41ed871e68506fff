//! What the slots hold, told from their ends: heads, trailers, marks.

use crate::layout::{Head, MARKS, TRAILER, mark, trailer};
use crate::read::Reader;
use crate::{Error, Images};
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

    /// What a slot holds. **Cost**: reads its head, its trailer and its marks.
    pub(crate) fn look(&mut self, slot: usize) -> Result<Slot, D::Error> {
        let mut head = Head::unread();
        let any = self.read_head(slot, &mut head)?;
        let mut found = Slot {
            rank: Rank::Torn,
            sequence: 0,
        };
        if !any {
            let bytes = head.bytes();
            if bytes.iter().all(|b| *b == bytes[0]) {
                found.rank = Rank::Blank;
            }
            return Ok(found);
        }
        (found.rank, found.sequence) = (Rank::Begun, head.sequence());
        let end = self.at(slot) + Self::SIZES.content(head.body());
        let own = u64::from_le_bytes(self.peek::<{ TRAILER as usize }>(end - TRAILER)?);
        if own != trailer(&head, own as u32) {
            return Ok(found);
        }
        found.rank = Rank::Complete;
        if !Self::SIZES.unstable {
            found.rank = Rank::Confirmed;
            return Ok(found);
        }
        for which in 0..MARKS {
            if self.peek(end + which * Self::SIZES.mark())? != mark((own >> 32) as u32, which) {
                break;
            }
            found.rank = if which == 0 {
                Rank::Sealed
            } else {
                Rank::Confirmed
            };
        }
        Ok(found)
    }

    pub(crate) fn rank(&self, slot: usize) -> Rank {
        self.slots.get(slot).map_or(Rank::Blank, |s| s.rank)
    }

    pub(crate) fn set(&mut self, slot: usize, rank: Rank, sequence: u32) {
        if let Some(s) = self.slots.get_mut(slot) {
            *s = Slot { rank, sequence };
        }
    }

    /// Looks at all slots anew.
    pub(crate) fn scan(&mut self) -> Result<(), Error<D::Error>> {
        for slot in 0..N {
            let found = self.look(slot).map_err(Error::Medium)?;
            self.set(slot, found.rank, found.sequence);
        }
        self.current = self.candidate();
        Ok(())
    }

    /// The image that counts: the latest of which it is certain that it was completed. When none is certain, nobody has ever
    /// acted upon any of those that are not, and the oldest of them was written before the others were begun.
    pub(crate) fn candidate(&self) -> Option<usize> {
        let mut best: Option<(usize, u32, bool)> = None;
        for (i, s) in self.slots.iter().enumerate() {
            if s.rank < Rank::Complete {
                continue;
            }
            // Where no word is unstable, all that is complete is certain.
            let certain = s.rank >= Rank::Sealed || !Self::SIZES.unstable;
            let better = best.is_none_or(|(_, than, was)| {
                certain && !was || certain == was && later(s.sequence, than) == certain
            });
            if better {
                best = Some((i, s.sequence, certain));
            }
        }
        best.map(|b| b.0)
    }

    /// The slot that the next image goes to: not the one that counts, nor the `spared` one; of the others the one that is the least likely to be needed.
    pub(crate) fn target(&self, spared: Option<usize>) -> usize {
        if planted!("checkpoint/overwrites-current") {
            return self.current.unwrap_or(0);
        }
        let mut best: Option<(usize, &Slot)> = None;
        for (i, s) in self.slots.iter().enumerate() {
            if self.current == Some(i) || spared == Some(i) {
                continue;
            }
            let better = best.is_none_or(|(_, b)| {
                s.rank < b.rank || s.rank == b.rank && later(b.sequence, s.sequence)
            });
            if better {
                best = Some((i, s));
            }
        }
        best.map_or(0, |b| b.0)
    }

    /// A sequence that is later than all that can be read.
    pub(crate) fn next_sequence(&self) -> u32 {
        let mut last = 0;
        let mut any = false;
        for s in self.slots.iter().filter(|s| s.rank >= Rank::Begun) {
            if !any || later(s.sequence, last) {
                (last, any) = (s.sequence, true);
            }
        }
        last.wrapping_add(1)
    }
}
