//! The worst-case cost of restoring a whole image.

use super::{Bounded, Cost, Maxima, SavedParts, Work, body, work};
use crate::Images;
use crate::layout::{HEAD, MARKER_WORDS, PIECE, Sizes, TRAILER};
use nvmem::device::Medium;

/// Bytes of the words that cover these bytes, if they are read in so many misaligned pieces.
const fn covered(s: &Sizes, bytes: u32, pieces: u32, read_size: u32) -> u64 {
    let around = if read_size == 1 { 0 } else { 2 * (s.word - 1) };
    bytes as u64 + pieces as u64 * around as u64
}

/// The read calls for a body: its extents' descriptions and their bytes.
const fn calls(parts: SavedParts, body: u32) -> u32 {
    match parts {
        // A description and its bytes: at least three calls for each 20 bytes, because no run below
        // 16 zeros is left out.
        SavedParts::NonzeroHeap => body / 6 + 9,
        SavedParts::All | SavedParts::NoHeap | SavedParts::InUse => 2 * 3 + body / PIECE as u32,
    }
}

impl<D: Medium, const N: usize> Images<D, N> {
    /// The most work of [`Images::open`] and the [`restore`](Images::restore) after it, for an
    /// image in this mode of memory of at most this size. Both read the ends of all slots, and the
    /// image is read twice. On flash the image may first have to be copied: one more read, and the
    /// work of a checkpoint.
    ///
    /// Each rejected image costs the same again, at most `N - 1` of them: one that a cut left
    /// unstable, or a damaged one. An [`Archive`](crate::Archive) takes the same.
    ///
    /// ```
    /// use checkpoint::{Cost, Images, Maxima, Price, Split};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<24, 256, 128, 0x00>;
    /// const MOST: Maxima = Maxima { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// // What the supply gives after it came back, before it may go again.
    /// const START: Price = Price { microjoules: 1_600, microseconds: 57_000 };
    /// // Does not compile when a boot may need more: the program might never get beyond it.
    /// const _: () = START.assert_enough(&Cost::STM32L1, &Images::<Flash, 3>::worst_restore::<Split>(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// ```compile_fail
    /// # use checkpoint::{Cost, Images, Maxima, Price, Full};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<24, 256, 128, 0x00>;
    /// # const MOST: Maxima = Maxima { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// # const START: Price = Price { microjoules: 1_600, microseconds: 57_000 };
    /// const _: () = START.assert_enough(&Cost::STM32L1, &Images::<Flash, 3>::worst_restore::<Full>(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// **Panics**: if no medium is large enough.
    pub const fn worst_restore<M: Bounded>(most: &Maxima, cost: &Cost) -> Work {
        let s = &Self::SIZES;
        let r = D::CONTRACT.read_size;
        let body = body(M::PARTS, most);
        assert!(
            s.whole(body).is_some(),
            "no medium is large enough for this"
        );
        let head = covered(s, HEAD, 1, r);
        let trailer = covered(s, TRAILER, 1, r);
        let marks = if s.unstable {
            covered(s, 4 * MARKER_WORDS, MARKER_WORDS, r)
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
        // One read for each write; a write ends with its unit at the latest.
        let pieces = s.content(body) / s.piece() + s.content(body) / s.unit + 2;
        let mut copy = work(s, body, false, cost);
        copy.read = covered(s, 4, 1, r) + covered(s, body, pieces, r);
        reads.and(copy)
    }
}
