//! As `pmem_tx`, but what is reachable is not checked at open: what the walk takes is the
//! difference.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use pmem_tx::{Config, PBox, Pool};
    use size_probes::{Machine, Unit};

    type Root = Option<PBox<'static, [u32; 2], Unit>>;

    if let Some(r) = size_probes::region() {
        let config = Config::for_len(r.len());
        // SAFETY: never run; in a linked program nobody else writes there.
        let pool = unsafe { Pool::<Root, Machine>::open_trusting(r, &config, |_| Ok(None)) };
        if let Ok(mut pool) = pool {
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
