//! The log under power cuts.

use crate::crash::logged::{HalfPages, LargeUnits, State, life};
use crate::crash::support::{PROGRAM, Promise};
use checkpoint::{Log, Store};
use nvmem::device::Medium;
use nvmem::ram::{RamFram, RamNor};
use nvmem::{Buffered32, InOrder16, InOrder32, Model};
use powerfail::{EveryEvents, Explore, Mapped, Media, Mram16, Simulated, SpiFram, endure, explore};

fn run<M: Media>(e: Explore<M, Promise>, least: u64) {
    let s = e.max_depth(3).run();
    println!("{s}");
    assert!(s.partial || s.cuts > least, "{s}");
}

fn mapped<M: Model>() {
    for fill in [0x00, 0xFF] {
        let blank = Mapped::<M>::with_image(vec![fill; 1024]);
        run(
            explore(blank, |nv, w| life::<_, 32>(nv, w, 4)).depth(2),
            100,
        );
    }
}

#[test]
fn log_in_order_16() {
    mapped::<InOrder16>();
}

#[test]
fn log_in_order_32() {
    mapped::<InOrder32>();
}

/// Any subset of the writes may have persisted, so the states of each cut are sampled.
#[test]
fn log_buffered_32() {
    let blank = || Mapped::<Buffered32>::new(1024);
    run(explore(blank(), |nv, w| life::<_, 32>(nv, w, 4)), 100);
    let e = explore(blank(), |nv, w| life::<_, 32>(nv, w, 2));
    run(e.depth(2).limit(4), 100);
}

#[test]
fn log_serial_fram() {
    let blank = Simulated::<SpiFram>::new(1024);
    run(
        explore(blank, |nv, w| life::<_, 32>(nv, w, 3)).depth(2),
        100,
    );
}

#[test]
fn log_mram() {
    let blank = Simulated::<Mram16>::new(1024);
    run(
        explore(blank, |nv, w| life::<_, 32>(nv, w, 4)).depth(2),
        100,
    );
}

#[test]
fn log_half_pages() {
    let blank = Simulated::<HalfPages>::new(8 * 256 + 10 * 256);
    run(
        explore(blank, |nv, w| life::<_, 128>(nv, w, 4)).depth(2),
        1000,
    );
}

#[test]
fn log_large_units() {
    let blank = Simulated::<LargeUnits>::new(4 * 1024 + 4 * 1024);
    run(
        explore(blank, |nv, w| life::<_, 64>(nv, w, 3)).depth(2),
        1000,
    );
}

/// Checkpoints that were taken before.
const TAKEN: u32 = if cfg!(miri) { 7 } else { 49 };

/// The number of each record, and the offset for another one.
fn records(bytes: &mut [u8]) -> impl Iterator<Item = (u32, &mut [u8])> {
    let records = bytes.chunks_mut(128).filter(|b| b.starts_with(b"RLL2"));
    records.map(|r| (u32::from_le_bytes(r[4..8].try_into().expect("4 bytes")), r))
}

/// A medium that many boots have filled; the first record has this number.
fn used<D: Medium<Error: std::fmt::Debug>, const CELL: usize>(
    mut d: D,
    bytes: fn(&mut D) -> &mut [u8],
    first: u32,
) -> Vec<u8> {
    let mut last = 0;
    for boot in 0..if cfg!(miri) { 4 } else { 25 } {
        let all = 0..d.capacity();
        let mut log = Log::<_, 5, 40, CELL>::open(&mut d, all, PROGRAM).expect("sound");
        log.load(&mut State::garbage().memory(0)).ok();
        for _ in 0..1 + boot % 3 {
            last += 1;
            log.save(&State::of(last).memory(last), last).expect("room");
        }
        for (_, r) in records(bytes(&mut d)).filter(|_| boot == 0) {
            r[4..8].copy_from_slice(&first.to_le_bytes());
            r[8..12].copy_from_slice(&first.to_le_bytes());
            let end = 48 + usize::from(r[44]).next_multiple_of(4);
            let crc = nvmem::crc::crc32(&r[..end]);
            r[end..end + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
    assert_eq!(last, TAKEN);
    bytes(&mut d).to_vec()
}

/// The same, where record numbers wrap with the second or third new record.
fn worn<D: Medium<Error: std::fmt::Debug>, const CELL: usize>(
    blank: fn() -> D,
    bytes: fn(&mut D) -> &mut [u8],
) -> (Vec<u8>, Promise) {
    let mut image = used::<D, CELL>(blank(), bytes, 1);
    let taken = records(&mut image).map(|(n, _)| n).max().expect("records");
    let image = used::<D, CELL>(blank(), bytes, u32::MAX - taken - 1);
    let promise = Promise {
        seen: TAKEN,
        tried: TAKEN,
        boots: 0,
    };
    (image, promise)
}

/// Cells are moved, and places become free that were used at the boot before.
#[test]
fn log_numbers_wrap_in_order_32() {
    let (image, p) = worn::<_, 32>(|| RamFram::<1024>::filled(0), |d| d.bytes_mut());
    let blank = Mapped::<InOrder32>::with_image(image);
    let e = explore(blank, |nv, w| life::<_, 32>(nv, w, TAKEN + 4)).world(p);
    run(e.depth(2), 1000);
}

#[test]
fn log_numbers_wrap_half_pages() {
    let (image, p) = worn::<_, 128>(RamNor::<18, 256, 128, 0x00>::new, |d| d.bytes_mut());
    let blank = Simulated::<HalfPages>::with_image(image);
    let e = explore(blank, |nv, w| life::<_, 128>(nv, w, TAKEN + 3)).world(p);
    run(e.depth(2), 1000);
}

/// Thousands of checkpoints and cuts: the used space stays the same, and no unit wears out.
#[test]
fn log_a_life() {
    for (name, every) in [("some checkpoints a boot", 37), ("hardly one", 11)] {
        let flash = Simulated::<HalfPages>::new(8 * 256 + 10 * 256).endurance(4000);
        let s = endure(
            flash,
            EveryEvents(every),
            |nv, w| life::<_, 128>(nv, w, w.get().seen + 30),
            |p| p.seen,
        )
        .name(name)
        .boots(2000)
        .depth(1)
        .run();
        println!("{s}");
    }
}
