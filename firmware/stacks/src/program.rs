//! The program, the same on each machine.

use crate::machine::{self, Core, Fram, Masked, STACK, Stack};
use core::hint::black_box;
use nv_rtos::nvmem::Region;
use nv_rtos::pmem_tx::Section;
use nv_rtos::{Error, StackOverflow, Thread};

/// The cells: 16 bits each, which survive.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Cell {
    /// What the host asks for: 0, or a way to overflow; 16 more for the second thread.
    Asked,
    /// One more than the number of the thread that was named.
    Named,
    /// 1: both threads have ended as they should.
    Ended,
    /// 1: memory below the stacks has changed.
    Hurt,
    /// A fault or a panic that is no overflow: its line, or 1.
    Failed,
    /// The bytes that each thread has not used of its stack.
    Unused,
    /// See [`Cell::Unused`].
    UnusedToo,
}

/// Ways to overflow a stack.
const FUNCTIONS: u16 = 1;
const MASKED: u16 = 2;
const FRAME: u16 = 3;
const RECORD: u16 = 4;
const SECOND: u16 = 16;

nv_rtos::system! {
    /// The second thread waits for the first one, which waits for it.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: 8 }
    objects {
        LETTERS: Queue<u32, 4>;
        DONE: Semaphore = (0, 3);
    }
    threads {
        first(u32 = 0): 1;
        second(u32 = 0): 2;
    }
}

/// The stacks, and what an overflow reaches that jumps over the first one's guard.
#[repr(C)]
pub struct Stacks {
    below: [u8; BELOW],
    pub stacks: [Stack<STACK>; 2],
}
const BELOW: usize = 512;

impl Stacks {
    pub const NEW: Self = Stacks {
        below: [0; BELOW],
        stacks: [const { Stack::NEW }; 2],
    };
}

/// Runs the program to its end.
pub fn run(fram: Region<'_, Fram>, stacks: &'static mut Stacks) {
    let Ok((kernel, mut threads)) = Plan::open(fram) else {
        machine::fail(line!());
    };
    let Ok((places, _)) = threads.share() else {
        machine::fail(line!());
    };
    let mut port = machine::guarded(Core::new(&mut stacks.stacks));
    Plan::spawn(&kernel, places, &mut port, first, second);
    let ran = port.run(&kernel, None);
    let ended = |thread| matches!(kernel.ended(thread), Some(Ok(())));
    machine::write(Cell::Ended, (ran && ended(0) && ended(1)).into());
}

/// What a guard's function or a fault's handler calls: notes the thread for the next boot.
pub fn named(overflow: StackOverflow) -> ! {
    machine::write(Cell::Named, overflow.thread as u16 + 1);
    let below = machine::stacks().cast::<u8>();
    // SAFETY: a byte of the static, which no thread uses any more.
    let byte = |i| unsafe { below.wrapping_add(i).read_volatile() };
    let hurt = (0..BELOW).any(|i| byte(i) != 0);
    machine::write(Cell::Hurt, hurt.into());
    machine::end()
}

fn first(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, n, ()| {
        *n.get_mut(sys)? += 1;
        LETTERS.send(sys, 5)
    })?;
    let read = th.record_with(|| overflow_in_record(0))?;
    th.step((), |sys, n, ()| {
        *n.get_mut(sys)? += overflow(0);
        DONE.give(sys)
    })?;
    let n = th.step((), |sys, n, ()| Ok(*n.get(sys)))?;
    finish(th, read == 0 && n == 1, Cell::Unused)
}

fn second(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, n, ()| {
        *n.get_mut(sys)? = LETTERS.receive(sys)?;
        Ok(())
    })?;
    let read = th.record_with(|| overflow_in_record(1))?;
    let n = th.step((), |sys, n, ()| {
        *n.get_mut(sys)? += overflow(1);
        DONE.take(sys)?;
        Ok(*n.get(sys))
    })?;
    finish(th, read == 0 && n == 5, Cell::UnusedToo)
}

/// What a thread does last: only what it has committed counts.
fn finish(th: &mut Thread<Plan, u32>, well: bool, cell: Cell) -> Result<(), Error> {
    if !well {
        machine::fail(line!());
    }
    let unused = th.unused_stack();
    machine::write(cell, unused.map_or(0, |bytes| bytes as u16));
    Ok(())
}

/// The way in which the host asks this thread to overflow its stack, if no boot has named it yet.
fn asked(thread: u16) -> Option<u16> {
    let asked = machine::read(Cell::Asked);
    let is_it = machine::read(Cell::Named) == 0 && asked / SECOND == thread;
    is_it.then_some(asked % SECOND)
}

/// The low end of a thread's stack.
fn low_end(thread: u16) -> usize {
    let stacks = machine::stacks() as usize + core::mem::offset_of!(Stacks, stacks);
    stacks + usize::from(thread) * size_of::<Stack<STACK>>()
}

/// An input that overflows the stack of this thread, if the host asks for it; not 0 then. A record
/// of that must not stay.
fn overflow_in_record(thread: u16) -> u32 {
    match asked(thread) {
        Some(RECORD) => descend(low_end(thread) - 32, false),
        _ => 0,
    }
}

/// Overflows the stack of this thread in a step, if the host asks for it. Otherwise 0.
fn overflow(thread: u16) -> u32 {
    let low = low_end(thread);
    match asked(thread).unwrap_or(0) {
        FUNCTIONS => descend(low - 32, false),
        MASKED => Masked::with(|| descend(low - 32, false)),
        FRAME => descend(low + 128, true),
        _ => 0,
    }
}

/// Calls itself until its frames pass this address; with `wide`, a function with a frame of 256
/// bytes at each depth, too, so that this is what overflows.
#[inline(never)]
fn descend(to: usize, wide: bool) -> u32 {
    let mut frame = [0x55_u8; 32];
    let at = black_box(&mut frame).as_ptr() as usize;
    if wide {
        a_frame();
    }
    if at > to {
        descend(to, wide);
    }
    u32::from(black_box(&frame)[7])
}

#[inline(never)]
fn a_frame() {
    let mut frame = [0x33_u8; 256];
    black_box(&mut frame);
}
