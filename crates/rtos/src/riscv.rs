//! The port for RV32IMC in machine mode: each thread on a stack of its own, and the software
//! interrupt changes them. The timer and the software interrupt are those of a CLINT at
//! `0x0200_0000`, as in QEMU's `virt` and many cores of SiFive.
//!
//! Handlers run on the stack of the thread that they interrupt, so each stack has room for them.
//! `main` keeps the stack that it has, as one more thread. A stack for handlers would need a second
//! switch in each trap, and `mscratch`, which a program may use. The software interrupt waits, as
//! PendSV does, until no handler runs; it may come anywhere, so it keeps all registers.
//!
//! [`Hart::run`] wants interrupts enabled: in a handler, where they are not, it refuses.
//!
//! The vectors, in vectored mode, have [`software`] for interrupt 3: a jump to it, without anything
//! before. For interrupt 7, the timer's, they have a handler that keeps the registers and calls
//! [`timer`].
//!
//! ```ignore
//! let mut stacks = [const { Stack::<2048>::NEW }; 2];
//! let mut port = Hart::new(&mut stacks);
//! Plan::spawn(&kernel, places, &mut port, sampler, maximum);
//! port.run(&kernel, Some(10_000)); // a tick each 10,000 ticks of the machine timer
//! ```

use crate::bare::{Shared, store};
use crate::riscv_switch;
use core::arch::asm;
use nv_replay::pmem_tx::Section;

pub use crate::bare::{Bare as Hart, Stack, port, tick};
pub use riscv_switch::software;

/// The critical section of a core: interrupts are masked.
///
/// **Cost**: three instructions. Afterwards, what is pending has been taken.
pub enum Masked {}
// SAFETY: invariant "One core": mstatus.MIE keeps all handlers away, the switch of threads is one.
// What was masked before stays so.
unsafe impl Section for Masked {
    #[inline(always)]
    fn with<R>(f: impl FnOnce() -> R) -> R {
        let before: u32;
        // SAFETY: invariant "One core": reads mstatus, and clears MIE.
        unsafe { asm!("csrrci {0}, mstatus, 8", out(reg) before, options(nostack)) };
        let r = f();
        // SAFETY: invariant "One core": sets MIE if it was set. A switch that is pending comes now.
        unsafe { asm!("csrs mstatus, {0}", in(reg) before & MIE, options(nostack)) };
        r
    }
}

/// In mstatus: enabled; enabled before, and in machine mode.
const MIE: u32 = 1 << 3;
const BEFORE: u32 = 3 << 11 | 1 << 7;
/// In mie: the software interrupt, and the timer's.
const MSIE: u32 = 1 << 3;
const MTIE: u32 = 1 << 7;

/// The software interrupt of hart 0, and its timer.
const MSIP: *mut u32 = 0x0200_0000 as *mut u32;
const MTIMECMP: *mut u32 = 0x0200_4000 as *mut u32;
const MTIME: *mut u32 = 0x0200_BFF8 as *mut u32;

/// From a tick to the next.
static PERIOD: Shared<u32> = Shared::new(0);

/// The words that a switch takes from a stack: 28 registers, mepc, mstatus, and two that are not
/// used.
pub(crate) const FRAME: usize = 32;

/// Those that count, for a function with an argument.
#[inline(always)]
pub(crate) fn frame(argument: usize, begin: usize, mut put: impl FnMut(usize, usize)) {
    put(4, argument);
    put(28, begin);
    put(29, BEFORE as usize);
}

/// A switch comes when interrupts are enabled and no handler runs.
#[inline(always)]
pub(crate) fn pend() {
    store(MSIP, 1);
    // Read back: it is pending before the section ends.
    load(MSIP);
}

fn load(register: *mut u32) -> u32 {
    // SAFETY: invariant "One core": callers name registers of the core.
    unsafe { register.read_volatile() }
}

/// Waits for an interrupt.
#[inline(always)]
pub(crate) fn wait() {
    // SAFETY: invariant "One core": waits.
    unsafe { asm!("wfi", options(nostack)) };
}

/// Whether `main` may run threads: interrupts are enabled, so this is no handler that would return
/// to where the last switch was.
pub(crate) fn may_run() -> bool {
    let status: u32;
    // SAFETY: invariant "One core": reads mstatus.
    unsafe { asm!("csrr {0}, mstatus", out(reg) status, options(nostack)) };
    status & MIE != 0
}

/// Where the registers of `main` are kept: not known before the first switch stores it.
pub(crate) fn main_registers() -> usize {
    1
}

/// Enables the switch, and starts the timer.
pub(crate) fn start(period: Option<u32>) {
    store(MSIP, 0);
    if let Some(period) = period {
        PERIOD.set(period);
        next_tick();
    }
    // SAFETY: invariant "One core": enables interrupts whose handlers the program has.
    unsafe { asm!("csrs mie, {0}", in(reg) enabled(period), options(nostack)) };
}

fn enabled(period: Option<u32>) -> u32 {
    let timer = if period.is_some() { MTIE } else { 0 };
    MSIE | timer
}

/// Disables the switch, and stops the timer.
pub(crate) fn stop(period: Option<u32>) {
    // SAFETY: invariant "One core": disables interrupts.
    unsafe { asm!("csrc mie, {0}", in(reg) enabled(period), options(nostack)) };
}

/// Sets the timer to its next tick.
fn next_tick() {
    let high = || load(MTIME.wrapping_add(1));
    // Both halves of one time.
    let now = loop {
        let before = high();
        let low = load(MTIME);
        if high() == before {
            break u64::from(before) << 32 | u64::from(low);
        }
    };
    let at = now + u64::from(PERIOD.get());
    // Never due in between.
    store(MTIMECMP, u32::MAX);
    store(MTIMECMP.wrapping_add(1), (at >> 32) as u32);
    store(MTIMECMP, at as u32);
}

/// For the handler of the machine timer: sets it to its next tick, and ticks.
///
/// **Power loss**: that of [`Kernel::tick`](crate::Kernel::tick).
pub extern "C" fn timer() {
    next_tick();
    tick();
}
