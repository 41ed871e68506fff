//! What the heap is compared with: memory that is managed by pages of one size. All data is in RAM;
//! a page must be acquired before it is used, and at most so many pages may be modified, a byte of
//! attributes for each page being counted too. When one more is wanted, the hand of a clock looks
//! for one that was not used since it last came by, and that one is written out.

use crate::kv::{KEYS, Values, size};
use crate::medium::{Counts, Fram};
use nvmem::Medium;

const DIRTY: u8 = 1;
const USED: u8 = 2;
const PIN: u8 = 4;

/// A managed memory of pages of `S` bytes.
pub struct Pages<'c, const S: usize> {
    bytes: Vec<u8>,
    /// Of each page: whether it is modified, whether it was used, how often it is acquired.
    attributes: Vec<u8>,
    dirty: usize,
    most: usize,
    hand: usize,
    fram: Fram<'c>,
}

impl<'c, const S: usize> Pages<'c, S> {
    /// `len` bytes, of which `limit` may be modified, attributes included.
    pub fn new(len: usize, limit: usize, counts: &'c Counts) -> Self {
        let pages = len.div_ceil(S);
        Pages {
            bytes: vec![0; pages * S],
            attributes: vec![0; pages],
            dirty: 0,
            most: limit.saturating_sub(pages) / S,
            hand: 0,
            fram: Fram::new(pages * S, counts),
        }
    }

    /// Bytes of attributes.
    pub fn metadata(&self) -> usize {
        self.attributes.len()
    }

    /// Whether there is room for a page that is modified.
    pub fn is_possible(&self) -> bool {
        self.most > 0
    }

    fn write_out(&mut self, page: usize) {
        let at = page * S;
        if self.fram.write(at as u32, &self.bytes[at..at + S]).is_ok() {
            self.attributes[page] &= !DIRTY;
            self.dirty -= 1;
        }
    }

    fn clean_one(&mut self) {
        loop {
            let page = self.hand;
            self.hand = if page + 1 == self.attributes.len() {
                0
            } else {
                page + 1
            };
            let a = self.attributes[page];
            if a & DIRTY == 0 || a >= PIN {
                continue;
            }
            if a & USED != 0 {
                self.attributes[page] = a & !USED;
                continue;
            }
            return self.write_out(page);
        }
    }

    /// Makes the bytes writable until [`Pages::release`]. An object that is larger than what may be
    /// modified at once is acquired in parts.
    fn acquire(&mut self, at: usize, len: usize) {
        for page in at / S..=(at + len - 1) / S {
            if self.attributes[page] & DIRTY == 0 {
                while self.dirty >= self.most {
                    self.clean_one();
                }
                self.dirty += 1;
            }
            self.attributes[page] = (self.attributes[page] | DIRTY | USED) + PIN;
        }
    }

    fn release(&mut self, at: usize, len: usize) {
        for page in at / S..=(at + len - 1) / S {
            self.attributes[page] -= PIN;
        }
    }

    /// Writes out everything that is modified.
    pub fn flush(&mut self) {
        for page in 0..self.attributes.len() {
            if self.attributes[page] & DIRTY != 0 {
                self.write_out(page);
            }
        }
    }

    /// Fills `len` bytes.
    pub fn fill(&mut self, at: usize, len: usize, fill: u8) {
        self.acquire(at, len);
        self.bytes[at..at + len].fill(fill);
        self.release(at, len);
    }
}

/// The values in managed memory, one behind the other.
pub struct PageValues<'c, const S: usize> {
    pages: Pages<'c, S>,
    places: Vec<usize>,
    counts: &'c Counts,
}

impl<'c, const S: usize> PageValues<'c, S> {
    /// Inserts all and flushes.
    pub fn new(limit: usize, counts: &'c Counts) -> Self {
        let mut places = Vec::new();
        let mut end = 0;
        for key in 0..KEYS {
            places.push(end);
            end += size(key);
        }
        let mut pages = Pages::new(end, limit, counts);
        for (key, at) in places.iter().enumerate() {
            pages.fill(*at, size(key), 0);
        }
        pages.flush();
        counts.reset();
        PageValues {
            pages,
            places,
            counts,
        }
    }

    /// Bytes of attributes.
    pub fn metadata(&self) -> usize {
        self.pages.metadata()
    }
}

impl<const S: usize> Values for PageValues<'_, S> {
    fn update(&mut self, key: usize, fill: u8) {
        self.pages.fill(self.places[key], size(key), fill);
    }

    fn holds(&mut self, key: usize, fill: u8) -> bool {
        let at = self.places[key];
        self.pages.bytes[at..at + size(key)]
            .iter()
            .all(|b| *b == fill)
    }

    fn counts(&self) -> &Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{LIMIT, Pattern, all_hold, updates};

    #[test]
    fn the_limit_holds_and_what_is_flushed_is_on_the_medium() {
        let counts = Counts::default();
        let mut v = PageValues::<64>::new(LIMIT, &counts);
        let keys = Pattern::Uniform.keys(2_000, 3);
        for part in keys.chunks(7) {
            updates(&mut v, part);
            let dirty = v.pages.attributes.iter().filter(|a| **a & DIRTY != 0);
            let modified = dirty.count() * 64 + v.metadata();
            assert!(modified <= LIMIT, "{modified}");
        }
        let mut v = PageValues::<64>::new(LIMIT, &counts);
        updates(&mut v, &keys);
        assert!(all_hold(&mut v, &keys));
        assert_ne!(v.pages.fram.bytes(), v.pages.bytes);
        v.pages.flush();
        assert_eq!(v.pages.fram.bytes(), v.pages.bytes);
    }
}
