//! The slots of a medium, and the images in them.

use crate::Error;
use crate::layout::{EXTENT, HEAD, Head, Sizes, TRAILER, seed};
use crate::memory::Memory;
use crate::mode::{Full, Mode};
use crate::scan::{Rank, Slot};
use crate::write::{FromMemory, FromSlot};
use core::ops::Range;
use nvmem::device::Medium;
use nvmem::planted;

/// `N` slots in a range of a medium, each with room for one image. At least two; on flash, whose half-written words may read
/// differently each time, at least three.
///
/// A checkpoint goes to the slot whose image is the least likely to be needed, never to the one that counts: slots are used in turn, so on flash
/// that endures `E` erases of a unit there are `N` times `E` checkpoints.
#[derive(Debug)]
pub struct Images<D, const N: usize = 2> {
    pub(crate) medium: D,
    start: u32,
    /// Bytes of a slot.
    pub(crate) slot: u32,
    pub(crate) program: u64,
    pub(crate) slots: [Slot; N],
    /// The slot whose image counts; `N` if there is none.
    pub(crate) current: usize,
}

/// What was restored, and what was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Restored {
    /// The number of the image; wraps.
    pub sequence: u32,
    /// What the checkpoint was given.
    pub context: u32,
    /// What the checkpoint was called; zero outside of an [`Archive`](crate::Archive).
    pub name: u32,
    /// Later images that had been completed and are not intact: the program goes on from an older state than it had. No power cut does that.
    pub damaged: u8,
    /// Places with something that is no image: a checkpoint that was interrupted, or damage.
    pub unfinished: u8,
}

/// Why an image is not restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Damaged,
    Program,
    Memory,
}

impl Refused {
    pub(crate) fn error<E>(self, head: &Head) -> Error<E> {
        match self {
            Refused::Damaged => Error::Damaged,
            Refused::Program => Error::OtherProgram {
                found: head.program(),
            },
            Refused::Memory => Error::OtherMemory,
        }
    }
}

impl<D: Medium, const N: usize> Images<D, N> {
    pub(crate) const SIZES: Sizes = {
        let s = Sizes::of(&D::CONTRACT);
        assert!(
            N >= 2 && N < 256,
            "an image is never the only one: two slots"
        );
        assert!(
            N >= 3 || !s.unstable,
            "on a medium whose half-written words read differently each time: three slots"
        );
        s
    };

    /// The size of a range in which images of `memory` bytes in `extents` parts have room; the modes of this crate
    /// have three parts at most. `u32::MAX` when no range is large enough.
    pub const fn bytes(memory: u32, extents: u32) -> u32 {
        let body = memory as u64 + EXTENT as u64 * extents as u64;
        let body = if body > u32::MAX as u64 {
            u32::MAX
        } else {
            body as u32
        };
        Self::needed(body)
    }

    const fn needed(body: u32) -> u32 {
        match Self::SIZES.whole(body) {
            Some(whole) => {
                let slot = (whole as u64).next_multiple_of(Self::SIZES.align as u64) * N as u64;
                if slot > u32::MAX as u64 {
                    u32::MAX
                } else {
                    slot as u32
                }
            }
            None => u32::MAX,
        }
    }

    /// Opens the slots in a range that they have for themselves. `program` tells one build of a program from another: addresses of functions and
    /// statics are part of the images.
    ///
    /// **Power loss**: writes nothing. **Cost**: reads the ends of each slot, at most 52 bytes and two words. **Errors**: [`Error::TooSmall`]
    /// for an image of nothing, [`Error::BadRange`], [`Error::Medium`].
    pub fn open(medium: D, range: Range<u32>, program: u64) -> Result<Self, Error<D::Error>> {
        let align = Self::SIZES.align;
        if range.end > medium.capacity()
            || range.start > range.end
            || !range.start.is_multiple_of(align)
        {
            return Err(Error::BadRange);
        }
        let slot = (range.end - range.start) / N as u32 / align * align;
        let blank = Slot {
            rank: Rank::Blank,
            sequence: 0,
        };
        let mut images = Images {
            medium,
            start: range.start,
            slot,
            program,
            slots: [blank; N],
            current: N,
        };
        if !images.fits(0) {
            return Err(Error::TooSmall {
                needed: Self::needed(0),
            });
        }
        images.scan().map_err(Error::Medium)?;
        Ok(images)
    }

    pub(crate) fn at(&self, slot: usize) -> u32 {
        self.start + slot as u32 * self.slot
    }

    /// The medium back.
    pub fn into_medium(self) -> D {
        self.medium
    }

    /// Writes an image of `memory`, which counts when this returns. `context` is given back by [`Images::restore`].
    ///
    /// **Power loss**: the image that counted before counts, or this one; which of them is settled by the next `restore`. **Cost**: the bytes
    /// of the extents, 44 and 8 for each, up to a multiple of the program word, on flash two words more and the erase of the units that all of
    /// this touches; with [`CopyIfChange`](crate::CopyIfChange) reads all of it and writes what differs. **Errors**: [`Error::TooSmall`], and nothing was written; [`Error::Medium`], and it is as after a power cut.
    pub fn checkpoint<M: Mode>(
        &mut self,
        mode: &M,
        memory: &Memory<'_>,
        context: u32,
    ) -> Result<(), Error<D::Error>> {
        self.checkpoint_to(self.target(N), 0, mode, memory, context)
    }

    pub(crate) fn checkpoint_to<M: Mode>(
        &mut self,
        slot: usize,
        name: u32,
        mode: &M,
        memory: &Memory<'_>,
        context: u32,
    ) -> Result<(), Error<D::Error>> {
        let mut body = 0u32;
        for e in mode.extents(memory) {
            body = body.saturating_add(EXTENT).saturating_add(e.written());
        }
        if !self.fits(body) {
            return Err(Error::TooSmall {
                needed: Self::needed(body),
            });
        }
        let head = Head::new(
            self.next_sequence(),
            body,
            self.program,
            memory.fingerprint(),
            context,
            name,
        );
        let source = FromMemory {
            head: &head,
            memory,
            mode,
        };
        self.write::<M, _>(slot, &head, source)
    }

    /// Brings memory back to what it was when the image that counts was taken. What the image does not hold is left as it is.
    ///
    /// The image is read twice: nothing is written to memory before all of it was checked. When the one that counts is not intact the one before it is
    /// taken, and [`Restored`] says so.
    ///
    /// **Power loss**: may be repeated. On flash, after a cut in the last words of a checkpoint, the image is written to another slot before
    /// it is used. **Cost**: reads the image twice. **Errors**: [`Error::NoImage`], [`Error::OtherProgram`], [`Error::OtherMemory`],
    /// [`Error::Damaged`], [`Error::Medium`]: memory is as it was, except that a medium may fail in the middle; [`Error::Spoilt`].
    pub fn restore(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.restore_by(memory, |images| images.target(N))
    }

    /// The same with the slot that a copy goes to, if there has to be one.
    pub(crate) fn restore_by(
        &mut self,
        memory: &mut Memory<'_>,
        target: impl Fn(&Self) -> usize,
    ) -> Result<Restored, Error<D::Error>> {
        self.scan().map_err(Error::Medium)?;
        let mut why = None;
        let mut damaged = 0u8;
        let mut head = Head::unread();
        // What is passed over is out of the way of `candidate`, but not of `next_sequence`.
        while self.current < N {
            let slot = self.current;
            let mut refused = self.judge(slot, memory, &mut head).map_err(Error::Medium)?;
            if refused.is_none() {
                match self.settle(slot, &mut head, &target) {
                    Ok(slot) => return self.apply(slot, &head, memory, damaged),
                    Err(Error::Damaged) => refused = Some(Refused::Damaged),
                    Err(e) => return Err(e),
                }
            }
            match refused {
                // A sealed one may be a cut one that was about to be overwritten, in a second cut.
                Some(Refused::Damaged) => damaged += u8::from(self.rank(slot) == Rank::Confirmed),
                // Of somebody else's image there is more to say than that one of ours was damaged.
                _ => why = refused.map(|r| r.error(&head)),
            }
            self.rank_as(slot, Rank::Begun);
            self.current = self.candidate();
        }
        Err(match why {
            Some(why) => why,
            None if damaged > 0 => Error::Damaged,
            None => Error::NoImage,
        })
    }

    /// Whether an image can be restored, and its head.
    pub(crate) fn judge(
        &mut self,
        slot: usize,
        memory: &Memory<'_>,
        head: &mut Head,
    ) -> Result<Option<Refused>, D::Error> {
        if !self.read_head(slot, head)? {
            return Ok(Some(Refused::Damaged));
        }
        if head.program() != self.program && !planted!("checkpoint/any-program") {
            return Ok(Some(Refused::Program));
        }
        if head.memory() != memory.fingerprint() && !planted!("checkpoint/any-memory") {
            return Ok(Some(Refused::Memory));
        }
        let sound = self.walk(slot, head, memory, false)?;
        Ok((!sound).then_some(Refused::Damaged))
    }

    /// Makes sure that an image stays: where it then is.
    fn settle(
        &mut self,
        slot: usize,
        head: &mut Head,
        target: impl Fn(&Self) -> usize,
    ) -> Result<usize, Error<D::Error>> {
        if !Self::SIZES.unstable
            || self.rank(slot) == Rank::Confirmed
            || planted!("checkpoint/unconfirmed-used")
        {
            return Ok(slot);
        }
        let to = target(self);
        self.copy(slot, head, to)?;
        Ok(to)
    }

    /// Writes an image that was judged to another slot, where it is the latest; its head becomes the one there.
    pub(crate) fn copy(
        &mut self,
        slot: usize,
        head: &mut Head,
        to: usize,
    ) -> Result<(), Error<D::Error>> {
        let at = self.at(slot) + HEAD;
        let end = self.at(slot) + Self::SIZES.content(head.body()) - TRAILER;
        let expected = self.peek(end).map_err(Error::Medium)?;
        let seed = seed(head);
        head.set_sequence(self.next_sequence());
        let from = FromSlot {
            head,
            at,
            seed,
            crc: seed,
            expected: u32::from_le_bytes(expected),
        };
        self.write::<Full, _>(to, head, from)
    }

    fn apply(
        &mut self,
        slot: usize,
        head: &Head,
        memory: &Memory<'_>,
        damaged: u8,
    ) -> Result<Restored, Error<D::Error>> {
        let sound = self.walk(slot, head, memory, true);
        if !sound.map_err(Error::Medium)? {
            return Err(Error::Spoilt);
        }
        Ok(Restored {
            sequence: head.sequence(),
            context: head.context(),
            name: head.name(),
            damaged,
            unfinished: self.unfinished().saturating_sub(damaged),
        })
    }
}
