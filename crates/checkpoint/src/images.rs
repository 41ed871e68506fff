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
//! While this boot writes to a slot, and if that has failed, the slot's rank is `Writing`: it is
//! read again before anything else is done.
//!
//! A slot with a head of an older format has the rank `Older`: it counts as empty, and is named in
//! the error if no image counts.
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
//!
//! A number on both sides of the only image is not enough. While the next image is written, there
//! is none (the test `loses_the_only_image`), and wrong words between two right numbers go
//! unnoticed.
//!
//! The slot of an attempt that was cut in its marker is not erased at once: that erase could be cut
//! too, and then leave unstable words anywhere. If the attempt is found complete before its slot is
//! used again, it counts, because it is newer than what was restored. A run that is given up so may
//! have sent messages since, as with any checkpoints.

use crate::format::{
    EXTENT, HEAD, Head, PIECE, PieceBuf, Sizes, TRAILER, ZERO, clear, flush_before_reading,
    head_crc, is_written, seed, sum, trailer,
};
use crate::memory::Memory;
use crate::mode::{Full, Mode};
use crate::writing::{FromMemory, FromSlot};
use crate::{Error, Restored, Store};
use core::ops::Range;
use nvmem::device::Medium;
use nvmem::marker::{self, Marker};
use nvmem::{planted, sequence};

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

/// How far the writing of a slot's image got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// All words are the same: nothing was written since the erase.
    Blank,
    /// The head is that of an older format.
    Older,
    /// The head is invalid.
    Torn,
    /// The head is valid, and the trailer does not match it; or the image was rejected.
    Begun,
    /// This boot has begun to write here, and did not end: the slot must be read again.
    Writing,
    /// Head and trailer match. On media with unstable words the trailer itself may be unstable.
    Complete,
    /// The commit marker matches, so all words before it are stable.
    Marked,
    /// The marker's confirmation matches, so the marker itself is stable.
    Confirmed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub rank: Rank,
    /// The head's sequence number; valid from [`Rank::Begun`] on.
    pub sequence: u32,
}

/// Whether sequence number `a` is later than `b`; they wrap.
pub(crate) fn later(a: u32, b: u32) -> bool {
    if planted!("checkpoint/sequence-does-not-wrap") {
        return a > b;
    }
    sequence::is_newer(a, b)
}

/// Why an image is not restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The head reads differently than when the slot was scanned: an erase of it was cut.
    Torn,
    Damaged,
    Program,
    Memory,
}

impl Rejection {
    pub(crate) fn error<E>(self, head: &Head) -> Error<E> {
        match self {
            Rejection::Torn | Rejection::Damaged => Error::Damaged,
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
    /// program word. On flash also two words, and an erase of each unit touched. After a checkpoint
    /// that failed, also a flush, and the reads of [`Images::open`] for one slot.
    /// [`CopyIfChange`](crate::CopyIfChange) reads all of it and writes what differs. **Errors**:
    /// [`Error::TooSmall`]: nothing was written. [`Error::Damaged`]: the bytes written differ from
    /// those announced, and the previous image stays valid. [`Error::Medium`]: as after a power
    /// cut.
    pub fn checkpoint<M: Mode>(
        &mut self,
        mode: &M,
        memory: &Memory<'_>,
        context: u32,
    ) -> Result<(), Error<D::Error>> {
        self.settle().map_err(Error::Medium)?;
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
    /// **Errors**: [`Error::NoImage`], [`Error::OlderFormat`], [`Error::OtherProgram`],
    /// [`Error::OtherMemory`], [`Error::Damaged`]: memory is unchanged. [`Error::Medium`] may come
    /// in the middle. [`Error::PartlyRestored`].
    pub fn restore(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.restore_by(memory, |images| images.target(N))
    }

    /// [`restore`](Self::restore) with a choice of the slot that a copy goes to.
    pub(crate) fn restore_by(
        &mut self,
        memory: &mut Memory<'_>,
        target: impl Fn(&Self) -> usize,
    ) -> Result<Restored, Error<D::Error>> {
        let known = (self.slots, self.current);
        self.scan().map_err(|e| self.could_not_read(known, e))?;
        let mut error = None;
        let mut damaged = 0u8;
        let mut head = Head::unread();
        // Rejected images are ranked down, so `candidate` skips them. `next_sequence` still counts
        // them.
        while self.current < N {
            let slot = self.current;
            let mut rejection = self
                .check_image(slot, memory, &mut head)
                .map_err(|e| self.could_not_read(known, e))?;
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
                // No image of this program is overwritten before a newer one is stable. But those
                // of other programs are.
                Some(Rejection::Torn) => {}
                // Another program's image is a more useful error than a damaged one of ours.
                _ => error = rejection.map(|r| r.error(&head)),
            }
            self.rank_as(slot, Rank::Begun);
            self.current = self.candidate();
        }
        Err(match error {
            Some(error) => error,
            None if damaged > 0 => Error::Damaged,
            None if self.slots.iter().any(|s| s.rank == Rank::Older) => Error::OlderFormat,
            None => Error::NoImage,
        })
    }

    /// A restore has failed before it has written anything: the slots count as before. Otherwise an
    /// image that an earlier restore has rejected would be spared again, and the one that counts
    /// overwritten.
    fn could_not_read(&mut self, known: ([Slot; N], usize), e: D::Error) -> Error<D::Error> {
        if !planted!("checkpoint/failed-restore-believed") {
            (self.slots, self.current) = known;
        }
        Error::Medium(e)
    }

    // INVARIANT "Checked before it is memory": nothing is written to memory before the whole image
    // was checked, and nothing outside of the segments (`locate` in memory.rs).
    // Noticed by: `hostile_images` in tests/suite/images.rs; planted `crc-unchecked`,
    // `any-program`, `any-memory`.
    /// Checks whether an image can be restored, and reads its head. `None` if it can.
    pub(crate) fn check_image(
        &mut self,
        slot: usize,
        memory: &Memory<'_>,
        head: &mut Head,
    ) -> Result<Option<Rejection>, D::Error> {
        if !self.read_head(slot, head)? {
            let mut torn = Self::SIZES.unstable;
            if planted!("checkpoint/torn-head-is-damage") {
                torn = false;
            }
            return Ok(Some(if torn {
                Rejection::Torn
            } else {
                Rejection::Damaged
            }));
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

    // INVARIANT "Stable before it is used": the image from which a program continues reads the same
    // at every later boot.
    // Noticed by: planted `unconfirmed-used`, `copy-unchecked` in tests/suite/crash/media.rs.
    /// Makes an image stable: copies it unless its marker is confirmed. Returns its slot.
    fn make_stable(
        &mut self,
        slot: usize,
        head: &mut Head,
        target: impl Fn(&Self) -> usize,
    ) -> Result<usize, Error<D::Error>> {
        if !Self::SIZES.unstable || self.rank(slot) == Rank::Confirmed {
            return Ok(slot);
        }
        if planted!("checkpoint/unconfirmed-used") {
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

/// How far each slot's image got, and which slot counts.
impl<D: Medium, const N: usize> Images<D, N> {
    /// Reads bytes at any offset of the medium.
    pub(crate) fn peek<const K: usize>(&mut self, at: u32) -> Result<[u8; K], D::Error> {
        let mut out = [0; K];
        marker::read(&mut self.medium, at, &mut out)?;
        Ok(out)
    }

    /// Reads a slot's head. Returns whether it is valid.
    pub(crate) fn read_head(&mut self, slot: usize, head: &mut Head) -> Result<bool, D::Error> {
        let at = self.at(slot);
        marker::read(&mut self.medium, at, head.bytes_mut())?;
        Ok(head.is_valid() && self.fits(head.body()))
    }

    /// Whether an image with a body of this size fits in a slot.
    pub(crate) fn fits(&self, body: u32) -> bool {
        Self::SIZES
            .whole(body)
            .is_some_and(|whole| whole <= self.slot)
    }

    /// Reads a slot's head, trailer and marker, and notes its rank.
    fn scan_slot(&mut self, slot: usize) -> Result<(), D::Error> {
        let mut head = Head::unread();
        let rank = if self.read_head(slot, &mut head)? {
            self.image_rank(slot, &head)?
        } else if head.is_older() {
            Rank::Older
        } else if head.is_blank() {
            Rank::Blank
        } else {
            Rank::Torn
        };
        self.set(slot, rank, head.sequence());
        Ok(())
    }

    /// The rank of an image with a valid head.
    fn image_rank(&mut self, slot: usize, head: &Head) -> Result<Rank, D::Error> {
        let end = self.at(slot) + Self::SIZES.content(head.body());
        let own = u64::from_le_bytes(self.peek::<{ TRAILER as usize }>(end - TRAILER)?);
        let checksum = head_crc(seed(head), own as u32);
        if (own >> 32) as u32 != checksum {
            return Ok(Rank::Begun);
        }
        if !Self::SIZES.unstable {
            return Ok(Rank::Confirmed);
        }
        let marker = Marker { at: end, checksum };
        if !is_written(&mut self.medium, marker, 0)? {
            return Ok(Rank::Complete);
        }
        if !is_written(&mut self.medium, marker, 1)? {
            return Ok(Rank::Marked);
        }
        Ok(Rank::Confirmed)
    }

    pub(crate) fn rank(&self, slot: usize) -> Rank {
        self.slots.get(slot).map_or(Rank::Blank, |s| s.rank)
    }

    pub(crate) fn set(&mut self, slot: usize, rank: Rank, sequence: u32) {
        if let Some(s) = self.slots.get_mut(slot) {
            *s = Slot { rank, sequence };
        }
    }

    pub(crate) fn rank_as(&mut self, slot: usize, rank: Rank) {
        if let Some(s) = self.slots.get_mut(slot) {
            s.rank = rank;
        }
    }

    /// The number of slots that hold an incomplete image.
    pub(crate) fn unfinished(&self) -> u8 {
        let some = |s: &&Slot| (Rank::Older..=Rank::Complete).contains(&s.rank);
        self.slots.iter().filter(some).count() as u8
    }

    /// Reads all slots, after a flush, and chooses the image that counts.
    pub(crate) fn scan(&mut self) -> Result<(), D::Error> {
        flush_before_reading(&mut self.medium)?;
        for slot in 0..N {
            self.scan_slot(slot)?;
        }
        self.current = self.candidate();
        Ok(())
    }

    // INVARIANT "Read again after an error": before an image is written or one is chosen, each slot
    // has the rank that it would have at a boot. An image that was begun and did not end may be
    // whole on the medium, or in its buffer. If it counts at the next boot, it counts now, and the
    // next images go to other slots. Otherwise one of them would be written over it: a cut in the
    // erase of its first unit, or a head that stays in the buffer, leaves a damaged image that is
    // newer than the one that counts.
    // Noticed by: tests/suite/generated/found.rs; planted `failed-image-overwritten`,
    // `victim-counts-again`.
    /// Flushes, reads the slots whose content is not known, and chooses the image that counts.
    ///
    /// If a save has failed before it changed its slot, the image there stays what it was: the one
    /// to overwrite. It may be newer than the one that counts, and rejected.
    pub(crate) fn settle(&mut self) -> Result<(), D::Error> {
        if self.slots.iter().all(|s| s.rank != Rank::Writing) {
            return Ok(());
        }
        flush_before_reading(&mut self.medium)?;
        for slot in 0..N {
            let Some(Slot {
                rank: Rank::Writing,
                sequence,
            }) = self.slots.get(slot).copied()
            else {
                continue;
            };
            self.scan_slot(slot)?;
            let old = self.slots.get(slot).is_some_and(|s| s.sequence != sequence);
            if old && !planted!("checkpoint/victim-counts-again") {
                self.rank_as(slot, self.rank(slot).min(Rank::Begun));
            }
        }
        self.current = self.candidate();
        Ok(())
    }

    // INVARIANT "Copied until one is stable": of images without commit markers the oldest is
    // copied, and never overwritten. If no image has a marker, the first checkpoint of all was cut
    // in its last words, and the others are copies of it that were cut too. No program has
    // continued from any of them, so each would do. But the latest would be copied over the oldest,
    // and in the end no copy may be readable. With the oldest, a checkpoint that lacks only its
    // marker stays, however often the restores after it are cut.
    // Noticed by: `what_is_copied_outlives_its_copies` in tests/suite/histories.rs; planted
    // `latest-unsure`.
    /// The image to restore: the newest with a commit marker. If none has one, no program ever ran
    /// on any of them. Then the oldest complete one is taken: it was written before the others were
    /// begun.
    pub(crate) fn candidate(&self) -> usize {
        let certain = pick(&self.slots, Rank::Marked, true);
        if Self::SIZES.unstable && certain == N {
            let latest = planted!("checkpoint/latest-unsure");
            return pick(&self.slots, Rank::Complete, latest);
        }
        certain
    }

    // INVARIANT "The one that counts stays": no erase and no write touches the slot of the image
    // that counts.
    // Noticed by: planted `overwrites-current` in tests/suite/crash/media.rs.
    /// The slot for the next image: never the current one, nor `spared`. Of the others, the one
    /// least likely to be needed.
    pub(crate) fn target(&self, spared: usize) -> usize {
        if planted!("checkpoint/overwrites-current") {
            return self.current % N;
        }
        stalest(&self.slots, self.current, spared)
    }

    /// A sequence number later than all readable ones.
    pub(crate) fn next_sequence(&self) -> u32 {
        let last = self.slots.get(pick(&self.slots, Rank::Begun, true));
        last.map_or(0, |s| s.sequence).wrapping_add(1)
    }
}

/// Reading an image: once to check it, and once more into memory.
impl<D: Medium, const N: usize> Images<D, N> {
    /// Reads the image of a slot, and with `apply` writes it to memory. Returns whether the image
    /// is intact.
    ///
    /// An extent that does not lie in one segment of `memory` is never written.
    #[inline(never)]
    pub(crate) fn walk(
        &mut self,
        slot: usize,
        head: &Head,
        memory: &Memory<'_>,
        apply: bool,
    ) -> Result<bool, D::Error> {
        let base = self.at(slot);
        let medium = &mut self.medium;
        let mut from = base + HEAD;
        // The checksum starts from the head that is used here. If the head on the medium is another
        // by now, the checksum does not match.
        let seed = seed(head);
        let mut crc = seed;
        let mut left = head.body();
        let mut buf = PieceBuf::new();
        let spare = buf.piece(PIECE as u32);
        while left > 0 {
            // A damaged body size makes this read at most into the trailer.
            let mut d = [0; EXTENT as usize];
            marker::read(medium, from, &mut d)?;
            from += EXTENT;
            crc = sum(crc, &d);
            let d = u64::from_le_bytes(d);
            let (at, len) = (d as u32, (d >> 32) as u32);
            let (len, zero) = (len & !ZERO, len & ZERO != 0);
            let mut written = if zero { 0 } else { len };
            let (Some(mut to), Some(rest)) =
                (memory.locate(at, len), left.checked_sub(EXTENT + written))
            else {
                return Ok(false);
            };
            left = rest;
            if zero && apply && !planted!("checkpoint/zeros-not-restored") {
                // SAFETY: *In one segment*: `to` has `len` bytes. *Segments are memory*: we may
                // write to them.
                unsafe { clear(to, len as usize) };
            }
            while written > 0 {
                let n = (PIECE as u32).min(written);
                let piece = if apply {
                    // SAFETY: *In one segment*: `len` bytes from the first `to` on, and `n` of them
                    // are left. *Segments are memory*: they are initialised, we may write to them,
                    // and no other reference to them exists.
                    unsafe { core::slice::from_raw_parts_mut(to, n as usize) }
                } else {
                    spare.get_mut(..n as usize).unwrap_or_default()
                };
                marker::read(medium, from, piece)?;
                crc = sum(crc, piece);
                from += n;
                to = to.wrapping_add(n as usize);
                written -= n;
            }
        }
        let mut found = [0; TRAILER as usize];
        let end = base + Self::SIZES.content(head.body());
        marker::read(medium, end - TRAILER, &mut found)?;
        let crc = crc.finish();
        if planted!("checkpoint/crc-unchecked") {
            return Ok(true);
        }
        Ok(found == trailer(crc, head_crc(seed, crc)))
    }
}

/// The slot with the latest (or oldest) image among those of at least this rank; `slots.len()` if
/// none.
#[inline(never)]
fn pick(slots: &[Slot], least: Rank, latest: bool) -> usize {
    let mut best = slots.len();
    for (i, s) in slots.iter().enumerate() {
        let than = slots.get(best);
        let better = |b: &Slot| later(s.sequence, b.sequence) == latest;
        if s.rank >= least && than.is_none_or(better) {
            best = i;
        }
    }
    best
}

/// The slot of the lowest rank, except `current` and `spared`; among equals, the one with the
/// oldest image.
#[inline(never)]
fn stalest(slots: &[Slot], current: usize, spared: usize) -> usize {
    let (mut best, mut than) = (0, None::<&Slot>);
    for (i, s) in slots.iter().enumerate() {
        let staler =
            |t: &Slot| s.rank < t.rank || s.rank == t.rank && later(t.sequence, s.sequence);
        if i != current && i != spared && than.is_none_or(staler) {
            (best, than) = (i, Some(s));
        }
    }
    best
}

/// Slots for whole images, and the mode that selects what each new image holds.
#[derive(Debug)]
pub struct Slots<D, M, const N: usize = 2> {
    images: Images<D, N>,
    mode: M,
}

impl<D: Medium, M: Mode, const N: usize> Slots<D, M, N> {
    /// Combines opened slots with a mode for new images. Any mode's image can be loaded.
    pub const fn new(images: Images<D, N>, mode: M) -> Self {
        Slots { images, mode }
    }

    /// Returns the slots.
    pub fn into_images(self) -> Images<D, N> {
        self.images
    }
}

// SAFETY: *Checked before it is memory*, *Stable before it is used*: an image is checked and made
// stable before its first byte is written to memory. It is checked again while it is written.
unsafe impl<D: Medium, M: Mode, const N: usize> Store for Slots<D, M, N> {
    type Error = D::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<D::Error>> {
        self.images.checkpoint(&self.mode, memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.images.restore(memory)
    }
}
