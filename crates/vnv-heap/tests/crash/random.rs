//! Programs at random.

use crate::support::{Known, Op, model, program};
use powerfail::{Simulated, SpiFram, World, explore_with};
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
