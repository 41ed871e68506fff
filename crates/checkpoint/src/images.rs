//! The slots of a medium, and the images in them.

use crate::Error;
use crate::layout::{EXTENT, HEAD, Head, Sizes, TRAILER, sum};
use crate::memory::{Extent, Memory};
use crate::mode::Mode;
use crate::read::Reader;
use crate::scan::{Rank, Slot, later};
use crate::write::{FromMemory, FromSlot};
use core::ops::Range;
use nvmem::crc::Crc32;
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
    /// The slot whose image counts.
    pub(crate) current: Option<usize>,
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
    /// Slots with something that is no image and not known to be older: a checkpoint that was interrupted, or damage.
    pub unfinished: u8,
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
    /// have three parts at most.
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
                let slot = whole.next_multiple_of(Self::SIZES.align) as u64 * N as u64;
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
            current: None,
        };
        if !images.fits(0) {
            return Err(Error::TooSmall {
                needed: Self::needed(0),
            });
        }
        images.scan()?;
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
        self.checkpoint_to(self.target(None), 0, mode, memory, context)
    }

    pub(crate) fn checkpoint_to<M: Mode>(
        &mut self,
        slot: usize,
        name: u32,
        mode: &M,
        memory: &Memory<'_>,
        context: u32,
    ) -> Result<(), Error<D::Error>> {
        let extents = mode.extents(memory);
        let body = extents.clone().fold(0u32, |sum, e| {
            sum.saturating_add(EXTENT).saturating_add(e.written())
        });
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
        let body = FromMemory {
            memory,
            extents,
            now: Extent {
                at: 0,
                len: 0,
                zero: true,
            },
            taken: EXTENT,
        };
        self.write(slot, &head, body, M::COMPARE)
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
        self.restore_by(memory, |images| images.target(None))
    }

    /// The same with the slot that a copy goes to, if there has to be one.
    pub(crate) fn restore_by(
        &mut self,
        memory: &mut Memory<'_>,
        target: impl Fn(&Self) -> usize,
    ) -> Result<Restored, Error<D::Error>> {
        self.scan()?;
        let mut why = Error::NoImage;
        let mut damaged = 0;
        // What is passed over is out of the way of `candidate`, but not of `next_sequence`.
        while let Some(slot) = self.candidate() {
            self.current = Some(slot);
            let mut head = Head::unread();
            let judged = self.judge(slot, memory, &mut head);
            let refused = match judged.and_then(|()| self.settle(slot, &mut head, &target)) {
                Ok(slot) => return self.apply(slot, &head, memory, damaged),
                Err(Error::Medium(e)) => return Err(Error::Medium(e)),
                Err(refused) => refused,
            };
            // A sealed one may be a cut one that was about to be overwritten, in a second cut.
            let certain = self.rank(slot) == Rank::Confirmed;
            match refused {
                Error::Damaged if !certain => {}
                Error::Damaged if !matches!(why, Error::NoImage) => damaged += 1,
                Error::Damaged => (why, damaged) = (refused, damaged + 1),
                // Of somebody else's image there is more to say than that one of ours was damaged.
                _ => why = refused,
            }
            let sequence = self.slots.get(slot).map_or(0, |s| s.sequence);
            self.set(slot, Rank::Begun, sequence);
            self.current = None;
        }
        self.current = None;
        Err(why)
    }

    /// Whether an image can be restored: its head.
    pub(crate) fn judge(
        &mut self,
        slot: usize,
        memory: &Memory<'_>,
        head: &mut Head,
    ) -> Result<(), Error<D::Error>> {
        if !self.read_head(slot, head).map_err(Error::Medium)? {
            return Err(Error::Damaged);
        }
        let found = head.program();
        if found != self.program && !planted!("checkpoint/any-program") {
            return Err(Error::OtherProgram { found });
        }
        if head.memory() != memory.fingerprint() && !planted!("checkpoint/any-memory") {
            return Err(Error::OtherMemory);
        }
        let sound = self.walk(slot, head, memory, false);
        if !sound.map_err(Error::Medium)? {
            return Err(Error::Damaged);
        }
        Ok(())
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
        let body = self.at(slot) + HEAD;
        let end = self.at(slot) + Self::SIZES.content(head.body()) - TRAILER;
        let expected: [u8; 4] = self.peek(end).map_err(Error::Medium)?;
        let from = FromSlot {
            reader: Reader { at: body },
            crc: sum(Crc32::new(), head.bytes()),
            expected: u32::from_le_bytes(expected),
        };
        head.set_sequence(self.next_sequence());
        self.write(to, head, from, false)
    }

    fn apply(
        &mut self,
        slot: usize,
        head: &Head,
        memory: &Memory<'_>,
        damaged: u8,
    ) -> Result<Restored, Error<D::Error>> {
        let mut unfinished = 0u8;
        for s in &self.slots {
            let newer = s.rank < Rank::Begun || later(s.sequence, head.sequence());
            unfinished +=
                u8::from(newer && matches!(s.rank, Rank::Torn | Rank::Begun | Rank::Complete));
        }
        let sound = self.walk(slot, head, memory, true);
        if !sound.map_err(Error::Medium)? {
            return Err(Error::Spoilt);
        }
        Ok(Restored {
            sequence: head.sequence(),
            context: head.context(),
            name: head.name(),
            damaged,
            unfinished: unfinished.saturating_sub(damaged),
        })
    }
}
