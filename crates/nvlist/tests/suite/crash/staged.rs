//! Staged operations: they take effect with a commit word of the program.

use crate::crash::ops::{depth, depth_in_turn};
use crate::crash::support::{Job, LISTS, Op, Pool, View, job, view};
use nvlist::nvmem;
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region, Unit, mapped};
use pmem_tx::{Config, Width};
use powerfail::{Mapped, World, explore_with};

/// The commit words: one for each of two contexts.
struct Words<'m, M>(Region<'m, M>);
impl<M: Model> Words<'_, M> {
    fn last(&self, ctx: usize) -> u32 {
        // SAFETY: a unit of the region; nothing is lent.
        unsafe { self.0.load(ctx * M::Unit::BYTES) }
    }
    fn commit(&self, ctx: usize, seq: u32) {
        // SAFETY: as above.
        unsafe { self.0.store(ctx * M::Unit::BYTES, seq) }
        mapped::fence::<M>()
    }
}

/// The fate of an operation's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    Commit,
    /// Abandoned; then the number is committed with nothing.
    Abandon,
    /// The guard is forgotten; then the number is committed with nothing.
    Forget,
    /// The operation runs alone, and no number is used.
    Alone,
}

/// Stages the operation, and calls `commit` if there was anything to be staged.
fn staged<M: Model>(
    pool: &mut Pool<'_, M>,
    ctx: usize,
    seq: u32,
    op: Op,
    fate: Fate,
    commit: &dyn Fn(),
) {
    pool.with(|mut lists, all| {
        let context = lists.context(ctx).expect("opened with two");
        assert!(lists.context(2).is_none());
        let number = context.stage_seq(seq).unwrap();
        macro_rules! go {
            ($staged:expr, $done:expr, $back:expr) => {{
                let staged = $staged;
                match fate {
                    Fate::Commit | Fate::Alone => {
                        commit();
                        let done = staged.committed();
                        ($done)(&mut lists, done)
                    }
                    Fate::Abandon => {
                        let back = staged.abandon();
                        ($back)(&mut lists, back);
                        commit()
                    }
                    Fate::Forget => {
                        core::mem::forget(staged);
                        // The next operation clears it.
                        let node = lists.alloc(job(1)).unwrap();
                        lists.release(node);
                        commit()
                    }
                }
            }};
        }
        type L<'b, M> = nvlist::Lists<'b, Job, M>;
        fn none<'b, M: Model>(_: &mut L<'b, M>, (): ()) {}
        fn back<'b, M: Model>(lists: &mut L<'b, M>, node: nvlist::Node<'b>) {
            lists.release(node);
        }
        macro_rules! at {
            ($l:expr, $i:expr) => {{
                let mut c = lists.cursor_front(all[$l]);
                (0..$i).for_each(|_| {
                    if c.is_at_node() {
                        c.move_next()
                    }
                });
                c
            }};
        }
        match op {
            Op::PushFront(l, k) => {
                let node = lists.alloc(job(k)).unwrap();
                go!(lists.stage_front(number, all[l], node), none, back)
            }
            Op::PushBack(l, k) => {
                let node = lists.alloc(job(k)).unwrap();
                go!(lists.stage_back(number, all[l], node), none, back)
            }
            Op::Sorted(l, k) => {
                let node = lists.alloc(job(k)).unwrap();
                let staged = lists.stage_before_first(number, all[l], node, |j| j.key > k);
                go!(staged, none, back)
            }
            Op::Before(l, i, k) => {
                let node = lists.alloc(job(k)).unwrap();
                go!(at!(l, i).stage_before(number, node), none, back)
            }
            Op::After(l, i, k) => {
                let node = lists.alloc(job(k)).unwrap();
                go!(at!(l, i).stage_after(number, node), none, back)
            }
            Op::Remove(l, i) => match at!(l, i).stage_unlink(number) {
                Some(s) => go!(s, back, none),
                None => commit(),
            },
            Op::Replace(l, i, k) => {
                let node = lists.alloc(job(k)).unwrap();
                match at!(l, i).stage_replace(number, node) {
                    Ok(s) => go!(s, back, back),
                    Err(node) => {
                        lists.release(node);
                        commit()
                    }
                }
            }
            Op::ShiftFront(l, i, to) => match at!(l, i).stage_shift_front(number, all[to]) {
                Some(s) => go!(s, none, none),
                None => commit(),
            },
            _ => unreachable!("{op:?} is not staged here"),
        }
    });
}

type Steps = Vec<(Op, Fate)>;

/// The lists after so many operations.
fn after(steps: &[(Op, Fate)]) -> View {
    steps
        .iter()
        .filter(|(_, f)| matches!(f, Fate::Commit | Fate::Alone))
        .fold(View::default(), |v, (o, _)| o.apply(&v).pop().unwrap())
}

/// Numbers of a context run from 1 to 3, so they repeat soon.
fn number(steps: &[(Op, Fate)], i: usize) -> u32 {
    let used = steps[..i].iter().enumerate();
    let used = used.filter(|(j, (_, f))| j % 2 == i % 2 && *f != Fate::Alone);
    used.count() as u32 % 3 + 1
}

fn program<M: Model>(
    (region, words): (Region<'_, M>, Region<'_, M>),
    world: &World<'_, u32>,
    steps: &Steps,
) {
    let words = Words(words);
    let pool = Pool::<M>::open_resolved(region, 2, |ctx| words.last(ctx));
    let mut pool = pool.unwrap_or_else(|r| panic!("open: {r}"));
    assert_eq!(pool.audit().unwrap().held, 0);
    let seen = view(&mut pool);
    let mut i = world.get() as usize;
    if let Some((op, fate)) = steps.get(i) {
        let happened = match fate {
            Fate::Alone => seen != after(&steps[..i]),
            _ => words.last(i % 2) == number(steps, i),
        };
        if happened {
            i += 1;
        }
        assert_eq!(seen, after(&steps[..i]), "{op:?} {fate:?} of {steps:?}");
        world.acknowledge(i as u32);
    }
    for (j, (op, fate)) in steps.iter().enumerate().skip(i) {
        let (ctx, seq) = (j % 2, number(steps, j));
        match fate {
            Fate::Alone => crate::crash::support::run(&mut pool, *op),
            fate => staged(&mut pool, ctx, seq, *op, *fate, &|| words.commit(ctx, seq)),
        }
        world.acknowledge(j as u32 + 1);
    }
    assert_eq!(view(&mut pool), after(steps));
}

/// Under Miri, which is slow, runs on one model at a time.
fn all_models(turn: usize, steps: &Steps, buffered: u32) {
    macro_rules! on {
        ($turn:literal, $m:ty, $depth:expr) => {
            if !cfg!(miri) || turn % 3 == $turn {
                let media = (
                    Mapped::<$m>::new(Pool::<$m>::bytes_for(8, 2)),
                    Mapped::<$m>::new(16),
                );
                let s = explore_with(steps.clone(), media, |nv, w, s| program::<$m>(nv, w, s))
                    .depth($depth)
                    .run();
                println!("{s}");
                assert!(s.partial || s.boots > 20, "{s}");
            }
        };
    }
    on!(0, InOrder32, depth());
    on!(1, InOrder16, depth());
    on!(2, Buffered32, buffered);
}

const OPS: [Op; 10] = [
    Op::PushBack(0, 5),
    Op::PushFront(0, 6),
    Op::Sorted(0, 7),
    Op::Before(0, 1, 8),
    Op::After(0, 1, 9),
    Op::Remove(0, 1),
    Op::Replace(0, 1, 4),
    Op::ShiftFront(0, 1, 1),
    Op::ShiftFront(0, 2, 0),
    Op::Remove(1, 0),
];

#[test]
fn every_operation_with_a_number() {
    for (turn, op) in OPS.into_iter().enumerate() {
        let mut steps: Steps = (0..3).map(|k| (Op::PushBack(0, k), Fate::Alone)).collect();
        steps.extend([(op, Fate::Commit), (op, Fate::Commit)]);
        all_models(turn, &steps, depth_in_turn(turn));
    }
}

#[test]
fn abandoned_or_forgotten() {
    for fate in [Fate::Abandon, Fate::Forget] {
        let some = OPS.into_iter().step_by(if cfg!(miri) { 3 } else { 1 });
        for (turn, op) in some.enumerate() {
            let mut steps: Steps = (0..3).map(|k| (Op::PushBack(0, k), Fate::Alone)).collect();
            steps.extend([(op, fate), (Op::PushBack(1, 3), Fate::Commit)]);
            let turn = turn + fate as usize;
            all_models(turn, &steps, depth_in_turn(turn));
        }
    }
}

#[test]
fn alone_and_with_repeating_numbers() {
    let fates = [
        Fate::Commit,
        Fate::Alone,
        Fate::Commit,
        Fate::Commit,
        Fate::Abandon,
        Fate::Alone,
        Fate::Forget,
    ];
    let ops = OPS.iter().chain(&OPS);
    // All fates at least.
    let ops = ops.take(if cfg!(miri) {
        fates.len()
    } else {
        2 * OPS.len()
    });
    let steps: Steps = ops
        .zip(fates.iter().cycle())
        .map(|(o, f)| (*o, *f))
        .collect();
    (0..if cfg!(miri) { 3 } else { 1 }).for_each(|turn| all_models(turn, &steps, depth()));
}

/// A number in a persistent object and in a list, changed by one commit.
fn with_objects<M: Model>(
    (region, objects, words): (Region<'_, M>, Region<'_, M>, Region<'_, M>),
    world: &World<'_, u32>,
    _: &(),
) where
    M::Unit: Width,
{
    let words = Words(words);
    let config = Config {
        seq_bits: 3,
        ..Config::SMALL
    };
    let tx = pmem_tx::Pool::<u32, M>::open_resolved(objects, &config, |_| words.last(0), |_| Ok(0));
    let mut tx = tx.unwrap_or_else(|r| panic!("open: {r}"));
    tx.reclaim();
    let pool = Pool::<M>::open_resolved(region, 1, |_| words.last(0));
    let mut pool = pool.unwrap_or_else(|r| panic!("open: {r}"));
    let root = tx.tx(|_, _| Ok(())).unwrap_err();
    assert_eq!(root, pmem_tx::Error::CallersCommitWord);
    let (mut a, _) = (tx.context(), ());
    let p = a.prepare::<_, u32, _>((), |tx, root, ()| Ok(*root.get(tx)));
    let done = *p.map_err(|f| f.error).unwrap().result();
    let seen = view(&mut pool);
    assert_eq!(seen[0].len() as u32, done, "the list and the object differ");
    assert!(done == world.get() || done == world.get() + 1);
    world.acknowledge(done);
    for n in done..4 {
        let p = a.prepare::<_, (), _>((), |tx, root, ()| {
            *root.get_mut(tx)? += 1;
            Ok(())
        });
        let p = p.map_err(|f| f.error).unwrap();
        pool.with(|mut lists, all: [_; LISTS]| {
            let node = lists.alloc(job(n as u16)).unwrap();
            let number = lists.context(0).unwrap().stage_seq(p.seq()).unwrap();
            let staged = lists.stage_back(number, all[0], node);
            words.commit(0, p.seq());
            staged.committed();
            p.committed();
        });
        world.acknowledge(n + 1);
    }
}

#[test]
fn a_transaction_and_a_list_commit_together() {
    macro_rules! on {
        ($m:ty) => {{
            let media = (
                Mapped::<$m>::new(Pool::<$m>::bytes_for(8, 2)),
                Mapped::<$m>::new(448),
                Mapped::<$m>::new(16),
            );
            let s = explore_with((), media, |nv, w, s| with_objects::<$m>(nv, w, s))
                .depth(depth())
                .run();
            println!("{s}");
            assert!(s.partial || s.boots > 20, "{s}");
        }};
    }
    on!(InOrder32);
    on!(InOrder16);
    on!(Buffered32);
}
