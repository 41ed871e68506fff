// Semaphores and event groups that are made at run time. Two threads delete the same one: it is
// deleted once. Who waits for one that is deleted wakes. The next one in its place is new.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 224, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        PERMITS: [Semaphore = 3; 1] => Permit;
        PHASES: [Events; 2] => Phase;
        BOTH: Queue<Both, 1>;
        GO: Semaphore = (0, 1);
    }
    threads {
        one(u32 = 0): 1;
        other(u32 = 0): 1;
    }
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
pub struct Both {
    permit: Permit,
    phase: Phase,
}

const ONCE: u32 = 500;

/// Whether a step has not ended because an object was deleted.
fn exists<T>(r: Result<T, impl Into<Error>>) -> Result<bool, Error> {
    match r.map_err(Into::into) {
        Ok(_) => Ok(true),
        Err(Error::Aborted(code::DELETED)) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Both threads delete it, first in a step that fails.
fn delete(th: &mut Thread<Plan, u32>, both: Both, w: &World<'_, Seen>, me: u32) -> Result<(), Error> {
    let failed = th.step((both, 1), |sys, n, (both, _)| {
        PHASES.delete(sys, both.phase)?;
        *n.get_mut(sys)? += 1;
        Err::<(), _>(sys.abort(7))
    });
    assert!(matches!(failed.map_err(Error::from), Err(Error::Aborted(7 | code::DELETED))));
    let r = th.step((both, 2), |sys, n, (both, _)| {
        PHASES.delete(sys, both.phase)?;
        *n.get_mut(sys)? += 1;
        Ok(())
    });
    if exists(r)? {
        result(w, me, 2, ONCE);
    }
    Ok(())
}

fn one(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let both = th.step((), |sys, _, ()| {
        let both = Both { permit: PERMITS.make(sys, 1)?, phase: PHASES.make(sys)? };
        PERMITS.at(both.permit).give(sys)?;
        PHASES.at(both.phase).set(sys, 5)?;
        BOTH.send(sys, both)?;
        // One that ends with its step.
        let short = PHASES.make(sys)?;
        PHASES.delete(sys, short)?;
        Ok(both)
    })?;
    th.step(0, |sys, _, _| GO.take(sys))?;
    // The other one has taken two, and waits for a third one, or is about to.
    let deleted = th.step((both, 3), |sys, n, (both, _)| {
        PERMITS.delete(sys, both.permit)?;
        *n.get_mut(sys)? += 1;
        Ok(())
    });
    assert!(exists(deleted)?);
    delete(th, both, w, 0)?;
    th.join(Plan::other())?;
    // New ones, in the same places.
    let new = th.step((), |sys, _, ()| {
        let new = Both { permit: PERMITS.make(sys, 1)?, phase: PHASES.make(sys)? };
        assert!(PHASES.at(PHASES.make(sys)?).wait_timeout(sys, 0xff, Until::Any, 0)?.is_none());
        assert_eq!(PHASES.try_make(sys)?, None);
        assert_eq!(PERMITS.try_make(sys, 0)?, None);
        Ok(new)
    })?;
    let left = th.step((new, 4), |sys, _, (new, _)| {
        let phase = PHASES.at(new.phase).wait_timeout(sys, 0xff, Until::Any, 0)?;
        let permits = [(); 2].map(|()| PERMITS.at(new.permit).try_take(sys));
        assert_eq!(permits, [Ok(true), Ok(false)]);
        Ok(u32::from(phase.unwrap_or(0)))
    })?;
    assert_eq!(left, 0);
    assert!(!exists(th.step((both, 5), |sys, _, (both, _)| PERMITS.at(both.permit).give(sys)))?);
    assert!(!exists(th.step((both, 6), |sys, _, (both, _)| PHASES.at(both.phase).set(sys, 1)))?);
    Ok(())
}

fn other(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let both = th.step((), |sys, _, ()| BOTH.receive(sys))?;
    let flags = th.step(both, |sys, _, both| {
        let flags = PHASES.at(both.phase).wait(sys, 5, Until::All)?;
        GO.give(sys)?;
        Ok(u32::from(flags))
    })?;
    assert_eq!(flags, 5);
    let mut taken = 0;
    while exists(th.step((both, 10 + taken), |sys, n, (both, _)| {
        *n.get_mut(sys)? += 1;
        PERMITS.at(both.permit).take(sys)
    }))? {
        taken += 1;
    }
    assert!(taken <= 2);
    delete(th, both, w, 1)
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: |th| one(th, w), |th| other(th, w));
    assert_eq!(results(w), [ONCE]);
}
