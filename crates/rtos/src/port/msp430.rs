//! The port for MSP430, the 16-bit core: each thread on a stack of its own, and an interrupt of
//! Timer0_A changes them.
//!
//! The core has no interrupt for software to ask for. TA0CCR1 is one: nothing ever reaches its
//! count, so that only the port sets its flag. The interrupt comes where interrupts are enabled
//! again: after the critical section, or after the handler.
//!
//! ```text
//!  a thread's stack    | R15 ... R4 | SR | PC |      RETI takes SR and PC from there
//! ```
//!
//! Timer0_A is the port's, at 0x0340, as in the MSP430FR58xx, FR59xx, F5xx and F6xx. Handlers run
//! on the stack of the thread that they interrupt, so each stack has room for them. `main` keeps
//! the stack that it has; when no thread is ready, it sleeps in LPM0, where SMCLK goes on.
//!
//! [`Msp430::run`] wants interrupts enabled: in a handler, where they are not, it refuses.
//!
//! The vectors have [`ta0_a0`] for TA0CCR0, which is the tick, and [`ta0_a1`] for the other
//! interrupts of Timer0_A, which is the switch: on an MSP430FR5994, at 0xFFEA and 0xFFE8. The
//! compiler is a nightly one with `-Zbuild-std=core`.
//!
//! ```ignore
//! let mut stacks = [const { Stack::<768>::NEW }; 2];
//! let mut port = Msp430::new(&mut stacks);
//! Plan::spawn(&kernel, places, &mut port, sampler, maximum);
//! port.run(&kernel, Some(8_000)); // a tick each 8,000 cycles of SMCLK
//! ```

use crate::port::bare::store;
use core::arch::asm;
use nv_replay::pmem_tx::Section;

pub use crate::port::bare::{Bare as Msp430, Stack, port, tick};
pub use crate::port::msp430_switch::{ta0_a0, ta0_a1};

/// The critical section of a core: interrupts are masked.
///
/// **Cost**: six instructions. Afterwards, what is pending has been taken.
pub enum Masked {}
// SAFETY: invariant "One core": GIE keeps all handlers away, the switch of threads is one. What was
// masked before stays so.
unsafe impl Section for Masked {
    #[inline(always)]
    fn with<R>(f: impl FnOnce() -> R) -> R {
        let status: u16;
        // SAFETY: invariant "One core": reads SR, and clears GIE.
        unsafe { asm!("mov r2, {0}", "dint", "nop", out(reg) status, options(nostack)) };
        let r = f();
        // SAFETY: invariant "One core": sets GIE if it was set. A switch that is pending comes
        // after the next instruction.
        unsafe { asm!("nop", "bis {0}, r2", "nop", in(reg) status & GIE, options(nostack)) };
        r
    }
}

/// In SR: interrupts are enabled.
const GIE: u16 = 1 << 3;

/// Timer0_A: its control, and what its interrupts and its clock are set by.
const TA0CTL: *mut u16 = 0x0340 as *mut u16;
const TA0CCTL0: *mut u16 = 0x0342 as *mut u16;
const TA0CCTL1: *mut u16 = 0x0344 as *mut u16;
const TA0CCR0: *mut u16 = 0x0352 as *mut u16;
const TA0CCR1: *mut u16 = 0x0354 as *mut u16;
const TA0EX0: *mut u16 = 0x0360 as *mut u16;
/// In a CCTL: its flag interrupts.
const CCIE: u16 = 1 << 4;
/// In TA0CTL: counts SMCLK up to TA0CCR0, beginning now.
const UP: u16 = 0x0214;
/// The longest period of the timer without a divider, and by how many bits it divides at most.
const LONGEST: u32 = 0xFFFF;
const DIVIDER: u16 = 6;

/// The words that a switch takes from a stack: R15 to R4, SR, PC.
pub(crate) const FRAME: usize = 14;

/// Those that count, for a function with an argument.
#[inline(always)]
pub(crate) fn frame(argument: usize, begin: usize, mut put: impl FnMut(usize, usize)) {
    put(3, argument);
    put(12, usize::from(GIE));
    put(13, begin);
}

/// A switch comes when interrupts are enabled and no handler runs.
#[inline(always)]
pub(crate) fn pend() {
    // SAFETY: invariant "One core": sets the flag of TA0CCTL1, in one instruction.
    unsafe { asm!("bis #1, &0x0344", options(nostack)) };
}

/// Sleeps until the switch comes back to here. Interrupts are masked then.
#[inline(always)]
pub(crate) fn wait() {
    // SAFETY: invariant "One core": enables interrupts and sleeps, in one instruction.
    unsafe { asm!("bis #0x18, r2", "nop", "dint", "nop", options(nostack)) };
}

/// Whether `main` may run threads: interrupts are enabled, so this is no handler that would return
/// to where the last switch was.
pub(crate) fn may_run() -> bool {
    let status: u16;
    // SAFETY: invariant "One core": reads SR.
    unsafe { asm!("mov r2, {0}", out(reg) status, options(nostack)) };
    status & GIE != 0
}

/// Where the registers of `main` are kept: not known before the first switch stores it.
pub(crate) fn main_registers() -> usize {
    1
}

/// Enables the switch, and starts the timer. A period that the timer cannot count is rounded, or is
/// the longest one: 4,194,240 cycles.
pub(crate) fn start(period: Option<u32>) {
    // The timer never counts so far.
    store(TA0CCR1, u16::MAX);
    store(TA0CCTL1, CCIE);
    if let Some(period) = period {
        let (mut counts, mut divider) = (period.max(2), 0);
        while counts > LONGEST && divider < DIVIDER {
            counts >>= 1;
            divider += 1;
        }
        let first = divider.min(3);
        store(TA0CCR0, (counts.min(LONGEST) - 1) as u16);
        store(TA0EX0, (1 << (divider - first)) - 1);
        store(TA0CCTL0, CCIE);
        store(TA0CTL, UP | first << 6);
    }
}

/// Disables the switch, and stops the timer.
pub(crate) fn stop(period: Option<u32>) {
    store(TA0CCTL1, 0);
    if period.is_some() {
        store(TA0CTL, 0);
        store(TA0CCTL0, 0);
    }
}

/// The core has nothing to guard stacks with.
pub(crate) const BY_CORE: bool = false;

/// Where a stack's guard begins.
pub(crate) fn limit(low: usize, _: usize) -> usize {
    low
}

/// Whether the core guards these addresses.
pub(crate) fn guard(_: impl Iterator<Item = usize>, _: usize) -> bool {
    false
}

/// It guards none.
pub(crate) fn unguard() {}

/// Goes on at `stop`, with interrupts masked, on the stack of `main` below what is kept there.
pub(crate) fn on_the_stack_of_main(main: usize, stop: extern "C" fn() -> !) -> ! {
    // SAFETY: invariant "One core": below the registers of `main`, which never goes on.
    unsafe {
        asm!(
            "dint", "nop", "mov {main}, r1", "br {stop}",
            main = in(reg) main,
            stop = in(reg) stop,
            options(noreturn),
        )
    }
}
