//! The program with `Log`, the mode *Adaptive*: writes changes since the last checkpoint to new
//! places.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(all(target_os = "none", target_arch = "arm"))]
mod device {
    use checkpoint::Log;
    use example_queens::device::{Flash, log};

    example_queens::program!(Log<Flash, 168, 256>, log());
}

#[cfg(not(all(target_os = "none", target_arch = "arm")))]
fn main() {}
