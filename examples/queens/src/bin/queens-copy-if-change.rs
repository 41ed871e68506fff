//! The program with `CopyIfChange<Split>`: of what is in use, the units of flash that the slot does not hold already.
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
