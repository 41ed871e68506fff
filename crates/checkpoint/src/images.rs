//! Whole images of memory in the slots of a medium, and which of them is restored.
//!
//! ```text
//!  range      | slot 0          | slot 1          | slot 2 (flash)  |
//!             +-----------------+-----------------+-----------------+
//!  slot       | head | extents and their bytes | trailer | M1 | M2 |
//!             +------+-------------------------+---------+----+----+
//!  written      1st    2nd                       3rd       4th  5th    (flush before 3rd, after 5th)
//! ```
//!
//! `M1` is the commit marker and `M2` the marker's confirmation. Only media with unstable words
//! have them; elsewhere the trailer is the commit marker, in words of its own.
//!
//! A slot's rank says how far its writing got:
//!
//! ```text
//!  Blank -> Torn -> Begun -> Complete -> Marked -> Confirmed
//!           no      head     trailer     M1        M2 matches
//!           head    matches  matches     matches
//! ```
//!
//! Why this is safe:
//! - A new image never goes to the slot of the newest valid image, so that one stays until the new
//!   image is valid.
//! - The trailer is the checksum of head and body, bound to this head. Bytes of an older image
//!   below a new head do not match it.
//! - `M1` is written after the trailer. If `M1` reads right, all words before it are stable. If
//!   `M2` reads right, `M1` is stable too.
//! - An image without a confirmed marker is first copied to another slot, and the copy is
//!   confirmed. Only then does the program run on it. So no later boot can fall back to an older
//!   image.

use crate::Error;
use crate::layout::{EXTENT, HEAD, Head, Sizes, TRAILER, seed};
use crate::memory::Memory;
use crate::mode::{Full, Mode};
use crate::scan::{Rank, Slot};
use crate::write::{FromMemory, FromSlot};
use core::ops::Range;
use nvmem::device::Medium;
use nvmem::planted;

/// `N` slots in a range of a medium, each with room for one image. At least two. Flash, where torn
/// words may read differently each time, needs at least three.
///
/// A checkpoint goes to the slot that is least likely to be needed, never to the newest valid
/// image. Slots are used in turn. On flash that endures `E` erases of a unit, `N * E` checkpoints
/// are possible.
#[derive(Debug)]
pub struct Images<D, const N: usize = 2> {
    pub(crate) medium: D,
    start: u32,
    /// Bytes of a slot.
    pub(crate) slot: u32,
    pub(crate) program: u64,
    pub(crate) slots: [Slot; N],
    /// The slot of the newest valid image; `N` if there is none.
    pub(crate) current: usize,
}

/// What a restore found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Restored {
    /// The sequence number of the image; wraps.
    pub sequence: u32,
    /// The context that was given to the checkpoint.
    pub context: u32,
    /// The name of the checkpoint; zero outside of an [`Archive`](crate::Archive).
    pub name: u32,
    /// Newer images that were completed and are damaged. The program continues from an older state
    /// than it once had. No power cut causes this.
    pub damaged: u8,
    /// Slots that hold an incomplete image: an interrupted checkpoint, or damage.
    pub unfinished: u8,
}

/// Why an image is not restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    Damaged,
    Program,
    Memory,
}

impl Rejection {
    pub(crate) fn error<E>(self, head: &Head) -> Error<E> {
        match self {
            Rejection::Damaged => Error::Damaged,
            Rejection::Program => Error::OtherProgram {
                found: head.program(),
            },
            Rejection::Memory => Error::OtherMemory,
        }
    }
}

impl<D: Medium, const N: usize> Images<D, N> {
    pub(crate) const SIZES: Sizes = {
        let s = Sizes::of(&D::CONTRACT);
        assert!(N >= 2 && N < 256, "images need at least two slots");
        assert!(
            N >= 3 || !s.unstable,
            "a medium with unstable words needs at least three slots"
        );
        s
    };

    /// The size of a range with room for images of `memory` bytes in `extents` extents. The modes
    /// of this crate have three at most. `u32::MAX` if no range is large enough.
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

    /// Opens the slots in a range that holds nothing else. `program` identifies the build of the
    /// program: images hold addresses of its functions and statics.
    ///
    /// **Power loss**: writes nothing. **Cost**: reads the ends of each slot, at most 52 bytes and
    /// two words. **Errors**: [`Error::TooSmall`] if not even an empty image fits,
    /// [`Error::BadRange`], [`Error::Medium`].
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

    /// Returns the medium.
    pub fn into_medium(self) -> D {
        self.medium
    }

    /// Writes an image of `memory`. It is valid when this returns. [`Images::restore`] gives
    /// `context` back.
    ///
    /// **Power loss**: the previous image is valid, or this one; the next `restore` settles which.
    /// **Cost**: writes the extents' bytes, 44 bytes, and 8 for each extent, rounded up to the
    /// program word. On flash also two words, and an erase of each unit touched.
    /// [`CopyIfChange`](crate::CopyIfChange) reads all of it and writes what differs. **Errors**:
    /// [`Error::TooSmall`]: nothing was written. [`Error::Medium`]: as after a power cut.
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

    /// Restores memory from the newest valid image. Memory that the image does not hold is left as
    /// it is.
    ///
    /// The image is read twice: memory is written only after all of it was checked. If the newest
    /// image is damaged, the one before it is restored, and [`Restored`] says so.
    ///
    /// **Power loss**: may be repeated. On flash, if a cut hit the last words of a checkpoint, the
    /// image is copied to another slot before it is used. **Cost**: reads the image twice.
    /// **Errors**: [`Error::NoImage`], [`Error::OtherProgram`], [`Error::OtherMemory`],
    /// [`Error::Damaged`]: memory is unchanged. [`Error::Medium`] may come in the middle.
    /// [`Error::PartlyRestored`].
    pub fn restore(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.restore_by(memory, |images| images.target(N))
    }

    /// [`restore`](Self::restore) with a choice of the slot that a copy goes to.
    pub(crate) fn restore_by(
        &mut self,
        memory: &mut Memory<'_>,
        target: impl Fn(&Self) -> usize,
    ) -> Result<Restored, Error<D::Error>> {
        self.scan().map_err(Error::Medium)?;
        let mut error = None;
        let mut damaged = 0u8;
        let mut head = Head::unread();
        // Rejected images are ranked down, so `candidate` skips them. `next_sequence` still counts
        // them.
        while self.current < N {
            let slot = self.current;
            let mut rejection = self
                .check_image(slot, memory, &mut head)
                .map_err(Error::Medium)?;
            if rejection.is_none() {
                match self.make_stable(slot, &mut head, &target) {
                    Ok(slot) => return self.apply(slot, &head, memory, damaged),
                    Err(Error::Damaged) => rejection = Some(Rejection::Damaged),
                    Err(e) => return Err(e),
                }
            }
            match rejection {
                // Only a confirmed image counts as damaged: one that is only marked may be the
                // victim of two cuts.
                Some(Rejection::Damaged) => damaged += u8::from(self.rank(slot) == Rank::Confirmed),
                // Another program's image is a more useful error than a damaged one of ours.
                _ => error = rejection.map(|r| r.error(&head)),
            }
            self.rank_as(slot, Rank::Begun);
            self.current = self.candidate();
        }
        Err(match error {
            Some(error) => error,
            None if damaged > 0 => Error::Damaged,
            None => Error::NoImage,
        })
    }

    /// Checks whether an image can be restored, and reads its head. `None` if it can.
    pub(crate) fn check_image(
        &mut self,
        slot: usize,
        memory: &Memory<'_>,
        head: &mut Head,
    ) -> Result<Option<Rejection>, D::Error> {
        if !self.read_head(slot, head)? {
            return Ok(Some(Rejection::Damaged));
        }
        if head.program() != self.program && !planted!("checkpoint/any-program") {
            return Ok(Some(Rejection::Program));
        }
        if head.memory() != memory.fingerprint() && !planted!("checkpoint/any-memory") {
            return Ok(Some(Rejection::Memory));
        }
        let sound = self.walk(slot, head, memory, false)?;
        Ok((!sound).then_some(Rejection::Damaged))
    }

    /// Makes an image stable: copies it unless its marker is confirmed. Returns its slot.
    fn make_stable(
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

    /// Copies a checked image to another slot as the newest image. `head` becomes the copy's head.
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
            return Err(Error::PartlyRestored);
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
