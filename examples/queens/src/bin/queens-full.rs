//! The program with `Full`: saves all statics, heap and stack.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(all(target_os = "none", target_arch = "arm"))]
mod device {
    use checkpoint::{Full, Slots};
    use example_queens::device::{Flash, images};

    example_queens::program!(Slots<Flash, Full, 3>, Slots::new(images(), Full));
}

#[cfg(not(all(target_os = "none", target_arch = "arm")))]
fn main() {}
