//! A board: an MSP430FR5994 as it comes out of its reset, its lower 64 KiB. Memory, start-up,
//! vectors, and the arithmetic that the compiler calls by the names of the MSP430 ABI.
//!
//! ```text
//!  0x1C00   8 KiB    RAM                statics, then the stack of `main` from the end down
//!  0x4000   4 KiB    FRAM               what the program keeps: `Board::fram`
//!  0x5000   43 KiB   FRAM               code and constants
//!  0xFF80   128 B    vectors            reset, Timer0_A0 and Timer0_A1
//! ```
//!
//! The linker script is that of the repository's `examples/boards/msp430fr5994`, to be copied. It
//! says where memory is; another division is another script.
//!
//! Start-up stops the watchdog, sets statics up, lets the pins be used, and enables interrupts. The
//! clock is the one of the reset: 1 MHz.
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//! use nv_rtos::msp430fr5994::{Board, Fram, Msp430, Stack};
//!
//! nv_rtos::system! { /* Plan on Fram; ... */ }
//! nv_rtos::msp430fr5994::entry!(main);
//!
//! fn main(board: Board) {
//!     let Ok((kernel, mut threads)) = Plan::open(board.fram) else { return };
//!     let Ok((places, _)) = threads.share() else { return };
//!     let mut stacks = [const { Stack::<768>::NEW }; 2];
//!     let mut port = Msp430::new(&mut stacks);
//!     Plan::spawn(&kernel, places, &mut port, sampler, maximum);
//!     port.run(&kernel, Some(10_000)); // a tick each 10 ms
//! }
//! ```

mod arithmetic;
mod memory;
mod multiply;
#[macro_use]
mod ram;

use core::arch::{asm, global_asm};
use nv_replay::nvmem::{InOrder16, Region};
use nv_replay::pmem_tx::Preempted;

pub use crate::msp430::{Masked, Msp430, Stack, port, ta0_a0, ta0_a1, tick};
#[doc(inline)]
pub use crate::msp430fr5994_entry as entry;

/// The model of the FRAM, for a system: units of 16 bits, which are stored in order.
pub type Fram = Preempted<InOrder16, Masked>;

/// What there is at a boot.
pub struct Board {
    /// The memory that start-up leaves alone.
    pub fram: Region<'static, Fram>,
}

// The watchdog's stop; then RAM, as a program finds it; LOCKLPM5.
global_asm!(
    ".section .text.start,\"ax\",@progbits
    .global _start
    _start:
        mov #_stack_top, r1
        mov #0x5A80, &0x015C",
    ram!(),
    "   bic #1, &0x0130
        nop
        eint
        nop
        call #nv_rtos_main
    .section .text"
);

/// For the linker script: Timer0_A1 and Timer0_A0, from 0xFFE8 on.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".vectors.ta0")]
static NV_RTOS_TA0: [unsafe extern "C" fn(); 2] = [ta0_a1, ta0_a0];

/// Makes a function the program: a `fn(Board)`. When it returns, the core stops.
#[macro_export]
#[doc(hidden)]
macro_rules! msp430fr5994_entry {
    ($main:path) => {
        const _: () = {
            /// What start-up calls.
            #[unsafe(no_mangle)]
            extern "C" fn nv_rtos_main() -> ! {
                $crate::msp430fr5994::boot($main)
            }
        };
    };
}

/// For [`entry!`]: start-up calls it once.
#[doc(hidden)]
pub fn boot(main: fn(Board)) -> ! {
    unsafe extern "C" {
        static mut _fram: u8;
        static mut _fram_end: u8;
    }
    // SAFETY: the linker script leaves this memory to the program alone, and start-up comes by here
    // once.
    if let Ok(fram) = unsafe { Region::from_raw(&raw mut _fram, &raw mut _fram_end) } {
        main(Board { fram })
    }
    stop()
}

/// Stops the core for good: interrupts off, and it sleeps. For a panic's handler, too.
pub fn stop() -> ! {
    loop {
        // SAFETY: nothing wakes the core any more.
        unsafe { asm!("dint", "nop", "bis #0x10, r2", "nop") }
    }
}

/// What `core` calls where it cannot go on.
#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    stop()
}
