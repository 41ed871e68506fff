// Two equals take what one gives; the clock orders what happens.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        ITEMS: Semaphore = (1, 2);
        SPACE: Semaphore = (1, 2);
    }
    threads {
        giver(u32 = 0): 1;
        one(u32 = 0): 2;
        two(u32 = 0): 2;
    }
}

/// Gives two, and needs space for each: the third needs what was there at first.
fn giver(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.each_step(0..2, (), |sys, n, i, ()| {
        SPACE.take(sys)?;
        assert_eq!(*n.get(sys), i);
        *n.get_mut(sys)? += 1;
        ITEMS.give(sys)
    })
}

/// Takes one or two, and makes space.
fn taker(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>, me: u32, n: u32) -> Result<(), Error> {
    for i in 0..n {
        let taken = th.step(i, |sys, n, _| {
            ITEMS.take(sys)?;
            *n.get_mut(sys)? += 1;
            SPACE.try_give(sys)?;
            Ok(*n.get(sys))
        })?;
        result(w, me, i, 10 * me + taken);
    }
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: giver, |th| taker(th, w, 1, 2), |th| taker(th, w, 2, 1));
    assert_eq!(results(w), [11, 12, 21]);
}
