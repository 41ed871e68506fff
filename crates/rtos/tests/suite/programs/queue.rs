// A producer, and two equals that receive. A third thread gets what they got, in one queue whose
// messages come out in the order of their commits.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        WORK: Queue<[u16; 3], 2>;
        DONE: Queue<u32, 3>;
    }
    threads {
        producer(u32 = 0): 1;
        one(u32 = 0): 2;
        two(u32 = 0): 2;
        last([u32; 2] = [0; 2]): 1;
    }
}

fn producer(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, n, ()| {
        *n.get_mut(sys)? += 2;
        WORK.send(sys, [1, !1, 7])?;
        WORK.send(sys, [2, !2, 7])
    })?;
    th.each_step(3..4, (), |sys, n, i, ()| {
        *n.get_mut(sys)? += 1;
        let i = i as u16;
        WORK.send(sys, [i, !i, 7])
    })
}

fn worker(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, me: u32, n: u32) -> Result<(), Error> {
    for i in 0..n {
        let got = th.step(i, |sys, n, _| {
            let [got, inverse, seven] = WORK.receive(sys)?;
            assert_eq!((inverse, seven), (!got, 7));
            *n.get_mut(sys)? += 1;
            DONE.send(sys, got.into())?;
            Ok(u32::from(got))
        })?;
        result(w, me, i, got);
    }
    Ok(())
}

fn last(th: &mut Thread<Plan, [u32; 2]>) -> Result<(), Error> {
    th.each_step(0..3, (), |sys, all, i, ()| {
        let got = DONE.receive(sys)?;
        let all = all.get_mut(sys)?;
        assert_eq!(all[0], i);
        *all = [i + 1, all[1] | 1 << got];
        Ok(())
    })?;
    let all = th.step((), |sys, all, ()| Ok(*all.get(sys)))?;
    assert_eq!(all, [3, 0b1110]);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: producer, |th| worker(th, w, 1, 2), |th| worker(th, w, 2, 1), last);
    assert_eq!(results(w), [1, 2, 3]);
}
