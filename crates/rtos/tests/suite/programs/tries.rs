// Locks that give up, at once or when their time is over. Each boot finds what the record says, and
// who has a record of a lock has it before others get it.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 128, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LOCK: Mutex;
        GO: Semaphore = (0, 1);
        FREE: Semaphore = (0, 1);
    }
    threads {
        low(u32 = 0): 1;
        high(u32 = 0): 2;
    }
}

/// Wants the lock for so many ticks, and works under it or without. Whether it has got it.
fn tries(
    th: &mut Thread<Plan, u32>,
    w: &World<'_, Seen>,
    (me, section): (u32, u32),
    ticks: u64,
) -> Result<bool, Error> {
    let guard = match ticks {
        0 => th.try_lock(&LOCK)?,
        n => th.lock_timeout(&LOCK, n)?,
    };
    let got = guard.is_some();
    if got {
        // The record suffices: nothing was committed under the lock.
        enters(w, me, section);
    }
    // If a boot found something else, this would be another call, and the thread would stop.
    th.step(u32::from(got), |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    if got {
        leaves(w, me, section);
    }
    Ok(got)
}

fn low(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let guard = th.lock(&LOCK)?;
    th.step((), |sys, _, ()| GO.give(sys))?;
    enters(w, 0, 0);
    // Who has it already gets it again.
    let again = th.try_lock(&LOCK)?;
    assert!(again.is_some());
    drop(again);
    th.step((), |sys, n, ()| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    leaves(w, 0, 0);
    drop(guard);
    // The other one waits for this, and has given back what it had.
    drop(th.lock(&LOCK)?);
    th.step(1, |sys, _, _| FREE.give(sys))?;
    tries(th, w, (0, 1), 0)?;
    Ok(())
}

fn high(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    th.step((), |sys, _, ()| GO.take(sys))?;
    // The other one has committed under the lock, and runs when this one waits.
    assert!(!tries(th, w, (1, 0), 0)?, "the lock of another thread");
    tries(th, w, (1, 0), 2)?;
    th.step(2, |sys, _, _| FREE.take(sys))?;
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: |th| low(th, w), |th| high(th, w));
    let left = w.with(|s| s.left);
    assert!((1..3).contains(&left[0]) && left[1] < 2, "{left:?}");
}
