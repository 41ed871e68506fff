//! The image in RAM and its shadow: what differs, and how a record is taken over.
//!
//! ```text
//! memory   | image: the region that the program works in | shadow: what the medium holds |
//!
//! save     image  ->  shadow     at one instant; then shadow -> record, while the image may change
//! open     record ->  image      checked: image -> shadow       not a record: shadow -> image
//! ```
//!
//! A record is read once. Its words go straight to the image, and the shadow can undo them. So the
//! bytes that were checked are those that are used, also where a second read would differ.
//!
//! What a record holds are [`Runs`]: a few ranges of words. If more places have changed than there
//! are ranges, the last one spans them, with the words between them, which are as they were.
//!
//! The image holds values. None of their bytes is uninitialised padding: the region has the model
//! [`Ram`].
//!
//! The bytes in `scratch` of the owner count as zeros. So the medium never holds a journal, unless
//! a transaction was open at a save; the next save at rest then writes zeros over it.

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use nvmem::at_rest::RestingRegion;
use nvmem::{Model, Ram, Region, mapped, planted};

use crate::format::MAX_WORDS;

// INVARIANT "At rest": the mirror reads the image only inside of `AtRest::resting` of the owner of
// the image, and writes it only before the region was given out. An owner of other memory is
// refused: `Image::is`.
// Noticed by: planted `any-region`; tests/suite/basic.rs under Miri.

pub(crate) struct Image<'m> {
    base: NonNull<u32>,
    shadow: &'m mut [u32],
}

// SAFETY: invariant "At rest": only the holder of `Image` uses it, and only while it has `&mut` to
// the owner of the region.
unsafe impl Send for Image<'_> {}

impl<'m> Image<'m> {
    /// The image in the first half of the memory, and its region. `None` if it has no words, or too
    /// many.
    pub(crate) fn new<M: Model>(
        memory: &'m mut [MaybeUninit<u64>],
    ) -> Option<(Self, Region<'m, Ram<M>>)> {
        let half = memory.len() / 2;
        let (first, second) = memory.split_at_mut_checked(half)?;
        let region = Region::<Ram<M>>::new(first);
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

    /// Whether this is the region of this image.
    pub(crate) fn is(&self, owned: &RestingRegion) -> bool {
        let mine = owned.base == self.base.as_ptr().cast() && owned.len == self.words() * 4;
        mine || planted!("nv-mirror/any-region")
    }

    // INVARIANT "Journals only when needed": the medium holds zeros where the journal of the owner
    // lies, except after a save with an open transaction. `at_rest` of the pool (at_rest.rs of
    // pmem-tx) says where that is, and `wanted` reads zeros there.
    // Noticed by: planted `scratch-not-cleared`, `pmem-tx/rest-ignores-open`.

    /// The words that count as zeros.
    fn scratch(owned: &RestingRegion) -> Range<usize> {
        // What the owner wrote through references is in memory.
        mapped::end_loans(owned.base);
        owned.scratch.start.div_ceil(4)..owned.scratch.end / 4
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
        // SAFETY: invariants "At rest" and "Saved bytes have values": inside the image, whose owner
        // is borrowed mutably; `AtRest` promises that all its bytes are initialised.
        unsafe { self.base.add(i).read_volatile() }
    }

    /// Writes a word of a record that is being read.
    pub(crate) fn put(&mut self, i: usize, w: u32) {
        debug_assert!(i < self.words());
        // SAFETY: invariant "At rest": inside the image, whose region was not given out yet.
        unsafe { self.base.add(i).write(w) }
    }

    // INVARIANT "One instant": what a save writes is the image at one instant, also if others
    // commit while the medium is written. `take_changes` and `take_all` copy to the shadow, from
    // which the record is written.
    // Noticed by: `a_change_while_a_save_waits` in tests/suite/asynch.rs; planted
    // `later-changes-count`.

    /// Takes what has changed into the shadow. Returns where that is.
    pub(crate) fn take_changes(&mut self, owned: &RestingRegion) -> Runs {
        let scratch = Self::scratch(owned);
        let mut runs = Runs::new();
        for i in 0..self.words() {
            let word = self.wanted(i, &scratch);
            if let Some(s) = self.shadow.get_mut(i)
                && *s != word
            {
                *s = word;
                runs.add(i);
            }
        }
        runs
    }

    /// Takes all words into the shadow.
    pub(crate) fn take_all(&mut self, owned: &RestingRegion) {
        let scratch = Self::scratch(owned);
        for i in 0..self.words() {
            self.take(i, &scratch);
        }
    }

    /// The next range of words from `from` on that a record holds: of these runs, or of a base
    /// image, which leaves zeros out.
    pub(crate) fn next_run(&self, from: usize, runs: Option<&Runs>) -> Option<Range<usize>> {
        if let Some(runs) = runs {
            return runs.iter().find(|run| run.start >= from);
        }
        let words = self.words();
        let start = (from..words).find(|i| self.saved(*i) != 0)?;
        let end = (start..words).find(|i| self.saved(*i) == 0);
        Some(start..end.unwrap_or(words))
    }

    /// The word as it goes to the medium.
    pub(crate) fn saved(&self, i: usize) -> u32 {
        self.shadow.get(i).copied().unwrap_or(0)
    }

    fn take(&mut self, i: usize, scratch: &Range<usize>) {
        let w = self.wanted(i, scratch);
        if let Some(s) = self.shadow.get_mut(i) {
            *s = w;
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
            self.put(i, self.saved(i));
        }
    }
}

/// The most ranges of a record.
const MOST_RUNS: usize = 16;

/// Ranges of changed words, in order.
pub(crate) struct Runs {
    /// The start and the end of each.
    runs: [(u16, u16); MOST_RUNS],
    len: usize,
}

impl Runs {
    fn new() -> Self {
        Runs {
            runs: [(0, 0); MOST_RUNS],
            len: 0,
        }
    }

    /// Adds a word after those that it has.
    fn add(&mut self, i: usize) {
        let word = i as u16;
        if let Some((_, end)) = self.len.checked_sub(1).and_then(|n| self.runs.get_mut(n))
            && (*end == word || self.len == MOST_RUNS)
        {
            if *end != word && planted!("nv-mirror/last-runs-lost") {
                return;
            }
            *end = word + 1;
            return;
        }
        if let Some(run) = self.runs.get_mut(self.len) {
            *run = (word, word + 1);
            self.len += 1;
        }
    }

    fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        let ranges = self.runs.iter().take(self.len);
        ranges.map(|(start, end)| usize::from(*start)..usize::from(*end))
    }

    /// Bytes of the record; 0 if nothing has changed.
    pub(crate) fn bytes(&self) -> u32 {
        let bytes: u32 = self.iter().map(|run| 4 + 4 * run.len() as u32).sum();
        if bytes == 0 { 0 } else { bytes + 8 }
    }
}
