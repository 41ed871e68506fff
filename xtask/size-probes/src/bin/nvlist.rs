//! Two lists that are opened and recovered: a node goes in, moves to the other list, and comes out.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use nvlist::NodePool;
    use size_probes::Machine;

    if let Some(r) = size_probes::region() {
        if let Ok(mut pool) = NodePool::<[u32; 2], 2, Machine>::open(r) {
            let out = pool.with(|mut lists, [waiting, ready]| {
                let put = lists.push_back(waiting, [1, 2]).is_ok();
                lists.cursor_front(waiting).shift_back(ready);
                (put, lists.pop_front(ready))
            });
            core::hint::black_box(out);
        }
    }
});
