//! A replayed program: one step, a loop with a step in it.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use nv_replay::{Options, Replay};
    if let Some(r) = size_probes::region() {
        let mut place = core::mem::MaybeUninit::uninit();
        if let Ok(rt) =
            Replay::<u32, size_probes::Machine>::open_in(&mut place, r, Options::default(), |_| {
                Ok(0)
            })
        {
            let n = rt.step((), |tx, root, ()| Ok(*root.get(tx)));
            let done = rt.each(0..10, |rt, i| {
                rt.step(i, |tx, root, i| {
                    *root.get_mut(tx)? = i;
                    Ok(())
                })?;
                Ok(())
            });
            core::hint::black_box((n.is_ok(), done.is_ok()));
        }
    }
});
