// Steps that fail after they have claimed and reserved: nothing of it remains.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        ONE: Queue<u32, 1>;
        COUNT: Semaphore = (1, 1);
    }
    threads {
        sender(u32 = 0): 1;
        receiver(u32 = 0): 2;
    }
}

fn sender(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    let r = th.step(5, |sys, n, m| {
        *n.get_mut(sys)? = 99;
        assert!(ONE.try_send(sys, m)?);
        assert!(!ONE.try_send(sys, m)?, "there is one slot");
        COUNT.take(sys)?;
        assert!(!COUNT.try_take(sys)?, "it is claimed");
        Err::<(), _>(sys.abort(7))
    });
    assert_eq!(r.map_err(Error::from), Err(Error::Aborted(7)));
    let r = th.step((), |sys, _, ()| COUNT.give(sys));
    assert_eq!(r.map_err(Error::from), Err(Error::Aborted(code::FULL)));
    th.step(6, |sys, n, m| {
        *n.get_mut(sys)? += 1;
        COUNT.take(sys)?;
        ONE.send(sys, m)
    })?;
    Ok(())
}

fn receiver(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let r = th.step((), |sys, n, ()| {
        *n.get_mut(sys)? = 99;
        assert_eq!(ONE.receive(sys)?, 6);
        COUNT.give(sys)?;
        Err::<(), _>(sys.abort(8))
    });
    assert_eq!(r.map_err(Error::from), Err(Error::Aborted(8)));
    let got = th.step(1, |sys, n, _| {
        *n.get_mut(sys)? += 1;
        let got = ONE.receive(sys)?;
        assert_eq!(ONE.try_receive(sys)?, None);
        Ok(got + *n.get(sys))
    })?;
    result(w, 1, 0, got);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: sender, |th| receiver(th, w));
    assert_eq!(results(w), [7]);
}
