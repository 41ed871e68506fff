//! The program with `CopyIfChange<Split>`: of the memory in use, programs only the flash units that
//! differ from the image slot.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(all(target_os = "none", target_arch = "arm"))]
mod device {
    use checkpoint::{CopyIfChange, Slots, Split};
    use example_queens::device::{Flash, images};

    type Mode = CopyIfChange<Split>;
    example_queens::program!(Slots<Flash, Mode, 3>, Slots::new(images(), CopyIfChange(Split)));
}

#[cfg(not(all(target_os = "none", target_arch = "arm")))]
fn main() {}
