// Loops with several steps in a turn, with locks, delays and joins. The mutex guards what a queue
// of one slot holds: between the two steps of a turn it is empty, and nobody else may look.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        ACCOUNT: Queue<u32, 1>;
        LOCK: Mutex;
        AROUND: Mutex;
        GO: Semaphore = (0, 2);
        LATER: Semaphore = (0, 2);
        OLD: Semaphore = (0, 1);
    }
    threads {
        low(u32 = 0): 1;
        high(u32 = 0): 2;
        last(u32 = 0): 3;
    }
}

const LOW: u32 = 0;
const HIGH: u32 = 1;

/// Takes the value out under the lock, and puts the next one in. `low` comes first: `high` locks
/// behind it, and waits with the lock for what `low` does behind its own.
fn turn(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, me: u32, i: u32) -> Result<(), Error> {
    if me == HIGH {
        th.step(0, |sys, _, _| GO.take(sys))?;
    }
    let guard = th.lock(&LOCK)?;
    let got = th.step(me, |sys, n, me| {
        *n.get_mut(sys)? += 1;
        if me == LOW {
            GO.give(sys)?;
        }
        let got = ACCOUNT.try_receive(sys)?;
        Ok(got.expect("another thread is between its two steps"))
    })?;
    result(w, me, i, got);
    th.delay(2)?;
    th.step([me, got], |sys, n, [me, got]| {
        *n.get_mut(sys)? += 1;
        if me == HIGH {
            LATER.take(sys)?;
        }
        ACCOUNT.send(sys, got + 1)
    })?;
    drop(guard);
    if me == LOW {
        th.step(1, |sys, _, _| LATER.give(sys))?;
    }
    th.delay(1)
}

fn low(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    th.each_with(&mut &*w, 0..2, (), |th, w, i, ()| turn(th, w, LOW, i))?;
    let n = th.step((), |sys, n, ()| Ok(*n.get(sys)))?;
    assert_eq!(n, 4);
    // A loop in a loop, each under its lock.
    th.each(0..2, 7, |th, i, seven| {
        assert_eq!(seven, 7);
        let guard = th.lock(&AROUND)?;
        th.each(0..2, i, |th, k, i| {
            th.step((i, k), |sys, n, (i, k)| {
                *n.get_mut(sys)? += 1 + i + k;
                Ok(())
            })?;
            Ok(())
        })?;
        drop(guard);
        Ok(())
    })?;
    let n = th.step(1, |sys, n, _| Ok(*n.get(sys)))?;
    assert_eq!(n, 4 + 8);
    Ok(())
}

/// Ends with an error in its third turn, again in each life.
fn high(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let never = th.forever_with(&mut &*w, (), |th, w, i, ()| {
        if i == 2 {
            return Err(Error::Aborted(9));
        }
        turn(th, w, HIGH, i)
    });
    match never {
        Err(e) => Err(e),
    }
}

fn last(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, _, ()| {
        OLD.give(sys)?;
        ACCOUNT.send(sys, 0)
    })?;
    // Only turns use numbers here, and so many that the numbers repeat.
    th.each(0..17, (), |_, _, ()| Ok(()))?;
    let taken = th.step(1, |sys, _, _| OLD.try_take(sys).map(u32::from))?;
    assert_eq!(taken, 1, "what was given long ago is gone");
    // Who joins in a turn waits there again after a cut.
    th.each(0..2, (), |th, i, ()| {
        if i == 0 {
            return th.join(Plan::low());
        }
        assert_eq!(th.join(Plan::high()), Err(Error::Aborted(code::FAILED)));
        let guard = th.lock(&AROUND)?;
        let account = th.step((), |sys, _, ()| ACCOUNT.receive(sys))?;
        assert_eq!(account, 4);
        drop(guard);
        Ok(())
    })
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    w.threads(|t| {
        machine.start(t, &kernel, |kit| {
            Plan::spawn(&kernel, places, kit, |th| low(th, w), |th| high(th, w), last);
        });
    });
    assert_eq!(kernel.ended(0), Some(Ok(())));
    assert_eq!(kernel.ended(1), Some(Err(Error::Aborted(9))));
    assert_eq!(kernel.ended(2), Some(Ok(())));
    assert_eq!(results(w), [0, 1, 2, 3]);
}
