// Two daemons of equal priority handle the expiries of two timers, each once; one is always in its
// step while the other one looks.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        TICK: Timer = periodic(2);
        ONCE: Timer = one_shot(3);
        NEVER: Semaphore = (0, 1);
        TICKS: Semaphore = (0, 6);
        ONCES: Semaphore = (0, 6);
    }
    threads {
        user(u32 = 0): 1;
        one(u32 = 0): 2;
        two(u32 = 0): 2;
    }
}

fn user(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, _, ()| {
        TICK.start(sys)?;
        ONCE.start(sys)
    })?;
    th.join(Plan::one())?;
    th.join(Plan::two())?;
    let [ticks, onces] = th.step(1, |sys, _, _| {
        let mut all = [0u32; 2];
        while TICKS.try_take(sys)? {
            all[0] += 1;
        }
        while ONCES.try_take(sys)? {
            all[1] += 1;
        }
        Ok(all)
    })?;
    assert_eq!([ticks, onces], [3, 1], "expiries are lost or doubled");
    Ok(())
}

fn daemon(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.each_step(0..2, (), |sys, n, _, ()| {
        let timer = nv_rtos::expired(sys)?;
        *n.get_mut(sys)? += 1;
        // The other daemon looks meanwhile.
        NEVER.take_timeout(sys, 1)?;
        if TICK.is(timer) {
            TICKS.give(sys)
        } else {
            ONCES.give(sys)
        }
    })
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: user, daemon, daemon);
}
