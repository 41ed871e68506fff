// A place is used more often than there are numbers: those of new runs count, too, and no word of
// an old thread comes into doubt again.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        /// Its words are settled before that of the other one.
        NEVER: Queue<u32, 4>;
        ONCE: Semaphore = (0, 1);
    }
    threads {
        boss(u32 = 0): 1;
    }
    reserve {
        worker(u32 = 0, u32): 2;
    }
}

const RUNS: u32 = 12;

fn boss(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.each_step(0..RUNS, (), |sys, n, i, ()| {
        // One at a time, without a join: that would be a record.
        Plan::worker().spawn(sys, i)?;
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    th.join(Plan::worker())?;
    let given = th.step(0, |sys, _, _| ONCE.try_take(sys))?;
    assert!(given, "what the first thread has given");
    Ok(())
}

fn worker(th: &mut Thread<Plan, u32>, run: u32, w: &World<'_, Seen>) -> Result<(), Error> {
    if run == 0 {
        th.step((), |sys, _, ()| ONCE.give(sys))?;
    }
    let mine = th.record_with(|| run)?;
    assert_eq!(mine, run, "a record of an older run");
    result(w, run, 0, run);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: boss, |th, run| worker(th, run, w));
    assert_eq!(results(w).len() as u32, RUNS);
}
