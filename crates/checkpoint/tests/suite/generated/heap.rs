//! Heaps that a `TrackedHeap` counts, under generated allocations: the table is that of what is
//! allocated, free memory is zero, and an image brings back the whole heap, its free list too.

use super::each;
use crate::tracked::{Bench, again, steps};

#[test]
fn heap() {
    each(steps(), 100, |steps| {
        let mut bench = Bench::new();
        for (what, size, fill) in steps {
            bench.step(what, size, fill);
            bench.check();
        }
        assert!(bench.free_memory_is_zero(), "an image holds what is freed");
        let bytes = bench.bytes();
        let (found, _) = again(&bytes, &bench.heap);
        assert!(found == bytes, "a byte of the heap is lost");
    });
}

/// Chunks of more than 15 blocks, of which the table knows only the largest.
#[test]
fn heap_of_large_chunks() {
    use proptest::prelude::*;
    let step = (prop_oneof![Just(1u8), Just(4u8)], 1..3500usize, 1..=255u8);
    each(prop::collection::vec(step, 1..40), 40, |steps| {
        let mut bench = Bench::new();
        for (what, size, fill) in steps {
            bench.step(what, size, fill);
            bench.check();
        }
    });
}
