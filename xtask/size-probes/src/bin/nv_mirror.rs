//! A region that is mirrored to a serial memory: opened, changed and saved.
#![cfg_attr(target_os = "none", no_std, no_main)]

use nv_mirror::Mirror;

/// RAM of a mirror beside its region, its shadow and the medium's driver.
const RAM: usize = size_of::<Mirror<'static, ()>>();

// What the README of nv-mirror says, on each target that a probe is built for.
const _: () = assert!(RAM <= 112);

// `cargo xtask evaluate` reads it: the value of a symbol takes no byte of the program.
#[cfg(target_arch = "arm")]
core::arch::global_asm!(".global nv_mirror_ram", ".set nv_mirror_ram, {}", const RAM);

size_probes::probe!({
    use core::mem::MaybeUninit;
    use nv_mirror::Config;
    use size_probes::Machine;

    let mut memory = [MaybeUninit::uninit(); 2 * 32];
    let medium = size_probes::bytes();
    let opened = Mirror::open::<Machine>(medium, 0..4096, &Config::DEFAULT, &mut memory);
    if let Ok((mut mirror, mut region)) = opened {
        let word = region.base();
        // SAFETY: never run; for a linked program the region's first byte.
        unsafe { word.write_volatile(word.read_volatile().wrapping_add(1)) };
        core::hint::black_box(mirror.durable(&mut region).is_ok());
    }
});
