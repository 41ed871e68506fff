// Handlers start and stop a timer at every point, also while a step has its expiry. Each start is
// followed by an expiry, not before its time; a stop by none.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 192, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LAST: Timer = one_shot(1);
        KICKED: Timer = one_shot(PERIOD);
    }
    threads {
        user(u32 = 0): 1;
        daemon(u32 = 0): 2;
    }
}

const PERIOD: u32 = 4;
/// The world's `progress`: handlers may come.
const OPEN: u32 = 1;
const OVER: u32 = 2;
/// The world's `parked`: the user has started it, or is about to; it has expired; a handler has
/// stopped it.
const BY_USER: u32 = 0;
const EXPIRED: u32 = 1;
const STOPPED: u32 = 2;
/// A handler has started it, or a cut came in that. It expires at `time[3]`.
const STARTED: u32 = 3;
const MAYBE: u32 = 4;

fn user(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    th.step((), |sys, _, ()| KICKED.start(sys))?;
    if w.with(|s| s.progress == 0) {
        w.update(|s| s.progress = OPEN);
    }
    th.delay(u64::from(2 * PERIOD + 1))?;
    if w.with(|s| s.progress == OPEN) {
        w.update(|s| s.progress = OVER);
    }
    let mut active = 1;
    for i in 0..4 {
        active = th.step(i, |sys, _, _| Ok(u32::from(KICKED.is_active(sys))))?;
        if active == 0 {
            break;
        }
        th.delay(u64::from(PERIOD))?;
    }
    assert_eq!(active, 0, "the daemon has not seen that it was started");
    th.step(9, |sys, _, _| LAST.start(sys))?;
    th.join(Plan::daemon()).unwrap_err();
    Ok(())
}

fn daemon(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    for i in 0..10 {
        let before = w.with(|s| (s.parked, s.time[3]));
        let live = th.is_live();
        let claimed = th.step(i, |sys, n, _| {
            let timer = nv_rtos::expired(sys)?;
            if LAST.is(timer) {
                return Err(sys.abort(9));
            }
            *n.get_mut(sys)? += 1;
            Ok(now(sys))
        })?;
        knows(w, 1, claimed);
        let (parked, at) = w.with(|s| (s.parked, s.time[3]));
        if live && (parked, at) == before {
            assert_ne!(parked, STOPPED, "it was stopped, and expires");
            assert!(parked < STARTED || claimed >= at, "at {claimed}, and not at {at}");
        }
        if (live && parked == BY_USER || parked >= STARTED) && claimed >= at {
            w.update(|s| s.parked = EXPIRED);
        }
    }
    panic!("too many expiries")
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    let may = || w.with(|s| s.progress == OPEN && s.given < 3);
    w.threads(|t| {
        let kernel = &kernel;
        let kit = machine.start(t, kernel, |kit| {
            Plan::spawn(kernel, places, kit, |th| user(th, w), |th| daemon(th, w));
        });
        t.interrupt("kick", move || {
            if may() {
                w.update(|s| s.given += 1);
                let isr = kernel.isr(&kit);
                let now = isr.now().unwrap();
                reads(w, 1, now);
                let at = now + u64::from(PERIOD);
                if w.with(|s| [EXPIRED, STOPPED].contains(&s.parked)) {
                    w.update(|s| (s.parked, s.time[3]) = (MAYBE, at));
                }
                KICKED.reset_from_isr(&isr).unwrap();
                w.update(|s| (s.parked, s.time[3]) = (STARTED, at));
            }
        });
        t.interrupt("stop", move || {
            if may() {
                w.update(|s| s.given += 1);
                KICKED.stop_from_isr(&kernel.isr(&kit)).unwrap();
                w.update(|s| s.parked = STOPPED);
            }
        });
    });
    assert_eq!(kernel.ended(0), Some(Ok(())));
    assert_eq!(kernel.ended(1), Some(Err(Error::Aborted(9))));
    assert_ne!(w.with(|s| s.parked), STARTED, "a start of a handler is lost");
}
