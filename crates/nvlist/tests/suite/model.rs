//! Random programs on all lists at once, compared with `VecDeque`; the pool is closed and reopened
//! from time to time.

use core::mem::MaybeUninit;
use nvlist::{Full, ListPos, NodePool};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use proptest::prelude::*;
use std::collections::VecDeque;

const NODES: usize = 12;

#[derive(Debug, Clone)]
enum Op {
    PushFront(usize, u32),
    PushBack(usize, u32),
    Sorted(usize, u32),
    PopFront(usize),
    PopBack(usize),
    Before(usize, usize, u32),
    After(usize, usize, u32),
    Remove(usize, usize),
    Replace(usize, usize, u32),
    Move(usize, usize, usize, u32),
    ShiftFront(usize, usize, usize),
    ShiftBack(usize, usize, usize),
    Seek(u16),
    Reopen,
}

fn any() -> impl Strategy<Value = Op> {
    let (l, i, v) = (0..3usize, 0..6usize, 0..1000u32);
    prop_oneof![
        (l.clone(), v.clone()).prop_map(|(l, v)| Op::PushFront(l, v)),
        (l.clone(), v.clone()).prop_map(|(l, v)| Op::PushBack(l, v)),
        (l.clone(), v.clone()).prop_map(|(l, v)| Op::Sorted(l, v)),
        l.clone().prop_map(Op::PopFront),
        l.clone().prop_map(Op::PopBack),
        (l.clone(), i.clone(), v.clone()).prop_map(|(l, i, v)| Op::Before(l, i, v)),
        (l.clone(), i.clone(), v.clone()).prop_map(|(l, i, v)| Op::After(l, i, v)),
        (l.clone(), i.clone()).prop_map(|(l, i)| Op::Remove(l, i)),
        (l.clone(), i.clone(), v.clone()).prop_map(|(l, i, v)| Op::Replace(l, i, v)),
        (l.clone(), i.clone(), l.clone(), v).prop_map(|(l, i, t, v)| Op::Move(l, i, t, v)),
        (l.clone(), i.clone(), l.clone()).prop_map(|(l, i, t)| Op::ShiftFront(l, i, t)),
        (l.clone(), i, l).prop_map(|(l, i, t)| Op::ShiftBack(l, i, t)),
        (0..300u16).prop_map(Op::Seek),
        Just(Op::Reopen),
    ]
}

type Pool<'m, M> = NodePool<'m, u32, 3, M>;

fn run<M: Model>(ops: &[Op]) {
    let mut memory = vec![MaybeUninit::new(0); Pool::<M>::bytes_for(NODES, 0) / 8];
    let open = |region| Pool::<M>::open(region).unwrap_or_else(|r| panic!("{r}"));
    let mut pool = open(Region::new(&mut memory));
    assert_eq!(pool.capacity(), NODES);
    let mut model: [VecDeque<u32>; 3] = Default::default();
    for op in ops {
        if let Op::Reopen = op {
            pool = open(pool.close());
        }
        let used: usize = model.iter().map(VecDeque::len).sum();
        pool.with(|mut lists, all| {
            // Pushes; the model takes what the lists took.
            macro_rules! pushed {
                ($r:expr, $ok:expr) => {
                    match $r {
                        Ok(_) => $ok,
                        Err(Full(_)) => assert_eq!(used, NODES),
                    }
                };
            }
            macro_rules! at {
                ($l:expr, $i:expr) => {{
                    let mut c = lists.cursor_back(all[$l]);
                    c.move_next();
                    (0..=$i.min(model[$l].len())).for_each(|_| c.move_next());
                    c
                }};
            }
            match *op {
                Op::PushFront(l, v) => pushed!(lists.push_front(all[l], v), model[l].push_front(v)),
                Op::PushBack(l, v) => pushed!(lists.push_back(all[l], v), model[l].push_back(v)),
                Op::Sorted(l, v) => pushed!(lists.push_sorted(all[l], v, |v| *v), {
                    let at = model[l].iter().position(|x| *x > v);
                    let at = at.unwrap_or(model[l].len());
                    model[l].insert(at, v)
                }),
                Op::PopFront(l) => assert_eq!(lists.pop_front(all[l]), model[l].pop_front()),
                Op::PopBack(l) => assert_eq!(lists.pop_back(all[l]), model[l].pop_back()),
                Op::Before(l, i, v) => pushed!(at!(l, i).insert_before(v), {
                    let at = i.min(model[l].len());
                    model[l].insert(at, v)
                }),
                Op::After(l, i, v) => pushed!(at!(l, i).insert_after(v), {
                    let at = if i < model[l].len() { i + 1 } else { 0 };
                    model[l].insert(at, v)
                }),
                Op::Remove(l, i) => {
                    let mut c = at!(l, i);
                    assert_eq!(c.get().copied(), model[l].get(i).copied());
                    assert_eq!(c.remove(), model[l].remove(i));
                    assert_eq!(c.get().copied(), model[l].get(i).copied(), "the next one");
                }
                Op::Replace(l, i, v) => {
                    if let Ok(node) = lists.alloc(v) {
                        let old = at!(l, i).replace(node);
                        assert_eq!(old.is_ok(), i < model[l].len());
                        let (Ok(node) | Err(node)) = old;
                        let old = model[l].get_mut(i).map(|x| core::mem::replace(x, v));
                        assert_eq!(lists.release(node), old.unwrap_or(v));
                    }
                }
                Op::Move(l, i, to, v) => {
                    at!(l, i).shift_before_first(all[to], |x| *x > v);
                    if let Some(x) = model[l].get(i).copied() {
                        let before = model[to].iter().position(|x| *x > v);
                        let mut before = before.unwrap_or(model[to].len());
                        model[l].remove(i);
                        if l == to && before > i {
                            before -= 1;
                        }
                        model[to].insert(before, x);
                    }
                }
                Op::ShiftFront(l, i, to) => {
                    at!(l, i).shift_front(all[to]);
                    if let Some(x) = model[l].remove(i) {
                        model[to].push_front(x);
                    }
                }
                Op::ShiftBack(l, i, to) => {
                    at!(l, i).shift_back(all[to]);
                    if let Some(x) = model[l].remove(i) {
                        model[to].push_back(x);
                    }
                }
                Op::Seek(n) => {
                    if let Some(mut c) = lists.seek(ListPos(n), |_| true) {
                        let v = c.remove().expect("at a node");
                        let l = model.iter().position(|l| l.contains(&v)).expect("known");
                        let all_like = |m: &VecDeque<u32>| m.iter().filter(|x| **x == v).count();
                        let here = |l: usize| lists.iter(all[l]).filter(|x| **x == v).count();
                        let l = (l..3).find(|l| here(*l) < all_like(&model[*l]));
                        let l = l.expect("one is gone");
                        // Among equals the model need not know which.
                        let now: Vec<u32> = lists.iter(all[l]).copied().collect();
                        let same = |i: &usize| {
                            let mut m = model[l].clone();
                            m.remove(*i);
                            m.iter().eq(&now)
                        };
                        let i = (0..model[l].len()).find(same).expect("one is gone");
                        model[l].remove(i);
                    }
                }
                Op::Reopen => {}
            }
            for (l, m) in all.iter().zip(&model) {
                assert!(lists.iter(*l).eq(m), "{op:?}");
                assert!(lists.iter(*l).rev().eq(m.iter().rev()), "{op:?}, backwards");
                assert_eq!(lists.is_empty(*l), m.is_empty());
                assert_eq!((lists.front(*l), lists.back(*l)), (m.front(), m.back()));
                // From both ends at once.
                let (mut both, mut same) = (lists.iter(*l), m.iter());
                for turn in 0.. {
                    let (a, b) = match turn % 2 {
                        0 => (both.next(), same.next()),
                        _ => (both.next_back(), same.next_back()),
                    };
                    assert_eq!(a, b);
                    if a.is_none() {
                        break;
                    }
                }
            }
        });
        let linked = model.iter().map(VecDeque::len).sum();
        let a = pool.audit().unwrap();
        assert_eq!((a.linked, a.free, a.held), (linked, NODES - linked, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn like_vec_deque(ops in proptest::collection::vec(any(), 1..if cfg!(miri) { 12 } else { 80 })) {
        run::<InOrder32>(&ops);
        run::<InOrder16>(&ops);
        run::<Buffered32>(&ops);
    }
}
