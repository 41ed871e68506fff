//! Writes an image: head, body, trailer, commit marker, confirmation, in this order.

use crate::layout::{
    HEAD, Head, MARKER_WORDS, PieceBuf, ZERO, head_crc, marker_word, seed, sum, trailer,
};
use crate::memory::Memory;
use crate::mode::Mode;
use crate::pieces::{Differ, ImageRange, Pieces};
use crate::read::Reader;
use crate::scan::Rank;
use crate::{Error, Images};
use nvmem::crc::Crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// The source of an image's head and body.
pub(crate) trait Source<D: Medium> {
    /// Sends head and body in order; each call sends the same bytes.
    fn send(&mut self, to: &mut impl Sink<D>) -> Result<(), D::Error>;
    /// Whether the bytes sent are intact; asked at the end.
    fn sound(&self) -> bool {
        true
    }
}

/// A new image: its head, then each extent's offset and size, followed by its bytes.
pub(crate) struct FromMemory<'a, 'm, A> {
    pub head: &'a Head,
    pub memory: &'a Memory<'m>,
    pub mode: &'a A,
}

impl<D: Medium, A: Mode> Source<D> for FromMemory<'_, '_, A> {
    fn send(&mut self, to: &mut impl Sink<D>) -> Result<(), D::Error> {
        to.put(self.head.bytes())?;
        for e in self.mode.extents(self.memory) {
            let zero = if e.zero { ZERO } else { 0 };
            let header = u64::from(e.at) | u64::from(e.len | zero) << 32;
            to.put(&header.to_le_bytes())?;
            let n = e.written();
            if let Some(from) = self.memory.locate(e.at, n) {
                // SAFETY: *In one segment*: `from` has `n` bytes. *Segments are memory*: they are
                // initialised, and nothing writes to them while they are saved.
                to.put(unsafe { core::slice::from_raw_parts(from, n as usize) })?;
            }
        }
        Ok(())
    }
}

/// A copy of an existing image, under another head.
pub(crate) struct FromSlot<'a> {
    pub head: &'a Head,
    /// The offset of its body.
    pub at: u32,
    /// The checksum of the existing head, and of all bytes read so far.
    pub seed: Crc32,
    pub crc: Crc32,
    /// The checksum from the trailer.
    pub expected: u32,
}

impl<D: Medium> Source<D> for FromSlot<'_> {
    fn send(&mut self, to: &mut impl Sink<D>) -> Result<(), D::Error> {
        self.crc = self.seed;
        to.put(self.head.bytes())?;
        let mut from = Reader { at: self.at };
        let mut left = self.head.body();
        while left > 0 {
            let mut buf = PieceBuf::new();
            let piece = buf.piece(left);
            from.read(to.medium(), piece)?;
            self.crc = sum(self.crc, piece);
            left -= piece.len() as u32;
            to.put(piece)?;
        }
        Ok(())
    }

    /// The bytes may read differently now than when the image was checked.
    fn sound(&self) -> bool {
        self.crc.finish() == self.expected || planted!("checkpoint/copy-unchecked")
    }
}

/// The destination of an image.
pub(crate) trait Sink<D: Medium> {
    fn medium(&mut self) -> &mut D;
    /// Takes the next bytes of head or body.
    fn put(&mut self, bytes: &[u8]) -> Result<(), D::Error>;
    /// The checksum of the bytes put, if their number is the one announced.
    fn crc(&self) -> Option<u32>;
    /// Takes the trailer, after head and body.
    fn finish(&mut self, trailer: &[u8]) -> Result<(), D::Error>;
}

/// Writes bytes as they come, for a medium without program words and erases.
struct PlainSink<'d, D> {
    medium: &'d mut D,
    at: u32,
    /// Where head and body end. Bytes beyond it are dropped: they would reach the next slot.
    end: u32,
    crc: Crc32,
}

impl<D: Medium> Sink<D> for PlainSink<'_, D> {
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

/// Sends an image without its marker to a sink. Returns the CRC that the marker is made of.
fn write_image<D: Medium>(
    source: &mut impl Source<D>,
    seed: Crc32,
    to: &mut impl Sink<D>,
) -> Result<Option<u32>, D::Error> {
    source.send(to)?;
    let Some(crc) = to.crc().filter(|_| source.sound()) else {
        return Ok(None);
    };
    let head_crc = head_crc(seed, crc);
    to.finish(&trailer(crc, head_crc))?;
    Ok(Some(head_crc))
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// Deletes a slot's image by destroying its head.
    pub(crate) fn clear(&mut self, slot: usize) -> Result<(), D::Error> {
        let at = self.at(slot);
        self.set(slot, Rank::Torn, 0);
        if Self::SIZES.erases {
            self.medium.erase(at, at + Self::SIZES.unit)?;
        } else {
            // The word that holds the magic number.
            let len = 4u32.next_multiple_of(Self::SIZES.word);
            self.medium.write(at, PieceBuf::new().piece(len))?;
        }
        if planted!("checkpoint/no-flush-after-delete") {
            return Ok(());
        }
        self.medium.flush()
    }

    /// Writes an image to a slot. Until it is valid, the slot counts as empty.
    pub(crate) fn write<M: Mode, S: Source<D>>(
        &mut self,
        slot: usize,
        head: &Head,
        source: S,
    ) -> Result<(), Error<D::Error>> {
        // A unit that compares equal is not rewritten, so it must be stable. Only the confirmation
        // proves that: a cut attempt may have left a torn unit below the trailer of an earlier
        // attempt.
        let mut least = Rank::Confirmed;
        if planted!("checkpoint/compares-with-one-mark") {
            least = Rank::Marked;
        }
        if planted!("checkpoint/compares-unmarked") {
            least = Rank::Complete;
        }
        let stable = self.rank(slot) >= least
            || !Self::SIZES.unstable
            || planted!("checkpoint/compares-what-was-cut");
        self.set(slot, Rank::Begun, head.sequence());
        let sound = self.write_content::<M, S>(self.at(slot), head, source, stable);
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
        let whole = end + MARKER_WORDS * sizes.marker();
        let seed = seed(head);
        let medium = &mut self.medium;
        let head_crc = if sizes.writes_plain::<M>() {
            let mut sink = PlainSink {
                medium,
                at: base,
                end: base + body_end,
                crc: Crc32::new(),
            };
            write_image(&mut source, seed, &mut sink)?
        } else {
            let (mut room, mut differ) = (PieceBuf::new(), Differ::default());
            let range = ImageRange {
                base,
                body_end,
                end,
            };
            let mut pieces = Pieces::<D, M>::new(medium, range, compare, &mut room, &mut differ);
            let head_crc = pieces.run_passes(|to| write_image(&mut source, seed, to))?;
            if head_crc.is_some() {
                pieces.erase_tail(whole)?;
            }
            head_crc
        };
        let Some(head_crc) = head_crc else {
            return Ok(false);
        };
        for which in 0..MARKER_WORDS {
            if sizes.unstable {
                let mut buf = PieceBuf::new();
                let word = buf.piece(sizes.marker());
                let m = marker_word(head_crc, which);
                word.iter_mut()
                    .zip(m.iter().cycle())
                    .for_each(|(to, b)| *to = *b);
                self.medium
                    .write(base + end + which * sizes.marker(), word)?;
            }
        }
        if !planted!("checkpoint/no-flush-at-end") {
            self.medium.flush()?;
        }
        Ok(true)
    }
}
