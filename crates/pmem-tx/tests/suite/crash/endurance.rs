//! Long runs: more than a thousand reboots, sequence numbers that repeat hundreds of times, and
//! random programs.

use crate::crash::ops::program;
use crate::crash::support::{Op, model, open, run, view};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use pmem_tx::Width;
use powerfail::{EveryEvents, Mapped, World, endure, explore_with};
use proptest::prelude::*;

/// Ends in the state in which it began, except for values that it overwrites.
const CYCLE: [Op; 11] = [
    Op::Push(1),
    Op::Node(2),
    Op::Cell(3),
    Op::Nested(4),
    Op::Fields(5),
    Op::Pop,
    Op::Abort(6),
    Op::CellTwice(7),
    Op::Churn,
    Op::Pop,
    Op::NewCell(8),
];

fn forever<M: Model>(region: Region<'_, M>, world: &World<'_, u32>)
where
    M::Unit: Width,
{
    let mut pool = open(region);
    let (mut done, seen) = view(&mut pool);
    let sure = world.get();
    assert!(
        done == sure || done == sure + 1,
        "{sure} acknowledged, {done} found"
    );
    let n = CYCLE.len();
    let at = done as usize;
    let once = [&CYCLE[..], &CYCLE[..at % n]].concat();
    assert_eq!(
        seen,
        model(if at < n { &CYCLE[..at] } else { &once }),
        "after {done}"
    );
    assert_eq!(pool.audit().map(|a| a.unreachable), Ok(0));
    loop {
        world.acknowledge(done);
        run(&mut pool, CYCLE[done as usize % n]).unwrap();
        done += 1;
    }
}

#[test]
fn a_thousand_reboots() {
    macro_rules! life {
        ($m:ty, $every:literal, $depth:literal) => {
            let s = endure(
                Mapped::<$m>::new(768),
                EveryEvents($every),
                |nv, w: &World<u32>| forever::<$m>(nv, w),
                |done| *done,
            )
            .boots(if cfg!(miri) { 20 } else { 1000 })
            .depth($depth)
            .run();
            println!("{s}");
        };
    }
    // A step that is unrelated to the length of a transaction, so that cuts fall everywhere.
    life!(InOrder32, 83, 1);
    life!(InOrder32, 211, 3);
    life!(InOrder16, 131, 2);
    life!(Buffered32, 97, 2);
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1..100u32).prop_map(Op::Push),
        Just(Op::Pop),
        (1..100u32).prop_map(Op::Fields),
        (1..100u32).prop_map(Op::Node),
        (1..100u16).prop_map(Op::Cell),
        (1..100u16).prop_map(Op::CellTwice),
        (1..100u32).prop_map(Op::Abort),
        (1..100u32).prop_map(Op::Nested),
        (1..100u16).prop_map(Op::NewCell),
        Just(Op::Churn),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 24 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn programs_at_random(ops in proptest::collection::vec(op(), 1..if cfg!(miri) { 3 } else { 7 })) {
        macro_rules! on {
            ($m:ty) => {
                let done = explore_with(ops.clone(), Mapped::<$m>::new(768), |nv, w, ops| program::<$m>(nv, w, ops)).try_run();
                prop_assert!(done.is_ok(), "{}", done.unwrap_err());
            };
        }
        on!(InOrder32);
        if !cfg!(miri) {
            on!(InOrder16);
            on!(Buffered32);
        }
    }
}
