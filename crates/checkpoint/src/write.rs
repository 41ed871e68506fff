//! How an image is written: head, body, trailer, marks, in this order.

use crate::layout::{HEAD, Head, MARKS, Room, ZERO, mark, seal, seed, sum, trailer};
use crate::memory::Memory;
use crate::mode::Mode;
use crate::pieces::{Differ, Pieces, Place};
use crate::read::Reader;
use crate::scan::Rank;
use crate::{Error, Images};
use nvmem::crc::Crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// Where head and body of an image come from.
pub(crate) trait Source<D: Medium> {
    /// Gives all of them in order; asked again, the same.
    fn pour(&mut self, to: &mut impl Sink<D>) -> Result<(), D::Error>;
    /// Whether what was read is what it should be; asked at the end.
    fn sound(&self) -> bool {
        true
    }
}

/// A new image: its head, and each extent's place and size before its bytes.
pub(crate) struct FromMemory<'a, 'm, A> {
    pub head: &'a Head,
    pub memory: &'a Memory<'m>,
    pub mode: &'a A,
}

impl<D: Medium, A: Mode> Source<D> for FromMemory<'_, '_, A> {
    fn pour(&mut self, to: &mut impl Sink<D>) -> Result<(), D::Error> {
        to.put(self.head.bytes())?;
        for e in self.mode.extents(self.memory) {
            let zero = if e.zero { ZERO } else { 0 };
            let told = u64::from(e.at) | u64::from(e.len | zero) << 32;
            to.put(&told.to_le_bytes())?;
            let n = e.written();
            if let Some(from) = self.memory.locate(e.at, n) {
                // SAFETY: *In one segment*; *Segments are memory*: initialised, and nobody writes to it while it is saved.
                to.put(unsafe { core::slice::from_raw_parts(from, n as usize) })?;
            }
        }
        Ok(())
    }
}

/// An image that is there already, under another head.
pub(crate) struct FromSlot<'a> {
    pub head: &'a Head,
    /// Where its body is.
    pub at: u32,
    /// Of the head that is there, and of all that was read.
    pub seed: Crc32,
    pub crc: Crc32,
    /// What it should then be.
    pub expected: u32,
}

impl<D: Medium> Source<D> for FromSlot<'_> {
    fn pour(&mut self, to: &mut impl Sink<D>) -> Result<(), D::Error> {
        self.crc = self.seed;
        to.put(self.head.bytes())?;
        let mut from = Reader { at: self.at };
        let mut left = self.head.body();
        while left > 0 {
            let mut buf = Room::new();
            let piece = buf.piece(left);
            from.read(to.medium(), piece)?;
            self.crc = sum(self.crc, piece);
            left -= piece.len() as u32;
            to.put(piece)?;
        }
        Ok(())
    }

    /// What was read when the image was judged may have read differently now.
    fn sound(&self) -> bool {
        self.crc.finish() == self.expected || planted!("checkpoint/copy-unchecked")
    }
}

/// Where an image goes.
pub(crate) trait Sink<D: Medium> {
    fn medium(&mut self) -> &mut D;
    /// Takes the next bytes of head or body.
    fn put(&mut self, bytes: &[u8]) -> Result<(), D::Error>;
    /// The checksum of what was put, if that was as much as was announced.
    fn crc(&self) -> Option<u32>;
    /// Takes what makes an image of it, after all else is there.
    fn finish(&mut self, trailer: &[u8]) -> Result<(), D::Error>;
}

/// To a medium without words and erases, as it comes.
struct Plain<'d, D> {
    medium: &'d mut D,
    at: u32,
    /// Where head and body end. What a mode then still has is not written: it would be another slot's place.
    end: u32,
    crc: Crc32,
}

impl<D: Medium> Sink<D> for Plain<'_, D> {
    fn medium(&mut self) -> &mut D {
        self.medium
    }

    #[inline(never)]
    fn put(&mut self, bytes: &[u8]) -> Result<(), D::Error> {
        self.crc = sum(self.crc, bytes);
        let at = self.at;
        self.at = at.saturating_add(bytes.len() as u32);
        if self.at > self.end && !planted!("checkpoint/past-the-end") {
            return Ok(());
        }
        self.medium.write(at, bytes)
    }

    fn crc(&self) -> Option<u32> {
        (self.at == self.end).then_some(self.crc.finish())
    }

    fn finish(&mut self, trailer: &[u8]) -> Result<(), D::Error> {
        if !planted!("checkpoint/no-flush-before-trailer") {
            self.medium.flush()?;
        }
        self.medium.write(self.end, trailer)
    }
}

/// Gives an image but for its marks to a sink. Its seal, if it is one.
fn image<D: Medium>(
    source: &mut impl Source<D>,
    seed: Crc32,
    to: &mut impl Sink<D>,
) -> Result<Option<u32>, D::Error> {
    source.pour(to)?;
    let Some(crc) = to.crc().filter(|_| source.sound()) else {
        return Ok(None);
    };
    let seal = seal(seed, crc);
    to.finish(&trailer(crc, seal))?;
    Ok(Some(seal))
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// Makes a slot hold no image: its head goes.
    pub(crate) fn clear(&mut self, slot: usize) -> Result<(), D::Error> {
        let at = self.at(slot);
        self.set(slot, Rank::Torn, 0);
        if Self::SIZES.erases {
            self.medium.erase(at, at + Self::SIZES.unit)?;
        } else {
            // The magic number and what shares its word.
            let len = 4u32.next_multiple_of(Self::SIZES.word);
            self.medium.write(at, Room::new().piece(len))?;
        }
        if planted!("checkpoint/no-flush-after-delete") {
            return Ok(());
        }
        self.medium.flush()
    }

    /// Writes an image to a slot. Until it is whole, the slot counts as one that holds none.
    pub(crate) fn write<M: Mode, S: Source<D>>(
        &mut self,
        slot: usize,
        head: &Head,
        source: S,
    ) -> Result<(), Error<D::Error>> {
        // A unit that is compared and not written must be stable. Only the second mark proves that: an
        // attempt that was cut may have left a torn unit below the trailer of an earlier attempt.
        let mut least = Rank::Confirmed;
        if planted!("checkpoint/compares-with-one-mark") {
            least = Rank::Sealed;
        }
        if planted!("checkpoint/compares-unmarked") {
            least = Rank::Complete;
        }
        let known = self.rank(slot) >= least
            || !Self::SIZES.unstable
            || planted!("checkpoint/compares-what-was-cut");
        self.set(slot, Rank::Begun, head.sequence());
        let sound = self.write_content::<M, S>(self.at(slot), head, source, known);
        if !sound.map_err(Error::Medium)? {
            return Err(Error::Damaged);
        }
        self.rank_as(slot, Rank::Confirmed);
        self.current = slot;
        Ok(())
    }

    fn write_content<M: Mode, S: Source<D>>(
        &mut self,
        base: u32,
        head: &Head,
        mut source: S,
        compare: bool,
    ) -> Result<bool, D::Error> {
        let sizes = Self::SIZES;
        let body_end = HEAD + head.body();
        let end = sizes.content(head.body());
        let whole = end + MARKS * sizes.mark();
        let seed = seed(head);
        let medium = &mut self.medium;
        let seal = if sizes.as_it_is::<M>() {
            let mut plain = Plain {
                medium,
                at: base,
                end: base + body_end,
                crc: Crc32::new(),
            };
            image(&mut source, seed, &mut plain)?
        } else {
            let (mut room, mut differ) = (Room::new(), Differ::default());
            let place = Place {
                base,
                body_end,
                end,
            };
            let mut pieces = Pieces::<D, M>::new(medium, place, compare, &mut room, &mut differ);
            let seal = pieces.each(|to| image(&mut source, seed, to))?;
            if seal.is_some() {
                pieces.erase_rest(whole)?;
            }
            seal
        };
        let Some(seal) = seal else {
            return Ok(false);
        };
        for which in 0..MARKS {
            if sizes.unstable {
                let mut buf = Room::new();
                let word = buf.piece(sizes.mark());
                let m = mark(seal, which);
                word.iter_mut()
                    .zip(m.iter().cycle())
                    .for_each(|(to, b)| *to = *b);
                self.medium.write(base + end + which * sizes.mark(), word)?;
            }
        }
        if !planted!("checkpoint/no-flush-at-end") {
            self.medium.flush()?;
        }
        Ok(true)
    }
}
