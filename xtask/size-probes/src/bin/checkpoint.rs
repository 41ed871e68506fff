//! Restores the program's memory, and takes a checkpoint of it.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use checkpoint::{Images, Memory, Split};
    let at = |addr: usize| core::hint::black_box(addr) as *mut u8;
    if let Ok(mut images) = Images::<_, 2>::open(size_probes::bytes(), 0..4096, 1) {
        // SAFETY: never run; for a linked program the ranges are memory of a board.
        let mut memory = unsafe {
            Memory::from_addresses(
                (at(0x2000), at(0x2100)),
                (at(0x2100), at(0x2300)),
                (at(0x2300), at(0x2400)),
            )
        };
        let _ = core::hint::black_box(images.restore(&mut memory));
        let _ = core::hint::black_box(images.checkpoint(&Split, &memory, 7));
    }
});
