// A mutex in its smallest form: two threads of one priority lock it once each, and commit twice
// under it. All images are explored that any number of cuts can leave.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects { LOCK: Mutex; }
    threads {
        one(u32 = 0): 1;
        two(u32 = 0): 1;
    }
}

fn locks(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, me: u32) -> Result<(), Error> {
    let guard = th.lock(&LOCK)?;
    th.step(0, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    let has_left = w.with(|s| s.left[me as usize] == 1);
    if !has_left {
        let inside = w.with(|s| s.inside);
        assert!(inside.is_none_or(|t| t == me), "{me} enters, and {inside:?} is inside");
        w.update(|s| s.inside = Some(me));
    }
    let n = th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(*n.get(sys))
    })?;
    assert_eq!(n, 2);
    if !has_left {
        assert_eq!(w.with(|s| s.inside), Some(me));
        w.update(|s| (s.inside, s.left[me as usize]) = (None, 1));
    }
    drop(guard);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: |th| locks(th, w, 0), |th| locks(th, w, 1));
    assert_eq!(w.with(|s| s.left), [1, 1, 0, 0]);
}
