//! Programs at random.

use crate::crash::support::{
    Known, NARROW, Op, RAM, Save, TestHeap, WIDE, model, program, run, top, view,
};
use nvmem::ram::RamFram;
use powerfail::{Simulated, SpiFram, World, explore_with};
use proptest::prelude::*;
use vnv_heap::{Config, JustInTime, Snapshot, brand};

pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..100u16).prop_map(Op::Push),
        1 => Just(Op::Pop),
        1 => any::<u8>().prop_map(Op::Data),
        1 => (1..100u16).prop_map(Op::Values),
        1 => Just(Op::Clear),
        2 => any::<u8>().prop_map(Op::Blob),
        1 => any::<u8>().prop_map(Op::Write),
        1 => Just(Op::Churn),
        1 => Just(Op::Forget),
    ]
}

/// The heap has 16 objects; no more than six nodes and two blobs at a time leave room for what is
/// forgotten.
fn fits(ops: &[Op]) -> bool {
    (0..=ops.len()).all(|n| model(&ops[..n]).list.len() <= 4)
        && ops.iter().filter(|o| **o == Op::Forget).count() <= 2
}

/// Without a cut: many operations, saved and opened again every few.
fn uncut<P: Save>(ops: &[Op], config: Config, every: usize) {
    let mut nv = RamFram::<1000>::filled(0xFF);
    for (i, some) in ops.chunks(every).enumerate() {
        let mut ram = [0x5A; RAM];
        brand!(b);
        let open = TestHeap::<_, P>::open;
        let mut heap = open(b, &mut nv, &mut ram, config, top).unwrap_or_else(|e| panic!("{e}"));
        let audit = heap.audit().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(audit.reachable, audit.allocated);
        for (done, op) in (i * every..).zip(some) {
            let seen = view(&heap).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(seen, (done as u32, model(&ops[..done])));
            run(&heap, *op).unwrap_or_else(|e| panic!("{op:?}: {e}"));
        }
        P::save(&mut heap).unwrap_or_else(|e| panic!("{e}"));
    }
}

pub fn config(wide: bool) -> Config {
    if wide { WIDE } else { NARROW }
}

/// The most of these that always fit.
pub fn as_fits(ops: Vec<Op>) -> Vec<Op> {
    let (mut kept, mut nodes) = (Vec::new(), 0);
    for op in ops {
        match op {
            Op::Push(_) if nodes == 4 => continue,
            Op::Push(_) => nodes += 1,
            Op::Pop => nodes = usize::max(nodes, 1) - 1,
            Op::Clear => nodes = 0,
            // It would be there until the next open.
            Op::Forget => continue,
            _ => {}
        }
        kept.push(op);
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn long_programs_without_a_cut(ops in proptest::collection::vec(op(), 1..80), every in 1..12usize, wide: bool) {
        let ops = as_fits(ops);
        // With the snapshot promise, a number that is freed is free after the commit.
        uncut::<Snapshot>(&ops, config(wide), every.min(3));
        uncut::<JustInTime>(&ops, config(wide), every);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 12 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn programs_at_random(ops in proptest::collection::vec(op(), 1..6).prop_filter("too much", |ops| fits(ops)), wide: bool) {
        macro_rules! on {
            ($p:ty) => {
                let done = explore_with((ops.clone(), wide), Simulated::<SpiFram>::new(700), |nv, w: &World<Known>, (ops, wide)| {
                    program::<$p, _>(nv, config(*wide), w, ops)
                })
                .try_run();
                prop_assert!(done.is_ok(), "{}", done.unwrap_err());
            };
        }
        on!(JustInTime);
        on!(Snapshot);
    }
}
