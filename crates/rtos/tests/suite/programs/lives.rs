// A thread whose calls need more than a life has: it is parked, the others go on, and it is set
// going again. Each boot of the campaign is several lives, which end at an instant of the clock.

use powerfail::Threads;

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 256, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        NEVER: Semaphore = (0, 1);
    }
    threads {
        heavy(u32 = 0): 1;
        other(u32 = 0): 2;
    }
    control { lives: 2, ticks: 20 }
}

/// When the power is cut. The last life has no end.
const ENDS: [u64; 7] = [10, 30, 50, 30, 10, 30, u64::MAX];

/// Works, however often others preempt it.
fn works(t: &Threads<'_, '_>, ticks: u64) {
    let end = t.now() + ticks;
    while t.now() < end {
        t.sleep_until(end);
    }
}

fn heavy(
    th: &mut Thread<Plan, u32>,
    w: &World<'_, Seen>,
    t: &Threads<'_, '_>,
    parked: &Cell<bool>,
    progress: &Cell<bool>,
) -> Result<(), Error> {
    assert!(!parked.get(), "it is parked");
    progress.set(th.is_live());
    th.step((), |_, _, ()| Ok(()))?;
    for (i, ticks) in [(1, 40), (2, 100)] {
        let live = th.is_live();
        th.record_with(|| {
            works(t, ticks);
            // Its record comes, or the cut. That of an earlier life did not come.
            w.update(|s| (s.maybe, s.early) = (s.long, false));
        })?;
        progress.set(progress.get() || live);
        if w.with(|s| s.progress < i) {
            let early = i == 1 && w.with(|s| s.early);
            assert!(live || !early, "it was parked, although this record was made before");
            w.update(|s| (s.progress, s.long, s.ended) = (i, 0, 0));
        }
        // As many numbers as there are of 4 bits.
        for n in 1..15 {
            let live = th.is_live();
            th.step(n + 15 * i, |sys, count, _| {
                *count.get_mut(sys)? += 1;
                Ok(())
            })?;
            progress.set(progress.get() || live);
        }
    }
    Ok(())
}

fn other(th: &mut Thread<Plan, u32>, unpark: impl Fn()) -> Result<(), Error> {
    th.each_step(0..60, (), |sys, n, _, ()| {
        *n.get_mut(sys)? += 1;
        assert!(!NEVER.take_timeout(sys, 5)?);
        Ok(())
    })?;
    assert_eq!(th.join(Plan::heavy()), Err(Error::Aborted(code::PARKED)));
    unpark();
    th.join(Plan::heavy())
}

/// A life. Whether it was the last one.
fn one_life(nv: Region<'_, Fram>, w: &World<'_, Seen>) -> bool {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    let end = ENDS[w.with(|s| s.lives)];
    let is = kernel.parked(0);
    let (long, ended) = w.with(|s| (s.long, s.ended));
    assert!(!is || long >= 2, "parked after {long} long lives without progress");
    assert!(is || ended < 2, "{ended} long lives without progress, and not parked");
    assert!(!kernel.parked(1));
    if is && w.with(|s| s.parked == 0) {
        w.update(|s| s.parked = s.long);
    }
    let (parked, progress) = (Cell::new(is), Cell::new(false));
    w.threads(|t| {
        let (kernel, machine, parked, progress) = (&kernel, &machine, &parked, &progress);
        machine.start(t, kernel, |kit| {
            let kit_of_other = *kit;
            Plan::spawn(
                kernel,
                places,
                kit,
                move |th| heavy(th, w, t, parked, progress),
                move |th| {
                    other(th, || {
                        let was = parked.replace(false);
                        if was {
                            machine.unparked(0);
                            w.update(|s| {
                                s.ended = 0;
                                s.early = s.parked < s.maybe + 2;
                                s.parked = 0;
                            });
                        }
                        assert_eq!(kernel.unpark(0, &kit_of_other), Ok(was));
                    })
                },
            );
        });
        t.spawn("power", 2, move || {
            if end == u64::MAX {
                return;
            }
            t.sleep(end.min(19));
            if end > 19 {
                if !parked.get() {
                    w.update(|s| s.long += 1);
                }
                t.sleep(end - 19);
            }
            let counts = end > 19 && !parked.get() && !progress.get();
            w.update(|s| {
                s.lives += 1;
                s.ended += u32::from(counts);
            });
            machine.power_off(t);
        });
    });
    if end == u64::MAX {
        (0..2).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
    }
    end == u64::MAX
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    // SAFETY: each is gone before the next one is made.
    while !one_life(unsafe { nv.tail(0) }, w) {}
}
