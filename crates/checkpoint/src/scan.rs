//! What the slots hold, told from their ends: heads, trailers, marks.

use crate::layout::{HEAD, Head, MARKS, TRAILER, mark, seal};
use crate::read::Reader;
use crate::{Error, Images};
use nvmem::device::Medium;
use nvmem::planted;

/// How far a slot's image was brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Nothing was ever written here.
    Blank,
    /// No head that can be read, or no trailer that is its own.
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
    /// That of the head, if there is one.
    pub sequence: Option<u32>,
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

    pub(crate) fn head(&mut self, slot: usize) -> Result<Option<Head>, D::Error> {
        let bytes = self.peek(self.at(slot))?;
        Ok(Head::decode(&bytes).filter(|h| self.fits(h.body)))
    }

    /// Whether an image with such a body has room in a slot.
    pub(crate) fn fits(&self, body: u32) -> bool {
        Self::SIZES
            .whole(body)
            .is_some_and(|whole| whole <= self.slot)
    }

    /// What a slot holds. **Cost**: reads its head, its trailer and its marks.
    pub(crate) fn look(&mut self, slot: usize) -> Result<Slot, D::Error> {
        let at = self.at(slot);
        let bytes: [u8; HEAD as usize] = self.peek(at)?;
        let mut found = Slot {
            rank: Rank::Begun,
            sequence: None,
        };
        let Some(head) = Head::decode(&bytes).filter(|h| self.fits(h.body)) else {
            if bytes.iter().all(|b| *b == bytes[0]) {
                found.rank = Rank::Blank;
            }
            return Ok(found);
        };
        found.sequence = Some(head.sequence);
        let end = at + Self::SIZES.content(head.body);
        let trailer: [u8; TRAILER as usize] = self.peek(end - TRAILER)?;
        let (crc, own) = trailer.split_at(4);
        let crc = u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]);
        let seal = seal(&bytes, crc);
        if own != seal.to_le_bytes() {
            return Ok(found);
        }
        found.rank = Rank::Complete;
        if !Self::SIZES.unstable {
            found.rank = Rank::Confirmed;
            return Ok(found);
        }
        for which in 0..MARKS {
            if self.peek(end + which * Self::SIZES.mark())? != mark(seal, which) {
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

    pub(crate) fn set(&mut self, slot: usize, rank: Rank, sequence: Option<u32>) {
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
        let latest = self.best(|s| s.rank >= Rank::Sealed, later);
        let none = |a, b| later(b, a);
        latest.or_else(|| self.best(|s| s.rank == Rank::Complete, none))
    }

    fn best(&self, which: fn(&Slot) -> bool, better: fn(u32, u32) -> bool) -> Option<usize> {
        let mut best: Option<(usize, u32)> = None;
        for (i, s) in self.slots.iter().enumerate() {
            if let Some(sequence) = s.sequence
                && which(s)
                && best.is_none_or(|b| better(sequence, b.1))
            {
                best = Some((i, sequence));
            }
        }
        best.map(|b| b.0)
    }

    /// The slot that the next image goes to: not the one that counts; of the others the one that is the least likely to be needed.
    pub(crate) fn target(&self) -> usize {
        if planted!("checkpoint/overwrites-current") {
            return self.current.unwrap_or(0);
        }
        let mut best: Option<(usize, &Slot)> = None;
        for (i, s) in self.slots.iter().enumerate() {
            if self.current == Some(i) {
                continue;
            }
            let better = best.is_none_or(|(_, b)| {
                let older = matches!((s.sequence, b.sequence), (Some(s), Some(b)) if later(b, s));
                s.rank < b.rank || s.rank == b.rank && older
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
        for s in &self.slots {
            if let Some(s) = s.sequence
                && (!any || later(s, last))
            {
                (last, any) = (s, true);
            }
        }
        last.wrapping_add(1)
    }
}
