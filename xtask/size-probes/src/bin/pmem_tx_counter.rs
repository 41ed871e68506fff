//! A pool with two numbers, one transaction that changes both.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use pmem_tx::Pool;
    if let Some(r) = size_probes::region::<nvmem::InOrder32>() {
        if let Ok(mut pool) = Pool::<[u32; 2]>::open(r, |_| Ok([0; 2])) {
            let done = pool.tx(|tx, root| {
                let both = root.get_mut(tx)?;
                both[0] = both[0].wrapping_add(1);
                both[1] = both[0];
                Ok(())
            });
            core::hint::black_box(done.is_ok());
        }
    }
});
