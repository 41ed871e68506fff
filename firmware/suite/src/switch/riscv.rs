//! Threads of an RV32IMC core: the switch is the handler of the software interrupt.
//!
//! ```text
//!  timer's handler -> msip = 1; mret -> software interrupt: registers, mepc and mstatus to the
//! stack
//!                                        |  only the timer is enabled: it may come here
//!                                        |  the other thread's stack
//!                                       mret
//! ```

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
static OTHER: Shared<u32> = Shared(UnsafeCell::new(0));
/// What the switch makes of s0: 0, unless a planted bug wants it lost.
static LOST: Shared<u32> = Shared(UnsafeCell::new(0));

/// How often each thread asks for a switch before it does anything else.
const FIRST: u32 = 10;

const WORDS: usize = 768;
#[repr(align(16))]
struct Stack(#[allow(dead_code)] [u32; WORDS]);
static SECOND: Shared<Stack> = Shared(UnsafeCell::new(Stack([0; WORDS])));

/// The software interrupt of hart 0, in the CLINT.
const MSIP: *mut u32 = 0x0200_0000 as *mut u32;
/// Its bit in mie. That of the timer is start-up's.
const MSIE: u32 = 1 << 3;
/// In mstatus: enabled; enabled before, and in machine mode.
const MIE: u32 = 1 << 3;
const BEFORE: u32 = 3 << 11 | 1 << 7;

/// Words of what the switch keeps, and where in it a0, mepc and mstatus are.
const FRAME: usize = 32;
const A0: usize = 4;
const MEPC: usize = 28;
const MSTATUS: usize = 29;

/// The handler of the software interrupt: changes threads.
///
/// # Safety
/// Only the core calls it, and only while `run` runs.
#[unsafe(naked)]
pub unsafe extern "C" fn software() {
    naked_asm!(
        "addi sp, sp, -128",
        "sw ra, 0(sp)",
        "sw t0, 4(sp)",
        "sw t1, 8(sp)",
        "sw t2, 12(sp)",
        "sw a0, 16(sp)",
        "sw a1, 20(sp)",
        "sw a2, 24(sp)",
        "sw a3, 28(sp)",
        "sw a4, 32(sp)",
        "sw a5, 36(sp)",
        "sw a6, 40(sp)",
        "sw a7, 44(sp)",
        "sw t3, 48(sp)",
        "sw t4, 52(sp)",
        "sw t5, 56(sp)",
        "sw t6, 60(sp)",
        "sw s0, 64(sp)",
        "sw s1, 68(sp)",
        "sw s2, 72(sp)",
        "sw s3, 76(sp)",
        "sw s4, 80(sp)",
        "sw s5, 84(sp)",
        "sw s6, 88(sp)",
        "sw s7, 92(sp)",
        "sw s8, 96(sp)",
        "sw s9, 100(sp)",
        "sw s10, 104(sp)",
        "sw s11, 108(sp)",
        "csrr t0, mepc",
        "sw t0, 112(sp)",
        "csrr t0, mstatus",
        "sw t0, 116(sp)",
        // From here on the timer's interrupt may come, and nothing else.
        "csrci mie, 8",
        "csrsi mstatus, 8",
        "lui t0, 0x2000",
        "sw zero, 0(t0)",
        "la t0, {other}",
        "lw t1, 0(t0)",
        "sw sp, 0(t0)",
        "mv sp, t1",
        "csrci mstatus, 8",
        "csrsi mie, 8",
        "lw t0, 112(sp)",
        "csrw mepc, t0",
        "lw t0, 116(sp)",
        "csrw mstatus, t0",
        "la t0, {lost}",
        "lw t0, 0(t0)",
        "lw s0, 64(sp)",
        "xor s0, s0, t0",
        "lw ra, 0(sp)",
        "lw t0, 4(sp)",
        "lw t1, 8(sp)",
        "lw t2, 12(sp)",
        "lw a0, 16(sp)",
        "lw a1, 20(sp)",
        "lw a2, 24(sp)",
        "lw a3, 28(sp)",
        "lw a4, 32(sp)",
        "lw a5, 36(sp)",
        "lw a6, 40(sp)",
        "lw a7, 44(sp)",
        "lw t3, 48(sp)",
        "lw t4, 52(sp)",
        "lw t5, 56(sp)",
        "lw t6, 60(sp)",
        "lw s1, 68(sp)",
        "lw s2, 72(sp)",
        "lw s3, 76(sp)",
        "lw s4, 80(sp)",
        "lw s5, 84(sp)",
        "lw s6, 88(sp)",
        "lw s7, 92(sp)",
        "lw s8, 96(sp)",
        "lw s9, 100(sp)",
        "lw s10, 104(sp)",
        "lw s11, 108(sp)",
        "addi sp, sp, 128",
        "mret",
        other = sym OTHER,
        lost = sym LOST,
    )
}

/// Asks for a switch, which comes when interrupts are enabled.
fn on_tick() {
    // SAFETY: a register of the CLINT.
    unsafe { MSIP.write_volatile(1) }
}

/// Waits for the other thread. The time until the switch differs from call to call, so that the
/// timer also comes in the middle of one.
pub(super) fn wait(turns: &mut u32) {
    *turns = (*turns + 7) % 32;
    for _ in 0..*turns {
        // SAFETY: it does nothing.
        unsafe { asm!("nop") }
    }
    // SAFETY: a register of the CLINT. The core waits for the interrupt with interrupts masked, and
    // goes on at once when it is pending; it is taken where they are enabled again. What follows
    // may
    // be another thread.
    unsafe {
        asm!("csrci mstatus, 8");
        MSIP.write_volatile(1);
        asm!("wfi", "csrsi mstatus, 8");
    }
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
    let lost = u32::from(scene.argument() == REGISTER_LOST);
    machine::on_tick(on_tick);
    // SAFETY: there is no second thread yet, and no switch. The frame is what the switch takes from
    // the stack of a thread.
    unsafe {
        let frame = SECOND.0.get().cast::<u32>().add(WORDS - FRAME);
        frame.write_bytes(0, FRAME);
        frame.add(A0).write(&raw const life as usize as u32);
        frame.add(MEPC).write(second as *const () as usize as u32);
        frame.add(MSTATUS).write(BEFORE);
        OTHER.0.get().write_volatile(frame as usize as u32);
        LOST.0.get().write_volatile(lost);
        asm!("csrs mie, {0}", "csrs mstatus, {1}", in(reg) MSIE, in(reg) MIE);
    }
    scene.write_cell(cell::OPEN - cell::OWN, 1);
    let mut turns = 0;
    (0..FIRST).for_each(|_| wait(&mut turns));
    first();
    while !ended.get() {
        wait(&mut turns);
    }
    scene.write_cell(cell::OPEN - cell::OWN, 0);
}
