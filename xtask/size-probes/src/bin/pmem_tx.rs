//! A pool that is opened and recovered, and two transactions: one allocates an object or changes
//! it, one frees it.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use pmem_tx::{PBox, Pool};
    use size_probes::{Machine, Unit};

    type Root = Option<PBox<'static, [u32; 2], Unit>>;

    if let Some(r) = size_probes::region() {
        let mut place = core::mem::MaybeUninit::uninit();
        if let Ok(pool) = Pool::<Root, Machine>::open_in(&mut place, r, |_| Ok(None)) {
            let kept = pool.tx(|tx, root| {
                match root.slot(tx).follow() {
                    Some(mut pair) => pair.get_mut()?[0] += 1,
                    None => *root.get_mut(tx)? = Some(PBox::new(tx, [0; 2])?),
                }
                Ok(())
            });
            let freed = pool.tx(|tx, root| match root.get_mut(tx)?.take() {
                Some(pair) => pair.free(tx),
                None => Ok(()),
            });
            core::hint::black_box((kept.is_ok(), freed.is_ok()));
        }
    }
});
