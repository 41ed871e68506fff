//! Misuse in safe code: each either does not compile (tests/ui), or does no harm here and is clean
//! under Miri.

use nvlist::{NodePool, OpenError};
use nvmem::{CommitNumber, InOrder16, InOrder32, Medium, Model, NumberOwner, Persist, Region};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Pool<'m, M = InOrder32> = NodePool<'m, u32, 2, M>;

fn memory() -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); 64]
}
fn unwinds(f: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(f)).unwrap_err();
}
fn contents<M: Model>(pool: &mut Pool<'_, M>) -> [Vec<u32>; 2] {
    pool.with(|lists, all| all.map(|l| lists.iter(l).copied().collect()))
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Padded {
    small: u8,
    large: u32,
}

/// Assigning a whole value brings uninitialised padding; a closed region is bytes again.
#[test]
fn an_edited_content_has_no_padding() {
    fn go<M: Model>() {
        let mut m = memory();
        let mut pool = NodePool::<Padded, 1, M>::open(Region::new(&mut m)).unwrap();
        let value = |small, large| Padded { small, large };
        pool.with(|mut lists, [all]| {
            let mut node = lists.alloc(value(1, 2)).ok().unwrap();
            lists.edit(&mut node, |p| *p = value(3, 4));
            lists.link_back(all, node);
            let mut node = lists.alloc(value(5, 6)).ok().unwrap();
            unwinds(|| {
                lists.edit(&mut node, |p| {
                    *p = value(7, 8);
                    panic!("in an edit")
                })
            });
            lists.link_back(all, node);
        });
        let mut region = pool.close();
        let mut bytes = vec![0; region.len()];
        region.read(0, &mut bytes).unwrap();
        assert_ne!(bytes.iter().map(|b| u32::from(*b)).sum::<u32>(), 0);
        let mut pool = NodePool::<Padded, 1, M>::open(region).unwrap();
        pool.with(|lists, [all]| {
            let got: Vec<_> = lists.iter(all).map(|p| (p.small, p.large)).collect();
            assert_eq!(got, [(3, 4), (7, 8)]);
        });
    }
    go::<InOrder32>();
    go::<InOrder16>();
}

/// A closure may unwind while a list is searched: nothing has changed then.
#[test]
fn a_closure_unwinds() {
    fn go<M: Model>() {
        let mut m = memory();
        let mut pool = Pool::<M>::open_resolved(Region::new(&mut m), 1, |_| 0u32).unwrap();
        pool.with(|mut lists, [a, b]| {
            for v in [10, 20, 30] {
                lists.push_back(a, v).ok().unwrap();
            }
            let number = lists.context(0).unwrap().stage_seq(1u32).unwrap();
            let bad = |_: &u32| -> bool { panic!("in a closure") };
            let key = |v: &u32| -> u32 {
                assert_ne!(*v, 20, "in a closure");
                *v
            };
            unwinds(|| {
                let _ = lists.push_sorted(a, 25, key);
            });
            unwinds(|| {
                let node = lists.alloc(7).ok().unwrap();
                lists.link_before_first(a, node, bad)
            });
            unwinds(|| {
                let node = lists.alloc(8).ok().unwrap();
                drop(lists.stage_before_first(number, a, node, bad))
            });
            unwinds(|| {
                let _ = lists.find(a, bad);
            });
            let spot = lists.cursor_front(a).position().unwrap();
            unwinds(|| {
                let _ = lists.seek(spot, bad);
            });
            unwinds(|| lists.cursor_front(a).shift_sorted(a, key));
            unwinds(|| lists.cursor_front(a).shift_before_first(a, bad));
            lists.push_back(b, 40).ok().unwrap();
        });
        assert_eq!(contents(&mut pool), [vec![10, 20, 30], vec![40]]);
        pool.reclaim();
        assert_eq!(pool.audit().unwrap().linked, 4);
    }
    go::<InOrder32>();
    go::<InOrder16>();
}

/// A node that was lost with what unwound stays in use until it is reclaimed.
#[test]
fn nodes_lost_by_unwinding_are_reclaimed() {
    let mut m = memory();
    let mut pool = Pool::<InOrder32>::open(Region::new(&mut m)).unwrap();
    let capacity = pool.capacity();
    for _ in 0..3 {
        unwinds(|| {
            pool.with(|mut lists, _| {
                let _kept = lists.alloc(1).ok().unwrap();
                panic!("with a node")
            })
        });
    }
    assert_eq!(pool.reclaim(), 3);
    let audit = pool.audit().unwrap();
    assert_eq!((audit.free, audit.held), (capacity, 0));
}

/// A staged operation that is forgotten, or is dropped as its thread unwinds, does not happen; and
/// the next one is whole.
#[test]
fn a_staged_operation_is_lost() {
    fn go<M: Model>(forget: bool) {
        let mut m = memory();
        let mut pool = Pool::<M>::open_resolved(Region::new(&mut m), 1, |_| 0u32).unwrap();
        pool.with(|mut lists, [a, b]| {
            for v in 1..=3 {
                lists.push_back(a, v).ok().unwrap();
            }
            let number = lists.context(0).unwrap().stage_seq(9u32).unwrap();
            for _ in 0..2 {
                let node = lists.alloc(4).ok().unwrap();
                let link = || lists.stage_back(number, b, node);
                if forget {
                    std::mem::forget(link());
                } else {
                    unwinds(|| {
                        let _staged = link();
                        panic!("before its commit")
                    });
                }
                if let Some(staged) = lists.cursor_front(a).stage_unlink(number) {
                    std::mem::forget(staged);
                }
                if let Some(staged) = lists.cursor_front(a).stage_shift_back(number, b) {
                    std::mem::forget(staged);
                }
                lists.push_back(b, 5).ok().unwrap();
            }
        });
        assert_eq!(contents(&mut pool), [vec![1, 2, 3], vec![5, 5]]);
        let mut pool = Pool::<M>::open_resolved(pool.close(), 1, |_| 9u32).unwrap();
        assert_eq!(contents(&mut pool), [vec![1, 2, 3], vec![5, 5]]);
    }
    for forget in [false, true] {
        go::<InOrder32>(forget);
        go::<InOrder16>(forget);
    }
}

/// The resolver may unwind or return anything.
#[test]
fn a_resolver_lies() {
    for said in [0, 1, 7, 8, u32::MAX] {
        let mut m = memory();
        let mut pool = Pool::<InOrder32>::open_resolved(Region::new(&mut m), 1, |_| 0u32).unwrap();
        pool.with(|mut lists, [a, _]| {
            let number = lists.context(0).unwrap().stage_seq(7u32).unwrap();
            let node = lists.alloc(1).ok().unwrap();
            std::mem::forget(lists.stage_back(number, a, node));
        });
        let mut region = Some(pool.close());
        unwinds(|| {
            let _ = Pool::<InOrder32>::open_resolved(region.take().unwrap(), 1, |_| -> u32 {
                panic!("asked")
            });
        });
        let mut pool = Pool::<InOrder32>::open_resolved(Region::new(&mut m), 1, |_| said).unwrap();
        let want: &[u32] = if said == 7 { &[1] } else { &[] };
        assert_eq!(contents(&mut pool)[0], want);
        assert_eq!(pool.audit().unwrap().held, 0);
    }
}

/// A context takes the numbers of the owner that its resolver has named, and no others. Several
/// contexts are threads of one region, in their order.
#[test]
fn numbers_of_another_owner() {
    let (mut m, mut runtimes) = (memory(), [memory(), memory()]);
    let [mine, other] = runtimes
        .each_mut()
        .map(|m| NumberOwner::thread_of(&Region::<InOrder32>::new(m), 0));
    let number = |n| CommitNumber::new(mine.thread(n), 0);
    for wrong in [
        [number(0), number(0)],
        [number(0), 0.into()],
        [0.into(), number(1)],
    ] {
        let opened = Pool::<InOrder32>::open_resolved(Region::new(&mut m), 2, |i| wrong[i]);
        assert_eq!(opened.err().map(|r| r.error), Some(OpenError::WrongOwner));
    }
    let opened = Pool::<InOrder32>::open_resolved(Region::new(&mut m), 2, number);
    opened.ok().unwrap().with(|mut lists, [a, _]| {
        let context = lists.context(1).unwrap();
        let own = context
            .stage_seq(CommitNumber::new(mine.thread(1), 1))
            .unwrap();
        for owner in [mine, other, other.thread(1), NumberOwner::PROGRAM] {
            assert!(context.stage_seq(CommitNumber::new(owner, 1)).is_err());
        }
        let node = lists.alloc(1).ok().unwrap();
        lists.stage_back(own, a, node).committed();
    });
}
