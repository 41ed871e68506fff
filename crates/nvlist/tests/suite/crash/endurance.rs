//! Long runs with many reboots, and random programs.

use crate::crash::ops::program;
use crate::crash::support::{Op, Pool, View, open, run, view};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use powerfail::{EveryEvents, Mapped, World, endure, explore_with};
use proptest::prelude::*;

/// The operation number `i` of a program that never ends: what it does depends on the lists only.
fn op(i: u32, v: &View) -> Op {
    let r = i.wrapping_mul(0x9E37_79B1) >> 7;
    let (l, r) = ((r & 1) as usize, (r >> 1) as usize);
    let key = (r >> 12) as u16 % 500;
    let n = v[l].len();
    let used = v[0].len() + v[1].len();
    match r % 16 {
        0..=4 if used >= 6 => Op::PopFront(l),
        0 => Op::PushFront(l, key),
        1 => Op::PushBack(l, key),
        2 => Op::Sorted(l, key),
        3 => Op::Before(l, r / 16 % (n + 1), key),
        4 => Op::After(l, r / 16 % (n + 1), key),
        5 => Op::PopFront(l),
        6 => Op::PopBack(l),
        7 => Op::Remove(l, r / 16 % (n + 1)),
        8 => Op::Replace(l, r / 16 % (n + 1), key),
        9 => Op::ShiftFront(l, r / 16 % (n + 1), 1 - l),
        10 => Op::ShiftFront(l, r / 16 % (n + 1), l),
        11 => Op::ShiftSorted(l, r / 16 % (n + 1), 1 - l),
        12 => Op::Lose(key),
        13 => Op::ShiftSorted(l, r / 16 % (n + 1), l),
        14 => Op::ShiftFront(l, r / 16 % (n + 1), 1 - l),
        _ => Op::PopFront(1 - l),
    }
}

/// The acknowledged state: the next operation, and the lists before it.
type Life = (u32, View);

fn forever<M: Model>(region: Region<'_, M>, world: &World<'_, Life>) {
    let mut pool = open(region);
    let mut seen = view(&mut pool);
    assert_eq!(pool.audit().map(|a| a.held), Ok(0));
    let (mut i, before) = world.get();
    let after = op(i, &before).apply(&before).pop().unwrap();
    assert!(
        seen == before || seen == after,
        "{i}: found {seen:?}, not {before:?} or {after:?}"
    );
    if seen == after {
        i += 1;
    }
    loop {
        world.set((i, seen.clone()));
        let op = op(i, &seen);
        run(&mut pool, op);
        seen = op.apply(&seen).pop().unwrap();
        i += 1;
        // Checking everything costs more than the operation.
        if i % 64 == 0 {
            assert_eq!(view(&mut pool), seen);
        }
    }
}

#[test]
fn a_million_operations() {
    macro_rules! life {
        ($m:ty, $every:literal, $depth:literal, $boots:literal) => {
            let s = endure(
                Mapped::<$m>::new(Pool::<$m>::bytes_for(8, 0)),
                EveryEvents($every),
                |nv, w: &World<Life>| forever::<$m>(nv, w),
                |life| life.0,
            )
            .boots(if cfg!(miri) { 20 } else { $boots })
            .depth($depth)
            .run();
            println!("{s}");
        };
    }
    // A step that is unrelated to the length of an operation, so that cuts fall everywhere.
    life!(InOrder32, 83, 1, 1000);
    life!(InOrder32, 1009, 3, 20_000);
    life!(InOrder16, 131, 2, 1000);
    life!(Buffered32, 97, 2, 1000);
}

fn any_op() -> impl Strategy<Value = Op> {
    let (l, i, k) = (0..2usize, 0..4usize, 0..100u16);
    prop_oneof![
        (l.clone(), k.clone()).prop_map(|(l, k)| Op::PushFront(l, k)),
        (l.clone(), k.clone()).prop_map(|(l, k)| Op::PushBack(l, k)),
        (l.clone(), k.clone()).prop_map(|(l, k)| Op::Sorted(l, k)),
        (l.clone(), i.clone(), k.clone()).prop_map(|(l, i, k)| Op::Before(l, i, k)),
        (l.clone(), i.clone(), k.clone()).prop_map(|(l, i, k)| Op::After(l, i, k)),
        l.clone().prop_map(Op::PopFront),
        l.clone().prop_map(Op::PopBack),
        (l.clone(), i.clone()).prop_map(|(l, i)| Op::Remove(l, i)),
        (l.clone(), i.clone(), k.clone()).prop_map(|(l, i, k)| Op::Replace(l, i, k)),
        (l.clone(), i.clone(), l.clone()).prop_map(|(l, i, t)| Op::ShiftFront(l, i, t)),
        (l.clone(), i.clone(), l.clone()).prop_map(|(l, i, t)| Op::ShiftSorted(l, i, t)),
        (l.clone(), i.clone(), l.clone()).prop_map(|(l, i, t)| Op::Relink(l, i, t)),
        k.prop_map(Op::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 24 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn programs_at_random(ops in proptest::collection::vec(any_op(), 1..if cfg!(miri) { 3 } else { 7 })) {
        macro_rules! on {
            ($m:ty) => {
                explore_with(ops.clone(), Mapped::<$m>::new(Pool::<$m>::bytes_for(8, 0)), |nv, w, ops| program::<$m>(nv, w, ops))
                    .depth(1)
                    .run();
            };
        }
        on!(InOrder32);
        if !cfg!(miri) {
            on!(InOrder16);
            on!(Buffered32);
        }
    }
}
