// Notifications, from steps and from an interrupt, each for its thread alone.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        BETWEEN: Semaphore = (0, 1);
    }
    threads {
        first(u32 = 0): 1;
        second(u32 = 0): 2;
        third(u32 = 0): 3;
    }
    control { notify: true }
}

fn first(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    let none = th.step(0, |sys, _, _| {
        let got = wait_notification_timeout(sys, 4, Until::Any, 2)?;
        Ok(u32::from(got.unwrap_or(0)))
    })?;
    assert_eq!(none, 0, "nobody sets this one");
    let failed = th.step(1, |sys, _, _| {
        Plan::second().notify(sys, 8)?;
        Err::<(), _>(sys.abort(7))
    });
    assert_eq!(failed.map_err(Error::from), Err(Error::Aborted(7)));
    th.step(2, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Plan::second().notify(sys, 1)?;
        Plan::third().notify(sys, 1)
    })?;
    let got = th.step(3, |sys, _, _| wait_notification(sys, 3, Until::All))?;
    assert_eq!(got, 3);
    Ok(())
}

fn second(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    let got = th.step(0, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        wait_notification(sys, 9, Until::Any)
    })?;
    assert_eq!(got, 1, "the other step has failed");
    // The interrupt's one.
    th.step(1, |sys, _, _| wait_notification(sys, 2, Until::All))?;
    th.step(2, |sys, _, _| {
        BETWEEN.give(sys)?;
        Plan::first().notify(sys, 1)
    })?;
    Ok(())
}

fn third(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step(0, |sys, _, _| wait_notification(sys, 1, Until::Any))?;
    th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        BETWEEN.take(sys)?;
        Plan::first().notify(sys, 2)
    })?;
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        let kernel = &kernel;
        let kit = machine.start(t, kernel, |kit| {
            Plan::spawn(kernel, places, kit, first, second, third);
        });
        t.interrupt("button", move || {
            if w.with(|s| s.given) < 6 {
                w.update(|s| s.given += 1);
                let isr = kernel.isr(&kit);
                Plan::second().notify_from_isr(&isr, 2).unwrap();
            }
        });
    });
    (0..3).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    assert!(w.with(|s| s.given) >= 1);
}
