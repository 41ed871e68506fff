//! Restores the program's memory, and takes a checkpoint of it.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use checkpoint::{Images, Memory, Split};
    // Where it is: what is moved is copied.
    let mut opened = Images::<_, 2>::open(size_probes::bytes(), 0..4096, 1);
    if let Ok(images) = &mut opened {
        let [statics, heap, stack] = size_probes::segments();
        // SAFETY: never run; for a linked program the ranges are memory of a board.
        let mut memory = unsafe { Memory::from_addresses(statics, heap, stack) };
        let context = images.restore(&mut memory).map_or(0, |r| r.context);
        let kept = images.checkpoint(&Split, &memory, context);
        core::hint::black_box(kept.is_ok());
    }
});
