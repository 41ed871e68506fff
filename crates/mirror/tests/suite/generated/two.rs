//! Two mirrors on one range, which save, fail and open it again in generated orders, with every
//! cut. The model is that of [`crate::two`], which tries all short orders.

use super::seed_of;
use crate::runs::programs;
use crate::two::*;
use core::cell::{Cell, RefCell};
use nv_mirror::{Mirror, MirrorError};
use nvmem::device::Medium;
use nvmem::{Buffered32, Ram};
use powerfail::{BufferedNor, Mapped, Mram16, Simulated, SpiFram, World, random};
use proptest::prelude::*;

use super::media::{Bytes4, Bytes32};

/// What one of the two does.
#[derive(Debug, Clone, Copy)]
enum Act {
    Of(Op),
    /// It gives all content up; maybe one operation of the part fails.
    Format(Option<(u32, Done)>),
}

/// Which of the two does what.
fn orders(most: usize) -> impl Strategy<Value = Vec<(usize, Act)>> {
    let done = prop_oneof![Just(Done::Nothing), Just(Done::Half), Just(Done::All)];
    let fault = (0..16_u32, done.clone());
    let of_format = (0..8_u32, done);
    let op = prop_oneof![
        8 => Just(Act::Of(Op::Save)),
        4 => Just(Act::Of(Op::Saves)),
        2 => Just(Act::Of(Op::MakeRoom)),
        6 => Just(Act::Of(Op::Reopen)),
        6 => fault.prop_map(|(n, done)| Act::Of(Op::Fails(n, done))),
        3 => prop::option::weighted(0.8, of_format).prop_map(Act::Format),
    ];
    prop::collection::vec((0..2_usize, op), 3..=most)
}

/// Gives all content up.
fn format<D: Medium>(part: &RefCell<D>, fault: &Fault, segments: u8) -> Result<(), Failure> {
    let (mut memory, all) = (MEMORY, 0..part.borrow().capacity());
    let shared = Shared { part, fault };
    Mirror::format::<Ram>(shared, all, &config(segments), &mut memory).map(|_| ())
}

/// One boot: both mirrors open the range, and do all this.
fn boot<D: Medium>(nv: D, world: &World<'_, Seen>, segments: u8, ops: &[(usize, Act)]) {
    let flash = D::CONTRACT.erase.is_some();
    let (part, fault) = (RefCell::new(nv), Cell::new(None));
    let mut memories = [MEMORY; 16];
    let mut memories = memories.iter_mut();
    let mut next = || {
        let memory = memories.next().expect("one for each operation");
        let opened = try_open(&part, &fault, segments, memory);
        let seen = world.get();
        let Ok(one) = opened else {
            let may_refuse = seen.formatting || flash && seen.saved == [0; WORDS];
            assert!(may_refuse, "a save is lost");
            return None;
        };
        let content = read(&one.1);
        let is_known = content == seen.saved || seen.tried.contains(&content);
        assert!(is_known, "a save is lost: {content:?} of {seen:?}");
        Some(one)
    };
    let saves = |content: Content| world.update(|seen| seen.tried.push(content));
    let saved = |content: Content| {
        world.update(|seen| {
            (seen.saved, seen.tried) = (content, Vec::new());
            seen.formatting = false;
        });
    };
    let Some(mut first) = next() else {
        return;
    };
    // On flash two mirrors may read differently what a cut has left, until one of them saves.
    if flash && world.with(|seen| seen.boots > 0) {
        let save = |one: &mut One<'_, '_, D>| {
            commit(&mut one.1, 2);
            let content = read(&one.1);
            saves(content);
            let ended = one.0.durable(&mut one.1);
            if ended.is_ok() {
                saved(content);
            }
            ended
        };
        let mut ended = save(&mut first);
        if ended == Err(MirrorError::OtherMirror) && world.with(|seen| seen.tried.len() > 2) {
            // A save had failed, and what followed was cut: see the error.
            let Some(again) = next() else {
                return;
            };
            first = again;
            ended = save(&mut first);
        }
        assert_eq!(ended, Ok(()), "the first save of a boot");
    }
    world.update(|seen| seen.boots += 1);
    // No two saves have the same content.
    let mut commits = 100 * world.with(|seen| seen.boots);
    let Some(second) = next() else {
        return;
    };
    let mut both = [first, second];
    let mut marks = [Mark::default(); 2];
    let mut has_failed = false;
    for (who, act) in ops.iter().copied() {
        let op = match act {
            Act::Of(op) => op,
            Act::Format(failure) => {
                saves([0; WORDS]);
                world.update(|seen| seen.formatting = true);
                fault.set(failure);
                let formatted = format(&part, &fault, segments);
                has_failed |= formatted.is_err();
                fault.set(None);
                if formatted.is_ok() {
                    saved([0; WORDS]);
                    marks[1 - who].overtaken = true;
                }
                marks[1 - who].touched = true;
                Op::Reopen
            }
        };
        if op == Op::Reopen {
            let Some(again) = next() else {
                return;
            };
            both[who] = again;
            marks[who] = Mark::default();
            continue;
        }
        for _ in 0..op.times() {
            let (mirror, region) = &mut both[who];
            commits += 1;
            commit_as(region, who, commits);
            let content = read(region);
            saves(content);
            if let Op::Fails(n, done) = op {
                fault.set(Some((n, done)));
            }
            let ended = match op {
                Op::MakeRoom => mirror.make_room(region),
                _ => mirror.durable(region),
            };
            let failed = fault.take().is_some_and(|(n, _)| n > u32::MAX / 2);
            has_failed |= failed;
            match ended {
                Ok(()) => {
                    assert!(!failed && !marks[who].refused, "it goes on");
                    assert!(!marks[who].overtaken, "a save is lost");
                    saved(content);
                    (marks[1 - who].overtaken, marks[1 - who].touched) = (true, true);
                }
                Err(MirrorError::OtherMirror) => {
                    assert!(marks[who].touched, "a false alarm");
                    marks[who].refused = true;
                    world.update(|seen| seen.tried.truncate(seen.tried.len() - 1));
                }
                Err(error) => {
                    let may_fail = failed || has_failed && flash;
                    assert!(may_fail && !marks[who].refused, "{error:?}");
                    marks[1 - who].touched = true;
                }
            }
        }
    }
}

macro_rules! campaigns {
    ($($name:ident: $media:expr, $segments:literal, $most:literal, times $times:literal;)+) => {$(
        #[test]
        #[cfg_attr(miri, ignore = "thousands of boots")]
        fn $name() {
            random(orders($most), || $media, |nv, w: &World<'_, Seen>, ops| {
                boot(nv, w, $segments, ops)
            })
            .cases(programs($times))
            .seed(seed_of(concat!("two_", stringify!($name))))
            .depth(1)
            .run();
        }
    )+};
}

campaigns! {
    fram: Simulated::<SpiFram>::new(320), 2, 10, times 10;
    fram_of_4: Simulated::<SpiFram>::new(4 * 200), 4, 10, times 10;
    mram: Simulated::<Mram16>::new(3 * 160), 3, 10, times 10;
    buffered: Mapped::<Buffered32>::with_image(vec![0; 320]), 2, 8, times 10;
    flash_4: Simulated::<Bytes4>::new(3 * 1088), 3, 10, times 10;
    flash_32: Simulated::<Bytes32>::new(3 * 1152), 3, 10, times 10;
    flash_buffered: Simulated::<BufferedNor>::new(3 * 1024), 3, 8, times 10;
}
