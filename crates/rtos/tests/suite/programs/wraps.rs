// Sequence numbers come round, with a sweep at each and without any. What was given long ago is
// still there.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 160, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        OLD: Semaphore = (0, 3);
        OTHER: Semaphore = (0, 1);
    }
    threads {
        turns(u32 = 0): 2;
        records(u32 = 0): 1;
    }
}

fn turns(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, _, ()| {
        OLD.give(sys)?;
        OLD.give(sys)
    })?;
    th.each_step(0..17, (), |sys, n, _, ()| {
        *n.get_mut(sys)? += 1;
        OTHER.try_give(sys)?;
        Ok(())
    })?;
    th.join(Plan::records())?;
    for i in 2..5 {
        let taken = th.step(i, |sys, _, _| OLD.try_take(sys).map(u32::from))?;
        assert_eq!(taken, 1);
    }
    Ok(())
}

fn records(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, _, ()| OLD.give(sys))?;
    for i in 0..17u16 {
        assert_eq!(th.record_with(|| i)?, i);
    }
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: turns, records);
}
