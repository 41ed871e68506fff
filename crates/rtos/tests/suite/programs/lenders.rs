// Mutexes that are made at run time, and priorities: who holds one inherits that of who waits, also
// after a cut; it is not aborted. One is made, locked and deleted in each turn of a loop.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 192, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LATCHES: [Mutex; 2] => Latch;
        GO: Queue<Latch, 1>;
        MIDDLE: Semaphore = (0, 1);
        NEVER: Semaphore = (0, 1);
    }
    threads {
        low(u32 = 0): 1;
        middle(u32 = 0): 2;
        high(u32 = 0): 3;
    }
    control { change: true }
}

fn low(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let latch = th.step((), |sys, _, ()| LATCHES.make(sys))?;
    let guard = th.lock(&LATCHES.at(latch))?;
    enters(w, 0, 0);
    th.step(latch, |sys, _, latch| {
        MIDDLE.give(sys)?;
        GO.send(sys, latch)
    })?;
    enters(w, 0, 0);
    let again = th.lock(&LATCHES.at(latch))?;
    th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    drop(again);
    th.step(2, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    leaves(w, 0, 0);
    drop(guard);
    th.step(3, |sys, _, _| NEVER.take(sys))?;
    panic!("nobody gives it")
}

fn middle(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, waits: &Cell<bool>) -> Result<(), Error> {
    th.step((), |sys, n, ()| {
        MIDDLE.take(sys)?;
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    assert!(!waits.get(), "who holds the lock that `high` waits for has inherited its priority");
    th.each(0..2, (), |th, i, ()| {
        let latch = th.step((), |sys, _, ()| LATCHES.make(sys))?;
        let guard = th.lock(&LATCHES.at(latch))?;
        th.step(i, |sys, n, i| {
            *n.get_mut(sys)? += i;
            Ok(())
        })?;
        drop(guard);
        th.step(latch, |sys, _, latch| LATCHES.delete(sys, latch))?;
        Ok(())
    })?;
    let n = th.step((), |sys, n, ()| Ok(*n.get(sys)))?;
    result(w, 1, 0, n);
    Ok(())
}

fn high(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, waits: &Cell<bool>) -> Result<(), Error> {
    let latch = th.step((), |sys, _, ()| GO.receive(sys))?;
    let early = th.step(0, |sys, _, _| Plan::low().abort(sys));
    let early = early.map_err(Error::from);
    assert_eq!(early, Err(Error::Aborted(code::REFUSED)), "it has the mutex");
    let early = th.step(latch, |sys, _, latch| LATCHES.delete(sys, latch));
    assert_eq!(early.map_err(Error::from), Err(Error::Aborted(code::REFUSED)));
    waits.set(true);
    let guard = th.lock(&LATCHES.at(latch))?;
    waits.set(false);
    enters(w, 2, 0);
    th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    leaves(w, 2, 0);
    drop(guard);
    // Behind the last record under the lock, the mutex goes.
    th.step(latch, |sys, _, latch| {
        Plan::low().abort(sys)?;
        LATCHES.delete(sys, latch)
    })?;
    assert_eq!(th.join(Plan::low()), Err(Error::Aborted(code::ABORTED)));
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    let waits = Cell::new(false);
    w.threads(|t| {
        let (kernel, waits) = (&kernel, &waits);
        machine.start(t, kernel, |kit| {
            Plan::spawn(
                kernel,
                places,
                kit,
                |th| low(th, w),
                |th| middle(th, w, waits),
                |th| high(th, w, waits),
            );
        });
    });
    assert_eq!(kernel.ended(0), Some(Err(Error::Aborted(code::ABORTED))));
    (1..3).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    assert_eq!(w.with(|s| s.left), [1, 0, 1, 0]);
    assert_eq!(results(w), [2]);
}
