//! Every operation, cut at every crash point, on every mapped model, on lists of 0 to 5 nodes; and
//! the recovery cut again.

use crate::crash::support::{Op, Pool, View, model, open, run, view};
use crate::turns::is_chosen;
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use powerfail::{Mapped, Summary, World, explore_with};

/// Two cuts; one under Miri, which is slow; `POWERFAIL_DEPTH` in long campaigns.
pub fn depth() -> u32 {
    let asked = std::env::var("POWERFAIL_DEPTH").ok();
    match asked.and_then(|d| d.parse().ok()) {
        _ if cfg!(miri) => 1,
        Some(d) => d,
        None => 2,
    }
}

/// The same for one of three campaigns in each run; one cut for the others. For a medium behind a
/// buffer, where a cut leaves the most states.
pub fn depth_in_turn(turn: usize) -> u32 {
    if is_chosen(turn as u64, 3) {
        depth()
    } else {
        1
    }
}

/// Continues after the operations that happened before the cut.
pub fn program<M: Model>(region: Region<'_, M>, world: &World<'_, u32>, ops: &Vec<Op>) {
    let mut pool = open(region);
    let seen = view(&mut pool);
    let a = pool.audit().expect("open has checked everything");
    assert_eq!(a.held, 0, "{a:?}");
    assert_eq!(a.linked, seen.iter().map(Vec::len).sum::<usize>());
    let sure = world.get() as usize;
    let before = model(&ops[..sure]);
    let steps = match ops.get(sure) {
        Some(op) => op.apply(&before),
        None => vec![],
    };
    let mut done = sure;
    if seen != before {
        match steps.iter().position(|v| *v == seen) {
            None => panic!("after {sure} of {ops:?}: found {seen:?}, not {before:?} or {steps:?}"),
            Some(i) if i + 1 == steps.len() => done += 1,
            // Out of one list and not yet in another: the operation is finished by hand.
            Some(_) => {
                let end: &View = steps.last().expect("one step at least");
                for (l, end) in end.iter().enumerate() {
                    if end.len() > seen[l].len() {
                        run(&mut pool, Op::PushBack(l, end[end.len() - 1]));
                    }
                }
                assert_eq!(view(&mut pool), *end);
                done += 1;
            }
        }
        world.acknowledge(done as u32);
    }
    for (i, op) in ops.iter().enumerate().skip(done) {
        run(&mut pool, *op);
        world.acknowledge(i as u32 + 1);
    }
}

fn explore_ops<M: Model>(ops: &[Op], depth: u32) -> Summary {
    explore_with(
        ops.to_vec(),
        Mapped::<M>::new(Pool::<M>::bytes_for(8, 0)),
        |nv, w, ops| program::<M>(nv, w, ops),
    )
    .depth(depth)
    .run()
}

/// Two cuts on each model, behind a buffer `buffered`. Under Miri, which is slow, runs on one model
/// at a time.
fn all_models(turn: usize, ops: &[Op], buffered: u32) {
    let models = [
        (
            explore_ops::<InOrder32> as fn(&[Op], u32) -> Summary,
            depth(),
        ),
        (explore_ops::<InOrder16>, depth()),
        (explore_ops::<Buffered32>, buffered),
    ];
    for (i, (explore, depth)) in models.into_iter().enumerate() {
        if cfg!(miri) && turn % 3 != i {
            continue;
        }
        let s = explore(ops, depth);
        println!("{s}");
        // A format and nothing else has fewest.
        assert!(s.partial || s.boots > 10, "{s}");
    }
}

/// Runs the operation on a first list of `n` nodes and a second of `m`, at every position where it
/// is possible.
fn on_lists(n: usize, m: usize, all: &dyn Fn(usize, usize) -> Vec<Op>) {
    let fill = (0..n).map(|i| Op::PushBack(0, 10 * i as u16 + 10));
    let fill = fill.chain((0..m).map(|i| Op::PushBack(1, 10 * i as u16 + 15)));
    let fill: Vec<Op> = fill.collect();
    // Some of the positions under Miri, which is slow.
    let some = all(n, m)
        .into_iter()
        .step_by(if cfg!(miri) { 3 } else { 1 });
    for (turn, op) in some.enumerate() {
        // Twice, so that the second meets the record of the first.
        let ops = [&fill[..], &[op, op]].concat();
        all_models(turn, &ops, depth_in_turn(turn));
    }
}

macro_rules! each {
    ($($name:ident: |$n:ident, $m:ident| $ops:expr;)*) => {$(
        #[test]
        fn $name() {
            let sizes: &[(usize, usize)] = if cfg!(miri) { &[(2, 1)] } else { &[(0, 0), (1, 0), (2, 1), (3, 2), (4, 0), (5, 1)] };
            for (n, m) in sizes {
                on_lists(*n, *m, &|$n, $m| $ops);
            }
        }
    )*};
}
each! {
    push: |_n, _m| vec![Op::PushFront(0, 7), Op::PushBack(0, 7), Op::PushFront(1, 7)];
    sorted: |n, _m| (0..=n as u16).map(|i| Op::Sorted(0, 10 * i + 5)).chain([Op::Sorted(0, 20)]).collect();
    before_and_after: |n, _m| (0..=n).flat_map(|i| [Op::Before(0, i, 3), Op::After(0, i, 3)]).collect();
    pop: |_n, _m| vec![Op::PopFront(0), Op::PopBack(0), Op::PopBack(1)];
    remove: |n, _m| (0..=n).map(|i| Op::Remove(0, i)).collect();
    replace: |n, _m| (0..=n).map(|i| Op::Replace(0, i, 3)).collect();
    move_to_another: |n, m| (0..n).flat_map(|i| (0..=m).map(move |j| Op::Move(0, i, 1, j))).collect();
    move_within: |n, _m| (0..n).flat_map(|i| (0..n).map(move |j| Op::Move(0, i, 0, j))).collect();
    shift: |n, _m| (0..=n).flat_map(|i| [Op::ShiftFront(0, i, 0), Op::ShiftFront(0, i, 1), Op::ShiftSorted(0, i, 1), Op::ShiftSorted(0, i, 0)]).collect();
    take_out_and_put_back: |n, _m| (0..=n).flat_map(|i| [Op::Edit(0, i, 1, 3), Op::Edit(0, i, 0, 3), Op::Relink(0, i, 0), Op::Relink(0, i, 1)]).collect();
}

#[test]
fn one_after_the_other() {
    use Op::*;
    all_models(
        2,
        &[
            PushBack(0, 1),
            PushFront(0, 2),
            Sorted(1, 5),
            Move(0, 0, 1, 0),
            Move(1, 1, 0, 1),
            Relink(0, 1, 0),
            Lose(4),
            Replace(0, 0, 8),
            Remove(0, 1),
            Move(0, 0, 1, 1),
            Move(1, 0, 0, 0),
            PopBack(1),
            Edit(0, 0, 1, 9),
            PopFront(1),
            PushBack(1, 3),
        ],
        depth(),
    );
}

/// A released node is used again while the record of its removal stands.
#[test]
fn returned_and_used_again() {
    use Op::*;
    all_models(
        0,
        &[
            PushBack(0, 1),
            PushBack(0, 2),
            PopFront(0),
            PushBack(1, 3),
            PopBack(0),
            PushFront(1, 4),
            Before(1, 1, 6),
            After(1, 0, 7),
        ],
        depth(),
    );
    all_models(
        1,
        &[
            PushBack(0, 1),
            PopFront(0),
            Before(0, 0, 2),
            Replace(0, 0, 3),
            Replace(0, 0, 4),
            PopBack(0),
            After(1, 0, 5),
        ],
        depth(),
    );
}
