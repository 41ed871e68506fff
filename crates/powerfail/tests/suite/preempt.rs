//! An interrupt at any point of a program, combined with power cuts.
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{Buffered32, InOrder32, Model, Region, mapped};
use powerfail::{Explore, Failure, Mapped, World, explore, masked};

fn get<M: Model>(nv: &Region<'_, M>, off: usize) -> u32 {
    unsafe { nv.load(off) }
}
fn put<M: Model>(nv: &Region<'_, M>, off: usize, v: u32) {
    unsafe { nv.store(off, v) }
}

/// Adds to a counter of two words. Each word holds the whole counter, and `WHICH` says which one is
/// valid.
fn add<M: Model>(nv: &Region<'_, M>, section: bool) {
    const WHICH: usize = 0;
    let body = || {
        let now = get(nv, WHICH);
        let n = get(nv, 4 + 4 * now as usize);
        put(nv, 4 + 4 * (1 - now as usize), n + 1);
        mapped::fence::<M>();
        put(nv, WHICH, 1 - now);
        mapped::fence::<M>();
    };
    if section { masked(body) } else { body() }
}

fn counted<M: Model>(nv: Region<'_, M>, world: &World<'_, [u32; 2]>, section: bool) {
    let count = |nv| get(nv, 4 + 4 * get(nv, 0) as usize);
    let sure: u32 = world.get().iter().sum();
    let n = count(&nv);
    assert!(n >= sure, "{sure} were counted, {n} are kept");
    let one = |i: usize| {
        if world.get()[i] == 0 {
            add(&nv, section);
            world.update(|w| w[i] = 1);
        }
    };
    world.interrupted(|| one(1), || one(0));
    let n = count(&nv);
    assert!(n >= 2, "both have counted, {n} are kept");
}

fn campaign<M: Model>(section: bool) -> Explore<Mapped<M>, [u32; 2]> {
    match section {
        true => explore(Mapped::<M>::new(64), |nv, w| counted(nv, w, true)),
        false => explore(Mapped::<M>::new(64), |nv, w| counted(nv, w, false)),
    }
    .preempt()
}

/// Runs the campaign, expects the bug, and replays its line, which has the point.
fn found<T: powerfail::WorldState, M: powerfail::Media>(e: impl Fn() -> Explore<M, T>) -> Failure {
    let f = e().try_run().expect_err("the planted bug");
    println!("{f}\n");
    let line = f.line().expect("a line to replay");
    assert!(line.contains("@~"), "{line}");
    let again = e().replay(line).try_run().expect_err("the same bug");
    assert!(again.report().contains("replayed exactly"), "{again}");
    assert_eq!(again.line(), Some(line));
    f
}

#[test]
fn an_update_of_two_words_wants_a_section() {
    let f = found(|| campaign::<InOrder32>(false));
    assert!(f.report().contains("both have counted, 1 are kept"), "{f}");
    assert!(f.report().contains("interrupt  at point"), "{f}");
    assert_eq!(f.cuts(), 0);
    found(|| campaign::<Buffered32>(false));
    for s in [
        campaign::<InOrder32>(true).depth(2).run(),
        campaign::<Buffered32>(true).depth(2).run(),
    ] {
        println!("{s}");
        assert!(s.partial || s.points == 2 && s.cuts > 20, "{s}");
    }
}

/// A bug that shows only with a cut after the interrupt, at one point only.
fn half(nv: Region<'_, InOrder32>, world: &World<'_, u32>) {
    const BUSY: usize = 0;
    const A: usize = 4;
    const B: usize = 8;
    if get(&nv, BUSY) == 1 {
        // A cut in the middle repeats both.
        put(&nv, A, 7);
        put(&nv, B, 7);
        put(&nv, BUSY, 0);
    }
    assert_eq!(get(&nv, A), get(&nv, B), "one without the other");
    world.interrupted(
        // An interrupt that completes an update it did not begin.
        || put(&nv, BUSY, 0),
        || {
            put(&nv, BUSY, 1);
            put(&nv, A, 7);
            put(&nv, B, 7);
            put(&nv, BUSY, 0);
        },
    );
    world.set(get(&nv, A));
}

#[test]
fn an_interrupt_and_a_cut_are_needed() {
    explore(Mapped::<InOrder32>::new(64), half).depth(2).run();
    let f = found(|| explore(Mapped::<InOrder32>::new(64), half).preempt());
    assert!(f.report().contains("one without the other"), "{f}");
    assert_eq!(f.cuts(), 1);
}

/// The interrupt also comes in the boot after a cut; a cut of that one is found at depth 2.
#[test]
fn the_interrupt_comes_in_each_boot() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, u32>) {
        assert!(get(&nv, 4) < 2, "interrupted in two boots");
        world.interrupted(
            || put(&nv, 4, get(&nv, 4) + 1),
            || (0..3).for_each(|i| put(&nv, 8, i)),
        );
    }
    let two = || {
        explore(Mapped::<InOrder32>::new(64), program)
            .depth(2)
            .preempt()
    };
    let f = two().try_run().expect_err("two boots");
    assert_eq!(f.cuts(), 2, "{f}");
}

#[test]
fn sections_have_no_point_but_their_end() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, u32>) {
        (0..6).for_each(|i| put(&nv, 4 * i, 0));
        let body = || {
            put(&nv, 0, 1);
            masked(|| {
                put(&nv, 4, 1);
                masked(|| put(&nv, 8, 1));
                put(&nv, 12, 1);
            });
            put(&nv, 16, 1);
        };
        world.interrupted(
            || {
                let inside = [4, 8, 12].map(|at| get(&nv, at));
                assert!(inside == [0; 3] || inside == [1; 3], "inside of a section");
                // The interrupt itself is not interrupted.
                put(&nv, 20, 1);
            },
            body,
        );
        assert_eq!(get(&nv, 20), 1, "it comes in each boot");
    }
    let s = explore(Mapped::<InOrder32>::new(64), program)
        .preempt()
        .run();
    println!("{s}");
    // Before the first and the last store, and at the end of the section.
    assert!(s.partial || s.points == 3, "{s}");
    // Without `preempt`, it comes after the body.
    let s = explore(Mapped::<InOrder32>::new(64), program).run();
    assert_eq!(s.points, 0);
}

#[test]
fn a_campaign_without_a_point_fails() {
    let f = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<u32>| {
        put(&nv, 0, 1)
    })
    .preempt()
    .try_run()
    .expect_err("nothing to interrupt");
    assert!(f.report().contains("nothing to interrupt"), "{f}");
}
