//! One load and one store through the store module.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    if let Some(r) = size_probes::region::<nvmem::InOrder32>() {
        // SAFETY: inside, aligned, and no reference to it exists.
        unsafe { r.store(8, r.load(8).wrapping_add(1)) };
    }
});
