//! The switch of RISC-V, all of the port's assembly that is more than one instruction.

use crate::port::bare::{SWITCH, Shared};
use crate::riscv::excepted;
use core::arch::naked_asm;

/// The handler of the software interrupt: the registers of the thread that runs go to its stack,
/// those of the next one come from there. In its middle another interrupt may come, and choose
/// another next thread: then the switch is pending again. Stores nothing that is persistent.
///
/// # Safety
/// Only the core calls it, by its vectors.
#[unsafe(naked)]
#[rustfmt::skip]
pub unsafe extern "C" fn software() {
    naked_asm!(
        "addi sp, sp, -128",
        "sw ra, 0(sp)", "sw t0, 4(sp)", "sw t1, 8(sp)", "sw t2, 12(sp)",
        "sw a0, 16(sp)", "sw a1, 20(sp)", "sw a2, 24(sp)", "sw a3, 28(sp)",
        "sw a4, 32(sp)", "sw a5, 36(sp)", "sw a6, 40(sp)", "sw a7, 44(sp)",
        "sw t3, 48(sp)", "sw t4, 52(sp)", "sw t5, 56(sp)", "sw t6, 60(sp)",
        "sw s0, 64(sp)", "sw s1, 68(sp)", "sw s2, 72(sp)", "sw s3, 76(sp)",
        "sw s4, 80(sp)", "sw s5, 84(sp)", "sw s6, 88(sp)", "sw s7, 92(sp)",
        "sw s8, 96(sp)", "sw s9, 100(sp)", "sw s10, 104(sp)", "sw s11, 108(sp)",
        "csrr t0, mepc", "sw t0, 112(sp)",
        "csrr t0, mstatus", "sw t0, 116(sp)",
        "csrci mie, 8", "csrsi mstatus, 8", // all interrupts but this one
        "lui t0, 0x2000", // the CLINT: this switch is taken
        "sw zero, 0(t0)",
        "la t0, {switch}",
        "lw t1, 0(t0)", // runs
        "sw sp, 0(t1)",
        "lw t1, 4(t0)", // next
        "sw t1, 0(t0)",
        "lw sp, 0(t1)",
        "csrci mstatus, 8", "csrsi mie, 8",
        "lw t0, 112(sp)", "csrw mepc, t0",
        "lw t0, 116(sp)", "csrw mstatus, t0",
        "lw ra, 0(sp)", "lw t0, 4(sp)", "lw t1, 8(sp)", "lw t2, 12(sp)",
        "lw a0, 16(sp)", "lw a1, 20(sp)", "lw a2, 24(sp)", "lw a3, 28(sp)",
        "lw a4, 32(sp)", "lw a5, 36(sp)", "lw a6, 40(sp)", "lw a7, 44(sp)",
        "lw t3, 48(sp)", "lw t4, 52(sp)", "lw t5, 56(sp)", "lw t6, 60(sp)",
        "lw s0, 64(sp)", "lw s1, 68(sp)", "lw s2, 72(sp)", "lw s3, 76(sp)",
        "lw s4, 80(sp)", "lw s5, 84(sp)", "lw s6, 88(sp)", "lw s7, 92(sp)",
        "lw s8, 96(sp)", "lw s9, 100(sp)", "lw s10, 104(sp)", "lw s11, 108(sp)",
        "addi sp, sp, 128",
        "mret",
        switch = sym SWITCH,
    );
}

/// A register, while [`exception`] looks whose stack it may use.
static KEPT: Shared<usize> = Shared::new(0);

/// Where exceptions go on that are no overflow.
pub trait Exceptions {
    /// The program's handler of exceptions. It finds all registers as they were, but for mscratch.
    ///
    /// # Safety
    /// Only [`exception`] goes on here.
    unsafe extern "C" fn other();
}

/// The handler of exceptions, for the first entry of the vectors: a jump to it, without anything
/// before. An overflow of a thread's stack ends the run, as
/// [`Hart::on_overflow`](crate::riscv::Hart::on_overflow) says; other exceptions go on at `E`. It
/// works on the stack of `main`, and changes mscratch.
///
/// # Safety
/// Only the core goes on here, by its vectors. The program keeps nothing in mscratch.
#[unsafe(naked)]
#[rustfmt::skip]
pub unsafe extern "C" fn exception<E: Exceptions>() {
    naked_asm!(
        "csrw mscratch, t0",
        "la t0, {kept}", "sw t1, 0(t0)",
        "la t1, {switch}",
        "lw t0, 0(t1)", // runs; 0 before the first system
        "addi t1, t1, 8", // the slot of main
        "beqz t0, 1f",
        "beq t0, t1, 1f",
        "lw t0, 0(t1)", // its stack pointer
        "la t1, {kept}", "lw t1, 0(t1)",
        "addi t0, t0, -64",
        "sw sp, 0(t0)", "sw ra, 4(t0)", "sw t1, 8(t0)", "sw t2, 12(t0)",
        "sw t3, 16(t0)", "sw t4, 20(t0)", "sw t5, 24(t0)", "sw t6, 28(t0)",
        "sw a0, 32(t0)", "sw a1, 36(t0)", "sw a2, 40(t0)", "sw a3, 44(t0)",
        "sw a4, 48(t0)", "sw a5, 52(t0)", "sw a6, 56(t0)", "sw a7, 60(t0)",
        "mv sp, t0",
        "call {excepted}",
        "lw ra, 4(sp)", "lw t1, 8(sp)", "lw t2, 12(sp)",
        "lw t3, 16(sp)", "lw t4, 20(sp)", "lw t5, 24(sp)", "lw t6, 28(sp)",
        "lw a0, 32(sp)", "lw a1, 36(sp)", "lw a2, 40(sp)", "lw a3, 44(sp)",
        "lw a4, 48(sp)", "lw a5, 52(sp)", "lw a6, 56(sp)", "lw a7, 60(sp)",
        "lw sp, 0(sp)",
        "j 2f",
        "1: la t0, {kept}", "lw t1, 0(t0)",
        "2: csrr t0, mscratch",
        "j {other}",
        switch = sym SWITCH,
        kept = sym KEPT,
        excepted = sym excepted,
        other = sym E::other,
    );
}
