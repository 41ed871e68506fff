// Queues that are made for one answer each, in one place, and deleted while the other thread still
// has their handles: no answer gets into the next queue.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 256, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        CALLS: Queue<Answer, 2>;
        NEVER: Semaphore = (0, 1);
        ANSWERS: [Queue<u32, 1>; 1] => Answer;
    }
    threads {
        client([u32; 1] = [0]): 1;
        server(u32 = 0): 1;
    }
}

const LATE: u32 = 77;

/// Whether an object was deleted: the result of a step.
fn is_deleted<T>(r: Result<T, impl Into<Error>>) -> Result<bool, Error> {
    match r.map_err(Into::into) {
        Ok(_) => Ok(false),
        Err(Error::Aborted(code::DELETED)) => Ok(true),
        Err(e) => Err(e),
    }
}

fn client(th: &mut Thread<Plan, [u32; 1]>, w: &World<'_, Seen>) -> Result<(), Error> {
    // A step that fails has made nothing.
    let failed = th.step((), |sys, _, ()| {
        let answer = ANSWERS.make(sys)?;
        ANSWERS.at(answer).send(sys, 1)?;
        assert_eq!(ANSWERS.try_make(sys)?, None, "it is claimed");
        Err::<(), _>(sys.abort(7))
    });
    assert_eq!(failed.map_err(Error::from), Err(Error::Aborted(7)));
    let mut before = None;
    for i in 0..2 {
        let mut made = None;
        for round in 0..9 {
            // The first message is there with the queue.
            let r = th.step((i, round), |sys, root, _| {
                let answer = ANSWERS.make(sys)?;
                ANSWERS.at(answer).send(sys, 5)?;
                CALLS.send(sys, answer)?;
                *root.get_mut(sys)? = [5];
                Ok(answer)
            });
            match r.map_err(Error::from) {
                Ok(answer) => {
                    made = Some(answer);
                    break;
                }
                // The server's step has used the last one, and has not ended.
                Err(e) => assert_eq!(e, Error::Aborted(code::NO_PLACE)),
            }
            th.delay(1)?;
        }
        let answer = made.unwrap();
        assert_ne!(before, Some(answer));
        if let Some(old) = before {
            let r = th.step(old, |sys, _, old| ANSWERS.at(old).try_send(sys, 3));
            assert!(is_deleted(r)?);
            let r = th.step(old, |sys, _, old| ANSWERS.delete(sys, old));
            assert!(is_deleted(r)?);
        }
        let first = th.step(answer, |sys, _, answer| ANSWERS.at(answer).receive(sys))?;
        assert_eq!(first, 5);
        let second = th.step(answer, |sys, _, answer| ANSWERS.at(answer).receive(sys))?;
        result(w, 0, i, second);
        th.delay(1)?;
        th.step((answer, 1), |sys, _, (answer, _)| {
            ANSWERS.delete(sys, answer)?;
            let gone = ANSWERS.at(answer).try_receive(sys);
            assert_eq!(gone, Err(nv_rtos::pmem_tx::Error::Aborted(code::DELETED)));
            Ok(())
        })?;
        before = Some(answer);
    }
    Ok(())
}

fn server(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    for i in 0..2 {
        let answer = th.step((), |sys, _, ()| CALLS.receive(sys))?;
        th.step((answer, 10 + i), |sys, n, (answer, i)| {
            *n.get_mut(sys)? += 1;
            ANSWERS.at(answer).send(sys, i)
        })?;
        // The client takes two. These wait, or come before it has deleted the queue, or after that.
        let mut all = [false; 2];
        for deleted in &mut all {
            let r = th.step((answer, LATE), |sys, n, (answer, i)| {
                ANSWERS.at(answer).send(sys, i)?;
                // The client deletes the queue, and makes another one, before this commits.
                assert!(!NEVER.take_timeout(sys, 2)?);
                *n.get_mut(sys)? += 1;
                Ok(())
            });
            *deleted = is_deleted(r)?;
        }
        assert!(all[1], "there is one slot, and nobody takes from it");
    }
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: |th| client(th, w), server);
    assert_eq!(results(w), [10, 11]);
}
