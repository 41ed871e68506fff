//! Threads of an MSP430: the switch is a call, which leaves on the stack what an interrupt would.
//!
//! ```text
//!  a thread's stack    | PC | SR | R4 ... R15 |       RETI takes SR and PC from there
//! ```
//!
//! The timer's handler calls it, too, on the stack of the thread that it has interrupted: that one
//! goes on in the handler, and by its RETI.

use super::REGISTER_LOST;
use crate::abi::cell;
use crate::{Mapped, Scene, machine};
use core::arch::{asm, naked_asm};
use core::cell::{Cell, UnsafeCell};

/// A static that the program and its handlers share.
#[repr(transparent)]
struct Shared<T>(UnsafeCell<T>);
// SAFETY: one core. Each access is one volatile access of a word, or is made before there is a
// second thread.
unsafe impl<T> Sync for Shared<T> {}

/// The stack pointer of the thread that does not run. There are its registers.
static OTHER: Shared<u16> = Shared(UnsafeCell::new(0));
/// What the switch makes of R4: 0, unless a planted bug wants it lost.
static LOST: Shared<u16> = Shared(UnsafeCell::new(0));

/// How often each thread asks for a switch before it does anything else.
const FIRST: u32 = 10;

const WORDS: usize = 768;
static SECOND: Shared<[u16; WORDS]> = Shared(UnsafeCell::new([0; WORDS]));

/// Words of what the switch keeps, R4 last; and where in it R12, SR and PC are.
const FRAME: usize = 14;
const R12: usize = 3;
const SR: usize = 12;
const PC: usize = 13;
/// In SR: interrupts are enabled.
const GIE: u16 = 8;

/// Changes threads. It returns when the other thread, or its handler, has called it.
///
/// # Safety
/// Only while `run` runs.
#[unsafe(naked)]
unsafe extern "C" fn switch() {
    naked_asm!(
        "push r2",
        "dint",
        "nop",
        "push r4",
        "push r5",
        "push r6",
        "push r7",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov &{other}, r12",
        "mov r1, &{other}",
        "mov r12, r1",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop r7",
        "pop r6",
        "pop r5",
        "pop r4",
        "xor &{lost}, r4",
        "reti",
        other = sym OTHER,
        lost = sym LOST,
    )
}

fn on_tick() {
    // SAFETY: the timer's handler, while `run` runs.
    unsafe { switch() }
}

/// Waits for the other thread. The time until the switch differs from call to call.
pub(super) fn wait(turns: &mut u32) {
    *turns = (*turns + 7) % 32;
    for _ in 0..*turns {
        // SAFETY: it does nothing.
        unsafe { asm!("nop") }
    }
    // SAFETY: a thread, while `run` runs.
    unsafe { switch() }
}

/// Where the second thread begins.
extern "C" fn second(life: &&dyn Fn()) -> ! {
    let mut turns = 0;
    (0..FIRST).for_each(|_| wait(&mut turns));
    life();
    loop {
        wait(&mut turns)
    }
}

/// Runs both threads: the first one on the stack that there is.
pub(super) fn run<M: Mapped>(scene: &Scene<'_, M>, threads: [&dyn Fn(); 2], ended: &Cell<bool>) {
    let [first, life] = threads;
    let lost = u16::from(scene.argument() == REGISTER_LOST);
    // SAFETY: there is no second thread yet, and no switch. The frame is what the switch takes from
    // the stack of a thread.
    unsafe {
        let status: u16;
        asm!("mov r2, {0}", out(reg) status);
        let frame = SECOND.0.get().cast::<u16>().add(WORDS - FRAME);
        frame.write_bytes(0, FRAME);
        frame.add(R12).write(&raw const life as usize as u16);
        frame.add(SR).write(status & GIE);
        frame.add(PC).write(second as *const () as usize as u16);
        OTHER.0.get().write_volatile(frame as usize as u16);
        LOST.0.get().write_volatile(lost);
    }
    machine::on_tick(on_tick);
    scene.write_cell(cell::OPEN - cell::OWN, 1);
    let mut turns = 0;
    (0..FIRST).for_each(|_| wait(&mut turns));
    first();
    while !ended.get() {
        wait(&mut turns);
    }
    scene.write_cell(cell::OPEN - cell::OWN, 0);
}
