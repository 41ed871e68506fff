//! The program with `Split`: saves statics, the heap up to the last used block, the used stack.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(all(target_os = "none", target_arch = "arm"))]
mod device {
    use checkpoint::{Slots, Split};
    use example_queens::device::{Flash, images};

    example_queens::program!(Slots<Flash, Split, 3>, Slots::new(images(), Split));
}

#[cfg(not(all(target_os = "none", target_arch = "arm")))]
fn main() {}
