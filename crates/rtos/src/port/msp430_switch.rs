//! The switch of MSP430 and the timer's handler, all of the port's assembly that is more than a few
//! instructions.

use crate::port::bare::{SWITCH, tick};
use core::arch::naked_asm;

/// The handler of Timer0_A's other interrupts, TA0_A1: the registers of the thread that runs go to
/// its stack, those of the next one come from there. No interrupt comes in its middle. Stores
/// nothing that is persistent.
///
/// # Safety
/// Only the core calls it, by its vector.
#[unsafe(naked)]
#[rustfmt::skip]
pub unsafe extern "C" fn ta0_a1() {
    naked_asm!(
        "push r4", "push r5", "push r6", "push r7", "push r8", "push r9",
        "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
        "bic #1, &0x0344", // TA0CCTL1: this switch is taken
        "mov &{switch}, r12", // runs
        "mov r1, 0(r12)",
        "mov &{switch}+2, r12", // next
        "mov r12, &{switch}",
        "mov @r12, r1",
        "bic #0xf0, 24(r1)", // its SR: it does not sleep any more
        "pop r15", "pop r14", "pop r13", "pop r12", "pop r11", "pop r10",
        "pop r9", "pop r8", "pop r7", "pop r6", "pop r5", "pop r4",
        "reti",
        switch = sym SWITCH,
    );
}

/// The handler of TA0CCR0, TA0_A0: keeps the registers that a call may change, and ticks.
///
/// **Power loss**: that of [`Kernel::tick`](crate::Kernel::tick).
///
/// # Safety
/// Only the core calls it, by its vector.
#[unsafe(naked)]
#[rustfmt::skip]
pub unsafe extern "C" fn ta0_a0() {
    naked_asm!(
        "push r11", "push r12", "push r13", "push r14", "push r15",
        "call #{tick}",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop r11",
        "reti",
        tick = sym tick,
    );
}
