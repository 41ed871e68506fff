//! What an archive keeps, without power cuts: generated saves, rollbacks and deletions, and a list
//! that says what is there. The medium has a write buffer; what has returned was flushed.

use super::each;
use crate::histories::Buffered;
use checkpoint::{Archive, Entry, Error, Every, KeepLast, Landmarks, Memory, Retention, Split};
use nvmem::ram::RamFram;
use proptest::prelude::*;
use std::cell::Cell;

#[derive(Clone, Copy, Debug)]
enum Op {
    Save,
    /// Opens the archive again, and loads.
    Boot,
    /// Of the n-th, counted from the newest.
    RollBack(usize),
    Delete(usize),
}

/// How an archive is told what to keep.
#[derive(Clone, Copy, Debug)]
enum Policy {
    Last,
    Every(u32),
    Landmarks(u32),
    /// It names a slot, whatever is there.
    Wrong(usize),
}

impl Retention for Policy {
    fn victim(&self, ages: &[Option<u32>]) -> usize {
        match *self {
            Policy::Last => KeepLast.victim(ages),
            Policy::Every(n) => Every(n).victim(ages),
            Policy::Landmarks(base) => Landmarks(base).victim(ages),
            Policy::Wrong(slot) => slot,
        }
    }
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        2 => Just(Policy::Last),
        1 => (1..12u32).prop_map(Policy::Every),
        3 => (2..4u32).prop_map(Policy::Landmarks),
        1 => (0..8usize).prop_map(Policy::Wrong),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => Just(Op::Save),
        2 => Just(Op::Boot),
        1 => (0..6usize).prop_map(Op::RollBack),
        1 => (0..6usize).prop_map(Op::Delete),
    ]
}

const SIZE: usize = 1024;
type In<'n, 'f, const N: usize> = Archive<&'n mut Buffered<'f, SIZE>, Split, Policy, N>;

/// The checkpoints of an archive, the newest first.
fn list<const N: usize>(archive: &mut In<'_, '_, N>) -> Vec<Entry> {
    archive
        .list()
        .expect("inside")
        .into_iter()
        .flatten()
        .collect()
}

/// `after` has `first` in front of what `before` has, and lost at most one checkpoint for it: none
/// while a slot is free, never the newest, nor `spared`.
fn takes_one_place<const N: usize>(before: &[Entry], after: &[Entry], spared: usize) {
    let (_, others) = after.split_first().expect("a new one");
    let lost: Vec<usize> = (0..before.len())
        .filter(|i| !others.contains(&before[*i]))
        .collect();
    assert_eq!(others.len() + lost.len(), before.len(), "{after:?}");
    match lost[..] {
        [] => assert!(after.len() <= N),
        [one] => {
            assert_eq!(before.len(), N, "there is a free slot");
            assert!(one != 0 && one != spared, "it was needed");
        }
        _ => panic!("{lost:?} are lost of {before:?}"),
    }
}

/// Of two neighbours the older one is at most `base` times as old.
fn are_landmarks(kept: &[Entry], base: u32) {
    let next = kept[0].sequence + 1;
    for pair in kept.windows(2) {
        let [younger, older] = [0, 1].map(|i| next - pair[i].sequence);
        assert!(older <= base * younger, "{older} after {younger}");
    }
}

fn archive<const N: usize>(policy: Policy, ops: &[Op]) {
    let dirty = Cell::new(false);
    let mut nv = Buffered(RamFram::<SIZE>::filled(0), &dirty);
    let ram = |n: u32| [n as u8; 20];
    // Neither a rollback nor a deletion so far: both make gaps.
    let mut all_saved = true;
    let mut ops = ops
        .iter()
        .enumerate()
        .map(|(n, op)| (n as u32, *op))
        .peekable();
    while ops.peek().is_some() {
        let mut a: In<'_, '_, N> =
            Archive::open(&mut nv, 0..SIZE as u32, 1, Split, policy).expect("room");
        let mut found = [0; 20];
        let loaded = a.restore(&mut Memory::new(&mut found, &mut [], &mut []));
        match list(&mut a).first() {
            Some(newest) => {
                let loaded = loaded.unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(loaded.sequence, newest.sequence);
                assert_eq!((loaded.context, loaded.name), (newest.context, newest.name));
                assert_eq!(found, ram(newest.context), "a mixture");
            }
            None => assert_eq!(loaded, Err(Error::NoImage)),
        }
        for (n, op) in ops.by_ref() {
            let before = list(&mut a);
            let nth = |i: usize| before.get(i).map_or(u32::MAX, |e| e.sequence);
            let mut bytes = ram(n);
            let memory = Memory::new(&mut bytes, &mut [], &mut []);
            match op {
                Op::Save => {
                    a.checkpoint(n + 100, &memory, n).expect("room");
                    let after = list(&mut a);
                    assert_eq!((after[0].name, after[0].context), (n + 100, n));
                    takes_one_place::<N>(&before, &after, 0);
                    match policy {
                        Policy::Last if before.len() == N => {
                            assert_eq!(after[1..], before[..N - 1])
                        }
                        Policy::Landmarks(base) if all_saved => are_landmarks(&after, base),
                        _ => {}
                    }
                }
                Op::RollBack(i) => {
                    let done = a.roll_back(nth(i), &memory);
                    let after = list(&mut a);
                    match before.get(i) {
                        None => assert_eq!((done, &after), (Err(Error::NoImage), &before)),
                        Some(_) if i == 0 => assert_eq!((done, &after), (Ok(()), &before)),
                        Some(old) => {
                            done.unwrap_or_else(|e| panic!("{e}"));
                            assert_eq!((after[0].name, after[0].context), (old.name, old.context));
                            takes_one_place::<N>(&before, &after, i);
                            all_saved = false;
                        }
                    }
                }
                Op::Delete(i) => {
                    let done = a.delete(nth(i));
                    let mut left = before.clone();
                    match i {
                        _ if i >= before.len() => assert_eq!(done, Err(Error::NoImage)),
                        0 => assert_eq!(done, Err(Error::Newest)),
                        _ => {
                            done.unwrap_or_else(|e| panic!("{e}"));
                            left.remove(i);
                            all_saved = false;
                        }
                    }
                    assert_eq!(list(&mut a), left);
                }
                Op::Boot => break,
            }
            assert!(!dirty.get(), "{op:?} returned before a flush");
        }
    }
}

#[test]
fn archives() {
    let ops = prop::collection::vec(op(), 1..60);
    each((policy(), ops), 300, |(policy, ops)| {
        archive::<3>(policy, &ops);
        archive::<4>(policy, &ops);
        archive::<7>(policy, &ops);
    });
}
