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
//! # Guards
//!
//! Four words at the low end of each stack are its guard: see [`Hart::on_overflow`]. With
//! [`Hart::lock_guards`] the PMP guards stacks that are statics, and an overflow is a fault at the
//! first load or store. Then the vectors begin with [`exception`], which names the thread.
//!
//! ```ignore
//! let mut stacks = [const { Stack::<2048>::NEW }; 2];
//! let mut port = Hart::new(&mut stacks);
//! Plan::spawn(&kernel, places, &mut port, sampler, maximum);
//! port.run(&kernel, Some(10_000)); // a tick each 10,000 ticks of the machine timer
//! ```

use crate::StackOverflow;
use crate::port::bare::{Shared, store};
use crate::port::{guard, riscv_switch};
use core::arch::asm;
use nv_replay::pmem_tx::Section;

pub use crate::port::bare::{Bare as Hart, Stack, port, tick};
pub use riscv_switch::{Exceptions, exception, software};

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

/// An entry of the PMP stays locked until the next reset, so a program asks for it.
pub(crate) const BY_CORE: bool = false;

impl<const T: usize, const N: usize> Hart<'static, T, N> {
    /// The PMP guards the stacks: its entries 0 to `T - 1`, each for a range in which machine mode
    /// may load and store nothing. They are locked until the next reset. So the stacks are statics,
    /// and nothing else uses them after [`run`](Hart::run) has returned. If one of these entries is
    /// in use, words are the guard, as without this call.
    ///
    /// The vectors have [`exception`] for exceptions. A core without a PMP traps here.
    pub fn lock_guards(mut self) -> Self {
        self.guard.by_core = true;
        self
    }
}

/// Calls `$f` with the two registers of the PMP's entry `$n`, and where in the second one its byte
/// is. `None` for an entry that this port does not use.
macro_rules! with_entry {
    ($n:expr, $f:ident) => {
        match $n {
            0 => Some($f!("pmpaddr0", "pmpcfg0", 0)),
            1 => Some($f!("pmpaddr1", "pmpcfg0", 8)),
            2 => Some($f!("pmpaddr2", "pmpcfg0", 16)),
            3 => Some($f!("pmpaddr3", "pmpcfg0", 24)),
            4 => Some($f!("pmpaddr4", "pmpcfg1", 0)),
            5 => Some($f!("pmpaddr5", "pmpcfg1", 8)),
            6 => Some($f!("pmpaddr6", "pmpcfg1", 16)),
            7 => Some($f!("pmpaddr7", "pmpcfg1", 24)),
            _ => None,
        }
    };
}

/// In an entry's configuration: no access, from an address that is a multiple of the length;
/// locked.
const NO_ACCESS: u32 = 1 << 7 | 3 << 3;

/// The configuration and the address of an entry of the PMP.
fn entry(n: usize) -> Option<(u32, u32)> {
    macro_rules! read {
        ($address:literal, $config:literal, $shift:literal) => {{
            let (config, address): (u32, u32);
            // SAFETY: invariant "One core": reads registers of the PMP.
            unsafe {
                asm!(
                    concat!("csrr {0}, ", $config), concat!("csrr {1}, ", $address),
                    out(reg) config, out(reg) address, options(nostack)
                )
            };
            (config >> $shift & 0xFF, address)
        }};
    }
    with_entry!(n, read)
}

/// Locks an entry of the PMP that is free, or is locked for the same range already.
fn lock_entry((n, address): (usize, u32)) {
    macro_rules! lock {
        ($address:literal, $config:literal, $shift:literal) => {
            // SAFETY: invariant "One core": the range is a guard, which nothing uses until the next
            // reset: `lock_guards`.
            unsafe {
                asm!(
                    concat!("csrw ", $address, ", {0}"), concat!("csrs ", $config, ", {1}"),
                    in(reg) address, in(reg) NO_ACCESS << $shift, options(nostack)
                )
            }
        };
    }
    with_entry!(n, lock);
}

/// Where a stack's guard begins.
pub(crate) fn limit(low: usize, bytes: usize) -> usize {
    low.next_multiple_of(bytes)
}

/// Lets the PMP guard so many bytes at each of these addresses. Whether it can: it locks all
/// entries or none, since words are the guard otherwise, and a locked range cannot hold them.
pub(crate) fn guard(limits: impl Iterator<Item = usize> + Clone, bytes: usize) -> bool {
    let ones = bytes / 8 - 1;
    let entries = limits.map(|at| (at >> 2 | ones) as u32).enumerate();
    let is_usable =
        |(n, address)| entry(n).is_some_and(|found| found.0 == 0 || found == (NO_ACCESS, address));
    let all = entries.clone().all(is_usable);
    if all {
        entries.for_each(lock_entry);
    }
    all
}

/// They stay locked.
pub(crate) fn unguard() {}

/// Goes on at `stop`, with interrupts masked, on the stack of `main` below what is kept there.
pub(crate) fn on_the_stack_of_main(main: usize, stop: extern "C" fn() -> !) -> ! {
    // SAFETY: invariant "One core": below the registers of `main`, which never goes on.
    unsafe {
        asm!(
            "csrci mstatus, 8", "mv sp, {main}", "jr {stop}",
            main = in(reg) main,
            stop = in(reg) stop,
            options(noreturn),
        )
    }
}

/// In mcause: an instruction, a load or a store where there is no access.
const FAULTS: [usize; 3] = [1, 5, 7];

/// For a handler of exceptions that does not use the stack of the thread: the overflow of a
/// thread's stack that is the cause of the exception. `None`: it has another cause, or words are
/// the guard. [`exception`] asks it.
///
/// **Power loss**: nothing is stored.
pub fn overflow() -> Option<StackOverflow> {
    let (cause, address): (usize, usize);
    // SAFETY: invariant "One core": reads mcause and mtval.
    unsafe { asm!("csrr {0}, mcause", "csrr {1}, mtval", out(reg) cause, out(reg) address) };
    guard::at(address).filter(|_| FAULTS.contains(&cause))
}

/// What [`exception`] calls: does not return from an overflow.
pub(crate) extern "C" fn excepted() {
    if let Some(overflow) = overflow() {
        guard::stopped(overflow)
    }
}
