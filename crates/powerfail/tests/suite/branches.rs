//! Every state that a cut permits is booted, and no other: each test depends on one kind of state.
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{Buffered32, InOrder32, Medium, Model, Region, mapped};
use powerfail::{
    Device, EveryEvents, Failure, Mapped, Nor, Stm32l1, Summary, World, endure, explore,
    explore_with,
};

fn get<M: Model>(nv: &Region<'_, M>, off: usize) -> u32 {
    unsafe { nv.load(off) }
}
fn put<M: Model>(nv: &Region<'_, M>, off: usize, v: u32) {
    unsafe { nv.store(off, v) }
}

/// Whether the campaign fails with this message.
fn fails(r: Result<Summary, Failure>, what: &str) -> bool {
    match r {
        Ok(_) => false,
        Err(e) => {
            assert!(e.report().contains(what), "{e}");
            true
        }
    }
}

/// Content that was never fenced: the second boot does not read it, and the third does.
fn three_boots(nv: Region<'_, Buffered32>, phase: &World<'_, u32>) {
    match phase.get() {
        0 => {
            put(&nv, 0, 7);
            phase.set(1);
        }
        1 => {
            put(&nv, 8, 1);
            mapped::fence::<Buffered32>();
            phase.set(2);
        }
        _ => assert_eq!(get(&nv, 0), 7, "lost"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn what_the_first_cut_left_open_is_open_at_the_second() {
    let nv = || Mapped::<Buffered32>::new(64);
    explore(nv(), three_boots).run();
    let e = explore(nv(), three_boots).depth(2).try_run().unwrap_err();
    assert!(e.report().contains("lost") && e.cuts() == 2, "{e}");
}

#[test]
fn every_value_of_an_open_unit_is_tried() {
    let found = |value: u32| {
        let program = |nv: Region<'_, Buffered32>, told: &World<'_, bool>, never: &u32| {
            assert!(!told.get() || get(&nv, 0) != *never, "found");
            if !told.get() {
                told.set(true);
                (1..=4).for_each(|n| put(&nv, 0, n));
            }
        };
        let nv = Mapped::<Buffered32>::new(64);
        fails(explore_with(value, nv, program).try_run(), "found")
    };
    for value in 0..=4 {
        assert!(found(value), "{value}");
    }
    assert!(!found(5));
}

/// Stores 3 and then 7 through a loan, with a store by the library in between.
fn lends(nv: Region<'_, InOrder32>, told: &World<'_, bool>, fits: fn(u32) -> bool) {
    if told.get() {
        assert!(fits(get(&nv, 0)), "found");
        return;
    }
    told.set(true);
    let at = nv.base();
    mapped::lend(at, 4);
    unsafe { at.cast::<u32>().write(3) };
    put(&nv, 8, 1);
    unsafe { at.cast::<u32>().write(7) };
    mapped::end_loan(at, 4);
}

#[test]
#[cfg_attr(miri, ignore = "what is lent is seen when the loan ends")]
fn a_lent_unit_holds_what_it_had_and_what_was_in_between() {
    let found = |fits: fn(u32) -> bool| {
        let nv = Mapped::<InOrder32>::new(64);
        let e = explore_with(fits, nv, |nv, w, fits| lends(nv, w, *fits));
        fails(e.try_run(), "found")
    };
    assert!(found(|v| v != 0));
    assert!(found(|v| v != 3));
    assert!(found(|v| v != 7));
    assert!(found(|v| [0, 3, 7].contains(&v)), "nothing in between");
}

/// A word whose programming was cut, read three times. The world: programming was begun.
fn reads(mut nv: Device<'_, Stm32l1>, begun: &World<'_, bool>, never: &[bool; 3]) {
    const NEW: [u8; 4] = [0xa5; 4];
    let mut word = [0; 4];
    let new = [(); 3].map(|()| {
        Medium::read(&mut nv, 0, &mut word).unwrap();
        word == NEW
    });
    assert!(!begun.get() || new != *never, "found");
    if !begun.get() {
        begun.set(true);
        Medium::write(&mut nv, 0, &NEW).unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn what_is_unstable_reads_in_all_six_ways() {
    let found = |new: [bool; 3]| {
        let nv = Nor::stm32l1().size(256);
        fails(explore_with(new, nv, reads).try_run(), "found")
    };
    let (o, n) = (false, true);
    for way in [
        [o, o, o],
        [n, n, n],
        [o, n, o],
        [n, o, n],
        [o, n, n],
        [n, o, o],
    ] {
        assert!(found(way), "{way:?}");
    }
    for way in [[o, o, n], [n, n, o]] {
        assert!(!found(way), "{way:?}");
    }
}

#[test]
fn the_power_goes_between_two_changes_of_the_world() {
    fn program(nv: Region<'_, InOrder32>, w: &World<'_, (u32, u32)>) {
        let (a, b) = w.get();
        assert_eq!(a, b, "half of it was told");
        w.update(|w| w.0 += 1);
        w.update(|w| w.1 += 1);
        put(&nv, 0, 1);
    }
    let nv = || Mapped::<InOrder32>::new(64);
    assert!(fails(explore(nv(), program).try_run(), "half of it"));
    let life = endure(nv(), EveryEvents(3), program, |w| w.1);
    assert!(fails(life.try_run(), "half of it"));
}

/// A number and its copy, which is the valid one; with a fence between them, or without.
fn copies(nv: Region<'_, Buffered32>, told: &World<'_, u32>, fence: bool) {
    loop {
        let n = get(&nv, 4);
        assert!(get(&nv, 0) >= n, "a copy of nothing");
        put(&nv, 0, n + 1);
        if fence {
            mapped::fence::<Buffered32>();
        }
        put(&nv, 4, n + 1);
        mapped::fence::<Buffered32>();
        told.set(n + 1);
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn a_long_life_loses_what_is_open() {
    let nv = || Mapped::<Buffered32>::new(64);
    endure(nv(), EveryEvents(5), |nv, w| copies(nv, w, true), |n| *n).run();
    let wrong = endure(nv(), EveryEvents(5), |nv, w| copies(nv, w, false), |n| *n);
    assert!(fails(wrong.try_run(), "a copy of nothing"));
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn a_long_life_tears_words() {
    fn program(mut nv: Device<'_, Stm32l1>, told: &World<'_, u32>) {
        let mut word = [0; 4];
        Medium::read(&mut nv, 0, &mut word).unwrap();
        assert!(word == [0; 4] || word == [0xa5; 4], "torn");
        loop {
            Medium::erase(&mut nv, 0, 256).unwrap();
            Medium::write(&mut nv, 0, &[0xa5; 4]).unwrap();
            told.set(told.get() + 1);
        }
    }
    let life = endure(Nor::stm32l1().size(256), EveryEvents(4), program, |n| *n);
    assert!(fails(life.try_run(), "torn"));
}
