//! The program with `HeapTracker`: saves the used blocks of the heap, nonzero data of the others,
//! and the used stack.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(all(target_os = "none", target_arch = "arm"))]
mod device {
    use checkpoint::{HeapTracker, Slots, TrackedHeap};
    use example_queens::device::{Flash, HEAP, images};

    use embedded_alloc::LlffHeap;

    type Mode = HeapTracker<'static, TrackedHeap<LlffHeap, 128>>;
    example_queens::program!(Slots<Flash, Mode, 3>, Slots::new(images(), HeapTracker(&HEAP)));
}

#[cfg(not(all(target_os = "none", target_arch = "arm")))]
fn main() {}
