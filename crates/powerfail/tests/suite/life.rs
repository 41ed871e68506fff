//! Long lives: they differ in length, and the program must make progress.
#![cfg(not(miri))] // thousands of boots
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{InOrder16, InOrder32, Model, Region};
use powerfail::{Endure, EveryEvents, Mapped, World, endure};

fn get<M: Model>(nv: &Region<'_, M>, off: usize) -> u32 {
    unsafe { nv.load(off) }
}
fn put<M: Model>(nv: &Region<'_, M>, off: usize, v: u32) {
    unsafe { nv.store(off, v) }
}

/// A counter of 32 bits on units of 16: the low half first, then the high half if there is a carry.
fn count(nv: Region<'_, InOrder16>, told: &World<'_, u32>) {
    loop {
        let n = get(&nv, 0) | get(&nv, 2) << 16;
        assert!(n >= told.get(), "told {:#x}, read {n:#x}", told.get());
        put(&nv, 0, (n + 1) & 0xffff);
        if (n + 1) & 0xffff == 0 {
            put(&nv, 2, (n + 1) >> 16);
        }
        told.set(n + 1);
    }
}

#[test]
fn cuts_do_not_fall_at_one_phase_for_ever() {
    let life = |every| {
        endure(
            Mapped::<InOrder16>::new(64),
            EveryEvents(every),
            count,
            |n| *n,
        )
    };
    // With equal lives the carry is never cut.
    for every in [4, 6] {
        let s = life(every).fixed_period().boots(100_000).run();
        assert!(s.cuts == 100_000 || s.partial, "{s}");
    }
    for every in [4, 6, 7, 9] {
        let e = life(every).boots(400_000).try_run().unwrap_err();
        assert!(e.report().contains("told 0x"), "{e}");
        let line = e.line().unwrap();
        let again = life(every).boots(400_000).replay(line).try_run();
        let again = again.unwrap_err();
        assert!(again.report().contains("replayed exactly"), "{again}");
        // The line holds the schedule; the test's own one is not used.
        let other = life(50).fixed_period().replay(line).try_run();
        let other = other.unwrap_err();
        assert!(other.report().contains("replayed exactly"), "{other}");
    }
}

/// Needs fifteen stores before it completes anything.
fn slow(nv: Region<'_, InOrder32>, done: &World<'_, u32>) {
    for k in 1..16 {
        put(&nv, 4 * k, k as u32);
    }
    loop {
        put(&nv, 0, get(&nv, 0) + 1);
        done.set(get(&nv, 0));
    }
}

fn live(every: u64) -> Endure<Mapped<InOrder32>, u32> {
    endure(
        Mapped::<InOrder32>::new(64),
        EveryEvents(every),
        slow,
        |n| *n,
    )
}

#[test]
fn a_program_without_progress_fails() {
    for short in [live(15).fixed_period(), live(30).horizon(16), live(8)] {
        let e = short.try_run().unwrap_err();
        let said = e.report();
        assert!(said.contains("no progress: in the last 100 boots"), "{e}");
        assert!(said.contains("the world is 0"), "{e}");
        let least = "there is progress with lives of 17 events and more";
        assert!(said.contains(least), "{e}");
        assert_eq!(e.cuts(), 100, "{e}");
        let again = live(15).replay(e.line().unwrap()).try_run().unwrap_err();
        assert!(again.report().contains("replayed exactly"), "{again}");
    }
    let s = live(15).run();
    assert_eq!(s.least_life, (!s.partial).then_some(17));
    // With fewer than a hundred boots, one of them must make progress.
    let e = live(8).boots(20).try_run().unwrap_err();
    assert!(e.report().contains("in the last 20 boots"), "{e}");
}

#[test]
fn what_gets_stuck_later_fails_too() {
    fn program(nv: Region<'_, InOrder32>, done: &World<'_, u32>) {
        let n = get(&nv, 0);
        put(&nv, 0, (n + 1).min(40));
        done.set(n);
    }
    let life = || {
        endure(Mapped::<InOrder32>::new(64), EveryEvents(9), program, |n| {
            *n
        })
    };
    let e = life().try_run().unwrap_err();
    assert!(
        e.cuts() > 140 && e.report().contains("the world is 40"),
        "{e}"
    );
    let e = life().progress_within(10).try_run().unwrap_err();
    assert!(e.report().contains("in the last 10 boots"), "{e}");
    life().boots(60).run();
    // A program that never completes anything.
    let e = endure(
        Mapped::<InOrder32>::new(64),
        EveryEvents(9),
        |nv, _: &World<u32>| put(&nv, 0, 1),
        |n| *n,
    );
    let e = e.try_run().unwrap_err();
    let none = "nor is there any with lives of 16384 events";
    assert!(e.report().contains(none), "{e}");
}
