//! Writes an image to a medium with program words: collects bytes into pieces of whole words, and
//! in comparing modes writes only the erase units that changed.
//!
//! ```text
//!  bytes from the source:  h h h h e e e e b b b b b b b b b t t t t
//!                          |<--- piece --->|<--- piece --->|<-last->|
//!                                                          ^ flush before the last words
//! ```
//!
//! On a medium with erases, a comparing mode makes two passes for each 256 erase units. Pass 1
//! reads the slot and sets a bit for each unit that differs. Pass 2 erases and writes those units.
//! Both passes must see the same image, or the checkpoint fails: otherwise a unit might be skipped
//! whose new content was never compared.
//!
//! Why this is safe: the trailer is written after all units, so a cut between units leaves a slot
//! whose trailer does not match its head.

use crate::layout::{PIECE, PieceBuf, Sizes, TRAILER, sum};
use crate::mode::Mode;
use crate::read::copy;
use crate::write::Sink;
use core::marker::PhantomData;
use nvmem::crc::Crc32;
use nvmem::device::Medium;
use nvmem::planted;

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
