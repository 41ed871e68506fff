// An interrupt gives and sets flags at every point.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        BUTTON: Semaphore = (0, 2);
        FLAGS: Events;
    }
    threads {
        taker(u32 = 0): 1;
        waiter(u32 = 0): 2;
    }
}

fn taker(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.each_step(0..2, (), |sys, n, _, ()| {
        BUTTON.take(sys)?;
        *n.get_mut(sys)? += 1;
        Ok(())
    })
}

fn waiter(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    let got = th.step((), |sys, n, ()| {
        *n.get_mut(sys)? += 1;
        FLAGS.wait(sys, 2, Until::All)
    })?;
    assert_eq!(got, 2);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        let kernel = &kernel;
        let kit = machine.start(t, kernel, |kit| {
            Plan::spawn(kernel, places, kit, taker, waiter);
        });
        t.interrupt("button", move || {
            // The world counts first, so it has counted at least as many as there are.
            if w.with(|s| s.given) < 8 {
                w.update(|s| s.given += 1);
                let isr = kernel.isr(&kit);
                BUTTON.give_from_isr(&isr).unwrap();
                FLAGS.set_from_isr(&isr, 2).unwrap();
            }
        });
    });
    (0..2).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    assert!(w.with(|s| s.given) >= 2);
}
