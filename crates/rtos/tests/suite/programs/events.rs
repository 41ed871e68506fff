// A monitor sets flags, and two actors wait for them: for all of some, for any, and for a flag that
// is set again while it is seen.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        FLAGS: Events;
        SEEN: Semaphore = (0, 2);
    }
    threads {
        monitor(u32 = 0): 1;
        both(u32 = 0): 2;
        again(u32 = 0): 2;
    }
}

fn monitor(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step(0, |sys, _, _| FLAGS.set(sys, 1))?;
    th.step(1, |sys, _, _| FLAGS.set(sys, 2 | 4))?;
    th.step(2, |sys, _, _| {
        FLAGS.set(sys, 4)?;
        SEEN.give(sys)
    })?;
    th.join(Plan::both())?;
    th.join(Plan::again())
}

fn both(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    let got = th.step((), |sys, n, ()| {
        let got = FLAGS.wait(sys, 1 | 2, Until::All)?;
        *n.get_mut(sys)? += 1;
        Ok(got)
    })?;
    assert_eq!(got, 1 | 2);
    // They are gone.
    let got = th.step(1, |sys, _, _| {
        let got = FLAGS.wait_timeout(sys, 1 | 2, Until::Any, 3)?;
        Ok(got.unwrap_or(0))
    })?;
    assert_eq!(got, 0);
    Ok(())
}

fn again(th: &mut Thread<Plan, u32>, first_boot: bool) -> Result<(), Error> {
    let got = th.step((), |sys, n, ()| {
        let got = FLAGS.wait(sys, 4 | 8, Until::Any)?;
        *n.get_mut(sys)? += 1;
        SEEN.take(sys)?;
        Ok(got)
    })?;
    assert_eq!(got, 4);
    let got = th.step(1, |sys, _, _| {
        let got = FLAGS.wait_timeout(sys, 4, Until::Any, 5)?;
        Ok(got.unwrap_or(0))
    })?;
    // It was set again while the step above had it. After a cut that step begins anew.
    assert!(got == 4 || !first_boot, "a flag that was set again is lost");
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    w.update(|s| s.given = (s.given + 1).min(2));
    let first_boot = w.with(|s| s.given == 1);
    run!(nv, w: monitor, both, |th| again(th, first_boot));
}
