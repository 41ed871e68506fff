//! Any bytes as the region of a kernel: `open` gives an error value, or threads that run.

#![no_main]
#![allow(dead_code)] // the file is shared with the tests of `nv-rtos`, which use more

use libfuzzer_sys::fuzz_target;
use relume_fuzz::{attack, bytes_mut, seeds_of_both};
use std::sync::LazyLock;

#[path = "../../crates/rtos/tests/suite/hostile/system.rs"]
mod system;

/// In the middle of the program.
static NARROW: LazyLock<Vec<u8>> = LazyLock::new(|| system::image(system::in_order_16::run, 2));
static WIDE: LazyLock<Vec<u8>> = LazyLock::new(|| system::image(system::in_order_32::run, 2));

fuzz_target!(
    init: seeds_of_both(&NARROW, &WIDE),
    |data: &[u8]| attack(data, |wide, change| {
        let (sound, run): (_, system::Run) = match wide {
            false => (&NARROW, system::in_order_16::run),
            true => (&WIDE, system::in_order_32::run),
        };
        let mut words = system::words(sound);
        change(bytes_mut(&mut words));
        system::attack(run, &mut words);
    })
);
