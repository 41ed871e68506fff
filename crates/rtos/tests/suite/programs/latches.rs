// Mutexes that are made at run time, in one place: mutual exclusion across power cuts, a delete
// that is refused while a thread has the mutex, and the next one in its place.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 320, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        LATCHES: [Mutex; 1] => Latch;
        TO_OTHER: Queue<Latch, 1>;
        DELETED: Semaphore = (0, 1);
        NEVER: Semaphore = (0, 1);
    }
    threads {
        one(u32 = 0): 1;
        other(u32 = 0): 1;
    }
}

/// Before the mutex's delete, and since.
const MADE: u32 = 0;
const GONE: u32 = 1;
const SECTIONS: u32 = 3;

/// A thread has the mutex, for its section of this number, and it exists.
fn enters_existing(w: &World<'_, Seen>, me: u32, section: u32) {
    if w.with(|s| s.left[me as usize] == section) {
        assert_eq!(w.with(|s| s.given), MADE, "{me} enters what was deleted");
    }
    enters(w, me, section);
}

/// Whether a mutex was there.
fn exists<T>(r: Result<T, impl Into<Error>>) -> Result<Option<T>, Error> {
    match r.map_err(Into::into) {
        Ok(t) => Ok(Some(t)),
        Err(Error::Aborted(code::DELETED)) => Ok(None),
        Err(e) => Err(e),
    }
}

fn one(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let latch = th.step((), |sys, _, ()| {
        let latch = LATCHES.make(sys)?;
        assert_eq!(LATCHES.try_make(sys)?, None, "the only place is claimed");
        TO_OTHER.send(sys, latch)?;
        Ok(latch)
    })?;
    let guard = th.lock(&LATCHES.at(latch))?;
    enters_existing(w, 0, 0);
    // Its holder cannot delete it.
    let held = th.step((latch, 0), |sys, _, (latch, _)| LATCHES.delete(sys, latch));
    assert_eq!(held.map_err(Error::from), Err(Error::Aborted(code::REFUSED)));
    let again = th.lock(&LATCHES.at(latch))?;
    drop(again);
    th.step((latch, 1), |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    leaves(w, 0, 0);
    drop(guard);
    // A step that fails has deleted nothing. Who wants the mutex meanwhile waits.
    let failed = th.step((latch, 2), |sys, _, (latch, _)| {
        LATCHES.delete(sys, latch)?;
        assert!(!NEVER.take_timeout(sys, 1)?);
        Err::<(), _>(sys.abort(7))
    });
    let failed = failed.map_err(Error::from);
    assert!(matches!(failed, Err(Error::Aborted(7 | code::REFUSED))), "{failed:?}");
    let mut tries = 10;
    loop {
        // The other one may lock it between the call and the commit.
        let r = th.step((latch, tries), |sys, n, (latch, _)| {
            LATCHES.delete(sys, latch)?;
            *n.get_mut(sys)? += 1;
            assert!(!NEVER.take_timeout(sys, 2)?);
            DELETED.give(sys)
        });
        match r.map_err(Error::from) {
            Ok(()) => break,
            Err(e) => assert_eq!(e, Error::Aborted(code::REFUSED)),
        }
        tries += 1;
        assert!(tries < 18, "the other one keeps it");
        th.delay(4)?;
    }
    if w.with(|s| s.given == MADE) {
        let inside = w.with(|s| s.inside);
        assert_eq!(inside, None, "{inside:?} has what was deleted");
        w.update(|s| s.given = GONE);
    }
    assert!(exists(th.lock(&LATCHES.at(latch)))?.is_none());
    // A new one, in the same place.
    let new = th.step((), |sys, _, ()| LATCHES.make(sys))?;
    assert_ne!(new, latch);
    assert!(exists(th.lock(&LATCHES.at(latch)))?.is_none());
    let guard = th.lock(&LATCHES.at(new))?;
    th.step((new, 3), |sys, n, _| {
        *n.get_mut(sys)? += 1;
        Ok(())
    })?;
    drop(guard);
    th.join(Plan::other())
}

fn other(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let latch = th.step((), |sys, _, ()| TO_OTHER.receive(sys))?;
    for i in 0..SECTIONS {
        let Some(guard) = exists(th.lock(&LATCHES.at(latch)))? else {
            break;
        };
        enters_existing(w, 1, i);
        th.step(i, |sys, n, _| {
            *n.get_mut(sys)? += 1;
            assert!(!NEVER.take_timeout(sys, 3)?);
            Ok(())
        })?;
        enters_existing(w, 1, i);
        leaves(w, 1, i);
        drop(guard);
    }
    // It does not end before: nobody else wakes who asks whether it has the mutex.
    th.step(SECTIONS, |sys, _, _| DELETED.take(sys))?;
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: |th| one(th, w), |th| other(th, w));
    assert_eq!(w.with(|s| (s.inside, s.given)), (None, GONE));
}
