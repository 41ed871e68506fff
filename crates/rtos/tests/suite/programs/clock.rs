// What a thread knows of the time, another one never sees in the future; nor does a later life.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 80, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        NEVER: Semaphore = (0, 1);
    }
    threads {
        one(u32 = 0): 1;
        two(u32 = 0): 2;
    }
}

/// Reads the time after everything that the thread knows.
fn read(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, me: usize) -> Result<u64, Error> {
    let live = th.is_live();
    let time = th.now()?;
    if live {
        reads(w, me, time);
    }
    knows(w, me, time);
    Ok(time)
}

fn one(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let begin = th.now()?;
    knows(w, 0, begin);
    th.delay(4)?;
    let end = read(th, w, 0)?;
    assert!(end >= begin + 4);
    th.delay_until(end + 2)?;
    let later = read(th, w, 0)?;
    assert!(later >= end + 2);
    Ok(())
}

fn two(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let taken = th.step((), |sys, _, ()| Ok(u32::from(NEVER.take_timeout(sys, 3)?)))?;
    assert_eq!(taken, 0);
    let time = th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(now(sys))
    })?;
    knows(w, 1, time);
    read(th, w, 1)?;
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: |th| one(th, w), |th| two(th, w));
}
