//! Where an object is: linear hashing, with heads of two bytes that grow down from the buffer's end.

use super::block::{self, NONE, UNIT};
use super::{Cache, Slot};
use crate::policy::Rules;
use nvmem::planted;

/// Objects to a bucket, at most on average, where there was room to grow.
const CHAIN: u16 = 2;
/// As many are worse than packing blocks for a larger directory, and better than an object less in RAM.
const LONG_CHAIN: u16 = 4;

impl<P: Rules> Cache<P> {
    /// Units below the directory.
    pub(super) fn limit(&self) -> usize {
        (self.len as usize - 2 * self.heads as usize) / UNIT
    }

    #[inline(always)]
    fn head_at(&self, bucket: u16) -> *mut u16 {
        // SAFETY: there are `heads` of them before `len`, which is even, as is the base.
        unsafe { self.base.add(self.len as usize - 2 - 2 * bucket as usize) }
            .cast()
            .as_ptr()
    }

    #[inline(always)]
    fn head(&self, bucket: u16) -> u16 {
        // SAFETY: each was written when it was added.
        unsafe { self.head_at(bucket).read() }
    }

    pub(super) fn set_head(&mut self, bucket: u16, at: u16) {
        // SAFETY: as in `head_at`.
        unsafe { self.head_at(bucket).write(at) }
    }

    #[inline(always)]
    fn bucket(&self, id: u16) -> u16 {
        let hash = id ^ id >> 6;
        let bucket = hash & self.mask;
        if bucket >= self.heads {
            return self.not_split_yet(bucket);
        }
        bucket
    }

    #[cold]
    #[inline(always)]
    fn not_split_yet(&self, bucket: u16) -> u16 {
        bucket & self.mask >> 1
    }

    /// Where the object is, if it is resident.
    #[inline(always)]
    pub(crate) fn lookup(&self, id: u16) -> Option<Slot> {
        let mut at = self.head(self.bucket(id));
        while at != NONE {
            if self.tag(at) as u16 == id {
                return Some(Slot(at));
            }
            at = block::link(self.span(at));
        }
        None
    }

    /// Makes a block of this object here and puts it into the directory.
    pub(super) fn enter(&mut self, at: u16, id: u16, len: usize) {
        let h = self.policy.fresh();
        self.make_used(at, id, len, h);
        self.count += 1;
        self.chain(at, self.bucket(id));
    }

    /// There are so many buckets.
    pub(super) fn set_heads(&mut self, heads: u16) {
        self.heads = heads;
        // One less than the next power of two.
        self.mask = u16::MAX
            .checked_shr((heads - 1).leading_zeros())
            .unwrap_or(0);
    }

    fn chain(&mut self, at: u16, bucket: u16) {
        let next = self.head(bucket);
        self.set_link(at, next);
        self.set_head(bucket, at);
    }

    /// Puts another place, or nothing, where the directory has this one.
    pub(super) fn relink(&mut self, at: u16, with: u16) {
        let bucket = self.bucket(self.tag(at) as u16);
        let mut from = self.head(bucket);
        if from == at {
            return self.set_head(bucket, with);
        }
        while from != NONE {
            let next = block::link(self.span(from));
            if next == at {
                return self.set_link(from, with);
            }
            from = next;
        }
        debug_assert!(false, "in no chain");
    }

    /// Takes a block out of the directory.
    pub(super) fn leave(&mut self, at: u16) {
        self.relink(at, block::link(self.span(at)));
        self.count -= 1;
    }

    /// Whether one more object makes chains too long.
    pub(super) fn is_crowded(&self) -> bool {
        self.count >= CHAIN * self.heads
    }

    /// Whether chains are so long that it is worth moving blocks.
    pub(super) fn is_overcrowded(&self) -> bool {
        self.count >= LONG_CHAIN * self.heads
    }

    /// Gives buckets back, down to long chains, if that makes room above the blocks.
    pub(super) fn yield_room(&mut self, need: u16) -> bool {
        let least = (self.count / LONG_CHAIN + 1).min(self.heads);
        let limit = (self.len as usize - 2 * least as usize) / UNIT;
        if self.top as usize + need as usize > limit {
            return false;
        }
        while !self.fits_above(need) {
            self.shrink_by_one();
        }
        true
    }

    /// Grows as far as it should and can. Whether it is as large as it should be.
    pub(super) fn grow(&mut self) -> bool {
        while self.is_crowded() {
            if (self.len as usize - 2 * self.heads as usize - 2) / UNIT < self.top as usize
                && !planted!("vnv-heap/directory-grows-into-blocks")
            {
                return false;
            }
            // The bucket that is split: the new one without its highest bit.
            let new = self.heads;
            let old = new & !(1 << (15 - new.leading_zeros()));
            self.set_heads(new + 1);
            self.set_head(new, NONE);
            let mut at = self.head(old);
            self.set_head(old, NONE);
            while at != NONE {
                let next = block::link(self.span(at));
                self.chain(at, self.bucket(self.tag(at) as u16));
                at = next;
            }
        }
        true
    }

    /// Gives a bucket back when there are more of them than objects.
    pub(super) fn shrink(&mut self) {
        if self.count < self.heads && self.heads > 1 {
            self.shrink_by_one();
        }
    }

    fn shrink_by_one(&mut self) {
        let last = self.heads - 1;
        let mut at = self.head(last);
        self.set_heads(last);
        while at != NONE {
            let next = block::link(self.span(at));
            self.chain(at, self.bucket(self.tag(at) as u16));
            at = next;
        }
    }
}
