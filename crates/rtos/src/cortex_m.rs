//! The port for Cortex-M: each thread on a process stack of its own, and PendSV changes them.
//!
//! ```text
//!  thread           kernel                      machine
//!  take(SEM) -----> waits: switch(1, 2) ------> NEXT = thread 2's slot, PendSV is pending
//!                   the section's end --------> PendSV: registers to stack 1, those of stack 2
//!  SysTick -------> tick: wakes, slice -------> the same, when the handler has ended
//!  no thread ready: switch(1, none) ----------> main, on the main stack: waits for an interrupt
//! ```
//!
//! `main` keeps the main stack, which the handlers use, too. While it runs, the process stack
//! pointer points to a small area that the switch keeps its registers in. So one switch serves both
//! kinds of stacks.
//!
//! A user program needs no `unsafe` code for threads, stacks and sections:
//!
//! ```ignore
//! let mut stacks = [const { Stack::<2048>::NEW }; 2];
//! let mut port = Cortex::new(&mut stacks);
//! Plan::spawn(&kernel, places, &mut port, sampler, maximum);
//! port.run(&kernel, Some(16_000)); // a tick each 16,000 cycles
//! ```

use crate::kernel::Kernel;
use crate::port::{Port, Spawn};
use crate::system::System;
use crate::{THREADS_MAX, cortex_m_switch};
use core::arch::asm;
use core::cell::UnsafeCell;
use nv_replay::pmem_tx::Section;

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

/// A static that threads and handlers share.
#[repr(transparent)]
pub(crate) struct Shared<T>(UnsafeCell<T>);
// SAFETY: invariant "One core": each access is volatile, in a section or of one word.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    const fn new(v: T) -> Self {
        Shared(UnsafeCell::new(v))
    }
    #[inline(always)]
    fn get(&self) -> T {
        // SAFETY: invariant "One core".
        unsafe { self.0.get().read_volatile() }
    }
    #[inline(always)]
    fn set(&self, v: T) {
        // SAFETY: invariant "One core".
        unsafe { self.0.get().write_volatile(v) }
    }
    fn address(&self) -> usize {
        self.0.get() as usize
    }
}

/// Where the stack pointers of all threads are kept while they do not run, and that of `main`; 0
/// where there is no thread.
static SLOTS: [Shared<usize>; THREADS_MAX + 1] = [const { Shared::new(0) }; THREADS_MAX + 1];
const MAIN: usize = THREADS_MAX;
/// The slot of the thread that runs, and the slot of the one that runs after the switch.
#[repr(C)]
pub(crate) struct Switch {
    runs: Shared<usize>,
    next: Shared<usize>,
}
pub(crate) static SWITCH: Switch = Switch {
    runs: Shared::new(0),
    next: Shared::new(0),
};
/// Registers of `main`.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Area(#[allow(dead_code)] [u32; 26]);
static AREA: Shared<Area> = Shared::new(Area([0; 26]));

/// Ticks since the boot, and when the kernel wants to be told.
static NOW: Shared<u64> = Shared::new(0);
static DUE: Shared<u64> = Shared::new(u64::MAX);
/// The kernel that runs, and what tells it of a tick.
#[derive(Clone, Copy)]
struct Running {
    tell: unsafe fn(*const ()),
    kernel: *const (),
}
static RUNNING: Shared<Option<Running>> = Shared::new(None);

const ICSR: *mut u32 = 0xE000_ED04 as *mut u32;
const PENDSVSET: u32 = 1 << 28;
/// Priorities of SysTick and PendSV: the switch is the least urgent of all.
const SHPR3: *mut u32 = 0xE000_ED20 as *mut u32;
const PRIORITIES: u32 = 0x80 << 24 | 0xFF << 16;
const SYST_CSR: *mut u32 = 0xE000_E010 as *mut u32;
const SYST_RVR: *mut u32 = 0xE000_E014 as *mut u32;
const SYST_CVR: *mut u32 = 0xE000_E018 as *mut u32;

fn store(register: *mut u32, value: u32) {
    // SAFETY: invariant "One core": callers name registers of the core.
    unsafe { register.write_volatile(value) }
}

/// The machine, as its threads and handlers see it.
struct Core;

impl Port for Core {
    fn now(&self) -> u64 {
        Masked::with(|| NOW.get())
    }
    #[inline(always)]
    fn switch(&self, _: Option<usize>, to: Option<usize>) {
        let Some(slot) = SLOTS.get(to.unwrap_or(MAIN)) else {
            return;
        };
        // No other thread's registers are anywhere: nothing runs that was not made.
        if slot.get() != 0 {
            SWITCH.next.set(slot.address());
            store(ICSR, PENDSVSET);
            // SAFETY: invariant "One core": a barrier.
            unsafe { asm!("dsb", options(nostack)) };
        }
    }
    fn set_timer(&self, at: Option<u64>) {
        DUE.set(at.unwrap_or(u64::MAX));
    }
}

/// For the kernel's calls in an interrupt's handler: [`Kernel::isr`].
///
/// Called by a program, [`Port::switch`] changes threads behind the kernel's back: that breaks
/// priorities, and nothing else.
pub fn port() -> &'static dyn Port {
    &Core
}

/// The handler of the timer: one more tick, and the end of a time slice. What the vector table has
/// for SysTick, or what the handler of another timer calls.
///
/// **Power loss**: that of [`Kernel::tick`].
pub extern "C" fn systick() {
    let running = Masked::with(|| {
        NOW.set(NOW.get() + 1);
        RUNNING.get()
    });
    if let Some(Running { tell, kernel }) = running {
        // SAFETY: invariant "One core": they belong together, and `run` has not returned.
        unsafe { tell(kernel) }
    }
}

/// # Safety
/// `kernel` is a `Kernel<S>` that is not moved.
unsafe fn tell<S: System>(kernel: *const ()) {
    // SAFETY: invariant "One core": as said above.
    let kernel = unsafe { &*kernel.cast::<Kernel<'_, S>>() };
    if Masked::with(|| DUE.get() <= NOW.get()) {
        kernel.tick(&Core);
    }
    kernel.slice(&Core);
}

/// A thread's stack of `N` bytes, a multiple of 8. Beside what its body needs it holds the body
/// itself, the registers of a switch, and those that the core stacks for one interrupt.
#[repr(align(8))]
pub struct Stack<const N: usize>([u8; N]);

impl<const N: usize> Stack<N> {
    /// One that is not used yet.
    pub const NEW: Self = Stack([0; N]);
}

/// The words that the first switch to a thread takes: r4 to r11, what it returns to, r0 to r3, r12,
/// lr, pc, xPSR.
const FRAME: usize = 17;
/// To a thread on the process stack, without registers of the FPU.
const TO_THREAD: u32 = 0xFFFF_FFFD;
const THUMB: u32 = 1 << 24;

/// A core with a stack for each of `T` threads.
pub struct Cortex<'s, const T: usize, const N: usize> {
    stacks: &'s mut [Stack<N>; T],
    slots: [usize; T],
}

impl<'s, const T: usize, const N: usize> Cortex<'s, T, N> {
    /// For a system of `T` threads. None runs yet.
    pub fn new(stacks: &'s mut [Stack<N>; T]) -> Self {
        Cortex {
            stacks,
            slots: [0; T],
        }
    }

    /// Runs the threads of a system until all have ended. The timer ticks each `cycles` cycles; if
    /// there is no number, the program calls [`systick`] itself.
    ///
    /// Whether it did: not in a handler, on a process stack, or in a thread of another system.
    ///
    /// **Power loss**: the next boot opens the system, and calls this again.
    pub fn run<S: System>(self, kernel: &Kernel<'_, S>, cycles: Option<u32>) -> bool {
        const { assert!(T == S::THREADS.len(), "one stack for each thread") };
        if !Masked::with(|| self.install(kernel)) {
            return false;
        }
        if let Some(cycles) = cycles {
            store(SYST_RVR, cycles.saturating_sub(1));
            store(SYST_CVR, 0);
            store(SYST_CSR, 7);
        }
        kernel.start(&Core);
        let idle = || {
            let ended = (0..T).all(|t| kernel.ended(t).is_some());
            if !ended {
                // SAFETY: invariant "One core": an interrupt that is masked ends it, too.
                unsafe { asm!("wfi", options(nostack)) };
            }
            ended
        };
        while !Masked::with(idle) {}
        if cycles.is_some() {
            store(SYST_CSR, 0);
        }
        Masked::with(|| {
            RUNNING.set(None);
            SLOTS.iter().for_each(|s| s.set(0));
        });
        true
    }

    /// Tells the handlers of the threads and their kernel.
    fn install<S: System>(&self, kernel: &Kernel<'_, S>) -> bool {
        let (control, exception): (u32, u32);
        // SAFETY: invariant "One core": reads which stack and which handler this is.
        unsafe { asm!("mrs {0}, control", "mrs {1}, ipsr", out(reg) control, out(reg) exception) };
        let main = &SLOTS[MAIN];
        if control & 2 != 0 || exception != 0 || main.get() != 0 {
            return false;
        }
        SLOTS.iter().zip(&self.slots).for_each(|(s, at)| s.set(*at));
        // The first switch stores where the registers of `main` are.
        main.set(AREA.address());
        SWITCH.runs.set(main.address());
        SWITCH.next.set(main.address());
        RUNNING.set(Some(Running {
            tell: tell::<S>,
            kernel: (&raw const *kernel).cast(),
        }));
        store(SHPR3, PRIORITIES);
        // SAFETY: invariant "One core": `main` is on the main stack, so nothing uses the process
        // stack but the switch, which keeps registers there.
        unsafe {
            asm!("msr psp, {0}", in(reg) AREA.address() + size_of::<Area>(), options(nostack))
        };
        true
    }
}

impl<'s, const T: usize, const N: usize> Spawn<'s> for Cortex<'s, T, N> {
    fn spawn(&mut self, thread: usize, _: &'static str, body: impl FnOnce(&dyn Port) + 's) {
        if let (Some(stack), Some(slot)) = (self.stacks.get_mut(thread), self.slots.get_mut(thread))
        {
            *slot = frame(stack, body);
        }
    }
}

/// Moves a body to the top of its stack, and makes what the first switch to it takes. Where that
/// begins.
fn frame<F: FnOnce(&dyn Port), const N: usize>(stack: &mut Stack<N>, body: F) -> usize {
    const {
        assert!(N.is_multiple_of(8), "a stack's length is a multiple of 8");
        assert!(align_of::<F>() <= 8, "a body is aligned to 8 bytes");
        let frames = 4 * (FRAME + FRAME + 44);
        assert!(N >= size_of::<F>() + frames, "a stack is too small");
    }
    let length = size_of::<F>().next_multiple_of(8);
    // SAFETY: invariant "One core": the length was checked, and the stack is lent to the port for
    // as
    // long as the body lives.
    unsafe {
        let at = stack.0.as_mut_ptr().add(N - length);
        at.cast::<F>().write(body);
        let frame = at.cast::<u32>().sub(FRAME);
        frame.write_bytes(0, FRAME);
        frame.add(8).write(TO_THREAD);
        frame.add(9).write(at as usize as u32);
        frame.add(15).write(begin::<F> as *const () as usize as u32);
        frame.add(16).write(THUMB);
        frame as usize
    }
}

/// Where a thread begins.
///
/// # Safety
/// The body is there, and is taken once.
unsafe extern "C" fn begin<F: FnOnce(&dyn Port)>(body: *mut F) -> ! {
    // SAFETY: invariant "One core": as said above.
    let body = unsafe { body.read() };
    body(&Core);
    // The kernel has ended the thread, and never lets it run again.
    loop {
        // SAFETY: invariant "One core": waits.
        unsafe { asm!("wfi", options(nostack)) };
    }
}
