//! What a restore of a whole image takes at most.

use super::{Bounded, Cost, Most, Parts, Work, body, work};
use crate::Images;
use crate::layout::{HEAD, MARKS, PIECE, Sizes, TRAILER};
use nvmem::device::Medium;

/// Bytes of the words that these bytes lie in, which are read in so many pieces, wherever each of them begins.
const fn covered(s: &Sizes, bytes: u32, pieces: u32, read_size: u32) -> u64 {
    let around = if read_size == 1 { 0 } else { 2 * (s.word - 1) };
    bytes as u64 + pieces as u64 * around as u64
}

/// Calls that read a body as its extents and their bytes.
const fn calls(parts: Parts, body: u32) -> u32 {
    match parts {
        // Description and bytes, and of each 20 bytes at least three pieces: nothing shorter than 16 zeros is told by its length.
        Parts::HeapInParts => body / 6 + 9,
        Parts::All | Parts::NoHeap | Parts::InUse => 2 * 3 + body / PIECE as u32,
    }
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// What [`Images::open`] and the [`restore`](Images::restore) after it make the medium do at most, when the image that counts was taken in this mode of memory that had
    /// no more than this: both read the ends of all slots, and the image is read twice. On flash it may first have to be written to another slot, which is once more of
    /// reading, and the work of a checkpoint.
    ///
    /// As much again for each image that is passed over, which are `N - 1` at most: one that reads differently at the second look, after a cut, or is damaged.
    /// What an [`Archive`](crate::Archive) takes is the same.
    ///
    /// ```
    /// use checkpoint::{Cost, Images, Most, Price, Split};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<24, 256, 128, 0x00>;
    /// const MOST: Most = Most { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// // What the supply gives after it came back, before it may go again.
    /// const START: Price = Price { microjoules: 1_600, microseconds: 57_000 };
    /// // Does not compile when a boot may need more: the program might never get beyond it.
    /// const _: () = START.demand(&Cost::STM32L1, &Images::<Flash, 3>::worst_restore::<Split>(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// ```compile_fail
    /// # use checkpoint::{Cost, Images, Most, Price, Full};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<24, 256, 128, 0x00>;
    /// # const MOST: Most = Most { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// # const START: Price = Price { microjoules: 1_600, microseconds: 57_000 };
    /// const _: () = START.demand(&Cost::STM32L1, &Images::<Flash, 3>::worst_restore::<Full>(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// **Panics**: when no medium has room for so much.
    pub const fn worst_restore<M: Bounded>(most: &Most, cost: &Cost) -> Work {
        let s = &Self::SIZES;
        let r = D::CONTRACT.read_size;
        let body = body(M::PARTS, most);
        assert!(s.whole(body).is_some(), "no medium has room for this");
        let head = covered(s, HEAD, 1, r);
        let trailer = covered(s, TRAILER, 1, r);
        let marks = if s.unstable {
            covered(s, 4 * MARKS, MARKS, r)
        } else {
            0
        };
        let walk = covered(s, body, calls(M::PARTS, body), r) + trailer;
        let reads = Work {
            read: 2 * N as u64 * (head + trailer + marks) + head + 2 * walk,
            compared: 0,
            written: 0,
            programs: 0,
            erases: 0,
        };
        if !s.unstable {
            return reads;
        }
        // Read for each write, which ends with a unit at the latest.
        let pieces = s.content(body) / s.piece() + s.content(body) / s.unit + 2;
        let mut copy = work(s, body, false, cost);
        copy.read = covered(s, 4, 1, r) + covered(s, body, pieces, r);
        reads.and(copy)
    }
}
