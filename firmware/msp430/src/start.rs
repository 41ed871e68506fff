//! Start-up, the timer, and the end.

use core::arch::{asm, global_asm, naked_asm};
use relume_suite::machine;

unsafe extern "C" {
    fn image() -> !;
}

// The watchdog's stop; then RAM, as a program finds it. The timer's interrupt keeps the registers
// that a call may change.
global_asm!(
    ".global _start
    _start:
        mov #_stack_top, r1
        mov #0x5A80, &0x015C",
    ram!(),
    "   call #start
    .global _timer
    _timer:
        push r11
        push r12
        push r13
        push r14
        push r15
        call #timer
        pop r15
        pop r14
        pop r13
        pop r12
        pop r11
        reti"
);

/// TA0CCR0, the timer's period, and its control registers.
const TA0CCR0: *mut u16 = 0x0352 as *mut u16;
const TA0CCTL0: *mut u16 = 0x0342 as *mut u16;
const TA0CTL: *mut u16 = 0x0340 as *mut u16;

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    if let Some(period) = machine::timer() {
        // SAFETY: Timer0_A, which nothing else uses: up mode from SMCLK, an interrupt a period.
        // What it does touches nothing of the program's but the stack.
        unsafe {
            TA0CCR0.write_volatile(period);
            TA0CCTL0.write_volatile(0x0010);
            TA0CTL.write_volatile(0x0214);
            asm!("eint", "nop");
        }
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
        "mov #_stack_clean, r13",
        "mov #_stack_top, r1",
        "1: cmp r1, r13",
        "jhs 2f",
        "clr 0(r13)",
        "incd r13",
        "jmp 1b",
        "2: clr r4",
        "clr r5",
        "clr r6",
        "clr r7",
        "clr r8",
        "clr r9",
        "clr r10",
        "clr r11",
        "clr r13",
        "clr r14",
        "clr r15",
        "br r12",
    )
}

#[unsafe(no_mangle)]
extern "C" fn timer() {
    machine::tick();
}

/// Ends the program: CPU off, interrupts off.
#[unsafe(no_mangle)]
#[inline(never)]
extern "Rust" fn relume_stop() -> ! {
    loop {
        // SAFETY: nothing wakes the core any more.
        unsafe { asm!("dint", "nop", "bis #0x10, r2") }
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    machine::panicked(info)
}

/// What `core` calls where it cannot go on.
#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    machine::end(relume_suite::abi::FAULT)
}
