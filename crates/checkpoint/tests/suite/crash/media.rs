//! Every cut on each kind of medium.

use crate::crash::support::{OneUnit, Promise, SmallUnits, life};
use crate::turns::in_turn;
use checkpoint::{Full, Split};
use nvmem::{Buffered32, InOrder16, InOrder32, Model};
use powerfail::{
    Explore, Mapped, Media, Mram16, Simulated, SpiFram, SpiNor, Stm32f0, Stm32l1HalfPage, World,
    explore,
};

fn run<M: Media>(e: Explore<M, Promise>, depth: u32, least: u64) {
    let s = e.depth(depth).max_depth(3).run();
    println!("{s}");
    assert!(s.partial || s.cuts > least, "{s}");
}

fn mapped<M: Model>(depth: impl Fn(u64) -> u32) {
    for (i, fill) in [(0, 0x00), (2, 0xFF)] {
        let blank = || Mapped::<M>::with_image(vec![fill; 192]);
        let e = explore(blank(), |nv, w| life::<_, _, 2>(nv, w, &Split, 3));
        run(e, depth(i), 50);
        let e = explore(blank(), |nv, w| life::<_, _, 2>(nv, w, &Full, 3));
        run(e, depth(i + 1), 50);
    }
}

#[test]
fn in_order_16() {
    mapped::<InOrder16>(|_| 2);
}

#[test]
fn in_order_32() {
    mapped::<InOrder32>(|_| 2);
}

/// Any subset of the writes may have persisted: one of the four is cut twice in each run.
#[test]
fn buffered_32() {
    mapped::<Buffered32>(|i| in_turn(i, 4));
}

#[test]
fn serial_fram() {
    let blank = || Simulated::<SpiFram>::new(192);
    run(
        explore(blank(), |nv, w| life::<_, _, 2>(nv, w, &Split, 3)),
        2,
        1000,
    );
}

#[test]
fn mram() {
    let blank = || Simulated::<Mram16>::new(192);
    run(
        explore(blank(), |nv, w| life::<_, _, 2>(nv, w, &Split, 3)),
        2,
        100,
    );
}

#[test]
fn flash_several_units() {
    let blank = || Simulated::<SmallUnits>::new(4 * 128);
    run(
        explore(blank(), |nv, w| life::<_, _, 3>(nv, w, &Split, 3)),
        in_turn(0, 2),
        100,
    );
    run(
        explore(blank(), |nv, w| life::<_, _, 4>(nv, w, &Split, 3)),
        in_turn(1, 2),
        100,
    );
}

#[test]
fn flash_one_unit() {
    let blank = || Simulated::<OneUnit>::new(3 * 128);
    run(
        explore(blank(), |nv, w| life::<_, _, 3>(nv, w, &Split, 4)),
        2,
        1000,
    );
}

#[test]
fn flash_half_pages() {
    let blank = || Simulated::<Stm32l1HalfPage>::new(3 * 512);
    run(
        explore(blank(), |nv, w| life::<_, _, 3>(nv, w, &Split, 3)),
        2,
        1000,
    );
}

/// Small words: each is a cut of its own.
#[test]
fn flash_words() {
    let blank = || Simulated::<Stm32f0>::new(3 * 2048);
    run(
        explore(blank(), |nv, w| life::<_, _, 3>(nv, w, &Split, 2)),
        1,
        100,
    );
}

#[test]
fn flash_bytes() {
    let blank = || Simulated::<SpiNor>::new(3 * 4096);
    run(
        explore(blank(), |nv, w: &World<'_, Promise>| {
            life::<_, _, 3>(nv, w, &Split, 2)
        }),
        1,
        100,
    );
}
