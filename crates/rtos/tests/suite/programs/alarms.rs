// Timers that are made at run time: one that was deleted does not expire, and the next one in its
// place is not taken for it.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 224, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        BEATS: [Timer = periodic(2); 1] => Beat;
        ALARMS: [Timer = one_shot(3); 2] => Alarm;
        MADE: Queue<Alarms, 1>;
    }
    threads {
        user(u32 = 0): 1;
        daemon([u32; 3] = [0; 3]): 2;
    }
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
pub struct Alarms {
    beat: Beat,
    alarms: [Alarm; 2],
}

fn user(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    let all = th.step((), |sys, _, ()| {
        let all = Alarms {
            beat: BEATS.make(sys)?,
            alarms: [ALARMS.make(sys)?, ALARMS.make(sys)?],
        };
        assert_eq!(ALARMS.try_make(sys)?, None);
        for alarm in all.alarms {
            ALARMS.at(alarm).start(sys)?;
            assert!(ALARMS.at(alarm).is_active(sys));
        }
        Ok(all)
    })?;
    let [_, deleted] = all.alarms;
    // Before anybody waits for it.
    th.step(deleted, |sys, _, deleted| ALARMS.delete(sys, deleted))?;
    th.step((all, 0), |sys, _, (all, _)| {
        BEATS.at(all.beat).start(sys)?;
        MADE.send(sys, all)
    })?;
    th.delay(6)?;
    let again = th.step((deleted, 1), |sys, _, (deleted, _)| {
        assert!(!ALARMS.at(deleted).is_active(sys));
        let again = ALARMS.make(sys)?;
        assert!(!ALARMS.at(again).is_active(sys));
        ALARMS.at(again).start(sys)?;
        assert!(ALARMS.at(again).is_active(sys));
        Ok(again)
    })?;
    let r = th.step((deleted, 2), |sys, _, (deleted, _)| ALARMS.at(deleted).stop(sys));
    assert_eq!(r.map_err(Error::from), Err(Error::Aborted(code::DELETED)));
    th.join(Plan::daemon())?;
    th.step((again, 3), |sys, _, (again, _)| {
        assert!(!ALARMS.at(again).is_active(sys), "it has expired");
        Ok(())
    })?;
    Ok(())
}

fn daemon(th: &mut Thread<Plan, [u32; 3]>, w: &World<'_, Seen>) -> Result<(), Error> {
    let all = th.step((), |sys, _, ()| MADE.receive(sys))?;
    let turn = |th: &mut Thread<Plan, [u32; 3]>, all: Alarms| {
        th.step((all, 0), |sys, root, (all, _)| {
            let expired = nv_rtos::expired(sys)?;
            let [first, deleted] = all.alarms;
            assert!(!ALARMS.at(deleted).is(expired), "it was deleted");
            let which = match (BEATS.at(all.beat).is(expired), ALARMS.at(first).is(expired)) {
                (true, _) => 0,
                (_, true) => 1,
                _ => 2,
            };
            let n = &mut root.get_mut(sys)?[which];
            *n += 1;
            if (which, *n) == (0, 2) {
                BEATS.delete(sys, all.beat)?;
            }
            Ok(10 * which as u32 + *n)
        })
    };
    for i in 0..4 {
        let which = turn(th, all)?;
        result(w, 1, i, which);
    }
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: user, |th| daemon(th, w));
    // Two beats, and an expiry of each of two alarms.
    assert_eq!(results(w), [1, 2, 11, 21]);
}
