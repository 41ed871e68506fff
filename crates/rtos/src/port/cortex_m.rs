//! The port for Cortex-M: each thread on a process stack of its own, and PendSV changes them.
//!
//! `main` keeps the main stack, which the handlers use, too. While it runs, the process stack
//! pointer points to a small area that the switch keeps its registers in. So one switch serves both
//! kinds of stacks. While no thread is ready, `main` waits for interrupts. The vector table has
//! [`pendsv`] for PendSV and [`systick`] for SysTick. A program with a timer of its own gives
//! [`Cortex::run`] no number, and calls [`systick`] in that timer's handler.
//!
//! # Guards
//!
//! On a core with PSPLIM (ARMv8-M with the main extension), and on one with a MPU of ARMv7-M, an
//! overflow of a thread's stack is a fault. The handler of HardFault asks [`overflow`] which thread
//! it was:
//!
//! ```ignore
//! fn hard_fault() -> ! { // it does not read the frame that the fault has stored: that may be cut off
//!     match nv_rtos::cortex_m::overflow() {
//!         Some(StackOverflow { thread }) => report(thread), // then reset
//!         None => another_fault(),
//!     }
//! }
//! ```
//!
//! [`Cortex::run`] takes as many regions of the MPU as there are threads, those with the highest
//! numbers, and gives them back when it returns. The others are the program's. If the program has
//! switched the MPU on, it stays as it is; otherwise the regions are over the default map
//! (PRIVDEFENA). If one of these regions is in use, and on other cores, four words are the guard:
//! see [`Cortex::on_overflow`]. A handler uses the main stack, which has no guard here.
//!
//! A user program needs no `unsafe` code for threads, stacks and sections:
//!
//! ```ignore
//! let mut stacks = [const { Stack::<2048>::NEW }; 2];
//! let mut port = Cortex::new(&mut stacks);
//! Plan::spawn(&kernel, places, &mut port, sampler, maximum);
//! port.run(&kernel, Some(16_000)); // a tick each 16,000 cycles
//! ```

use crate::StackOverflow;
use crate::port::bare::{Shared, store};
use crate::port::{cortex_m_switch, guard};
use core::arch::asm;
use nv_replay::pmem_tx::Section;

pub use crate::port::bare::{Bare as Cortex, Stack, port, tick as systick};
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

// The registers of the system control space: ARMv7-M Architecture Reference Manual, B3.2 and B3.5.
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

/// Bytes that the switch and an interrupt store below the stack pointer of a thread: r4 to r11 and
/// lr, s16 to s31, and a frame with s0 to s15.
const BELOW: usize = 4 * (9 + 16 + 26);

/// The core guards stacks, if it can: its regions are given back.
pub(crate) const BY_CORE: bool = true;

/// What faults there were, and where.
const CFSR: *mut u32 = 0xE000_ED28 as *mut u32;
const MMFAR: *mut u32 = 0xE000_ED34 as *mut u32;
/// In CFSR: a load or store at the address in MMFAR; MMFAR has the address; registers could not be
/// stored at an exception's entry, or those of the FPU later; the stack pointer has passed PSPLIM.
const DACCVIOL: u32 = 1 << 1;
const MMARVALID: u32 = 1 << 7;
const MSTKERR: u32 = 1 << 4;
const MLSPERR: u32 = 1 << 5;
const STKOF: u32 = 1 << 20;
/// Which kind of MPU there is, and how many regions it has.
const ID_MMFR0: *mut u32 = 0xE000_ED50 as *mut u32;
const PMSAV7: u32 = 3 << 4;
const MPU_TYPE: *mut u32 = 0xE000_ED90 as *mut u32;
const MPU_CTRL: *mut u32 = 0xE000_ED94 as *mut u32;
const MPU_RNR: *mut u32 = 0xE000_ED98 as *mut u32;
const MPU_RBAR: *mut u32 = 0xE000_ED9C as *mut u32;
const MPU_RASR: *mut u32 = 0xE000_EDA0 as *mut u32;
/// In MPU_CTRL: on; what is in no region is as without a MPU.
const ENABLE: u32 = 1;
const PRIVDEFENA: u32 = 1 << 2;
/// In MPU_RASR: no access; nothing is executed.
const NEVER: u32 = 1 << 28;

/// The regions that are guards: the first one, and how many they are. And MPU_CTRL before.
static REGIONS: Shared<(u32, u32)> = Shared::new((0, 0));
static CONTROL: Shared<u32> = Shared::new(0);

fn load(register: *mut u32) -> u32 {
    // SAFETY: invariant "One core": callers name registers of the core.
    unsafe { register.read_volatile() }
}

/// Where a stack's guard begins. With PSPLIM: how far the stack pointer may go. The switch stores
/// below it without moving it.
pub(crate) fn limit(low: usize, bytes: usize) -> usize {
    if cfg!(psplim) {
        low + BELOW.next_multiple_of(8)
    } else {
        low.next_multiple_of(bytes)
    }
}

/// Lets the core guard so many bytes at each of these addresses. Whether it can.
pub(crate) fn guard(limits: impl Iterator<Item = usize> + Clone, bytes: usize) -> bool {
    if cfg!(psplim) {
        // The switch sets it.
        return true;
    }
    let count = limits.clone().count() as u32;
    let regions = load(MPU_TYPE) >> 8 & 0xFF;
    let Some(first) = regions.checked_sub(count) else {
        return false;
    };
    let is_used = |region| {
        store(MPU_RNR, region);
        load(MPU_RASR) & ENABLE != 0
    };
    if load(ID_MMFR0) & 0xF0 != PMSAV7 || (first..regions).any(is_used) {
        return false;
    }
    for (region, at) in (first..regions).zip(limits) {
        store(MPU_RNR, region);
        store(MPU_RBAR, at as u32);
        store(MPU_RASR, NEVER | (bytes.ilog2() - 1) << 1 | ENABLE);
    }
    REGIONS.set((first, count));
    let control = load(MPU_CTRL);
    CONTROL.set(control);
    if control & ENABLE == 0 {
        store(MPU_CTRL, ENABLE | PRIVDEFENA);
    }
    settle();
    true
}

/// The program may use the regions again.
pub(crate) fn unguard() {
    let (first, count) = REGIONS.get();
    for region in first..first + count {
        store(MPU_RNR, region);
        store(MPU_RASR, 0);
    }
    if count > 0 {
        store(MPU_CTRL, CONTROL.get());
        settle();
    }
    REGIONS.set((0, 0));
}

/// What the MPU was set to counts for the next instruction.
fn settle() {
    // SAFETY: invariant "One core": barriers.
    unsafe { asm!("dsb", "isb", options(nostack)) };
}

/// Goes on at `stop`, with interrupts masked, on the main stack.
pub(crate) fn on_the_stack_of_main(_: usize, stop: extern "C" fn() -> !) -> ! {
    // SAFETY: invariant "One core": below the frames of `main`, which never goes on. In a handler
    // it is the stack that is used already.
    unsafe {
        asm!(
            "cpsid i", "msr control, {zero}", "isb", "bx {stop}",
            zero = in(reg) 0,
            stop = in(reg) stop,
            options(noreturn),
        )
    }
}

/// For the handler of HardFault, or of MemManage and UsageFault if the program has enabled them:
/// the overflow of a thread's stack that is the cause of the fault. `None`: it has another cause,
/// or words are the guard on this core.
///
/// The handler does not read the frame that the fault has stored on the thread's stack, and does
/// not return.
///
/// **Power loss**: nothing is stored.
pub fn overflow() -> Option<StackOverflow> {
    let cause = load(CFSR);
    if cfg!(psplim) {
        return guard::of_running().filter(|_| cause & STKOF != 0);
    }
    if cause & DACCVIOL != 0 && cause & MMARVALID != 0 {
        return guard::at(load(MMFAR) as usize);
    }
    // The address is not known. The frame of an exception begins at the stack pointer.
    let at: usize;
    // SAFETY: invariant "One core": reads PSP.
    unsafe { asm!("mrs {0}, psp", out(reg) at, options(nomem, nostack)) };
    let frame = (0..FRAMES).map(|word| at + 4 * word);
    let unstored = cause & (MSTKERR | MLSPERR) != 0;
    frame.filter(|_| unstored).find_map(guard::at)
}

/// Words of a frame with registers of the FPU.
const FRAMES: usize = 26;
