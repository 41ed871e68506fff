//! A thermometer whose limits survive: QEMU's mps2-an386 with a TMP105 on its I2C bus, and the
//! driver `tmp1x2` as it is.
//!
//! QEMU's device is nobody's here. It loses its registers with each process, as a chip does with
//! its supply. Each boot sees the registers of a reset, builds the driver, and compares the
//! registers on the bus with what the program has committed. Then the program changes the limits,
//! until it is killed.
//!
//! ```text
//! qemu-system-arm -machine mps2-an386 -device tmp105,address=0x48 ...
//! ```
//!
//! `cargo xtask ci --only system-qemu` kills it.
#![cfg_attr(
    all(target_os = "none", target_arch = "arm"),
    no_std,
    no_main,
    deny(unsafe_op_in_unsafe_fn)
)]

#[cfg(all(target_os = "none", target_arch = "arm"))]
mod i2c;
#[cfg(all(target_os = "none", target_arch = "arm"))]
mod program;

#[cfg(all(target_os = "none", target_arch = "arm"))]
relume_firmware::image!(program::group());

#[cfg(not(all(target_os = "none", target_arch = "arm")))]
fn main() {}
