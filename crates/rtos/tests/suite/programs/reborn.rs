// A thread in a reserved place is aborted: what it has claimed is there, its place is used again
// after the next boot, by a thread without its records. A spawned one may get another priority.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 192, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        GIFT: Semaphore = (1, 1);
        NEVER: Semaphore = (0, 1);
    }
    threads {
        boss(u32 = 0): 3;
    }
    reserve {
        first(u32 = 0, u32): 1;
        second(u32 = 0, bool): 1;
    }
}

fn boss(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    th.step(0, |sys, _, _| {
        Plan::first().spawn(sys, 1)?;
        Plan::second().spawn(sys, true)?;
        Plan::second().set_priority(sys, 4)
    })?;
    th.join(Plan::second())?;
    // One that is spawned by the same step.
    let both = th.step(1, |sys, _, _| {
        Plan::second().spawn(sys, false)?;
        Plan::second().abort(sys)
    });
    assert_eq!(both.map_err(Error::from), Err(Error::Aborted(code::REFUSED)));
    // It does not run after this.
    if w.with(|s| s.given == 0) {
        w.update(|s| (s.given, s.lives) = (1, 0));
    }
    th.delay(1)?;
    th.step(2, |sys, _, _| Plan::first().abort(sys))?;
    if w.with(|s| s.given == 1) {
        w.update(|s| s.given = 2);
    }
    assert_eq!(th.join(Plan::first()), Err(Error::Aborted(code::ABORTED)));
    let free = th.step(3, |sys, _, _| Plan::first().try_spawn(sys, 2))?;
    if w.with(|s| s.parked == 0) {
        // Only after another boot.
        let booted = w.with(|s| s.lives > 0);
        assert!(booted || !free, "the place of one that was aborted is used in this life");
        w.update(|s| s.parked = 1);
    }
    if free {
        th.join(Plan::first())?;
    }
    // What the first one has claimed.
    th.step(4, |sys, _, _| GIFT.take(sys))?;
    Ok(())
}

fn first(th: &mut Thread<Plan, u32>, run: u32, w: &World<'_, Seen>) -> Result<(), Error> {
    if run == 2 {
        // The root is as the first one has left it, less what its last step has done.
        let n = th.step((), |sys, n, ()| Ok(*n.get(sys)))?;
        assert!(n <= 1, "{n}");
        return Ok(());
    }
    assert!(w.with(|s| s.given < 2), "an aborted thread runs");
    th.step(0, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    th.step(1, |sys, n, _| {
        *n.get_mut(sys)? = 50;
        GIFT.take(sys)?;
        NEVER.take(sys)
    })?;
    panic!("nobody gives it")
}

fn second(th: &mut Thread<Plan, u32>, once: bool, priority: u8) -> Result<(), Error> {
    assert!(once, "the step has failed");
    assert_eq!(priority, 4);
    th.each_step(0..2, (), |sys, n, _, ()| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    w.update(|s| s.lives += 1);
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
                |th| boss(th, w),
                |th, run| first(th, run, w),
                |th, once| second(th, once, kernel.priority(2)),
            );
        });
    });
    assert_eq!(kernel.ended(0), Some(Ok(())));
    assert_eq!(kernel.ended(2), Some(Ok(())));
}
