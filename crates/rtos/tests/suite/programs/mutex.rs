// Mutual exclusion across power cuts, the priority that a holder inherits, and a lock that only the
// replay knows of.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LOCK: Mutex;
        ALONE: Mutex;
        GO: Semaphore = (0, 1);
        MIDDLE: Semaphore = (0, 1);
        LATER: Semaphore = (0, 1);
    }
    threads {
        low(u32 = 0): 1;
        middle(u32 = 0): 2;
        high(u32 = 0): 3;
    }
}

fn low(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let guard = th.lock(&LOCK)?;
    th.step(0, |sys, _, _| {
        MIDDLE.give(sys)?;
        GO.give(sys)
    })?;
    enters(w, 0, 0);
    th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    leaves(w, 0, 0);
    drop(guard);
    // The other one holds the lock, and waits for this.
    th.step(2, |sys, _, _| LATER.give(sys))?;
    // Behind the last call under a lock that nobody else had.
    let guard = th.lock(&ALONE)?;
    th.step(3, |_, _, _| Ok(()))?;
    drop(guard);
    th.step(4, |_, _, _| Ok(()))?;
    Ok(())
}

fn middle(th: &mut Thread<Plan, u32>, waits: &Cell<bool>) -> Result<(), Error> {
    th.step((), |sys, n, ()| {
        MIDDLE.take(sys)?;
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    assert!(!waits.get(), "who holds the lock that `high` waits for has inherited its priority");
    th.join(Plan::low())?;
    drop(th.lock(&ALONE)?);
    Ok(())
}

fn high(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, waits: &Cell<bool>) -> Result<(), Error> {
    th.step((), |sys, _, ()| GO.take(sys))?;
    waits.set(true);
    let guard = th.lock(&LOCK)?;
    waits.set(false);
    th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    enters(w, 2, 0);
    th.step(2, |sys, _, _| LATER.take(sys))?;
    leaves(w, 2, 0);
    drop(guard);
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
                |th| middle(th, waits),
                |th| high(th, w, waits),
            );
        });
    });
    (0..3).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    assert_eq!(w.with(|s| s.left), [1, 0, 1, 0]);
}
