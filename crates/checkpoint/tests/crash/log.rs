//! The log under power cuts: a program whose memory says which checkpoint it is of, in cells of their own.

use crate::support::{PROGRAM, Promise, flash};
use checkpoint::{Error, Log, Memory, Store};
use nvmem::device::{Contract, Medium};
use nvmem::{Buffered32, InOrder16, InOrder32, Model};
use powerfail::{
    Chip, EveryEvents, Explore, Mapped, Media, Mram16, Simulated, SpiFram, World, endure, explore,
};

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

/// Checkpoints up to the `last` one.
fn life<D: Medium, const CELL: usize>(nv: D, world: &World<'_, Promise>, last: u32) {
    let all = 0..nv.capacity();
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
    Promise::found(world, n);
    for n in n + 1..=last {
        // Each attempt is another one.
        let context = n | world.with(|p| p.boots) << 16;
        state = State::of(context);
        Promise::taken(world, n, || {
            let taken = log.save(&state.memory(n), context);
            taken.expect("nothing but power cuts");
        });
    }
}

fn run<M: Media>(e: Explore<M, Promise>, least: u64) {
    let s = e.deepest(3).run();
    println!("{s}");
    assert!(s.part || s.cuts > least, "{s}");
}

fn mapped<M: Model>(depth: u32) {
    for fill in [0x00, 0xFF] {
        let blank = Mapped::<M>::with_image(vec![fill; 1024]);
        run(
            explore(blank, |nv, w| life::<_, 32>(nv, w, 4)).depth(depth),
            100,
        );
    }
}

#[test]
fn log_in_order_16() {
    mapped::<InOrder16>(2);
}

#[test]
fn log_in_order_32() {
    mapped::<InOrder32>(2);
}

#[test]
fn log_buffered_32() {
    mapped::<Buffered32>(1);
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
