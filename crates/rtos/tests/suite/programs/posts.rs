// An interrupt sends messages at every point, into a queue into which a thread sends, too.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        INPUT: Queue<[u16; 3], 3>;
        NEVER: Semaphore = (0, 1);
    }
    threads {
        sender(u32 = 0): 2;
        receiver([u16; 2] = [0; 2]): 1;
    }
}

/// The interrupt, in the world's results.
const INTERRUPT: u32 = 9;

/// Holds a slot, while the interrupt sends, and then commits behind it.
fn sender(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, n, ()| {
        INPUT.send(sys, [1, !1, 0])?;
        *n.get_mut(sys)? += 1;
        NEVER.take_timeout(sys, 2)?;
        Ok(())
    })?;
    Ok(())
}

/// A message comes behind the last one of its sender, which it replaces.
fn check(last: &mut [u16; 2], [n, inverse, who]: [u16; 3]) -> [u16; 3] {
    assert_eq!(inverse, !n, "a message whose content was not there");
    let last = &mut last[usize::from(who)];
    assert!(n > *last, "{n} of {who} comes behind {last}");
    [core::mem::replace(last, n), n, who]
}

/// Receives what both have sent, each once and in order.
fn receiver(th: &mut Thread<Plan, [u16; 2]>, w: &World<'_, Seen>) -> Result<(), Error> {
    for i in 0..4 {
        let [before, got, who] = th.step(i, |sys, last, _| {
            let message = INPUT.receive(sys)?;
            Ok(check(last.get_mut(sys)?, message))
        })?;
        // The interrupt's call returned for none of those between.
        let lost = |r: &&(u32, u32, u32)| {
            r.0 == INTERRUPT && r.2 > u32::from(before) && r.2 < u32::from(got)
        };
        let lost = w.with(|s| s.results.iter().find(lost).copied());
        assert!(who == 0 || lost.is_none(), "{lost:?} is lost");
    }
    th.join(Plan::sender())?;
    let [of_sender, _] = th.step((), |sys, last, ()| {
        while let Some(message) = INPUT.try_receive(sys)? {
            check(last.get_mut(sys)?, message);
        }
        Ok(*last.get(sys))
    })?;
    assert_eq!(of_sender, 1);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        let kernel = &kernel;
        let kit = machine.start(t, kernel, |kit| {
            Plan::spawn(kernel, places, kit, sender, |th| receiver(th, w));
        });
        t.interrupt("input", move || {
            // Two at a time, so that one is in the queue when the next ones come.
            for _ in 0..2 {
                if w.with(|s| s.given) == 10 {
                    return;
                }
                // A cut between the two loses the number: it was not sent, or nobody knows it was.
                w.update(|s| s.given += 1);
                let n = w.with(|s| s.given);
                let isr = kernel.isr(&kit);
                if INPUT.send_from_isr(&isr, [n as u16, !n as u16, 1]).unwrap() {
                    result(w, INTERRUPT, n, n);
                }
            }
        });
    });
    (0..2).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    assert!(w.with(|s| s.given) >= 3);
}
