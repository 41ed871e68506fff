// Two threads spawn others in one reserved place. Each job is done once, by a thread that has no
// records of the one before, and it ends as it should.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 192, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LOCK: Mutex;
        DONE: Queue<u32, 4>;
        GO: Semaphore = (0, 1);
    }
    threads {
        boss(u32 = 0): 1;
        rival(u32 = 0): 1;
    }
    reserve {
        worker(u32 = 0, [u32; 2]): 1;
    }
}

const NEVER: u32 = 99;
const FAILS: u32 = 3;

/// Spawns a thread for a job, at the first or the second call.
fn spawn(th: &mut Thread<Plan, u32>, job: u32) -> Result<(), Error> {
    let spawned = th.step((job, 0), |sys, n, (job, i)| {
        *n.get_mut(sys)? += 1;
        Plan::worker().try_spawn(sys, [job, i])
    })?;
    if !spawned {
        th.step((job, 1), |sys, _, (job, i)| Plan::worker().spawn(sys, [job, i]))?;
    }
    Ok(())
}

fn boss(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    // A step that fails spawns nothing.
    let spawned = th.step((), |sys, _, ()| {
        if !Plan::worker().try_spawn(sys, [NEVER, 0])? {
            return Ok(());
        }
        assert!(!Plan::worker().try_spawn(sys, [NEVER, 1])?, "it is claimed");
        Err(sys.abort(7))
    });
    assert!(matches!(spawned.map_err(Error::from), Ok(()) | Err(Error::Aborted(7))));
    // Until then, nobody else frees the place or gives it up.
    th.step(1, |sys, _, _| GO.take(sys))?;
    spawn(th, 1)?;
    th.join(Plan::rival())?;
    spawn(th, FAILS)?;
    assert_eq!(th.join(Plan::worker()), Err(Error::Aborted(code::FAILED)));
    // The place is free, and its last thread has locked it.
    let guard = th.lock(&LOCK)?;
    let mut all = th.step(0, |sys, _, _| {
        let mut all = [0; 4];
        for job in &mut all {
            *job = DONE.try_receive(sys)?.unwrap_or(0);
        }
        Ok(all)
    })?;
    drop(guard);
    all.sort_unstable();
    assert_eq!(all, [1, 2, FAILS, 4]);
    result(w, 9, 0, 9);
    Ok(())
}

fn rival(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    spawn(th, 2)?;
    th.step(1, |sys, _, _| GO.give(sys))?;
    spawn(th, 4)
}

fn worker(
    th: &mut Thread<Plan, u32>,
    [job, i]: [u32; 2],
    w: &World<'_, Seen>,
) -> Result<(), Error> {
    assert_ne!(job, NEVER, "the step has failed");
    let _guard = th.lock(&LOCK)?;
    let n = th.step(0, |sys, n, _| {
        let n = n.get_mut(sys)?;
        *n += 1;
        Ok(*n)
    })?;
    // The same run, with the same argument, in each life; and each job by another one.
    result(w, job, 0, 10 * n + job);
    result(w, job, 1, 100 * job + i);
    th.step(job, |sys, _, job| DONE.send(sys, job))?;
    if job == FAILS {
        return Err(Error::Aborted(5));
    }
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        machine.start(t, &kernel, |kit| {
            Plan::spawn(&kernel, places, kit, |th| boss(th, w), rival, |th, job| {
                worker(th, job, w)
            });
        });
    });
    (0..2).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    assert!(matches!(kernel.ended(2), Some(Err(_))));
    assert_eq!(results(w).len(), 9);
}
