//! Threads of a Cortex-M4: the process stack, and the switch.

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

/// The stack pointer of the thread that does not run. Below it are its registers from r4 on.
static OTHER: Shared<u32> = Shared(UnsafeCell::new(0));
/// What the switch makes of r4: 0, unless a planted bug wants it lost.
static LOST: Shared<u32> = Shared(UnsafeCell::new(0));

/// How often each thread asks for a switch before it does anything else.
const FIRST: u32 = 10;

const WORDS: usize = 512;
#[repr(align(8))]
struct Stack(#[allow(dead_code)] [u32; WORDS]);
/// The second thread's stack, and that of the handlers.
static SECOND: Shared<Stack> = Shared(UnsafeCell::new(Stack([0; WORDS])));
static HANDLERS: Shared<Stack> = Shared(UnsafeCell::new(Stack([0; WORDS])));

const ICSR: *mut u32 = 0xE000_ED04 as *mut u32;
const PENDSVSET: u32 = 1 << 28;
/// Priorities of SysTick and PendSV: the switch is the least urgent of all.
const SHPR3: *mut u32 = 0xE000_ED20 as *mut u32;
const PRIORITIES: u32 = 0x80 << 24 | 0xFF << 16;
/// To a thread on the process stack, without registers of the FPU.
const TO_THREAD: u32 = 0xFFFF_FFFD;
const THUMB: u32 = 1 << 24;

/// The handler of PendSV: changes threads.
///
/// # Safety
/// Only the core calls it, and only while `run` runs.
#[unsafe(naked)]
pub unsafe extern "C" fn pendsv() {
    naked_asm!(
        ".fpu fpv4-sp-d16",
        "mrs r0, psp",
        "tst lr, #0x10",
        "bne 1f",
        "vstmdb r0!, {{s16-s31}}",
        "1: stmdb r0!, {{r4-r11, lr}}",
        "ldr r1, 3f",
        "ldr r2, [r1]",
        "str r0, [r1]",
        "ldr r3, 4f",
        "ldr r3, [r3]",
        "ldmia r2!, {{r4-r11, lr}}",
        "eor r4, r4, r3",
        "tst lr, #0x10",
        "bne 2f",
        "vldmia r2!, {{s16-s31}}",
        "2: msr psp, r2",
        "bx lr",
        ".balign 4",
        "3: .word {other}",
        "4: .word {lost}",
        other = sym OTHER,
        lost = sym LOST,
    )
}

/// Asks for a switch, which comes at once unless a handler runs.
extern "C" fn ask() {
    // SAFETY: a register of the core. What follows the store may be another thread.
    unsafe {
        ICSR.write_volatile(PENDSVSET);
        asm!("dsb", "isb");
    }
}

fn on_tick() {
    ask()
}

/// Waits for the other thread. The time until the switch differs from call to call, so that the
/// timer also comes in the middle of one.
pub(super) fn wait(turns: &mut u32) {
    *turns = (*turns + 7) % 32;
    for _ in 0..*turns {
        // SAFETY: it does nothing.
        unsafe { asm!("nop") }
    }
    ask()
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
    // SAFETY: there is no second thread yet, and no switch. The frame is what the switch and the
    // core take from the stack of a thread.
    unsafe {
        let top = SECOND.0.get().cast::<u32>().add(WORDS);
        let frame = top.sub(17);
        frame.write_bytes(0, 17);
        frame.add(8).write(TO_THREAD);
        frame.add(9).write(&raw const life as usize as u32);
        frame.add(15).write(second as *const () as usize as u32);
        frame.add(16).write(THUMB);
        OTHER.0.get().write_volatile(frame as usize as u32);
        LOST.0.get().write_volatile(lost);
        SHPR3.write_volatile(PRIORITIES);
        // This thread goes on where it is, as a thread of the process stack.
        asm!(
            "mrs {t}, msp",
            "msr psp, {t}",
            "movs {t}, #2",
            "msr control, {t}",
            "isb",
            "msr msp, {handlers}",
            t = out(reg) _,
            handlers = in(reg) HANDLERS.0.get().cast::<u32>().add(WORDS),
        );
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
