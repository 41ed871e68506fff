// Priorities that a step changes: they hold from its commit on, in all lives, and are inherited.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LOCK: Mutex;
        READY: Semaphore = (0, 1);
        GO: Semaphore = (0, 1);
        LAST: Semaphore = (0, 1);
    }
    threads {
        low(u32 = 0): 1;
        middle(u32 = 0): 2;
        boss(u32 = 0): 3;
    }
    control { change: true }
}

/// Thread `me` has done something: after the others that are named, and before no other.
fn done(w: &World<'_, Seen>, me: u32, after: &[u32]) {
    result(w, me, 0, me + 1);
    for t in after {
        assert!(results(w).contains(&(t + 1)), "{me} before {t}");
    }
}

fn counts(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step(9, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    Ok(())
}

/// Waits for a lock that `middle` has, at a priority above that of `boss`.
fn low(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    th.step((), |sys, _, ()| GO.take(sys))?;
    let guard = th.lock(&LOCK)?;
    counts(th)?;
    done(w, 0, &[1]);
    drop(guard);
    th.step(1, |sys, _, _| LAST.take(sys))?;
    counts(th)
}

fn middle(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let guard = th.lock(&LOCK)?;
    th.step(0, |sys, _, _| READY.give(sys))?;
    counts(th)?;
    done(w, 1, &[]);
    drop(guard);
    Ok(())
}

fn boss(
    th: &mut Thread<Plan, u32>,
    w: &World<'_, Seen>,
    priority: impl Fn(usize) -> u8,
) -> Result<(), Error> {
    let before = th.step(0, |sys, _, _| {
        READY.take(sys)?;
        Plan::middle().set_priority(sys, 9)?;
        Err::<(), _>(sys.abort(7))
    });
    assert_eq!(before.map_err(Error::from), Err(Error::Aborted(7)));
    assert_eq!(priority(1), 2, "the step has failed");
    let high = th.step(1, |sys, _, _| Plan::low().set_priority(sys, 254));
    assert_eq!(high.map_err(Error::from), Err(Error::Aborted(code::REFUSED)));
    th.step(2, |sys, _, _| {
        READY.take(sys)?;
        GO.give(sys)?;
        Plan::low().set_priority(sys, 5)?;
        Plan::low().set_priority(sys, 4)
    })?;
    counts(th)?;
    done(w, 2, &[0, 1]);
    // Below all others, and back again.
    th.step(3, |sys, _, _| {
        LAST.give(sys)?;
        Plan::low().set_priority(sys, 1)?;
        Plan::boss().set_priority(sys, 0)
    })?;
    assert_eq!((priority(0), priority(2)), (1, 0));
    th.join(Plan::low())?;
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        let kernel = &kernel;
        machine.start(t, kernel, |kit| {
            Plan::spawn(
                kernel,
                places,
                kit,
                |th| low(th, w),
                |th| middle(th, w),
                move |th| boss(th, w, |t| kernel.priority(t)),
            );
        });
    });
    (0..3).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
}
