//! The log under power cuts: a program whose memory says which checkpoint it is of, in cells of their own.

use crate::counting::{Counting, counted, within};
use crate::support::{PROGRAM, Promise, flash};
use checkpoint::{Cost, Error, Log, Memory, Most, Store, Work};
use nvmem::device::{Contract, Medium};
use nvmem::ram::{RamFram, RamNor};
use nvmem::{Buffered32, InOrder16, InOrder32, Model};
use powerfail::{
    Chip, EveryEvents, Explore, Mapped, Media, Mram16, Simulated, SpiFram, World, endure, explore,
};
use std::cell::Cell;

/// Three cells of statics and heap, one of the stack; not all of them change at each checkpoint.
struct State {
    statics: [u8; 40],
    heap: [u8; 32],
    stack: [u8; 32],
}

impl State {
    fn garbage() -> Self {
        State {
            statics: [0xA5; 40],
            heap: [0xA5; 32],
            stack: [0xA5; 32],
        }
    }

    /// `n` in its lower half; the rest tells attempts apart.
    fn of(context: u32) -> Self {
        let n = context & 0xFFFF;
        let mix =
            |x: u32, i: usize| (x.wrapping_mul(0x9E37_79B9).rotate_left(i as u32 * 5) >> 24) as u8;
        let mut s = State {
            statics: std::array::from_fn(|i| mix(context, i)),
            heap: std::array::from_fn(|i| mix(n / 2 + 1, i)),
            stack: std::array::from_fn(|i| mix(n / 3 + 77, i)),
        };
        s.statics[32..].fill(3);
        if n == 2 {
            s.heap = [0; 32];
        }
        s
    }

    fn memory(&mut self, n: u32) -> Memory<'_> {
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(30)
            .stack_from(if n.is_multiple_of(2) { 5 } else { 9 })
    }

    #[track_caller]
    fn check(&self, context: u32) {
        let of = State::of(context);
        let from = if context & 1 == 0 { 5 } else { 9 };
        assert_eq!(self.statics, of.statics, "a mixture");
        assert_eq!(self.heap[..30], of.heap[..30], "a mixture");
        assert_eq!(self.heap[30..], [0xA5; 2], "not in use");
        assert_eq!(self.stack[from..], of.stack[from..], "a mixture");
        assert_eq!(self.stack[..from], [0xA5; 9][..from], "not in use");
    }
}

/// No more than this is in use.
const MOST: Most = Most {
    statics: 40,
    heap: 32,
    heap_used: 30,
    stack: 32,
    stack_used: 27,
};

/// Checkpoints up to the `last` one; none of them, and no restore, takes more than is said.
fn life<D: Medium, const CELL: usize>(nv: D, world: &World<'_, Promise>, last: u32) {
    let cost = Cost {
        operation: D::CONTRACT.write_size,
        ..Cost::STM32F0
    };
    let work = Cell::new(Work::default());
    let checkpoint = counted(Log::<D, 5, 40, CELL>::worst_case(&MOST, &cost));
    let restore = counted(Log::<D, 5, 40, CELL>::worst_restore(&MOST, &cost));
    let all = 0..nv.capacity();
    let inner = nv;
    let nv = Counting {
        inner,
        cost,
        work: &work,
    };
    let mut log = Log::<_, 5, 40, CELL>::open(nv, all, PROGRAM).expect("nothing but power cuts");
    world.update(|p| p.boots += 1);
    let mut state = State::garbage();
    let n = match log.load(&mut state.memory(0)) {
        Ok(r) => {
            assert_eq!(r.damaged, 0, "no power cut damages a checkpoint");
            state.check(r.context);
            r.context & 0xFFFF
        }
        Err(Error::NoImage) => 0,
        Err(e) => panic!("nothing but power cuts, and {e}"),
    };
    let seen = work.take();
    assert!(within(&seen, &restore), "{seen:?}, at most {restore:?}");
    Promise::found(world, n);
    for n in n + 1..=last {
        // Each attempt is another one.
        let context = n | world.with(|p| p.boots) << 16;
        state = State::of(context);
        Promise::taken(world, n, || {
            let taken = log.save(&state.memory(n), context);
            taken.expect("nothing but power cuts");
        });
        let seen = work.take();
        assert!(
            within(&seen, &checkpoint),
            "{seen:?}, at most {checkpoint:?}"
        );
    }
}

fn run<M: Media>(e: Explore<M, Promise>, least: u64) {
    let s = e.deepest(3).run();
    println!("{s}");
    assert!(s.part || s.cuts > least, "{s}");
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

/// Any part of what was written may be there, in any order: of the states of each cut a sample.
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

/// As an STM32L1: a word is a cell, a record is a word, two fill a unit.
enum HalfPages {}
impl Chip for HalfPages {
    const CONTRACT: Contract = flash("half-pages", 128, 256, 0x00);
}

#[test]
fn log_half_pages() {
    let blank = Simulated::<HalfPages>::new(8 * 256 + 10 * 256);
    run(
        explore(blank, |nv, w| life::<_, 128>(nv, w, 4)).depth(2),
        1000,
    );
}

/// Units of several cells and records.
enum LargeUnits {}
impl Chip for LargeUnits {
    const CONTRACT: Contract = flash("large-units", 64, 1024, 0xFF);
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

/// The number of each record, and a place to write another one.
fn records(bytes: &mut [u8]) -> impl Iterator<Item = (u32, &mut [u8])> {
    let records = bytes.chunks_mut(128).filter(|b| b.starts_with(b"RLL1"));
    records.map(|r| (u32::from_le_bytes(r[4..8].try_into().expect("4 bytes")), r))
}

/// A medium that was written all over by many boots, the number of the first record being this one.
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

/// The same, and numbers wrap with the second or third record that comes now.
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

/// Cells are moved, and places are free that were not at the boot before.
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

/// Thousands of checkpoints and cuts: the space is the same all the time, and no unit is worn out.
#[test]
fn log_a_life() {
    for (name, every) in [("some checkpoints a boot", 37), ("hardly one", 11)] {
        let flash = Simulated::<HalfPages>::new(8 * 256 + 10 * 256).endurance(4000);
        let s = endure(flash, EveryEvents(every), |nv, w| {
            life::<_, 128>(nv, w, w.get().seen + 30)
        })
        .name(name)
        .boots(2000)
        .depth(1)
        .run();
        println!("{s}");
    }
}
