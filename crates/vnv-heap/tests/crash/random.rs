//! Programs at random, and a long life.

use crate::support::{Known, Op, Save, model, program};
use nvmem::Medium;
use powerfail::{EveryEvents, Simulated, SpiFram, World, endure, explore_with};
use proptest::prelude::*;
use vnv_heap::{JustInTime, Snapshot};

fn op() -> impl Strategy<Value = Op> {
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

/// The heap has 16 objects; no more than six nodes and two blobs at a time leave room for what is forgotten.
fn fits(ops: &[Op]) -> bool {
    (0..=ops.len()).all(|n| model(&ops[..n]).list.len() <= 4)
        && ops.iter().filter(|o| **o == Op::Forget).count() <= 2
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 12 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn programs_at_random(ops in proptest::collection::vec(op(), 1..6).prop_filter("too much", |ops| fits(ops))) {
        macro_rules! on {
            ($p:ty) => {
                let done = explore_with(ops.clone(), Simulated::<SpiFram>::new(700), |nv, w: &World<Known>, ops| {
                    program::<$p, _>(nv, w, ops)
                })
                .try_run();
                prop_assert!(done.is_ok(), "{}", done.unwrap_err());
            };
        }
        on!(JustInTime);
        on!(Snapshot);
    }
}

/// What a device does all its life; the count of operations comes round, so that what is there is known.
fn forever<P: Save, S: Medium>(mut nv: S, world: &World<'_, Known>) {
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
        program::<P, _>(&mut nv, world, &ROUND);
        // A new life begins with an empty heap of its own making.
        crate::support::begin_again::<P, _>(&mut nv, world);
    }
}

#[test]
fn a_thousand_reboots() {
    macro_rules! life {
        ($p:ty, $every:literal) => {
            let s = endure(
                Simulated::<SpiFram>::new(700),
                EveryEvents($every),
                |nv, w: &World<Known>| forever::<$p, _>(nv, w),
            )
            .boots(if cfg!(miri) { 5 } else { 1000 })
            .run();
            println!("{s}");
        };
    }
    life!(JustInTime, 1009);
    life!(Snapshot, 1511);
}
