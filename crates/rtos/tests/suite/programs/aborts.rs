// A thread is aborted anywhere, but not while it holds a mutex: it never runs again, what its step
// has claimed is there, and what its step has changed is gone.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 256, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LOCK: Mutex;
        MESSAGE: Queue<u32, 1>;
        ROOM: Semaphore = (0, 1);
        NEVER: Semaphore = (0, 1);
        MORE: Semaphore = (0, 1);
    }
    threads {
        victim(u32 = 0): 1;
        other(u32 = 0): 1;
        boss(u32 = 0): 1;
    }
    control { change: true }
}

/// The world has not heard yet that the victim was aborted.
fn runs(w: &World<'_, Seen>) {
    assert!(w.with(|s| s.given == 0), "an aborted thread runs");
}

fn victim(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    runs(w);
    th.step(9, |sys, _, _| {
        assert!(!NEVER.take_timeout(sys, 1)?);
        Ok(())
    })?;
    let guard = th.lock(&LOCK)?;
    th.step(0, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    runs(w);
    if w.with(|s| s.left[0] == 0) {
        assert!(w.with(|s| s.inside.is_none_or(|t| t == 0)));
        w.update(|s| s.inside = Some(0));
    }
    // Whoever has called for its end before the lock is about to commit that.
    th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        assert!(!NEVER.take_timeout(sys, 2)?);
        Ok(())
    })?;
    if w.with(|s| s.left[0] == 0) {
        w.update(|s| (s.inside, s.left[0]) = (None, 1));
    }
    runs(w);
    drop(guard);
    // It claims the message, and gives what fills the semaphore, until the end of its days.
    th.step(2, |sys, n, _| {
        *n.get_mut(sys)? = 99;
        MESSAGE.receive(sys)?;
        ROOM.give(sys)?;
        NEVER.take(sys)
    })?;
    panic!("nobody gives it")
}

fn other(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let got = th.step(0, |sys, _, _| {
        // The victim is to have it first.
        MORE.take(sys)?;
        let got = MESSAGE.receive(sys)?;
        ROOM.give(sys)?;
        Ok(got)
    })?;
    result(w, 1, 0, got);
    let guard = th.lock(&LOCK)?;
    th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    if w.with(|s| s.left[1] == 0) {
        assert_eq!(w.with(|s| s.inside), None);
        w.update(|s| s.left[1] = 1);
    }
    drop(guard);
    th.step(2, |sys, _, _| ROOM.take(sys))?;
    Ok(())
}

fn boss(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let itself = th.step(0, |sys, _, _| Plan::boss().abort(sys));
    assert_eq!(itself.map_err(Error::from), Err(Error::Aborted(code::REFUSED)));
    th.step(1, |sys, _, _| MESSAGE.send(sys, 5))?;
    for i in 2..20 {
        let aborted = th.step(i, |sys, n, _| {
            Plan::victim().abort(sys)?;
            *n.get_mut(sys)? += 1;
            assert!(!MORE.take_timeout(sys, 2)?);
            Ok(())
        });
        match aborted.map_err(Error::from) {
            Ok(()) => break,
            Err(e) => assert_eq!(e, Error::Aborted(code::REFUSED)),
        }
        th.delay(1)?;
    }
    if w.with(|s| s.given == 0) {
        w.update(|s| s.given = 1);
    }
    th.step(28, |sys, _, _| MORE.give(sys))?;
    let joined = th.join(Plan::victim());
    assert_eq!(joined, Err(Error::Aborted(code::ABORTED)));
    th.join(Plan::other())?;
    // It waited for this.
    th.step(29, |sys, _, _| NEVER.give(sys))?;
    // One that has ended. After a cut it may be on its way there again.
    th.step(30, |sys, _, _| Plan::other().abort(sys))?;
    match th.join(Plan::other()) {
        Err(Error::Aborted(code::ABORTED)) => Ok(()),
        r => r,
    }
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        machine.start(t, &kernel, |kit| {
            Plan::spawn(
                &kernel,
                places,
                kit,
                |th| victim(th, w),
                |th| other(th, w),
                |th| boss(th, w),
            );
        });
    });
    assert_eq!(kernel.ended(0), Some(Err(Error::Aborted(code::ABORTED))));
    let other = kernel.ended(1).unwrap();
    assert!(matches!(other, Ok(()) | Err(Error::Aborted(code::ABORTED))));
    assert_eq!(kernel.ended(2), Some(Ok(())));
    assert_eq!(results(w), [5]);
}
