// Mutexes that their holder locks again: mutual exclusion until the last guard is gone, also across
// power cuts, and a second lock that only a replay comes to.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LOCK: Mutex;
        OTHER: Mutex;
        GO: Semaphore = (0, 1);
        LATER: Semaphore = (0, 1);
    }
    threads {
        low(u32 = 0): 1;
        high(u32 = 0): 1;
    }
}

fn counts(th: &mut Thread<Plan, u32>, step: u32) -> Result<u32, Error> {
    Ok(th.step(step, |sys, n, _| {
        let n = n.get_mut(sys)?;
        *n += 1;
        Ok(*n)
    })?)
}

fn low(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let outer = th.lock(&LOCK)?;
    th.step(0, |sys, _, _| GO.give(sys))?;
    enters(w, 0, 0);
    let inner = th.lock(&LOCK)?;
    counts(th, 1)?;
    is_inside(w, 0, 0);
    // Behind the last record under the locks: if the other one had them since, no lock waits.
    drop(th.lock(&LOCK)?);
    drop(inner);
    is_inside(w, 0, 0);
    drop(th.lock(&LOCK)?);
    leaves(w, 0, 0);
    drop(outer);
    // The other one holds the lock, and waits for this.
    th.step(2, |sys, _, _| LATER.give(sys))?;
    Ok(())
}

fn high(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    th.step((), |sys, _, ()| GO.take(sys))?;
    let one = th.lock(&LOCK)?;
    let other = th.lock(&OTHER)?;
    let two = th.lock(&LOCK)?;
    counts(th, 1)?;
    enters(w, 1, 0);
    // In another order than they were locked.
    drop(one);
    counts(th, 2)?;
    is_inside(w, 1, 0);
    drop(other);
    th.step(3, |sys, _, _| LATER.take(sys))?;
    leaves(w, 1, 0);
    drop(two);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: |th| low(th, w), |th| high(th, w));
    assert_eq!(w.with(|s| s.left), [1, 1, 0, 0]);
}
