// A semaphore in its smallest form: few units, a giver and a taker of one priority. All images are
// explored that any number of cuts can leave.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects { UNITS: Semaphore = (0, 6); }
    threads {
        giver(u32 = 0): 1;
        taker(u32 = 0): 1;
    }
}

fn giver(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.each_step(0..crate::crash::few(), (), |sys, n, i, ()| {
        assert_eq!(*n.get(sys), i);
        *n.get_mut(sys)? += 1;
        UNITS.give(sys)
    })?;
    Ok(())
}

fn taker(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    for i in 0..crate::crash::few() {
        let taken = th.step(i, |sys, n, _| {
            UNITS.take(sys)?;
            *n.get_mut(sys)? += 1;
            Ok(*n.get(sys))
        })?;
        result(w, 1, i, taken);
    }
    let left = th.step(!0, |sys, _, _| UNITS.try_take(sys).map(u32::from))?;
    assert_eq!(left, 0);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: giver, |th| taker(th, w));
    assert!(results(w).into_iter().eq(1..=crate::crash::few()));
}
