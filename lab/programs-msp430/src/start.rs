//! Start-up, and the end of a program.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use lab_programs::support::{Fram, Machine};
use nv_rtos::nvmem::Region;

#[path = "../../../crates/rtos/src/msp430fr5994/arithmetic.rs"]
mod arithmetic;
#[path = "../../../firmware/msp430/src/halt.rs"]
mod halt;
#[path = "../../../crates/rtos/src/msp430fr5994/memory.rs"]
mod memory;
#[path = "../../../crates/rtos/src/msp430fr5994/multiply.rs"]
mod multiply;
#[path = "../../../firmware/msp430/src/one_core.rs"]
mod one_core;
#[macro_use]
#[path = "../../../crates/rtos/src/msp430fr5994/ram.rs"]
mod ram;

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
        nop
        eint
        nop
        call #program
    .section .text"
);

/// The switch of threads, in the vector of Timer0_A's other interrupts. Nothing ticks: time goes on
/// while no thread is ready.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".vector.ta0_a1")]
static TA0_A1: unsafe extern "C" fn() = nv_rtos::msp430::ta0_a1;

/// Shows on port 4 where the program is: what one would look at with a logic analyser.
#[inline(always)]
fn show(phase: u8) {
    // SAFETY: P4OUT. Its pins are no outputs, and nothing else uses them.
    unsafe { (0x0223 as *mut u8).write_volatile(phase) }
}

/// What port 4 shows: the threads begin, all of them have ended.
const THREADS: u8 = 1;
const OVER: u8 = 2;

/// What the program has found, for the emulator: a mark, and the words.
#[repr(C)]
struct Found {
    mark: u16,
    words: [u32; 4],
}
#[unsafe(no_mangle)]
static mut FOUND: Found = Found {
    mark: 0,
    words: [0; 4],
};
/// The marks: the program has ended, or it could not go on.
const ENDED: u16 = 0x600D;
const FAILED: u16 = 0xBAD;

/// Bytes of non-volatile memory that a program keeps.
#[repr(C, align(8))]
pub struct Kept<const BYTES: usize>(UnsafeCell<MaybeUninit<[u8; BYTES]>>);
// SAFETY: only start-up refers to it, by its address.
unsafe impl<const BYTES: usize> Sync for Kept<BYTES> {}

impl<const BYTES: usize> Kept<BYTES> {
    /// As flashing the program leaves it.
    pub const BLANK: Self = Kept(UnsafeCell::new(MaybeUninit::uninit()));
}

/// A boot of a program.
type Boot = fn(Region<'_, Fram>, &Machine<'_>) -> Option<[u32; 4]>;

/// The FRAM of the program.
fn fram() -> Option<Region<'static, Fram>> {
    unsafe extern "C" {
        static mut _fram: u8;
        static mut _fram_end: u8;
    }
    // SAFETY: the linker script leaves this memory to the program alone, and start-up comes by here
    // once.
    unsafe { Region::from_raw(&raw mut _fram, &raw mut _fram_end) }.ok()
}

/// Runs a program with protection, in FRAM.
#[inline(always)]
pub fn run_protected(boot: Boot) -> ! {
    run(fram(), boot)
}

/// The last word of the information memory: a program without protection has its memory in FRAM,
/// too, if it is 1.
const IN_FRAM: *const u16 = 0x19FE as *const u16;

/// Runs a program without protection, in RAM or in FRAM.
#[inline(always)]
pub fn run_unprotected(boot: Boot, ram: &'static mut [MaybeUninit<u64>]) -> ! {
    // SAFETY: a word of FRAM that nothing stores to.
    let memory = if unsafe { IN_FRAM.read_volatile() } == 1 {
        fram()
    } else {
        Some(Region::new(ram))
    };
    run(memory, boot)
}

#[inline(always)]
fn run(memory: Option<Region<'static, Fram>>, boot: Boot) -> ! {
    let machine = Machine {
        period: None,
        starts: &|| show(THREADS),
        // Nothing else makes the time go on.
        idle: &|| nv_rtos::msp430::tick(),
    };
    let (mark, words) = match memory.and_then(|m| boot(m, &machine)) {
        Some(words) => (ENDED, words),
        None => (FAILED, [0; 4]),
    };
    show(OVER);
    // SAFETY: nothing else refers to it.
    unsafe { (&raw mut FOUND).write_volatile(Found { mark, words }) };
    halt::stop()
}
