//! The guard at the low end of each thread's stack: a thread that overflows its stack is named.
//!
//! ```text
//!  low end                                                        high end
//!  | guard |                   stack, grows down                  | body |
//!     ^ a store here is a fault of the MPU or the PMP, which names the thread; or the words here
//!       have changed at the next switch or commit
//! ```
//!
//! | core | guard | an overflow is noticed |
//! |---|---|---|
//! | ARMv8-M with the main extension | PSPLIM | when the stack pointer passes the limit |
//! | ARMv7-M with a MPU | a region of the MPU for each thread | at the first load or store in it |
//! | RV32, stacks that are statics | an entry of the PMP for each thread | the same |
//! | others | four words | before the thread commits a step or a record, or another one runs |

#[cfg(target_arch = "arm")]
use crate::cortex_m as core_of;
#[cfg(target_arch = "msp430")]
use crate::msp430 as core_of;
use crate::port::bare::{MAIN, SLOTS, SWITCH, Shared, store};
#[cfg(target_arch = "riscv32")]
use crate::riscv as core_of;
use crate::{StackOverflow, THREADS_MAX};

/// Bytes of a guard, if the program does not say another number. A function whose frame is larger
/// may jump over it.
pub(crate) const BYTES: usize = if cfg!(target_arch = "msp430") {
    WORDS
} else {
    256
};

/// What guards the stacks of the system that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The core: a fault.
    Core,
    /// Words of each stack, which are looked at.
    Words,
}

/// The guards of the system that runs.
struct Guards {
    by: Shared<By>,
    /// Where the guard of each thread begins. 0: there is no such thread.
    lows: [Shared<usize>; THREADS_MAX],
    /// Bytes of each.
    bytes: Shared<usize>,
    /// Bytes of a stack.
    stack: Shared<usize>,
    /// The program's function for an overflow that the words have shown.
    on_overflow: Shared<Option<fn(StackOverflow) -> !>>,
}
static GUARDS: Guards = Guards {
    by: Shared::new(By::Core),
    lows: [const { Shared::new(0) }; THREADS_MAX],
    bytes: Shared::new(0),
    stack: Shared::new(0),
    on_overflow: Shared::new(None),
};

/// What the words hold while nothing has overflowed.
const PATTERN: usize = 0x57AC_5AFE_u32 as usize;
/// How many they are, and how many words they are apart. A function's frame has gaps in which it
/// stores nothing.
const COUNT: usize = 4;
const APART: usize = 2;
/// Bytes from the first one to the end of the last one.
const WORDS: usize = COUNT * APART * size_of::<usize>();

/// How a program wants its stacks guarded.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Bytes of each guard.
    pub bytes: usize,
    /// Whether the core may guard them.
    pub by_core: bool,
    /// What is called when the words show an overflow.
    pub on_overflow: Option<fn(StackOverflow) -> !>,
}

// INVARIANT "A stack is whole": when a thread commits, and when another one runs, its guard is as
// it was made. Otherwise the machine has stopped, and the thread is named. The core keeps it, or
// `check`. That looks at no stack pointer: an interrupt in the middle of a switch finds the next
// thread's slot and the stack of the one before.
// Noticed by: the step `stacks` of `cargo xtask ci`; `rtos-events/signals` in the rig.
/// Guards the stacks of `len` bytes that begin at these addresses, one for each thread. Called in a
/// section, before a thread runs.
pub(crate) fn begin(wanted: Wanted, lows: impl Iterator<Item = usize> + Clone, len: usize) {
    let at_core = lows.clone().map(|low| core_of::limit(low, wanted.bytes));
    let by_core = wanted.by_core && core_of::guard(at_core, wanted.bytes);
    let stacks = GUARDS.lows.iter().zip(SWITCH.limits.iter().skip(MAIN + 1));
    for ((at, limit), low) in stacks.zip(lows) {
        if by_core {
            at.set(core_of::limit(low, wanted.bytes));
            limit.set(if cfg!(psplim) { at.get() } else { 0 });
        } else {
            words(low).for_each(|word| store(word, PATTERN));
            at.set(low);
            limit.set(low);
        }
    }
    GUARDS.by.set(if by_core { By::Core } else { By::Words });
    GUARDS.bytes.set(match by_core {
        true if cfg!(psplim) => 0,
        true => wanted.bytes,
        false => WORDS,
    });
    GUARDS.stack.set(len);
    GUARDS.on_overflow.set(wanted.on_overflow);
}

/// Guards them no longer. Words are zeros again, as in a stack that was not used.
pub(crate) fn end() {
    if GUARDS.by.get() == By::Core {
        core_of::unguard();
    }
    for (at, limit) in GUARDS.lows.iter().zip(SWITCH.limits.iter().skip(MAIN + 1)) {
        if GUARDS.by.get() == By::Words && at.get() != 0 {
            words(at.get()).for_each(|word| store(word, 0));
        }
        at.set(0);
        limit.set(0);
    }
    GUARDS.by.set(By::Core);
}

/// The words of a guard.
#[inline(always)]
fn words(low: usize) -> impl Iterator<Item = *mut usize> {
    (0..COUNT).map(move |i| (low as *mut usize).wrapping_add(APART * i))
}

/// The thread that runs. `None`: `main`.
fn running() -> Option<usize> {
    let slots = SWITCH.runs.get().wrapping_sub(SWITCH.slots[MAIN].address());
    (slots / size_of::<usize>()).checked_sub(MAIN + 1)
}

/// Stops the machine if the thread that runs has overflowed its stack, where words show it.
///
/// **Cost**: 4 instructions where the core guards.
#[inline(always)]
pub(crate) fn check() {
    if cfg!(psplim) {
        return;
    }
    let slot = SWITCH.runs.get() as *const Shared<usize>;
    // SAFETY: invariant "One core": `runs` is a slot while a system runs, and only then is this
    // called; its words are `SLOTS` behind it.
    let low = unsafe { (*slot.add(SLOTS)).get() };
    if low != 0 {
        let word = |i: usize| {
            // SAFETY: invariant "One core": a word of the stack, of which there is no reference.
            unsafe { (low as *const usize).add(APART * i).read_volatile() }
        };
        const { assert!(COUNT == 4) }
        let changed = word(0) ^ PATTERN | word(1) ^ PATTERN | word(2) ^ PATTERN | word(3) ^ PATTERN;
        if changed != 0 {
            overflowed()
        }
    }
}

#[cold]
#[inline(never)]
fn overflowed() -> ! {
    // The thread's stack is not to be used any more.
    core_of::on_the_stack_of_main(SWITCH.slots[MAIN].get(), stop)
}

/// The thread that runs has overflowed its stack.
extern "C" fn stop() -> ! {
    let thread = running().unwrap_or_default();
    stopped(StackOverflow { thread })
}

/// Ends the run of the machine, on the stack of `main`.
pub(crate) fn stopped(overflow: StackOverflow) -> ! {
    if let Some(on_overflow) = GUARDS.on_overflow.get() {
        on_overflow(overflow)
    }
    panic!("{overflow}")
}

/// The overflow of the thread that runs.
#[cfg(target_arch = "arm")]
pub(crate) fn of_running() -> Option<StackOverflow> {
    running().map(|thread| StackOverflow { thread })
}

/// The overflow in whose guard an address lies, if the core guards the stacks.
#[cfg(not(target_arch = "msp430"))]
pub(crate) fn at(address: usize) -> Option<StackOverflow> {
    let bytes = GUARDS.bytes.get();
    let is_there = |low: usize| low != 0 && address.wrapping_sub(low) < bytes;
    let thread = GUARDS.lows.iter().position(|low| is_there(low.get()));
    (GUARDS.by.get() == By::Core).then_some(StackOverflow { thread: thread? })
}

/// The bytes of a thread's stack that still hold zeros, above its guard.
pub(crate) fn unused(thread: usize) -> Option<usize> {
    let low = GUARDS.lows.get(thread)?.get();
    let (guard, len) = (GUARDS.bytes.get(), GUARDS.stack.get());
    if low == 0 {
        return None;
    }
    let bytes = (low + guard..low + len).take_while(|at| {
        // SAFETY: invariant "One core": a byte of a stack that lives while its system runs.
        unsafe { (*at as *const u8).read_volatile() == 0 }
    });
    Some(bytes.count())
}
