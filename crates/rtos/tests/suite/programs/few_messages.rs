// A queue in its smallest form: one slot, few messages, a sender and a receiver of one priority.
// All images are explored that any number of cuts can leave.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects { SLOT: Queue<u32, 1>; }
    threads {
        sender(u32 = 0): 1;
        receiver(u32 = 0): 1;
    }
}

fn sender(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.each_step(0..crate::crash::few(), (), |sys, n, i, ()| {
        assert_eq!(*n.get(sys), i);
        *n.get_mut(sys)? += 1;
        SLOT.send(sys, i + 1)
    })
}

fn receiver(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    for i in 0..crate::crash::few() {
        let got = th.step(i, |sys, n, _| {
            *n.get_mut(sys)? += 1;
            SLOT.receive(sys)
        })?;
        result(w, 1, i, got);
    }
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: sender, |th| receiver(th, w));
    assert!(results(w).into_iter().eq(1..=crate::crash::few()));
}
