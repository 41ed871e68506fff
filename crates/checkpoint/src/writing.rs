//! Writes an image to a slot: head, body, trailer, commit marker, confirmation, in this order.
//!
//! A medium without program words and erases gets the bytes as they come. For all others they are
//! collected into pieces of whole words:
//!
//! ```text
//!  bytes from the source:  h h h h e e e e b b b b b b b b b t t t t
//!                          |<--- piece --->|<--- piece --->|<-last->|
//!                                                          ^ flush before the last words
//! ```
//!
//! On a medium with erases, a comparing mode must know a whole unit before it erases it, and has no
//! room for one. So it makes two passes for each 256 erase units. Pass 1 reads the slot and sets a
//! bit for each unit that differs. Pass 2 erases and writes those units. Both passes must see the
//! same image, or the checkpoint fails: otherwise a unit might be skipped whose new content was
//! never compared.
//!
//! Why this is safe: the trailer is written after all before it, so a cut leaves a slot whose
//! trailer does not match its head. The marker is written after the trailer.

use crate::format::{
    HEAD, Head, MARKER_WORDS, PIECE, PieceBuf, Sizes, TRAILER, ZERO, copy, head_crc, seed, sum,
    trailer,
};
use crate::images::Rank;
use crate::memory::Memory;
use crate::mode::Mode;
use crate::{Error, Images};
use core::marker::PhantomData;
use nvmem::crc::Crc32;
use nvmem::device::Medium;
use nvmem::marker::{self, Marker};
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
        let mut at = self.at;
        let mut left = self.head.body();
        while left > 0 {
            let mut buf = PieceBuf::new();
            let piece = buf.piece(left);
            marker::read(to.medium(), at, piece)?;
            at += piece.len() as u32;
            self.crc = sum(self.crc, piece);
            left -= piece.len() as u32;
            to.put(piece)?;
        }
        Ok(())
    }

    /// The bytes may read differently now than when the image was checked.
    fn sound(&self) -> bool {
        if planted!("checkpoint/copy-unchecked") {
            return true;
        }
        self.crc.finish() == self.expected
    }
}

// INVARIANT "Inside of its slot": nothing is written behind the length that a head announces, even
// if a mode then gives more bytes: `end` of `PlainSink` and of the range of `Pieces`.
// Noticed by: `a_mode_that_changes_its_mind` and `.._in_between` in tests/suite/images.rs; planted
// `past-the-end`, `looks-at-another`.
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

// INVARIANT "Whole before it is a trailer": if a trailer matches its head, everything that it
// covers is on the medium: the trailer has words of its own, which are written after a flush.
// Noticed by: planted `no-flush-before-trailer` in tests/suite/crash/media.rs.
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
        // Before the flush the head may still be there after a cut.
        self.rank_as(slot, Rank::Writing);
        if Self::SIZES.erases {
            self.medium.erase(at, at + Self::SIZES.unit)?;
        } else {
            // All of it: one word of the next head must not bring this one back.
            let len = HEAD.next_multiple_of(Self::SIZES.word);
            self.medium.write(at, PieceBuf::new().piece(len))?;
        }
        if !planted!("checkpoint/no-flush-after-delete") {
            self.medium.flush()?;
        }
        self.set(slot, Rank::Torn, 0);
        Ok(())
    }

    // INVARIANT "Only what is stable is compared": where words may be torn, a unit that is left
    // unchanged was written by a checkpoint whose marker's confirmation can be read. The trailer is
    // not enough, nor is the marker. Suppose a checkpoint is cut in its marker, and the next boot
    // in the erase of its first unit: the sequence number is forgotten and given again. If memory
    // and context are the same, the new head is the old one. That attempt is cut in the erase of a
    // unit in the middle. Now the slot has a right head, an old trailer that fits it, perhaps a
    // marker, and a torn unit that may read as before. With the confirmation this cannot happen:
    // the image had a marker at every later boot, so its slot was overwritten only when an image
    // with a higher sequence number was stable.
    // Noticed by: tests/suite/histories.rs; planted `compares-with-one-mark`, `compares-unmarked`,
    // `compares-what-was-cut`.
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
        if planted!("checkpoint/compares-what-was-cut") {
            least = Rank::Blank;
        }
        let stable = !Self::SIZES.unstable || self.rank(slot) >= least;
        let mut until_it_is_whole = Rank::Writing;
        if planted!("checkpoint/failed-image-overwritten") {
            until_it_is_whole = Rank::Begun;
        }
        self.set(slot, until_it_is_whole, head.sequence());
        let sound = self.write_content::<M, S>(self.at(slot), head, source, stable);
        if !sound.map_err(Error::Medium)? {
            return Err(Error::Damaged);
        }
        self.rank_as(slot, Rank::Confirmed);
        self.current = slot;
        Ok(())
    }

    // INVARIANT "Returned means persisted": where stores persist in any order, a flush comes after
    // the last write of each checkpoint, rollback and deletion. `clear` above and `append` in
    // log/record.rs keep it too.
    // Noticed by: `what_has_returned_was_flushed` in tests/suite/histories.rs; planted
    // `no-flush-at-end`, `no-flush-after-delete`, `log-no-flush-at-end`.
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
        let whole = end + MARKER_WORDS * sizes.marker;
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
        if sizes.unstable {
            let marker = Marker {
                at: base + end,
                checksum: head_crc,
            };
            marker.write(&mut self.medium)?;
            return Ok(true);
        }
        if !planted!("checkpoint/no-flush-at-end") {
            self.medium.flush()?;
        }
        Ok(true)
    }
}

/// A bit for each of 256 erase units: it differs and will be written.
pub(crate) type Differ = [u32; 8];

/// The offsets of an image in its slot.
pub(crate) struct ImageRange {
    pub base: u32,
    /// The end of head and body, and the end of the trailer, from `base`.
    pub body_end: u32,
    pub end: u32,
}

/// Takes an image as bytes and writes it to the medium as pieces.
pub(crate) struct Pieces<'d, D, M> {
    medium: &'d mut D,
    range: ImageRange,
    /// Where the last words begin, until all before them is written; then the end.
    stop: u32,
    /// The offset of the current piece, how many bytes it has, and how long it will be.
    at: u32,
    filled: usize,
    len: usize,
    buf: &'d mut [u8],
    /// The number of bytes of head and body so far, and their checksum.
    put: u32,
    crc: Crc32,
    /// `compare`: the slot's content is stable, so a comparing mode writes only the parts that
    /// differ. With erase units, a pass with `comparing` first finds out which units differ, from
    /// unit `window` on.
    compare: bool,
    comparing: bool,
    window: u32,
    differ: &'d mut Differ,
    _m: PhantomData<M>,
}

impl<'d, D: Medium, M: Mode> Pieces<'d, D, M> {
    const SIZES: Sizes = Sizes::of(&D::CONTRACT);

    pub(crate) fn new(
        medium: &'d mut D,
        range: ImageRange,
        compare: bool,
        room: &'d mut PieceBuf,
        differ: &'d mut Differ,
    ) -> Self {
        Pieces {
            medium,
            range,
            stop: 0,
            at: 0,
            filled: 0,
            len: 0,
            buf: room.piece(PIECE as u32),
            put: 0,
            crc: Crc32::new(),
            compare,
            comparing: false,
            window: 0,
            differ,
            _m: PhantomData,
        }
    }

    /// Calls `image` once for each pass. `image` sends the whole image and returns its CRC. Fails
    /// with `None` unless all passes saw the same image.
    pub(crate) fn run_passes(
        &mut self,
        mut image: impl FnMut(&mut Self) -> Result<Option<u32>, D::Error>,
    ) -> Result<Option<u32>, D::Error> {
        let s = Self::SIZES;
        let mut run = |to: &mut Self, comparing: bool| {
            to.comparing = comparing;
            to.begin()?;
            image(to)
        };
        if !(M::COMPARE && s.erases && self.compare) {
            return run(self, false);
        }
        let mut head_crc = None;
        loop {
            self.differ.fill(0);
            let compared = run(self, true)?;
            let written = run(self, false)?;
            let other = compared != written || self.window > 0 && written != head_crc;
            if other && !planted!("checkpoint/looks-at-another") {
                return Ok(None);
            }
            head_crc = written;
            self.window += Differ::default().len() as u32 * 32;
            if self.window >= self.range.end.div_ceil(s.unit) {
                return Ok(head_crc);
            }
        }
    }

    fn begin(&mut self) -> Result<(), D::Error> {
        self.stop = (self.range.end - TRAILER) / Self::SIZES.word * Self::SIZES.word;
        (self.at, self.put, self.crc) = (0, 0, Crc32::new());
        self.next_piece()
    }

    /// Starts the next piece.
    fn next_piece(&mut self) -> Result<(), D::Error> {
        let s = Self::SIZES;
        if self.at == self.stop && self.stop < self.range.end {
            // The trailer makes the image complete: it goes alone, after all before it has
            // persisted.
            self.stop = self.range.end;
            if !self.comparing && !planted!("checkpoint/no-flush-before-trailer") {
                self.medium.flush()?;
            }
        }
        let mut len = s.piece().min(self.stop - self.at);
        if s.erases {
            len = len.min(s.unit - self.at % s.unit);
        }
        (self.filled, self.len) = (0, len as usize);
        Ok(())
    }

    #[inline(never)]
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), D::Error> {
        // Bytes beyond the announced size are dropped: they would reach the next slot.
        while !bytes.is_empty() && self.at < self.range.end {
            let room = self.buf.get_mut(self.filled..self.len);
            let n = copy(room.unwrap_or_default(), bytes);
            bytes = bytes.get(n..).unwrap_or_default();
            self.filled += n;
            if self.filled == self.len {
                self.flush_piece()?;
                self.at += self.len as u32;
                self.next_piece()?;
            }
        }
        Ok(())
    }

    /// Writes a full piece, if it has to be written.
    fn flush_piece(&mut self) -> Result<(), D::Error> {
        let s = Self::SIZES;
        if M::COMPARE && self.compare && !self.differs()? {
            return Ok(());
        }
        if s.erases && self.at.is_multiple_of(s.unit) {
            self.erase(self.at)?;
        }
        let piece = self.buf.get(..self.len).unwrap_or_default();
        self.medium.write(self.range.base + self.at, piece)
    }

    fn erase(&mut self, at: u32) -> Result<(), D::Error> {
        if planted!("checkpoint/no-erase") {
            return Ok(());
        }
        let at = self.range.base + at;
        self.medium.erase(at, at + Self::SIZES.unit)
    }

    /// Whether the piece must be written.
    fn differs(&mut self) -> Result<bool, D::Error> {
        let s = Self::SIZES;
        if !s.erases {
            return self.content_differs();
        }
        let unit = self.at / s.unit;
        let i = unit.wrapping_sub(self.window);
        let (word, bit) = ((i / 32) as usize, 1 << (i % 32));
        let Some(known) = self.differ.get(word) else {
            return Ok(false);
        };
        let known = known & bit != 0;
        if !self.comparing {
            return Ok(known);
        }
        // The first unit always has a new head, and the last ones a new trailer and marker.
        let middle = unit > 0 && (unit + 1) * s.unit <= self.range.end - TRAILER;
        if !known
            && (!middle || self.content_differs()?)
            && let Some(w) = self.differ.get_mut(word)
        {
            *w |= bit;
        }
        Ok(false)
    }

    /// Whether the medium's content differs from the piece.
    fn content_differs(&mut self) -> Result<bool, D::Error> {
        let mut old = PieceBuf::new();
        let old = old.piece(self.len as u32);
        self.medium.read(self.range.base + self.at, old)?;
        Ok(Some(&*old) != self.buf.get(..self.len))
    }

    /// Erases the remaining units up to `to`, in which the image has no bytes yet.
    pub(crate) fn erase_tail(&mut self, to: u32) -> Result<(), D::Error> {
        let unit = Self::SIZES.unit;
        let mut at = self.range.end.next_multiple_of(unit);
        while Self::SIZES.erases && at < to {
            self.erase(at)?;
            at += unit;
        }
        Ok(())
    }
}

impl<D: Medium, M: Mode> Sink<D> for Pieces<'_, D, M> {
    fn medium(&mut self) -> &mut D {
        self.medium
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), D::Error> {
        self.crc = sum(self.crc, bytes);
        self.put = self.put.saturating_add(bytes.len() as u32);
        self.take(bytes)
    }

    fn crc(&self) -> Option<u32> {
        (self.put == self.range.body_end).then_some(self.crc.finish())
    }

    fn finish(&mut self, trailer: &[u8]) -> Result<(), D::Error> {
        while self.at + (self.filled as u32) < self.range.end - TRAILER {
            self.take(&[0])?;
        }
        self.take(trailer)
    }
}
