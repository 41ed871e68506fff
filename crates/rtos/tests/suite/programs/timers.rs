// A daemon and its timers. Wherever the power is cut, each expiry is handled once, in order. A
// timer that is started again while its expiry is handled stays active.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 160, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        TICK: Timer = periodic(3);
        ONCE: Timer = one_shot(5);
        END: Timer = one_shot(1);
        STARTED: Queue<u32, 1>;
        PHASE: Semaphore = (0, 1);
        GATE: Semaphore = (0, 1);
        LATE: Semaphore = (0, 3);
        HANDLED: Semaphore = (0, 3);
    }
    threads {
        user(u32 = 0): 1;
        daemon([u32; 4] = [0; 4]): 2;
    }
}

fn user(th: &mut Thread<Plan, u32>, first_boot: bool) -> Result<(), Error> {
    // They begin at the same time: the commit's.
    th.step((), |sys, n, ()| {
        *n.get_mut(sys)? += 1;
        TICK.start(sys)?;
        ONCE.start(sys)?;
        assert!(TICK.is_active(sys) && !END.is_active(sys));
        STARTED.send(sys, now(sys) as u32)
    })?;
    th.step(0, |sys, _, _| PHASE.take(sys))?;
    // A step that fails starts and stops nothing.
    let failed = th.step(1, |sys, _, _| {
        assert!(!TICK.is_active(sys) && !ONCE.is_active(sys));
        TICK.start(sys)?;
        Err::<(), _>(sys.abort(7))
    });
    assert_eq!(failed.map_err(Error::from), Err(Error::Aborted(7)));
    th.step(2, |sys, _, _| {
        assert!(!TICK.is_active(sys));
        ONCE.start(sys)
    })?;
    // It expires, and the daemon waits in its step.
    th.delay(7)?;
    th.step(3, |sys, _, _| ONCE.reset(sys))?;
    let active = th.step(4, |sys, _, _| {
        GATE.give(sys)?;
        Ok(u32::from(ONCE.is_active(sys)))
    })?;
    assert_eq!(active, 1);
    // By then it has expired again.
    th.delay(8)?;
    th.step(5, |sys, _, _| {
        assert!(!ONCE.is_active(sys));
        TICK.start(sys)
    })?;
    th.step(6, |sys, _, _| {
        TICK.stop(sys)?;
        assert!(!TICK.is_active(sys));
        Ok(())
    })?;
    // It may have expired before that.
    th.step(7, |sys, _, _| {
        while LATE.try_take(sys)? {}
        Ok(())
    })?;
    th.delay(4)?;
    let late = th.step(8, |sys, _, _| LATE.try_take(sys).map(u32::from))?;
    assert_eq!(late, 0, "a timer that is stopped expires");
    let times = th.step(9, |sys, _, _| {
        END.start(sys)?;
        let mut times = 0;
        while HANDLED.try_take(sys)? {
            times += 1;
        }
        Ok(times)
    })?;
    // A cut in the daemon's step leaves the expiry to the reset.
    assert!(times == 2 || times == 1 && !first_boot, "{times}: a reset is lost");
    Ok(())
}

/// Writes down what expires.
fn daemon(th: &mut Thread<Plan, [u32; 4]>) -> Result<(), Error> {
    th.step((), |sys, state, ()| {
        let started = STARTED.receive(sys)?;
        *state.get_mut(sys)? = [started, 0, 0, started];
        Ok(())
    })?;
    // One digit for each: 1 and 2.
    th.each_step(0..4, (), |sys, state, i, ()| {
        let timer = nv_rtos::expired(sys)?;
        let time = now(sys) as u32;
        let [started, seen, _, latest] = state.get_mut(sys)?;
        assert!(time >= *latest, "the time is {time}, and was {latest}");
        *latest = time;
        assert!(time >= *started + [3, 5, 6, 9][i as usize]);
        *seen = *seen * 10 + if TICK.is(timer) { 1 } else { 2 };
        assert_eq!(TICK.is_active(sys), TICK.is(timer) || i < 4);
        if i == 3 {
            TICK.stop(sys)?;
            PHASE.give(sys)?;
        }
        Ok(())
    })?;
    let seen = th.step(1, |sys, state, _| Ok(state.get(sys)[1]))?;
    assert_eq!(seen, 1211, "the expiries at 3, 5, 6 and 9");
    let ended = th.forever_step((), |sys, state, _, ()| {
        let timer = nv_rtos::expired(sys)?;
        let time = now(sys) as u32;
        let latest = state.get(sys)[3];
        assert!(time >= latest, "the time is {time}, and was {latest}");
        if END.is(timer) {
            return Err(sys.abort(9));
        }
        if TICK.is(timer) {
            LATE.give(sys)?;
            return Ok(());
        }
        assert!(ONCE.is(timer));
        let [.., times, latest] = state.get_mut(sys)?;
        *latest = time;
        *times += 1;
        if *times == 1 {
            GATE.take(sys)?;
        }
        HANDLED.give(sys)
    });
    ended.map(|_| ())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    w.update(|s| s.given = (s.given + 1).min(2));
    let first_boot = w.with(|s| s.given == 1);
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        machine.start(t, &kernel, |kit| {
            let user = |th: &mut Thread<Plan, u32>| user(th, first_boot);
            Plan::spawn(&kernel, places, kit, user, daemon);
        });
    });
    assert_eq!(kernel.ended(0), Some(Ok(())));
    assert_eq!(kernel.ended(1), Some(Err(Error::Aborted(9))));
}
