//! The port for Cortex-M: each thread on a process stack of its own, and PendSV changes them.
//!
//! `main` keeps the main stack, which the handlers use, too. While it runs, the process stack
//! pointer points to a small area that the switch keeps its registers in. So one switch serves both
//! kinds of stacks. While no thread is ready, `main` waits for interrupts. The vector table has
//! [`pendsv`] for PendSV and [`systick`] for SysTick. A program with a timer of its own gives
//! [`Cortex::run`] no number, and calls [`systick`] in that timer's handler.
//!
//! A user program needs no `unsafe` code for threads, stacks and sections:
//!
//! ```ignore
//! let mut stacks = [const { Stack::<2048>::NEW }; 2];
//! let mut port = Cortex::new(&mut stacks);
//! Plan::spawn(&kernel, places, &mut port, sampler, maximum);
//! port.run(&kernel, Some(16_000)); // a tick each 16,000 cycles
//! ```

use crate::bare::{Shared, store};
use crate::cortex_m_switch;
use core::arch::asm;
use nv_replay::pmem_tx::Section;

pub use crate::bare::{Bare as Cortex, Stack, port, tick as systick};
pub use cortex_m_switch::pendsv;

/// The critical section of a core: interrupts are masked.
///
/// **Cost**: five instructions. Afterwards, what is pending has been taken.
pub enum Masked {}
// SAFETY: invariant "One core": PRIMASK keeps all handlers away, the switch of threads is one.
// What was masked before stays so.
unsafe impl Section for Masked {
    #[inline(always)]
    fn with<R>(f: impl FnOnce() -> R) -> R {
        let masked: u32;
        // SAFETY: invariant "One core": reads PRIMASK, and sets it.
        unsafe { asm!("mrs {0}, primask", "cpsid i", out(reg) masked, options(nostack)) };
        let r = f();
        // SAFETY: invariant "One core": sets PRIMASK as it was. A switch that is pending comes now.
        unsafe { asm!("msr primask, {0}", "isb", in(reg) masked, options(nostack)) };
        r
    }
}

/// Registers of `main`.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Area(#[allow(dead_code)] [u32; 26]);
static AREA: Shared<Area> = Shared::new(Area([0; 26]));

const ICSR: *mut u32 = 0xE000_ED04 as *mut u32;
const PENDSVSET: u32 = 1 << 28;
/// Priorities of SysTick and PendSV: the switch is the least urgent of all.
const SHPR3: *mut u32 = 0xE000_ED20 as *mut u32;
const PRIORITIES: u32 = 0x80 << 24 | 0xFF << 16;
const SYST_CSR: *mut u32 = 0xE000_E010 as *mut u32;
const SYST_RVR: *mut u32 = 0xE000_E014 as *mut u32;
const SYST_CVR: *mut u32 = 0xE000_E018 as *mut u32;

/// The words that the first switch to a thread takes: r4 to r11, what it returns to, r0 to r3, r12,
/// lr, pc, xPSR.
pub(crate) const FRAME: usize = 17;
/// To a thread on the process stack, without registers of the FPU.
const TO_THREAD: usize = 0xFFFF_FFFD;
const THUMB: usize = 1 << 24;

/// Those that count, for a function with an argument.
#[inline(always)]
pub(crate) fn frame(argument: usize, begin: usize, mut put: impl FnMut(usize, usize)) {
    put(8, TO_THREAD);
    put(9, argument);
    put(15, begin);
    put(16, THUMB);
}

/// A switch comes when interrupts are enabled and no handler runs.
#[inline(always)]
pub(crate) fn pend() {
    store(ICSR, PENDSVSET);
    // SAFETY: invariant "One core": a barrier.
    unsafe { asm!("dsb", options(nostack)) };
}

/// Waits for an interrupt.
#[inline(always)]
pub(crate) fn wait() {
    // SAFETY: invariant "One core": waits.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Whether `main` may run threads: on the main stack, and in no handler.
pub(crate) fn may_run() -> bool {
    let (control, exception): (u32, u32);
    // SAFETY: invariant "One core": reads which stack and which handler this is.
    unsafe { asm!("mrs {0}, control", "mrs {1}, ipsr", out(reg) control, out(reg) exception) };
    control & 2 == 0 && exception == 0
}

/// Where the registers of `main` are kept.
pub(crate) fn main_registers() -> usize {
    store(SHPR3, PRIORITIES);
    // SAFETY: invariant "One core": `main` is on the main stack, so nothing uses the process
    // stack but the switch, which keeps registers there.
    unsafe { asm!("msr psp, {0}", in(reg) AREA.address() + size_of::<Area>(), options(nostack)) };
    AREA.address()
}

/// Starts the timer.
pub(crate) fn start(cycles: Option<u32>) {
    if let Some(cycles) = cycles {
        store(SYST_RVR, cycles.saturating_sub(1));
        store(SYST_CVR, 0);
        store(SYST_CSR, 7);
    }
}

/// Stops it.
pub(crate) fn stop(cycles: Option<u32>) {
    if cycles.is_some() {
        store(SYST_CSR, 0);
    }
}
