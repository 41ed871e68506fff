//! Start-up, and the end of a program.

use crate::Found;
use core::arch::{asm, global_asm};
use nv_device::nvmem::{InOrder16, Region};

#[path = "../../../crates/rtos/src/msp430fr5994/arithmetic.rs"]
mod arithmetic;
#[path = "../../../firmware/msp430/src/halt.rs"]
mod halt;
#[path = "../../../firmware/msp430/src/multiply.rs"]
mod multiply;
#[path = "../../../firmware/msp430/src/one_core.rs"]
mod one_core;
#[macro_use]
#[path = "../../../crates/rtos/src/msp430fr5994/ram.rs"]
mod ram;

/// The model of the FRAM: units of 16 bits, which are stored in order.
pub type Memory = InOrder16;

// FRAM waits once above 8 MHz. The clock goes to 16 MHz by way of a quarter of it for 10 us, as the
// device's errata want. Then the watchdog's stop, RAM as a program finds it, and LOCKLPM5.
global_asm!(
    ".section .text.start,\"ax\",@progbits
    .global _start
    _start:
        mov #_stack_top, r1
        mov #0xA510, &0x0140
        mov.b #0xA5, &0x0161
        mov #0x0022, &0x0166
        mov #0x0048, &0x0162
        mov #20, r12
    9:  dec r12
        jnz 9b
        clr &0x0166
        mov.b #0, &0x0161
        mov #0x5A80, &0x015C",
    ram!(),
    "   bic #1, &0x0130
        call #program
    .section .text"
);

// Interrupts are off but while the core sleeps, and each one ends the sleep. A port's flag stays in
// its register until the program has stored what it tells.
global_asm!(
    ".section .text.wake,\"ax\",@progbits
    .global _wake
    _wake:
        bic #0x18, 0(r1)
        reti
    .section .text"
);

/// What port 4 shows. Even numbers from 10 on are in front of a call, the next ones behind it.
pub(crate) mod phase {
    /// The program begins, its contexts are open.
    pub const PROGRAM: u8 = 1;
    pub const OPEN: u8 = 2;
    /// Calls.
    pub const SENSE: u8 = 10;
    pub const SLEEP: u8 = 20;
    pub const WAKE: u8 = 30;
    pub const SEND: u8 = 40;
    /// Devices are restored.
    pub const BUS: u8 = 50;
    pub const RADIO: u8 = 60;
    pub const ADC: u8 = 70;
}

/// Shows on port 4 where the program is: what one would look at with a logic analyser.
#[inline(always)]
pub(crate) fn mark(phase: u8) {
    // SAFETY: P4OUT. Its pins are no outputs, and nothing else uses them.
    unsafe { (0x0223 as *mut u8).write_volatile(phase) }
}

// Shorter than that of the compiler's library, which saves registers first.
global_asm!(
    ".section .text.memcpy,\"ax\",@progbits
    .global memcpy
    memcpy:
        mov r12, r15
        mov r12, r11
        bis r13, r11
        bit #1, r11
        jnz 2f
    1:  sub #2, r14
        jnc 3f
        mov @r13+, r11
        mov r11, 0(r15)
        incd r15
        jmp 1b
    2:  sub #1, r14
        jnc 4f
        mov.b @r13+, r11
        mov.b r11, 0(r15)
        inc r15
        jmp 2b
    3:  bit #1, r14
        jz 4f
        mov.b @r13, r11
        mov.b r11, 0(r15)
    4:  ret
    .section .text"
);

/// Sleeps until an interrupt that ends it. One that is pending does so at once.
#[inline(always)]
pub(crate) fn sleep() {
    // SAFETY: GIE and CPUOFF, until the handler clears both.
    unsafe { asm!("bis #0x18, r2", "nop") }
}

/// What the program has found, for the emulator: a mark, and the words.
#[unsafe(no_mangle)]
static mut FOUND: (u16, Found) = (0, [0; 8]);
/// The marks: the program has ended, or it could not go on.
const ENDED: u16 = 0x600D;
const FAILED: u16 = 0xBAD;

/// Runs a program, and stops the core.
pub fn run(main: fn(Region<'static, Memory>) -> Option<Found>) -> ! {
    unsafe extern "C" {
        static mut _fram: u8;
        static mut _fram_end: u8;
    }
    // SAFETY: the linker script leaves this memory to the program alone, and start-up comes by here
    // once.
    let fram = unsafe { Region::from_raw(&raw mut _fram, &raw mut _fram_end) };
    let found = match fram.ok().and_then(main) {
        Some(found) => (ENDED, found),
        None => (FAILED, [0; 8]),
    };
    // SAFETY: nothing else refers to it.
    unsafe { (&raw mut FOUND).write_volatile(found) };
    halt::stop()
}
