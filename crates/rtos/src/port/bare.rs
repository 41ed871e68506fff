//! The common part of the ports for bare machines: which thread runs on which stack.
//!
//! ```text
//!  thread           kernel                      machine
//!  take(SEM) -----> waits: switch(2) ---------> NEXT = thread 2's slot, the switch is pending
//!                   the section's end --------> the switch: registers to stack 1, those of stack 2
//!  timer ---------> tick: wakes, slice -------> the same, when the handler has ended
//!  no thread ready: switch(none) -------------> main: waits for an interrupt
//! ```
//!
//! Each core's module has the rest: how a section masks interrupts, how a switch becomes pending,
//! and what a switch finds on a stack.

#[cfg(target_arch = "arm")]
use crate::cortex_m as core_of;
#[cfg(target_arch = "msp430")]
use crate::msp430 as core_of;
use crate::port::guard::{self, Wanted};
use crate::port::{Port, Runs, Spawn};
#[cfg(target_arch = "riscv32")]
use crate::riscv as core_of;
use crate::{Idle, StackOverflow, THREADS_MAX};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core_of::Masked;
use nv_replay::pmem_tx::Section;

// INVARIANT "One core": what the port's statics hold changes in its section, by one word, or before
// there is a second thread; a thread that was not made, or whose system no longer runs, has no slot
// and never runs; a body and its stack live as long as the system runs. Also kept by `Bare::run`,
// `Core::switch`, and `may_run` of each core.
// Noticed by: `rtos/handover` in the rig and in QEMU, and its planted bugs.
/// A static that threads and handlers share.
#[repr(transparent)]
pub(crate) struct Shared<T>(UnsafeCell<T>);
// SAFETY: invariant "One core": each access is volatile, in a section or of one word.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    pub(crate) const fn new(v: T) -> Self {
        Shared(UnsafeCell::new(v))
    }
    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        // SAFETY: invariant "One core".
        unsafe { self.0.get().read_volatile() }
    }
    #[inline(always)]
    pub(crate) fn set(&self, v: T) {
        // SAFETY: invariant "One core".
        unsafe { self.0.get().write_volatile(v) }
    }
    pub(crate) fn address(&self) -> usize {
        self.0.get() as usize
    }
}

/// The slot of the thread that runs, and the slot of the one that runs after the switch.
#[repr(C)]
pub(crate) struct Switch {
    pub(crate) runs: Shared<usize>,
    next: Shared<usize>,
    /// Where the stack pointer of `main` is kept while it does not run, and those of all threads;
    /// 0 where there is no thread.
    pub(crate) slots: [Shared<usize>; SLOTS],
    /// For each of them, `SLOTS` words behind its slot: the value of PSPLIM, or where the words are
    /// that guard its stack. 0: there is nothing that the port looks at.
    pub(crate) limits: [Shared<usize>; SLOTS],
}
/// One for `main`, and one for each thread.
pub(crate) const SLOTS: usize = 1 + THREADS_MAX;
pub(crate) const MAIN: usize = 0;
pub(crate) static SWITCH: Switch = Switch {
    runs: Shared::new(0),
    next: Shared::new(0),
    slots: [const { Shared::new(0) }; SLOTS],
    limits: [const { Shared::new(0) }; SLOTS],
};

/// Ticks since the boot, and the time of the kernel's next tick call.
static NOW: Shared<u64> = Shared::new(0);
static DUE: Shared<u64> = Shared::new(u64::MAX);
/// The board's function that reads its energy.
static ENERGY: Shared<Option<fn() -> Option<u32>>> = Shared::new(None);
/// The kernel that runs, and the function that passes a tick to it.
#[derive(Clone, Copy)]
struct Running {
    tell: unsafe fn(*const ()),
    kernel: *const (),
}
static RUNNING: Shared<Option<Running>> = Shared::new(None);

/// Stores to a register of the core, or of its timer.
pub(crate) fn store<T>(register: *mut T, value: T) {
    // SAFETY: invariant "One core": callers name registers of the core.
    unsafe { register.write_volatile(value) }
}

/// The `Port` that threads and handlers are given.
struct Core;

// SAFETY: its functions store to statics and to registers of the core. A switch comes when they
// have returned, and the section has ended.
unsafe impl Port for Core {
    fn now(&self) -> u64 {
        Masked::with(|| NOW.get())
    }
    #[inline(always)]
    fn switch(&self, to: Option<usize>) {
        let slot = &SWITCH.slots[to.map_or(MAIN, |t| 1 + t % THREADS_MAX)];
        // A thread that was not made has no registers to switch to, so it never runs.
        if slot.get() != 0 {
            guard::check();
            SWITCH.next.set(slot.address());
            core_of::pend();
        }
    }
    fn set_timer(&self, at: Option<u64>) {
        DUE.set(at.unwrap_or(u64::MAX));
    }
    fn energy(&self) -> Option<u32> {
        Masked::with(|| ENERGY.get()).and_then(|of_the_board| of_the_board())
    }
    #[inline(always)]
    fn check_stack(&self) {
        guard::check()
    }
    fn unused_stack(&self, thread: usize) -> Option<usize> {
        guard::unused(thread)
    }
}

/// For the kernel's calls in an interrupt's handler: [`Kernel::isr`].
///
/// A program that calls [`Port::switch`] changes threads without the kernel: that breaks
/// priorities, and nothing else.
pub fn port() -> &'static dyn Port {
    &Core
}

/// One more tick, and the end of a time slice: the next thread of the same priority runs. The
/// timer's handler calls it.
///
/// **Power loss**: that of [`Kernel::tick`].
pub extern "C" fn tick() {
    let running = Masked::with(|| {
        NOW.set(NOW.get() + 1);
        RUNNING.get()
    });
    if let Some(Running { tell, kernel }) = running {
        // SAFETY: invariant "One core": kernel and function belong together, and `run` has not
        // returned.
        unsafe { tell(kernel) }
    }
}

/// # Safety
/// `kernel` is a `K` that is not moved.
unsafe fn tell<K: Runs>(kernel: *const ()) {
    // SAFETY: invariant "One core": as said above.
    let kernel = unsafe { &*kernel.cast::<K>() };
    if Masked::with(|| DUE.get() <= NOW.get()) {
        kernel.tick(&Core);
    }
    kernel.slice(&Core);
}

/// What a body is aligned to. On an MSP430 the stack of the machine has no more than that.
const ALIGN: usize = if cfg!(target_arch = "msp430") { 2 } else { 16 };

/// A thread's stack of `N` bytes, or of the next multiple of 256; on an MSP430, of 2. Beside what
/// its body needs it holds the body itself, the registers of a switch, what an interrupt takes of
/// it, and at its low end a guard: see [`Bare::guard`].
#[cfg_attr(target_arch = "msp430", repr(align(2)))]
#[cfg_attr(not(target_arch = "msp430"), repr(align(256)))]
pub struct Stack<const N: usize>(MaybeUninit<[u8; N]>);

impl<const N: usize> Stack<N> {
    /// A stack that is not used yet, and holds zeros. **Cost**: on the stack of `main`, each boot
    /// stores them, some 1,600 instructions for each 4 KiB; in a static variable, start-up code
    /// does.
    pub const NEW: Self = Stack(MaybeUninit::new([0; N]));

    /// A stack that is not used yet, and holds anything: for boots that must be short.
    /// [`Kernel::unused_stack`](crate::Kernel::unused_stack) means nothing for it.
    pub const UNINIT: Self = Stack(MaybeUninit::uninit());
}

/// A core with a stack for each of `T` threads.
pub struct Bare<'s, const T: usize, const N: usize> {
    stacks: &'s mut [Stack<N>; T],
    slots: [usize; T],
    energy: Option<fn() -> Option<u32>>,
    pub(crate) guard: Wanted,
}

impl<'s, const T: usize, const N: usize> Bare<'s, T, N> {
    /// For a system of `T` threads. None runs yet.
    pub fn new(stacks: &'s mut [Stack<N>; T]) -> Self {
        Bare {
            stacks,
            slots: [0; T],
            energy: None,
            guard: Wanted {
                bytes: guard::BYTES,
                by_core: core_of::BY_CORE,
                on_overflow: None,
            },
        }
    }

    /// Names the function that reads the board's energy: see [`Port::energy`]. Threads and handlers
    /// call it, also while it already runs, and the hook of [`run_idle`](Self::run_idle) gets its
    /// result.
    pub fn energy(mut self, read: fn() -> Option<u32>) -> Self {
        self.energy = Some(read);
        self
    }

    /// Guards `BYTES` at the low end of each stack, in place of 256: a power of two, from 32 on. A
    /// function with a larger frame may jump over the guard, so that nothing notices it. For a
    /// larger number, align the stacks to it; otherwise a part of each is lost, of less than
    /// `BYTES`. Where words are the guard, and with PSPLIM, the number means nothing.
    pub fn guard<const BYTES: usize>(mut self) -> Self {
        const { assert!(BYTES.is_power_of_two() && BYTES >= 32) }
        const { assert!(N >= 2 * BYTES + ROOM, "a stack is too small for this guard") }
        self.guard.bytes = BYTES;
        self
    }

    /// Names the function that is called for an overflow that a check has found, where words are
    /// the guard. It runs on the stack of `main`, with interrupts masked. It may store to memory
    /// that the next boot looks at, and resets the machine. If there is none, the overflow is a
    /// panic that names the thread.
    ///
    /// Where the core is the guard, an overflow is a fault: its handler asks `overflow`.
    pub fn on_overflow(mut self, stop: fn(StackOverflow) -> !) -> Self {
        self.guard.on_overflow = Some(stop);
        self
    }

    /// Runs the threads of a system until each has ended or is parked. The timer ticks each
    /// `period`: cycles on a Cortex-M, ticks of its machine timer on a RISC-V core, cycles of SMCLK
    /// on an MSP430. If there is no number, the program calls the tick itself.
    ///
    /// Returns false, and runs nothing, in a handler, on a process stack, or while another system
    /// runs.
    ///
    /// **Power loss**: the next boot opens the system, and calls this again.
    pub fn run<K: Runs>(self, kernel: &K, period: Option<u32>) -> bool {
        self.run_idle(kernel, period, |_| core_of::wait())
    }

    /// Like [`run`](Self::run), but calls `idle` when no thread is ready, with the time at which
    /// the kernel's timer is due, and the energy that is left: see [`Idle`]. `idle` waits for an
    /// interrupt, or sleeps deeper if little energy is left. It runs with interrupts masked, on the
    /// stack of `main`. An interrupt that becomes pending meanwhile must end its wait, as it ends
    /// the core's `wfi`.
    ///
    /// **Power loss**: as there.
    pub fn run_idle<K: Runs>(
        self,
        kernel: &K,
        period: Option<u32>,
        mut idle: impl FnMut(Idle),
    ) -> bool {
        const { assert!(T == K::THREADS, "one stack for each thread") };
        if !core_of::may_run() || !Masked::with(|| self.install(kernel)) {
            return false;
        }
        core_of::start(period);
        kernel.start(&Core);
        let mut over = || {
            let over = (0..T).all(|t| kernel.has_ended(t));
            if !over {
                // A masked interrupt ends the wait, too.
                idle(Idle {
                    deadline: kernel.next_deadline(),
                    energy: Core.energy(),
                });
            }
            over
        };
        while !Masked::with(&mut over) {}
        Masked::with(|| {
            core_of::stop(period);
            RUNNING.set(None);
            SWITCH.slots.iter().for_each(|s| s.set(0));
            guard::end();
        });
        true
    }

    /// Registers the threads and their kernel for the handlers.
    fn install<K: Runs>(&self, kernel: &K) -> bool {
        let [main, threads @ ..] = &SWITCH.slots;
        if main.get() != 0 {
            return false;
        }
        threads
            .iter()
            .zip(&self.slots)
            .for_each(|(s, at)| s.set(*at));
        ENERGY.set(self.energy);
        let lows = self.stacks.iter().map(|s| &raw const *s as usize);
        guard::begin(self.guard, lows, size_of::<Stack<N>>());
        // The first switch stores where the registers of `main` are.
        main.set(core_of::main_registers());
        SWITCH.runs.set(main.address());
        SWITCH.next.set(main.address());
        RUNNING.set(Some(Running {
            tell: tell::<K>,
            kernel: (&raw const *kernel).cast(),
        }));
        true
    }
}

impl<'s, const T: usize, const N: usize> Spawn<'s> for Bare<'s, T, N> {
    fn spawn(&mut self, thread: usize, _: &'static str, body: impl FnOnce(&dyn Port) + 's) {
        if let (Some(stack), Some(slot)) = (self.stacks.get_mut(thread), self.slots.get_mut(thread))
        {
            *slot = frame(stack, body);
        }
    }
}

/// What a switch and an interrupt take of a stack, and the registers of the first switch.
const ROOM: usize = size_of::<usize>() * (2 * core_of::FRAME + 44);

/// Moves a body to the top of its stack, and makes the frame that the first switch to it takes.
/// Returns where the frame begins. The other registers hold anything then.
fn frame<F: FnOnce(&dyn Port), const N: usize>(stack: &mut Stack<N>, body: F) -> usize {
    const {
        assert!(
            align_of::<F>() <= ALIGN,
            "a body is aligned as its stack is"
        );
        assert!(
            N >= guard::BYTES + size_of::<F>() + ALIGN + ROOM,
            "a stack is too small"
        );
    }
    let length = size_of::<F>().next_multiple_of(ALIGN);
    // SAFETY: invariant "One core": the length was checked, and the stack is lent to the port for
    // as long as the body lives.
    unsafe {
        let at = (&raw mut *stack).cast::<u8>();
        let at = at.add(size_of::<Stack<N>>() - length);
        at.cast::<F>().write(body);
        registers(at, begin::<F> as *const () as usize)
    }
}

/// Makes the frame that the first switch takes, below a body. Returns where it begins.
///
/// # Safety
/// There is as much room below the body as a frame takes.
#[inline(never)]
unsafe fn registers(body: *mut u8, begin: usize) -> usize {
    // SAFETY: invariant "One core": the caller's promise.
    unsafe {
        let frame = body.cast::<usize>().sub(core_of::FRAME);
        core_of::frame(body as usize, begin, |word, value| {
            frame.add(word).write(value)
        });
        frame as usize
    }
}

/// A thread's entry: runs its body.
///
/// # Safety
/// The body is there, and is taken once.
unsafe extern "C" fn begin<F: FnOnce(&dyn Port)>(body: *mut F) -> ! {
    // SAFETY: invariant "One core": as said above.
    let body = unsafe { body.read() };
    body(&Core);
    // The kernel has ended the thread, and never lets it run again.
    loop {
        core_of::wait();
    }
}
