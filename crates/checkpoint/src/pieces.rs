//! An image on its way to a medium with words: by pieces of whole ones, and where the mode compares, only those that changed.

use crate::layout::{PIECE, Room, Sizes, TRAILER, sum};
use crate::mode::Mode;
use crate::read::copy;
use crate::write::Sink;
use core::marker::PhantomData;
use nvmem::crc::Crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// What is known of erase units: a bit for each of so many.
pub(crate) type Differ = [u32; 8];

/// Where an image goes.
pub(crate) struct Place {
    pub base: u32,
    /// Bytes of head and body, and with the trailer.
    pub body_end: u32,
    pub end: u32,
}

/// Takes an image by bytes and gives it to the medium by pieces.
pub(crate) struct Pieces<'d, D, M> {
    medium: &'d mut D,
    place: Place,
    /// Where the last words begin, until all before them was written; then the end.
    stop: u32,
    /// Where the piece begins that is being filled, how much of it is there, and how long it will be.
    at: u32,
    filled: usize,
    len: usize,
    buf: &'d mut [u8],
    /// What was put of head and body: how much, and its checksum.
    put: u32,
    crc: Crc32,
    /// What the slot holds is known: with a mode that compares only what differs from it is written. Where units are erased, `looking` finds
    /// out before the first of them is written, for those from `window` on.
    compare: bool,
    looking: bool,
    window: u32,
    differ: &'d mut Differ,
    _m: PhantomData<M>,
}

impl<'d, D: Medium, M: Mode> Pieces<'d, D, M> {
    const SIZES: Sizes = Sizes::of(&D::CONTRACT);

    pub(crate) fn new(
        medium: &'d mut D,
        place: Place,
        compare: bool,
        room: &'d mut Room,
        differ: &'d mut Differ,
    ) -> Self {
        Pieces {
            medium,
            place,
            stop: 0,
            at: 0,
            filled: 0,
            len: 0,
            buf: room.piece(PIECE as u32),
            put: 0,
            crc: Crc32::new(),
            compare,
            looking: false,
            window: 0,
            differ,
            _m: PhantomData,
        }
    }

    /// Calls `image`, which gives all of the image and says what its seal is, as often as needed: it is one only if it was the same each time.
    pub(crate) fn each(
        &mut self,
        mut image: impl FnMut(&mut Self) -> Result<Option<u32>, D::Error>,
    ) -> Result<Option<u32>, D::Error> {
        let s = Self::SIZES;
        let mut give = |to: &mut Self, looking: bool| {
            to.looking = looking;
            to.begin()?;
            image(to)
        };
        if !(M::COMPARE && s.erases && self.compare) {
            return give(self, false);
        }
        let mut seal = None;
        loop {
            self.differ.fill(0);
            let looked = give(self, true)?;
            let given = give(self, false)?;
            let other = looked != given || self.window > 0 && given != seal;
            if other && !planted!("checkpoint/looks-at-another") {
                return Ok(None);
            }
            seal = given;
            self.window += Differ::default().len() as u32 * 32;
            if self.window >= self.place.end.div_ceil(s.unit) {
                return Ok(seal);
            }
        }
    }

    fn begin(&mut self) -> Result<(), D::Error> {
        self.stop = (self.place.end - TRAILER) / Self::SIZES.word * Self::SIZES.word;
        (self.at, self.put, self.crc) = (0, 0, Crc32::new());
        self.turn()
    }

    /// Turns to the next piece.
    fn turn(&mut self) -> Result<(), D::Error> {
        let s = Self::SIZES;
        if self.at == self.stop && self.stop < self.place.end {
            // What makes an image of it goes alone, when all before it is there.
            self.stop = self.place.end;
            if !self.looking && !planted!("checkpoint/no-flush-before-trailer") {
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
        // What a mode has more than it said is not written: it would be another slot's place.
        while !bytes.is_empty() && self.at < self.place.end {
            let room = self.buf.get_mut(self.filled..self.len);
            let n = copy(room.unwrap_or_default(), bytes);
            bytes = bytes.get(n..).unwrap_or_default();
            self.filled += n;
            if self.filled == self.len {
                self.out()?;
                self.at += self.len as u32;
                self.turn()?;
            }
        }
        Ok(())
    }

    /// A whole piece.
    fn out(&mut self) -> Result<(), D::Error> {
        let s = Self::SIZES;
        if M::COMPARE && self.compare && !self.differs()? {
            return Ok(());
        }
        if s.erases && self.at.is_multiple_of(s.unit) {
            self.erase(self.at)?;
        }
        let piece = self.buf.get(..self.len).unwrap_or_default();
        self.medium.write(self.place.base + self.at, piece)
    }

    fn erase(&mut self, at: u32) -> Result<(), D::Error> {
        if planted!("checkpoint/no-erase") {
            return Ok(());
        }
        let at = self.place.base + at;
        self.medium.erase(at, at + Self::SIZES.unit)
    }

    /// Whether the piece is to be written.
    fn differs(&mut self) -> Result<bool, D::Error> {
        let s = Self::SIZES;
        if !s.erases {
            return self.reads_other();
        }
        let unit = self.at / s.unit;
        let i = unit.wrapping_sub(self.window);
        let (word, bit) = ((i / 32) as usize, 1 << (i % 32));
        let Some(known) = self.differ.get(word) else {
            return Ok(false);
        };
        let known = known & bit != 0;
        if !self.looking {
            return Ok(known);
        }
        // The first unit has another head and the last ones another trailer and other marks, whatever they read like.
        let middle = unit > 0 && (unit + 1) * s.unit <= self.place.end - TRAILER;
        if !known
            && (!middle || self.reads_other()?)
            && let Some(w) = self.differ.get_mut(word)
        {
            *w |= bit;
        }
        Ok(false)
    }

    /// Whether the medium holds something else than the piece.
    fn reads_other(&mut self) -> Result<bool, D::Error> {
        let mut old = Room::new();
        let old = old.piece(self.len as u32);
        self.medium.read(self.place.base + self.at, old)?;
        Ok(Some(&*old) != self.buf.get(..self.len))
    }

    /// Erases the units up to here in which there is nothing of the image.
    pub(crate) fn erase_rest(&mut self, to: u32) -> Result<(), D::Error> {
        let unit = Self::SIZES.unit;
        let mut at = self.place.end.next_multiple_of(unit);
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
        (self.put == self.place.body_end).then_some(self.crc.finish())
    }

    fn finish(&mut self, trailer: &[u8]) -> Result<(), D::Error> {
        while self.at + (self.filled as u32) < self.place.end - TRAILER {
            self.take(&[0])?;
        }
        self.take(trailer)
    }
}
