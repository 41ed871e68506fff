//! Start-up, the timer, and the end.

use core::arch::{asm, global_asm, naked_asm};
use relume_suite::{abi, machine};

unsafe extern "C" {
    fn image() -> !;
    fn vectors();
}

// The first instruction, then RAM, as a program finds it. The vectors: one entry for exceptions,
// then one for each interrupt; 3 is the software's, 7 the timer's. A trap keeps the registers that
// a call may change.
global_asm!(
    ".section .start,\"ax\",@progbits
    .global reset
    reset:
        csrw mie, zero
        la sp, _stack_top
        la t0, _data
        la t1, _data_end
        la t2, _data_load
    1:  bgeu t0, t1, 2f
        lw t3, 0(t2)
        sw t3, 0(t0)
        addi t0, t0, 4
        addi t2, t2, 4
        j 1b
    2:  la t0, _bss
        la t1, _bss_end
    3:  bgeu t0, t1, 4f
        sw zero, 0(t0)
        addi t0, t0, 4
        j 3b
    4:  call start
        unimp

    .section .text.trap,\"ax\",@progbits
    .option push
    .option norvc
    .balign 64
    .global vectors
    vectors:
        j trap
        j trap
        j trap
        j relume_software
        j trap
        j trap
        j trap
        j trap
        j trap
        j trap
        j trap
        j trap
    .option pop
    trap:
        addi sp, sp, -64
        sw ra, 0(sp)
        sw t0, 4(sp)
        sw t1, 8(sp)
        sw t2, 12(sp)
        sw t3, 16(sp)
        sw t4, 20(sp)
        sw t5, 24(sp)
        sw t6, 28(sp)
        sw a0, 32(sp)
        sw a1, 36(sp)
        sw a2, 40(sp)
        sw a3, 44(sp)
        sw a4, 48(sp)
        sw a5, 52(sp)
        sw a6, 56(sp)
        sw a7, 60(sp)
        call trapped
        lw ra, 0(sp)
        lw t0, 4(sp)
        lw t1, 8(sp)
        lw t2, 12(sp)
        lw t3, 16(sp)
        lw t4, 20(sp)
        lw t5, 24(sp)
        lw t6, 28(sp)
        lw a0, 32(sp)
        lw a1, 36(sp)
        lw a2, 40(sp)
        lw a3, 44(sp)
        lw a4, 48(sp)
        lw a5, 52(sp)
        lw a6, 56(sp)
        lw a7, 60(sp)
        addi sp, sp, 64
        mret
    .section .text",
);

/// The timer of QEMU's CLINT, 10 MHz.
const MTIMECMP: *mut u32 = 0x0200_4000 as *mut u32;
const MTIME: *mut u32 = 0x0200_BFF8 as *mut u32;
/// The timer's interrupt, as the core numbers causes.
const TIMER: u32 = 0x8000_0007;

/// In mtvec: each interrupt has an entry of its own.
const VECTORED: usize = 1;

/// The next interrupt; an instruction takes a nanosecond under QEMU's icount.
fn arm(period: u16) {
    // SAFETY: the CLINT, which nothing else uses. A run does not last until the counter's lower
    // half overflows.
    unsafe {
        let now = MTIME.read_volatile();
        MTIMECMP.add(1).write_volatile(0);
        MTIMECMP.write_volatile(now.wrapping_add(u32::from(period) / 100 + 1));
    }
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    // SAFETY: the vectors are aligned, and what they lead to keeps all registers.
    unsafe { asm!("csrw mtvec, {0}", in(reg) vectors as *const () as usize | VECTORED) };
    if let Some(period) = machine::timer() {
        arm(period);
        // SAFETY: what the timer does touches nothing of the program's but the stack.
        unsafe { asm!("csrw mie, {0}", "csrsi mstatus, 8", in(reg) 1 << 7) };
    }
    // SAFETY: the image's, called once.
    unsafe { image() }
}

/// Zeroes the stack and all registers, and starts over.
///
/// # Safety
/// Nothing on the stack is used any more.
#[unsafe(naked)]
pub unsafe extern "C" fn clean(run: extern "C" fn() -> !) -> ! {
    naked_asm!(
        "la t0, _stack_clean",
        "la sp, _stack_top",
        "1: bgeu t0, sp, 2f",
        "sw zero, 0(t0)",
        "addi t0, t0, 4",
        "j 1b",
        "2: li ra, 0",
        "li s0, 0",
        "li s1, 0",
        "li s2, 0",
        "li s3, 0",
        "li s4, 0",
        "li s5, 0",
        "li s6, 0",
        "li s7, 0",
        "li s8, 0",
        "li s9, 0",
        "li s10, 0",
        "li s11, 0",
        "li t0, 0",
        "li t1, 0",
        "li t2, 0",
        "li t3, 0",
        "li t4, 0",
        "li t5, 0",
        "li t6, 0",
        "li a1, 0",
        "li a2, 0",
        "li a3, 0",
        "li a4, 0",
        "li a5, 0",
        "li a6, 0",
        "li a7, 0",
        "csrw mepc, zero",
        "jr a0",
    )
}

#[unsafe(no_mangle)]
extern "C" fn trapped() {
    let cause: u32;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {0}, mcause", out(reg) cause) };
    match machine::timer() {
        Some(period) if cause == TIMER => {
            arm(period);
            machine::tick();
        }
        _ => machine::end(abi::FAULT),
    }
}

/// Ends the program: the test device of the machine.
#[unsafe(no_mangle)]
#[inline(never)]
extern "Rust" fn relume_stop() -> ! {
    // SAFETY: interrupts are off, and the test device ends the machine.
    unsafe {
        asm!("csrci mstatus, 8");
        (0x0010_0000 as *mut u32).write_volatile(0x5555);
    }
    loop {}
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    machine::panicked(info)
}

struct NoInterrupts;
critical_section::set_impl!(NoInterrupts);

// SAFETY: one core; nothing interrupts while they are off.
unsafe impl critical_section::Impl for NoInterrupts {
    unsafe fn acquire() -> bool {
        let before: usize;
        // SAFETY: reads and clears the interrupt enable.
        unsafe { asm!("csrrci {0}, mstatus, 8", out(reg) before) };
        before & 8 != 0
    }
    unsafe fn release(enabled: bool) {
        if enabled {
            // SAFETY: they were on before.
            unsafe { asm!("csrsi mstatus, 8") }
        }
    }
}
