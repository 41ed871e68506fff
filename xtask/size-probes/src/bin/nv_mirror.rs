//! A region that is mirrored to a serial memory: opened, changed and saved.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use core::mem::MaybeUninit;
    use nv_mirror::{Config, Mirror};
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
