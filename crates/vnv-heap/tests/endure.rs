//! Apart from the suite: a cut in this long run leaves its critical section locked, and other tests
//! in the same process would wait for it.
#![allow(clippy::ptr_arg)] // the kit lends a campaign's input as it was given

#[path = "suite/crash/support.rs"]
#[allow(dead_code)]
mod support;

use nvmem::Faithful;
use powerfail::{EveryEvents, Simulated, SpiFram, World, endure};
use std::sync::atomic::Ordering::Relaxed;
use support::{Known, NARROW, OPERATIONS, Op, RAM, Save, TestHeap, program, top};
use vnv_heap::{JustInTime, Snapshot, brand};

/// Saves a heap as it was in the beginning.
fn begin_again<P: Save, S: Faithful>(nv: S, world: &World<'_, Known>) {
    let mut ram = [0u8; RAM];
    world.update(|k| (k.begun, k.anew) = (true, true));
    brand!(b);
    let mut heap = TestHeap::<_, P>::open(b, nv, &mut ram, NARROW, top)
        .unwrap_or_else(|e| panic!("open: {e}"));
    let (first, blob) = {
        let mut top = heap.root_mut().unwrap_or_else(|e| panic!("{e}"));
        top.done = 0;
        (top.first.take(), top.blob.take())
    };
    first
        .map_or(Ok(()), |x| heap.free(x).map_err(|r| r.error))
        .unwrap_or_else(|e| panic!("{e}"));
    blob.map_or(Ok(()), |x| heap.free(x).map_err(|r| r.error))
        .unwrap_or_else(|e| panic!("{e}"));
    P::save(&mut heap).unwrap_or_else(|e| panic!("save: {e}"));
    world.set(Known::default());
}

/// The operations of a device. The count of operations wraps, so the expected content is always
/// known.
fn forever<P: Save, S: Faithful>(mut nv: S, world: &World<'_, Known>) {
    const ROUND: [Op; 8] = [
        Op::Push(1),
        Op::Push(2),
        Op::Blob(3),
        Op::Data(4),
        Op::Churn,
        Op::Pop,
        Op::Values(5),
        Op::Clear,
    ];
    loop {
        program::<P, _>(&mut nv, NARROW, world, &ROUND);
        // A new life begins with an empty heap of its own making.
        begin_again::<P, _>(&mut nv, world);
    }
}

/// A million operations, half of them of each promise.
#[test]
fn a_million_operations() {
    macro_rules! life {
        ($p:ty, $every:literal) => {
            let before = OPERATIONS.load(Relaxed);
            let s = endure(
                Simulated::<SpiFram>::new(700),
                EveryEvents($every),
                |nv, w: &World<Known>| forever::<$p, _>(nv, w),
                Known::clone,
            )
            .boots(if cfg!(miri) { 5 } else { 4500 })
            .run();
            let operations = OPERATIONS.load(Relaxed) - before;
            println!("{operations} operations, {s}");
            assert!(
                cfg!(miri) || s.partial || operations >= 500_000,
                "{operations}"
            );
        };
    }
    life!(JustInTime, 10_007);
    life!(Snapshot, 15_013);
}
