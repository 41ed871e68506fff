//! The example of the README: two threads share an undo log of one entry. It needs a preemption and
//! a power cut to see that they must not.
#![allow(clippy::undocumented_unsafe_blocks)] // offsets are constants inside a small region

use nvmem::{InOrder32, Region};
use powerfail::{Explore, Mapped, World, explore_with};

/// Two pairs of words. The words of a pair are always equal, except while it is updated.
const PAIRS: [usize; 2] = [0, 8];

fn get(nv: &Region<'_, InOrder32>, at: usize) -> u32 {
    unsafe { nv.load(at) }
}
fn put(nv: &Region<'_, InOrder32>, at: usize, v: u32) {
    unsafe { nv.store(at, v) }
}

/// Increments a pair. `log` is an undo log of one entry: the old value, and the pair's number,
/// which is 0 while no update is under way.
fn increment(nv: &Region<'_, InOrder32>, pair: usize, log: usize) {
    let n = get(nv, PAIRS[pair]);
    put(nv, log, n);
    put(nv, log + 4, 1 + pair as u32);
    put(nv, PAIRS[pair], n + 1);
    put(nv, PAIRS[pair] + 4, n + 1);
    put(nv, log + 4, 0);
}

/// Rolls back the update that was under way at the cut.
fn recover(nv: &Region<'_, InOrder32>, log: usize) {
    if let Some(pair) = get(nv, log + 4).checked_sub(1) {
        let old = get(nv, log);
        put(nv, PAIRS[pair as usize], old);
        put(nv, PAIRS[pair as usize] + 4, old);
        put(nv, log + 4, 0);
    }
}

/// One boot. `logs` says where each thread has its undo log.
fn boot(nv: &Region<'_, InOrder32>, world: &World<'_, ()>, logs: [usize; 2]) {
    for log in logs {
        recover(nv, log);
    }
    for pair in PAIRS {
        assert_eq!(get(nv, pair), get(nv, pair + 4), "half of an update");
    }
    world.threads(|threads| {
        for (pair, name) in ["meter", "radio"].into_iter().enumerate() {
            threads.spawn(name, 1, move || {
                if get(nv, PAIRS[pair]) < 2 {
                    increment(nv, pair, logs[pair]);
                }
            });
        }
    });
}

fn campaign(program: fn(&Region<'_, InOrder32>, &World<'_, ()>)) -> Explore<Mapped<InOrder32>, ()> {
    let medium = Mapped::<InOrder32>::new(32);
    explore_with(program, medium, |nv, world, program| program(&nv, world))
        .field("meter", 0..8)
        .field("radio", 8..16)
        .field("log", 16..24)
}

fn shared() -> Explore<Mapped<InOrder32>, ()> {
    campaign(|nv, world| boot(nv, world, [16, 16]))
}

/// Each thread has an undo log of its own.
fn mended() -> Explore<Mapped<InOrder32>, ()> {
    campaign(|nv, world| boot(nv, world, [16, 24]))
}

#[test]
fn the_bug_needs_a_preemption_and_a_cut() {
    // Cuts alone do not find it.
    shared().depth(3).run();
    let f = shared().preemptions(1).try_run().expect_err("the bug");
    println!("{f}");
    assert!(f.report().contains("half of an update"), "{f}");
    assert!(f.report().contains("meter runs: radio runs"), "{f}");
    assert!(f.report().contains("radio: log+4 = 2"), "{f}");
    assert_eq!(f.cuts(), 1, "{f}");

    // The line has the schedule and the cut, and repeats exactly that execution.
    let line = f.line().expect("a line");
    assert!(line.contains(">1/"), "{line}");
    let again = shared().replay(line).try_run().expect_err("the same");
    assert!(again.report().contains("(replayed exactly)"), "{again}");
    assert_eq!(again.line(), Some(line));
    // With the mended program the same cuts are no failure, or do not exist any more.
    match mended().replay(line).try_run() {
        Ok(survives) => assert!(survives.partial),
        Err(refused) => assert!(refused.report().contains("cannot replay"), "{refused}"),
    }
}

#[test]
fn the_mended_program_passes() {
    let s = mended().preemptions(2).depth(2).run();
    println!("{s}");
    assert!(
        s.partial || s.schedules > 5000 && s.cuts > 10_000 && s.points == 8,
        "{s}"
    );
}
