//! The directory: finds the frame of an object number. Linear hashing, with bucket heads of two
//! bytes that grow down from the end of the buffer; chains run through the frame headers.
//!
//! A new bucket splits the chain of one old bucket; a removed one joins it again. So growing by one
//! object never rehashes everything.

use super::header::{self, NONE, UNIT};
use super::{Cache, Frame};
use crate::policy::PolicyRules;
use nvmem::planted;

/// The directory grows when there are more than five objects to four buckets.
const CHAIN: usize = 5;
/// At this average chain length, compaction for a larger directory pays; evicting an object for it
/// does not.
const LONG_CHAIN: usize = 4;

impl<P: PolicyRules> Cache<P> {
    // INVARIANT "Heads are written": the heads of all buckets lie above the frames, and each was
    // written when its bucket was added: `limit`, `grow`, `shrink_for`.
    // Noticed by: planted `directory-grows-into-blocks`; tests/suite/soundness.rs under Miri.
    /// Units below the directory.
    pub(super) fn limit(&self) -> usize {
        self.limit_of(self.heads())
    }

    /// Units below a directory of so many buckets.
    pub(super) fn limit_of(&self, heads: usize) -> usize {
        (self.len as usize - 2 * heads) / UNIT
    }

    /// The fewest buckets: chains get long, but not long enough to trigger compaction.
    pub(super) fn least_heads(&self) -> usize {
        (usize::from(self.count) / LONG_CHAIN + 1).min(self.heads())
    }

    /// The number of buckets.
    #[inline(always)]
    pub(super) fn heads(&self) -> usize {
        isize::from(self.least).unsigned_abs()
    }

    #[inline(always)]
    fn head_at(&self, bucket: isize) -> *mut u16 {
        // SAFETY: invariant "Heads are written": the bucket is from `least` to -1, so its head lies
        // in the buffer, before `len`. This is even, as is the base.
        unsafe {
            self.first
                .byte_add(self.len as usize)
                .cast::<u16>()
                .offset(bucket)
        }
        .as_ptr()
    }

    #[inline(always)]
    fn head(&self, bucket: isize) -> u16 {
        // SAFETY: invariant "Heads are written": each was written when it was added.
        unsafe { self.head_at(bucket).read() }
    }

    pub(super) fn set_head(&mut self, bucket: isize, at: u16) {
        // SAFETY: invariant "Heads are written": as in `head_at`.
        unsafe { self.head_at(bucket).write(at) }
    }

    /// The bucket of the object in this frame.
    fn bucket_of(&self, at: Frame) -> isize {
        self.bucket(header::id(self.tag(at)))
    }

    /// A bucket is a negative number, counted from the end of the buffer. Object numbers are dense,
    /// so their low bits serve as hash.
    #[inline(always)]
    fn bucket(&self, id: u16) -> isize {
        let bucket = isize::from(self.mask) | id as isize;
        if bucket < isize::from(self.least) {
            return self.not_split_yet(bucket);
        }
        bucket
    }

    #[cold]
    #[inline(always)]
    fn not_split_yet(&self, bucket: isize) -> isize {
        // SAFETY: a field of the cache, which is borrowed. With it, the bucket is one of those in
        // invariant "Heads are written". Read again, so that the common path needs no copy.
        let mask = unsafe { (&raw const self.mask).read_volatile() };
        bucket | isize::from(mask >> 1)
    }

    /// The frame of the object, if it is resident.
    pub(crate) fn lookup(&self, id: u16) -> Option<Frame> {
        let mut place = self.head(self.bucket(id));
        while place != NONE {
            let at = self.at(place);
            if header::id(self.tag(at)) == id {
                return Some(at);
            }
            place = header::link(self.span(at));
        }
        None
    }

    /// The frame of the object, if it is resident and not pinned. Takes fewer instructions than
    /// [`Cache::lookup`] for the first of a chain.
    #[inline(always)]
    pub(crate) fn lookup_unpinned(&self, id: u16) -> Option<Frame> {
        let place = self.head(self.bucket(id));
        if place == NONE {
            return None;
        }
        let at = self.at(place);
        if header::is_unpinned(self.tag(at), id) {
            return Some(at);
        }
        self.find_after(at, id)
    }

    /// [`Cache::lookup_unpinned`] in the rest of a chain.
    fn find_after(&self, mut at: Frame, id: u16) -> Option<Frame> {
        loop {
            // As a byte offset, truncated to 16 bits: fewer instructions.
            let offset = (self.span(at) as u16) << header::LINK_OFFSET;
            if offset == NONE << header::LINK_OFFSET {
                return None;
            }
            at = Frame(self.first).up(usize::from(offset));
            if header::is_unpinned(self.tag(at), id) {
                return Some(at);
            }
        }
    }

    // INVARIANT "One chain": each frame in use is in exactly one chain of the directory, the one of
    // its object number: `link`, `relink`, `unlink`.
    // Noticed by: the model test in cache/tests.rs.
    /// Writes a frame header for this object and enters it into the directory.
    pub(super) fn link(&mut self, at: Frame, id: u16, len: usize) {
        let h = self.policy.fresh();
        self.make_used(at, id, len, h);
        self.count += 1;
        self.chain(at, self.bucket_of(at));
    }

    /// Sets the number of buckets.
    #[inline(never)]
    pub(super) fn set_heads(&mut self, heads: usize) {
        self.least = (heads as i16).wrapping_neg();
        // All but the bits below the next power of two.
        let below = usize::MAX.checked_shr((heads - 1).leading_zeros());
        self.mask = !below.unwrap_or(0) as i16;
    }

    #[inline(never)]
    fn chain(&mut self, at: Frame, bucket: isize) {
        let next = self.head(bucket);
        self.set_link(at, next);
        self.set_head(bucket, self.place(at));
    }

    /// Replaces this frame in its chain by another unit, or by the rest of the chain.
    pub(super) fn relink(&mut self, at: Frame, with: u16) {
        let bucket = self.bucket_of(at);
        let place = self.place(at);
        let mut next = self.head(bucket);
        if next == place {
            return self.set_head(bucket, with);
        }
        while next != NONE {
            let from = self.at(next);
            next = header::link(self.span(from));
            if next == place {
                return self.set_link(from, with);
            }
        }
        debug_assert!(false, "in no chain");
    }

    /// Takes a frame out of the directory.
    pub(super) fn unlink(&mut self, at: Frame) {
        self.relink(at, header::link(self.span(at)));
        self.count -= 1;
    }

    /// Whether one more object makes chains too long.
    pub(super) fn is_crowded(&self) -> bool {
        4 * usize::from(self.count) >= CHAIN * self.heads()
    }

    /// Whether chains are so long that compaction pays.
    pub(super) fn is_overcrowded(&self) -> bool {
        usize::from(self.count) >= LONG_CHAIN * self.heads()
    }

    /// Removes buckets, down to long chains, if that makes space on top of the frames.
    pub(super) fn shrink_for(&mut self, need: u16) -> bool {
        let limit = self.limit_of(self.least_heads());
        if self.top as usize + need as usize > limit {
            return false;
        }
        while !self.fits_on_top(need) {
            self.shrink_by_one();
        }
        true
    }

    /// Grows as far as needed and possible. Whether it is large enough now.
    pub(super) fn grow(&mut self) -> bool {
        while self.is_crowded() {
            let is_full = self.limit_of(self.heads() + 1) < self.top as usize;
            if is_full && !planted!("vnv-heap/directory-grows-into-blocks") {
                return false;
            }
            // The bucket to split holds the objects of the new one.
            self.set_heads(self.heads() + 1);
            let new = isize::from(self.least);
            let old = self.not_split_yet(new);
            self.set_head(new, NONE);
            let at = self.head(old);
            self.set_head(old, NONE);
            self.chain_all(at);
        }
        true
    }

    /// Removes a bucket when there are more buckets than objects.
    pub(super) fn shrink(&mut self) {
        if usize::from(self.count) < self.heads() && self.heads() > 1 {
            self.shrink_by_one();
        }
    }

    #[inline(never)]
    fn shrink_by_one(&mut self) {
        let at = self.head(isize::from(self.least));
        self.set_heads(self.heads() - 1);
        self.chain_all(at);
    }

    /// Puts each frame of this old chain into its current bucket.
    #[inline(never)]
    fn chain_all(&mut self, mut place: u16) {
        while place != NONE {
            let at = self.at(place);
            place = header::link(self.span(at));
            self.chain(at, self.bucket_of(at));
        }
    }
}
