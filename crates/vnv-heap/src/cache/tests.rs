//! The cache against a plain map, and its figures.

extern crate std;

use super::{Cache, Frame, MAX_LEN};
use crate::error::Fail;
use crate::policy::{Lru, PolicyRules, Predict};
use powerfail::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::{vec, vec::Vec};

/// A buffer with the worst alignment.
pub(crate) struct Ram {
    bytes: Vec<u64>,
    skip: usize,
    len: usize,
}

impl Ram {
    pub(crate) fn new(len: usize, skip: usize) -> Ram {
        Ram {
            bytes: vec![0xA5A5_A5A5_A5A5_A5A5; len.div_ceil(8) + 2],
            skip,
            len,
        }
    }

    pub(crate) fn cache<P: PolicyRules>(&mut self) -> Cache<P> {
        let base = self.bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: the vector is longer by the skipped bytes, and only the cache uses it in these
        // tests.
        unsafe { Cache::new(base.add(self.skip), self.len).expect("large enough") }
    }
}

fn fill<P: PolicyRules>(c: &Cache<P>, s: Frame, seed: u8) {
    for i in 0..c.len(s) {
        // SAFETY: the content is that long, and no reference to it lives.
        unsafe { c.content(s).add(i).write(seed.wrapping_add(i as u8)) };
    }
}

fn holds<P: PolicyRules>(c: &Cache<P>, s: Frame, seed: u8) -> bool {
    (0..c.len(s)).all(|i| {
        // SAFETY: as above; it was filled.
        unsafe { c.content(s).add(i).read() == seed.wrapping_add(i as u8) }
    })
}

/// Calls until it is done. `None` when there is no room.
pub(crate) fn reserve<P: PolicyRules>(
    c: &mut Cache<P>,
    id: u16,
    len: usize,
    burst: usize,
) -> Option<Frame> {
    for _ in 0..100_000 {
        match c.reserve(id, len, burst) {
            Ok(reserved) => return reserved,
            Err(f) => assert_eq!(f, Fail::PENDING),
        }
    }
    panic!("makes no progress");
}

/// Evicts until the object fits. `None` when nothing more can be evicted.
pub(crate) fn budget<P: PolicyRules>(
    c: &mut Cache<P>,
    id: u16,
    len: usize,
    mut left: impl FnMut(u16),
) -> Option<Frame> {
    loop {
        if let Some(s) = reserve(c, id, len, 64) {
            c.set_in_transfer(s, false);
            return Some(s);
        }
        let v = c.victim(false)?;
        left(c.id(v));
        c.remove(v);
    }
}

struct Object {
    len: usize,
    seed: u8,
    dirty: bool,
    pins: u16,
    place: u16,
}

#[derive(Debug, Clone)]
enum Op {
    Load(u16, usize, u8),
    Remove(u16),
    Pin(u16, bool),
    Unpin(u16),
    Dirty(u16),
    Clean(bool),
    Read(u16),
    Restore,
}

fn op() -> impl Strategy<Value = Op> {
    let id = 1..40u16;
    let len = prop_oneof![0..24usize, 0..200usize, Just(256usize), 0..1500usize];
    prop_oneof![
        6 => (id.clone(), len, any::<u8>()).prop_map(|(i, l, s)| Op::Load(i, l, s)),
        1 => id.clone().prop_map(Op::Remove),
        2 => (id.clone(), any::<bool>()).prop_map(|(i, a)| Op::Pin(i, a)),
        3 => id.clone().prop_map(Op::Unpin),
        3 => id.clone().prop_map(Op::Dirty),
        2 => any::<bool>().prop_map(Op::Clean),
        3 => id.prop_map(Op::Read),
        1 => Just(Op::Restore),
    ]
}

fn check<P: PolicyRules>(c: &Cache<P>, model: &BTreeMap<u16, Object>) {
    let mut persist_bytes = 0;
    for (&id, o) in model {
        let s = c.lookup(id).expect("resident");
        assert_eq!((c.id(s), c.len(s)), (id, o.len));
        assert_eq!((c.is_dirty(s), c.pins(s)), (o.dirty, o.pins));
        assert!(holds(c, s, o.seed), "content of {id}");
        assert_eq!(c.content(s).as_ptr() as usize % 8, 0);
        if o.pins > 0 {
            assert_eq!(c.place(s), o.place, "a pinned block moved");
            persist_bytes += 8;
        }
        if o.dirty {
            persist_bytes += o.len as u32 + 2;
        }
    }
    assert_eq!(c.persist_bytes(), persist_bytes);
    let mut seen = 0;
    let mut last = None;
    let mut at = c.first();
    while let Some(s) = at {
        assert!(model.contains_key(&c.id(s)));
        assert!(last < Some(c.place(s)), "in the order of addresses");
        last = Some(c.place(s));
        seen += 1;
        at = c.next(s);
    }
    assert_eq!((seen, c.count), (model.len(), model.len() as u16));
}

fn run<P: PolicyRules>(len: usize, skip: usize, burst: usize, ops: &[Op]) {
    let mut ram = Ram::new(len, skip);
    let mut c = ram.cache::<P>();
    let mut model = BTreeMap::<u16, Object>::new();
    for op in ops {
        match *op {
            Op::Load(id, len, seed) => {
                if model.contains_key(&id) {
                    continue;
                }
                let s = loop {
                    if let Some(s) = reserve(&mut c, id, len, burst) {
                        break Some(s);
                    }
                    let Some(v) = c.victim(false) else { break None };
                    let gone = model.remove(&c.id(v)).expect("resident");
                    assert_eq!(gone.pins, 0, "a pinned object leaves");
                    c.mark_clean(v);
                    c.remove(v);
                };
                let Some(s) = s else { continue };
                assert!(c.in_transfer(s) && c.lookup(id) == Some(s));
                fill(&c, s, seed);
                c.set_in_transfer(s, false);
                let o = Object {
                    len,
                    seed,
                    dirty: false,
                    pins: 0,
                    place: c.place(s),
                };
                model.insert(id, o);
            }
            Op::Remove(id) => {
                if model.get(&id).is_some_and(|o| o.pins == 0) {
                    c.remove(c.lookup(id).unwrap());
                    model.remove(&id);
                }
            }
            Op::Pin(id, exclusive) => {
                let Some(o) = model.get_mut(&id) else {
                    continue;
                };
                let s = c.lookup(id).unwrap();
                let may = if exclusive { o.pins == 0 } else { o.pins < 29 };
                assert_eq!(
                    c.pin(s, exclusive),
                    if may { Ok(()) } else { Err(Fail::BUSY) }
                );
                if may {
                    o.pins = if exclusive { 31 } else { o.pins + 1 };
                    o.place = c.place(s);
                    // SAFETY: it is pinned.
                    assert_eq!(unsafe { c.frame_of(c.content(s)) }, s);
                }
            }
            Op::Unpin(id) => {
                let Some(o) = model.get_mut(&id) else {
                    continue;
                };
                if o.pins > 0 {
                    let exclusive = o.pins == 31;
                    o.pins = if exclusive { 0 } else { o.pins - 1 };
                    let ended = c.unpin(c.lookup(id).unwrap(), exclusive);
                    assert_eq!(ended, (o.pins == 0, false));
                }
            }
            Op::Dirty(id) => {
                let Some(o) = model.get_mut(&id) else {
                    continue;
                };
                let s = c.lookup(id).unwrap();
                c.note_update(s);
                c.mark_dirty(s);
                o.dirty = true;
            }
            Op::Clean(dirty_only) => {
                let Some(v) = c.victim(dirty_only) else {
                    assert!(
                        !model
                            .values()
                            .any(|o| o.pins == 0 && (o.dirty || !dirty_only))
                    );
                    continue;
                };
                let o = model.get_mut(&c.id(v)).unwrap();
                assert!(o.pins == 0 && (o.dirty || !dirty_only));
                c.mark_clean(v);
                o.dirty = false;
            }
            Op::Read(id) => match (c.lookup(id), model.get(&id)) {
                (Some(s), Some(_)) => c.note_read(s),
                (None, None) => {}
                _ => panic!("{id}"),
            },
            Op::Restore => {
                let pinned: Vec<_> = pinned(&c);
                // Content that was lost may have any value.
                model.retain(|_, o| o.pins > 0);
                c.clear();
                for &(place, id, len, pins) in &pinned {
                    let s = c.restore_pinned(place, id, len, pins).expect("was there");
                    let o = model.get_mut(&id).unwrap();
                    assert_eq!(c.place(s), o.place);
                    o.dirty = false;
                    fill(&c, s, o.seed);
                }
            }
        }
        check(&c, &model);
    }
}

fn pinned<P: PolicyRules>(c: &Cache<P>) -> Vec<(u16, u16, usize, u16)> {
    let mut all = Vec::new();
    let mut at = c.first();
    while let Some(s) = at {
        if c.is_pinned(s) {
            all.push((c.place(s), c.id(s), c.len(s), c.pins(s)));
        }
        at = c.next(s);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn behaves_like_a_map(
        len in prop_oneof![100..400usize, 400..2500usize, Just(4096usize)],
        skip in 0..8usize,
        burst in prop_oneof![Just(8usize), Just(64), Just(100_000)],
        lru in any::<bool>(),
        ops in prop::collection::vec(op(), 1..if cfg!(miri) { 15 } else { 250 }),
    ) {
        if lru {
            run::<Lru>(len, skip, burst, &ops);
        } else {
            run::<Predict>(len, skip, burst, &ops);
        }
    }
}

/// Loads objects of mixed sizes at random, and says how full the buffer was on average, in percent.
fn occupied(pins: usize) -> u32 {
    let mut ram = Ram::new(4096, 0);
    let mut c = ram.cache::<Predict>();
    let mut random = Rng::new(7);
    // Sizes from 32 to 1024, each octave as often.
    let sizes: Vec<usize> = (0..60)
        .map(|_| (32 << random.below(5)) + random.below(32) as usize)
        .collect();
    let mut used = BTreeMap::new();
    let mut held = Vec::new();
    let (mut sum, mut n, mut apart) = (0, 0, 0);
    for round in 0..4000 {
        let id = 1 + random.below(60) as u16;
        if c.lookup(id).is_none() {
            let len = sizes[id as usize - 1];
            let s = loop {
                let s = budget(&mut c, id, len, |gone| {
                    used.remove(&gone);
                });
                match s {
                    Some(s) => break s,
                    // Pins keep the room apart.
                    None => held.drain(..).for_each(|id| {
                        c.unpin(c.lookup(id).unwrap(), false);
                    }),
                }
                apart += 1;
            };
            c.mark_dirty(s);
            used.insert(id, len as u32);
        }
        let s = c.lookup(id).unwrap();
        if held.len() < pins && c.pin(s, false).is_ok() {
            held.push(id);
        } else if round % 10 == 0 && !held.is_empty() {
            let id = held.remove(0);
            c.unpin(c.lookup(id).unwrap(), false);
        }
        if round >= 30 {
            sum += used.values().sum::<u32>();
            n += 1;
        }
    }
    assert!(apart <= n / 20 && (pins > 0 || apart == 0), "{apart}");
    sum / n * 100 / 4096
}

#[test]
#[cfg_attr(miri, ignore = "an average of many rounds")]
fn a_mix_of_sizes_fills_most_of_it() {
    assert!(occupied(0) >= 85, "{}", occupied(0));
    assert!(occupied(6) >= 80, "{} with pins", occupied(6));
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic")]
fn fifteen_of_256_and_three_quarters_of_32() {
    // Of 4 KiB, the heap's own state taken off: what cache, policy, store and the rest take on a
    // 32-bit target.
    let mut ram = Ram::new(4096 - 128, 0);
    let mut c = ram.cache::<Predict>();
    for id in 1..=15 {
        let s = reserve(&mut c, id, 256, 64).expect("it fits");
        c.set_in_transfer(s, false);
    }
    assert!((1..=15).all(|id| c.lookup(id).is_some()));
    // Nor does a queue that does not fit move blocks for the directory.
    for id in 16..=100 {
        c.remove(c.lookup(id - 9).unwrap());
        assert!(matches!(c.reserve(id, 256, 64), Ok(Some(_))), "{id}");
    }
    let mut ram = Ram::new(4096 - 128, 0);
    let mut c = ram.cache::<Predict>();
    let n = (1..).take_while(|id| reserve(&mut c, *id, 32, 64).is_some());
    assert!(n.count() * 32 * 100 >= 74 * 4096);
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic")]
fn at_most_ten_bytes_for_a_resident_object() {
    let mut ram = Ram::new(10_000, 0);
    let mut c = ram.cache::<Predict>();
    let n = (1..).take_while(|id| reserve(&mut c, *id, 32, 64).is_some());
    assert!(n.count() * (32 + 10) >= 10_000 - 64);
}

#[test]
fn the_state_is_small() {
    // Two words of a pointer and a length; on 32-bit targets they are 8 bytes and not 16.
    let both = size_of::<Cache<Predict>>() - 2 * size_of::<usize>() + 8;
    assert!(both <= 68, "{both}");
}

/// The directory shrank for the last frame, and must not grow over it before it is restored.
#[test]
fn the_directory_leaves_room_for_what_comes_back_last() {
    let mut ram = Ram::new(600, 0);
    let mut c = ram.cache::<Lru>();
    for id in 1..=20 {
        let s = budget(&mut c, id, 8, |_| panic!("there is room")).unwrap();
        c.pin(s, false).unwrap();
    }
    let last = budget(&mut c, 21, 256, |_| panic!("there is room")).unwrap();
    c.pin(last, true).unwrap();
    let pinned = pinned(&c);
    assert_eq!(pinned.len(), 21);
    c.clear();
    for (place, id, len, pins) in pinned {
        let s = c.restore_pinned(place, id, len, pins).expect("was there");
        assert_eq!(c.place(s), place);
    }
    assert!((1..=21).all(|id| c.lookup(id).is_some()));
}

#[test]
fn a_block_larger_than_a_burst_moves_in_pieces() {
    let mut ram = Ram::new(2048, 0);
    let mut c = ram.cache::<Predict>();
    for (id, len) in [(1, 100), (2, 900), (3, 300), (4, 500)] {
        let s = reserve(&mut c, id, len, 64).unwrap();
        fill(&c, s, id as u8);
        c.set_in_transfer(s, false);
    }
    for id in [1, 3] {
        c.remove(c.lookup(id).unwrap());
    }
    let mut steps = 0;
    let s = loop {
        match c.reserve(5, 450, 64) {
            Ok(Some(s)) => break s,
            Err(f) => {
                assert_eq!(f, Fail::PENDING);
                steps += 1;
            }
            Ok(None) => panic!("it fits"),
        }
    };
    assert!(steps > 900 / 64, "{steps}");
    fill(&c, s, 5);
    for id in [2, 4, 5] {
        assert!(holds(&c, c.lookup(id).unwrap(), id as u8));
    }
}

#[test]
fn a_move_can_be_finished_at_once() {
    let mut ram = Ram::new(1024, 0);
    let mut c = ram.cache::<Predict>();
    for (id, len) in [(1, 100), (2, 800)] {
        let s = reserve(&mut c, id, len, 64).unwrap();
        fill(&c, s, id as u8);
        c.set_in_transfer(s, false);
    }
    c.remove(c.lookup(1).unwrap());
    assert_eq!(c.reserve(3, 150, 64), Err(Fail::PENDING));
    c.finish_move();
    assert!(holds(&c, c.lookup(2).unwrap(), 2));
    assert_eq!(c.first(), c.lookup(2));
}

#[test]
fn a_directory_that_cannot_grow_has_longer_chains() {
    // One large pinned object right below the directory, restored: there is no room for more
    // buckets.
    let mut ram = Ram::new(1024, 0);
    let mut c = ram.cache::<Predict>();
    let s = reserve(&mut c, 1, 440, 64).unwrap();
    c.set_in_transfer(s, false);
    let s = reserve(&mut c, 2, 552, 64).unwrap();
    c.set_in_transfer(s, false);
    c.pin(s, true).unwrap();
    let candidates = pinned(&c);
    c.clear();
    for (place, id, len, pins) in candidates {
        c.restore_pinned(place, id, len, pins).expect("was there");
    }
    let mut n = 0;
    for id in 3..40 {
        let Some(s) = reserve(&mut c, id, 8, 64) else {
            break;
        };
        c.set_in_transfer(s, false);
        n += 1;
    }
    assert_eq!(n, 448 / 16);
    for id in 2..3 + n {
        assert!(c.lookup(id).is_some(), "{id}");
    }
}

#[test]
fn a_directory_gets_its_room_after_large_objects() {
    let mut ram = Ram::new(4000, 0);
    let mut c = ram.cache::<Predict>();
    for id in 1..=15 {
        budget(&mut c, id, 256, |_| {}).unwrap();
    }
    for id in 100..if cfg!(miri) { 200 } else { 400 } {
        budget(&mut c, id, 8, |_| {}).unwrap();
    }
    assert!(
        c.heads() * 4 >= usize::from(c.count),
        "{} of {}",
        c.heads(),
        c.count
    );
    for id in 501..=515 {
        budget(&mut c, id, 256, |_| {}).unwrap();
    }
    assert!(c.heads() < 40);
}

#[test]
fn a_directory_gives_way_where_blocks_must_be_moved() {
    let mut ram = Ram::new(4096 - 120, 0);
    let mut c = ram.cache::<Predict>();
    // A small one at the start, as a root is.
    for (id, len) in (1..).zip([4].into_iter().chain([256; 14])) {
        let s = reserve(&mut c, id, len, 64).unwrap();
        c.set_in_transfer(s, false);
    }
    assert!(reserve(&mut c, 16, 256, 64).is_none());
    c.remove(c.lookup(1).unwrap());
    assert!(reserve(&mut c, 16, 256, 64).is_some());
    assert!((2..=16).all(|id| c.lookup(id).is_some()));
}

#[test]
fn records_that_no_pin_left_are_refused() {
    let mut ram = Ram::new(1024, 0);
    let mut c = ram.cache::<Predict>();
    c.restore_pinned(4, 1, 64, 1).unwrap();
    for (place, id, len, pins) in [
        (4, 2, 8, 1),       // over the one before
        (12, 3, 8, 1),      // inside it
        (20, 0, 8, 1),      // no object
        (20, 1, 8, 1),      // twice
        (20, 4, 1000, 1),   // too long
        (20, 4, 0xFFFF, 1), // far too long
        (126, 4, 8, 1),     // in the directory
        (0x1FFF, 4, 8, 1),  // outside
        (0xFFFF, 4, 8, 1),  // far outside
        (20, 4, 8, 64),     // no such pins
    ] {
        assert_eq!(
            c.restore_pinned(place, id, len, pins),
            None,
            "{place} {id} {len} {pins}"
        );
    }
    assert!(c.restore_pinned(13, 2, 8, 33).is_some());
}

#[test]
fn what_is_doomed_goes_with_its_last_pin() {
    let mut ram = Ram::new(256, 0);
    let mut c = ram.cache::<Predict>();
    let s = reserve(&mut c, 1, 8, 64).unwrap();
    c.set_in_transfer(s, false);
    c.pin(s, false).unwrap();
    c.pin(s, false).unwrap();
    c.doom(s);
    let candidates = pinned(&c);
    c.clear();
    let s = c
        .restore_pinned(
            candidates[0].0,
            candidates[0].1,
            candidates[0].2,
            candidates[0].3,
        )
        .unwrap();
    assert_eq!(c.unpin(s, false), (false, false));
    assert_eq!(c.unpin(s, false), (true, true));
}

#[test]
fn a_held_object_neither_moves_nor_leaves() {
    let mut ram = Ram::new(1024, 0);
    let mut c = ram.cache::<Predict>();
    for id in 1..=4 {
        let s = reserve(&mut c, id, 200, 64).unwrap();
        c.set_in_transfer(s, id == 3);
    }
    let at = c.lookup(3).unwrap();
    c.remove(c.lookup(2).unwrap());
    c.remove(c.lookup(4).unwrap());
    assert_eq!(reserve(&mut c, 5, 440, 64), None);
    assert_eq!(c.lookup(3), Some(at));
    assert_eq!(c.victim(false).map(|s| c.id(s)), Some(1));
    c.mark_dirty(at);
    assert_eq!(c.victim(true), None);
}

#[test]
fn too_small_or_too_large() {
    let mut b = [0u64; 4];
    // SAFETY: only the cache uses the buffer.
    unsafe {
        let p = b.as_mut_ptr().cast::<u8>();
        assert!(Cache::<Lru>::new(p, 0).is_none());
        assert!(Cache::<Lru>::new(p, 15).is_none());
        assert!(Cache::<Lru>::new(p.add(1), 20).is_none());
        let mut c = Cache::<Lru>::new(p, 16).unwrap();
        assert!(matches!(c.reserve(1, 0, 64), Ok(Some(_))));
        assert_eq!(c.reserve(2, 0, 64), Ok(None));
    }
    let mut ram = Ram::new(70_000, 0);
    let mut c = ram.cache::<Lru>();
    assert_eq!(c.reserve(1, MAX_LEN + 1, 64), Ok(None));
    for id in 1..=3 {
        let s = reserve(&mut c, id, MAX_LEN, 64).unwrap();
        if !cfg!(miri) {
            fill(&c, s, id as u8);
        }
    }
    assert!(cfg!(miri) || (1..=3).all(|id| holds(&c, c.lookup(id).unwrap(), id as u8)));
}
