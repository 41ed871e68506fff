//! A counter in a crash-atomic record on a mapped medium.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use nvmem::record::Record;
    if let Some(r) = size_probes::region() {
        if let Ok(mut boots) = Record::<u32, _>::open(r, 0..256, 0) {
            let n = boots.get().wrapping_add(1);
            core::hint::black_box(boots.set(n).is_ok());
        }
    }
});
