//! The image in RAM and its shadow: what differs, and how a record is taken over.
//!
//! ```text
//! memory   | image: the region that the program works in | shadow: what the medium holds |
//!
//! save     image  ->  record     each word that is written also goes to the shadow
//! open     record ->  image      checked: image -> shadow       not a record: shadow -> image
//! ```
//!
//! A record is read once. Its words go straight to the image, and the shadow can undo them. So the
//! bytes that were checked are those that are used, also where a second read would differ.
//!
//! The image holds values, and some of their bytes may be padding. It is read as machine memory: by
//! volatile loads, after a barrier that may have written all of it. So each byte has one value in
//! all loads of a save. The mirror copies and compares it, and takes no decision from its meaning.
//!
//! The bytes in `scratch` of the owner count as zeros. So the medium never holds a journal, unless
//! a transaction was open at a save; the next save at rest then writes zeros over it.

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use nvmem::at_rest::RestingRegion;
use nvmem::{Model, Region, mapped, planted};

use crate::format::MAX_WORDS;

pub(crate) struct Image<'m> {
    base: NonNull<u32>,
    shadow: &'m mut [u32],
}

// SAFETY: invariant "At rest": the image is used only while its owner is borrowed mutably, by the
// one who holds this.
unsafe impl Send for Image<'_> {}

impl<'m> Image<'m> {
    /// The image in the first half of the memory, and its region. `None` if it has no words, or too
    /// many.
    pub(crate) fn new<M: Model>(
        memory: &'m mut [MaybeUninit<u64>],
    ) -> Option<(Self, Region<'m, M>)> {
        let half = memory.len() / 2;
        let (first, second) = memory.split_at_mut_checked(half)?;
        let region = Region::<M>::new(first);
        let words = region.len() / 4;
        if words == 0 || words > MAX_WORDS {
            return None;
        }
        for w in second.iter_mut() {
            w.write(0);
        }
        let shadow = NonNull::from(second).cast::<u32>();
        let base = NonNull::new(region.base())?.cast::<u32>();
        // SAFETY: invariant "At rest": the second half was initialised above, is not shorter than
        // the region, and is borrowed for `'m`.
        let shadow = unsafe { core::slice::from_raw_parts_mut(shadow.as_ptr(), words) };
        let mut image = Image { base, shadow };
        image.clear();
        Some((image, region))
    }

    pub(crate) fn words(&self) -> usize {
        self.shadow.len()
    }

    /// The words that count as zeros, if the owner's region is this image.
    pub(crate) fn at_rest(&self, owned: &RestingRegion) -> Option<Range<usize>> {
        let mine = owned.base == self.base.as_ptr().cast() && owned.len == self.words() * 4;
        if !mine && !planted!("nv-mirror/any-region") {
            return None;
        }
        // What the owner wrote through references is in memory, padding too.
        mapped::end_loans(owned.base);
        Some(owned.scratch.start.div_ceil(4)..owned.scratch.end / 4)
    }

    /// The word as the medium is to hold it.
    #[inline(always)]
    fn wanted(&self, i: usize, scratch: &Range<usize>) -> u32 {
        debug_assert!(i < self.words());
        if scratch.contains(&i) {
            if planted!("nv-mirror/scratch-not-cleared") {
                return self.shadow.get(i).copied().unwrap_or(0);
            }
            return 0;
        }
        // SAFETY: invariants "At rest" and "Padding as memory": inside the image, and its owner is
        // borrowed mutably; the load is volatile.
        unsafe { self.base.add(i).read_volatile() }
    }

    /// Writes a word of a record that is being read.
    pub(crate) fn put(&mut self, i: usize, w: u32) {
        debug_assert!(i < self.words());
        // SAFETY: invariant "At rest": inside the image, whose region was not given out yet.
        unsafe { self.base.add(i).write(w) }
    }

    /// Whether a word is part of a record; of a base image if it is `full`.
    #[inline(always)]
    fn differs(&self, i: usize, full: bool, scratch: &Range<usize>) -> bool {
        let old = if full {
            0
        } else {
            self.shadow.get(i).copied().unwrap_or(0)
        };
        self.wanted(i, scratch) != old
    }

    /// The next run of words from `from` on that a record holds.
    pub(crate) fn next_run(
        &self,
        from: usize,
        full: bool,
        scratch: &Range<usize>,
    ) -> Option<Range<usize>> {
        let words = self.words();
        let start = (from..words).find(|i| self.differs(*i, full, scratch))?;
        let end = (start..words).find(|i| !self.differs(*i, full, scratch));
        Some(start..end.unwrap_or(words))
    }

    /// Bytes of a record of what has changed; 0 if nothing has.
    pub(crate) fn changed_bytes(&self, scratch: &Range<usize>) -> u32 {
        let (mut at, mut bytes) = (0, 0);
        while let Some(run) = self.next_run(at, false, scratch) {
            bytes += 4 + 4 * run.len() as u32;
            at = run.end;
        }
        if bytes == 0 { 0 } else { bytes + 8 }
    }

    /// Takes a word into the shadow and returns it.
    pub(crate) fn take(&mut self, i: usize, scratch: &Range<usize>) -> u32 {
        let w = self.wanted(i, scratch);
        if let Some(s) = self.shadow.get_mut(i) {
            *s = w;
        }
        w
    }

    /// Takes all words into the shadow.
    pub(crate) fn take_all(&mut self, scratch: &Range<usize>) {
        for i in 0..self.words() {
            self.take(i, scratch);
        }
    }

    /// All zeros, as before the first base image.
    pub(crate) fn clear(&mut self) {
        self.shadow.fill(0);
        self.reject(0..self.words());
    }

    /// The record that wrote these words counts.
    pub(crate) fn accept(&mut self, words: Range<usize>) {
        for i in words {
            self.take(i, &(0..0));
        }
    }

    /// The record that wrote these words is none.
    pub(crate) fn reject(&mut self, words: Range<usize>) {
        for i in words {
            let old = self.shadow.get(i).copied().unwrap_or(0);
            self.put(i, old);
        }
    }
}
