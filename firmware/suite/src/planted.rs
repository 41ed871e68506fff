//! Bugs that only machine code shows, to test those who look for them: what is right here as it is
//! written, and wrong as it is compiled. Each scenario is a small protocol by hand; the mailbox's
//! argument chooses the bug, and 0 the protocol without it.
//!
//! On a host the wrong stores are reported to the kit in the order in which the program says them,
//! so the host finds nothing: that is the point.

use crate::abi::ENDLESS;
use crate::{Group, Mapped, Scenario, Scene, check, heap_driver, joined, progress};
use core::hint::black_box;
use nvmem::{Region, Unit, mapped};

/// The scenarios of the image `planted`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "planted",
            primitive: "planted",
            scenarios: &[
                Scenario::new("dirty_flag", 16, |s| {
                    chosen(s, MERGED, [dirty, dirty_plain])
                }),
                Scenario::new("erase_first", 16, |s| {
                    chosen(s, UNORDERED, [erase, erase_plain])
                }),
                Scenario::new("serve", 16, |s| chosen(s, REGISTER, [served, served_plain])),
                Scenario::new("number_and_check", 16, number_and_check),
                Scenario::new("last_to_first", 16, |s| {
                    chosen(s, REVERSED, [backwards, backwards_plain])
                }),
            ],
        }
    }
}

/// A planted bug.
#[derive(Debug)]
pub struct Bug {
    /// The mailbox's argument.
    pub number: u16,
    /// The group. Those of this one pass on a host; those of others are mistakes in the use of a
    /// crate, which a host shows too.
    pub group: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// The machines on which a cut must show it; on the others the code happens to be right.
    pub on: &'static [&'static str],
    /// It takes an interrupt and a cut to show it: neither alone does.
    pub both: bool,
}

const MERGED: u16 = 1;
const UNORDERED: u16 = 2;
const REGISTER: u16 = 3;
const WIDE: u16 = 4;
const PAIR: u16 = 5;
const REVERSED: u16 = 6;

/// All planted bugs.
pub const BUGS: [Bug; 48] = [
    Bug {
        number: crate::board::UNRESOLVED,
        group: "device",
        scenario: "lamps",
        what: "contexts of devices are opened without asking which step is committed",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::EARLY,
        group: "device",
        scenario: "lamps",
        what: "a lamp is switched before the commit of its step",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::DIRECTION_FIRST,
        group: "device",
        scenario: "lamps",
        what: "a driver restores a port's directions before its outputs",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::UNSAVED,
        group: "device",
        scenario: "blink",
        what: "a call changes a device, and not its context",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::UNASKED,
        group: "device",
        scenario: "alarm",
        what: "an alarm is set after a cut without asking the clock which it has",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::APART,
        group: "device-events",
        scenario: "buttons",
        what: "an event's position commits with one step, and what it has done with the next",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::CLEARED_FIRST,
        group: "device-events",
        scenario: "buttons",
        what: "an interrupt clears its flag before the event is stored",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::CLEARED_FIRST,
        group: "device-events",
        scenario: "buttons_interrupt",
        what: "a button's interrupt clears its flag before the event is stored",
        on: &["arm", "riscv", "msp430"],
        both: true,
    },
    Bug {
        number: crate::board::CONFIGURED_ONCE,
        group: "device-radio",
        scenario: "node",
        what: "a radio is configured once, and not again after a cut",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::ANSWERED_EARLY,
        group: "device-radio",
        scenario: "receive",
        what: "a packet is answered before the commit of the step that handles it",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::board::SENT_EARLY,
        group: "device-radio",
        scenario: "node",
        what: "a packet leaves in the step that makes it, with a reading that is not committed",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::rtos::REGISTER_LOST,
        group: "rtos",
        scenario: "handover",
        what: "a handler that loses a register of a thread of the kernel",
        on: &["arm", "riscv", "msp430", "armv6m"],
        both: false,
    },
    Bug {
        number: crate::rtos::TOLD,
        group: "rtos",
        scenario: "handover",
        what: "a thread of the kernel tells of a turn before it is committed",
        on: &["arm", "riscv", "msp430", "armv6m"],
        both: false,
    },
    Bug {
        number: crate::rtos::UNMASKED,
        group: "rtos",
        scenario: "handover",
        what: "a kernel whose critical sections mask the switch, and not the timer",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::rtos::TOLD,
        group: "rtos-events",
        scenario: "signals",
        what: "a thread of the kernel tells of flags before they are set",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::rtos::TOLD,
        group: "rtos-timers",
        scenario: "expiries",
        what: "a daemon tells of an expiry before it has handled it",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::rtos::TOLD,
        group: "rtos-locks",
        scenario: "locks",
        what: "a thread of the kernel tells of the end of a turn before its loop goes on",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::rtos::TOLD,
        group: "rtos-posts",
        scenario: "posts",
        what: "a thread of the kernel tells of a message before it is sent",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::rtos::TOLD,
        group: "rtos-places",
        scenario: "places",
        what: "a thread of the kernel tells of the end of a turn with a spawned thread before its loop goes on",
        on: &["arm", "riscv"],
        both: false,
    },
    Bug {
        number: crate::switch::REGISTER_LOST,
        group: "switch",
        scenario: "two_threads",
        what: "a context switch that loses a register",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::threads::BOTH_IN,
        group: "threads",
        scenario: "letters",
        what: "a lock that lets two threads in: one of them commits what the other one has not",
        on: &["arm", "riscv", "msp430"],
        both: true,
    },
    Bug {
        number: crate::threads::ANNOUNCED,
        group: "threads",
        scenario: "letters",
        what: "a thread announces a letter to another one before its transaction is committed",
        on: &["arm", "riscv", "msp430"],
        both: true,
    },
    Bug {
        number: crate::threads::UNMASKED,
        group: "threads",
        scenario: "letters",
        what: "a pool whose critical sections mask no interrupt",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: MERGED,
        group: "planted",
        scenario: "dirty_flag",
        what: "plain stores: the one that clears the flag is merged with the one that sets it",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: UNORDERED,
        group: "planted",
        scenario: "erase_first",
        what: "no barrier: a volatile store orders no plain one, and the first of two is left out",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: REGISTER,
        group: "planted",
        scenario: "serve",
        what: "the commit word stays in a register until the second request, after the first was written to the mailbox",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: WIDE,
        group: "planted",
        scenario: "number_and_check",
        what: "a u32 as a commit word: two stores on a 16-bit machine",
        on: &["msp430"],
        both: false,
    },
    Bug {
        number: PAIR,
        group: "planted",
        scenario: "number_and_check",
        what: "a struct of two u16 as a commit word: two stores, whatever its size",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: REVERSED,
        group: "planted",
        scenario: "last_to_first",
        what: "plain stores from the last to the first: the loop becomes a copy from the first to the last",
        on: &["arm", "riscv"],
        both: false,
    },
    Bug {
        number: joined::EARLY,
        group: "replay-joined",
        scenario: "step_join",
        what: "what is staged with a step is finished before the step is committed",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: joined::UNASKED,
        group: "replay-joined",
        scenario: "step_join",
        what: "lists are opened without asking which step is committed",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: heap_driver::POSTED,
        group: "heap",
        scenario: "write",
        what: "the heap's record that something changes is written after the first change",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: heap_driver::OVERTAKEN,
        group: "heap",
        scenario: "write",
        what: "the record of a persist is written before the last of its data",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: heap_driver::OVERTAKEN,
        group: "heap-queue",
        scenario: "queue",
        what: "the record of a queue's persist is written before the last of its data",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: heap_driver::OVERTAKEN,
        group: "heap-interrupt",
        scenario: "trees_interrupted",
        what: "the record of a persist that an interrupt makes is written before the last of its data",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::checkpoint::FORGOTTEN,
        group: "checkpoint",
        scenario: "fram",
        what: "a register that a call must keep is not what it was when the checkpoint was taken",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::checkpoint::NO_FPU,
        group: "checkpoint",
        scenario: "fram",
        what: "the FPU's registers are not what they were when the checkpoint was taken",
        on: &["arm"],
        both: false,
    },
    Bug {
        number: crate::checkpoint::OWN_STACK,
        group: "checkpoint",
        scenario: "fram",
        what: "the state is loaded by a function that runs on the stack which it writes to",
        on: &["arm", "riscv", "msp430", "armv6m"],
        both: false,
    },
    Bug {
        number: crate::checkpoint::EARLY,
        group: "checkpoint",
        scenario: "fram",
        what: "a checkpoint before the restore: all results are right, and nothing is ever restored",
        on: &["arm", "riscv", "msp430", "armv6m"],
        both: false,
    },
    Bug {
        number: crate::checkpoint::EARLY,
        group: "checkpoint-interrupt",
        scenario: "handler",
        what: "a program that a handler has kept begins anew",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::checkpoint::FORGOTTEN,
        group: "checkpoint-interrupt",
        scenario: "handler",
        what: "registers are not brought back in a handler",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::checkpoint::NO_FPU,
        group: "checkpoint-interrupt",
        scenario: "handler",
        what: "registers of the FPU are not brought back in a handler",
        on: &["arm"],
        both: false,
    },
    Bug {
        number: crate::mirror::EARLY,
        group: "mirror",
        scenario: "fram",
        what: "a mirror's program tells of a commit before it is saved",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::mirror::POSTED,
        group: "mirror",
        scenario: "fram",
        what: "the driver of a mirror's medium keeps the last write back when it is flushed",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::mirror::OUTSIDE,
        group: "mirror",
        scenario: "fram",
        what: "a part of the state lies beside the mirror, so that it is not saved with the rest",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::mirror::EARLY,
        group: "mirror-flash",
        scenario: "flash",
        what: "a mirror's program tells of a commit before it is saved on flash",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::mirror::OVERTAKEN,
        group: "mirror-flash",
        scenario: "flash",
        what: "the marker of a mirror's segment is programmed before the end of its base image",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
    Bug {
        number: crate::mirror::UNSAVED,
        group: "mirror",
        scenario: "steps",
        what: "a message leaves before the step over a mirror that has sent it is saved",
        on: &["arm", "riscv", "msp430"],
        both: false,
    },
];

/// The right one or the wrong one.
fn chosen<M: Mapped>(scene: &mut Scene<'_, M>, bug: u16, both: [fn(&mut Scene<'_, M>); 2]) {
    both[usize::from(scene.argument() == bug)](scene)
}

/// A store. `PLAIN` is how somebody writes it who forgets that the compiler may merge, move and
/// leave out.
#[inline(always)]
fn put<U: Unit, const PLAIN: bool>(at: *mut U, v: U) {
    // SAFETY: callers name units of their region, which nothing else refers to.
    unsafe {
        if PLAIN && cfg!(target_os = "none") {
            at.write(v)
        } else {
            mapped::store(at, v)
        }
    }
}

/// The units of a region.
fn units<M: Mapped>(region: &Region<'_, M>) -> *mut M::Unit {
    region.base().cast()
}

fn get<U: Unit>(at: *const U) -> u16 {
    // SAFETY: as in `put`.
    unsafe { mapped::load(at) }.widen() as u16
}

fn unit<U: Unit>(v: u16) -> U {
    U::truncate(v.into())
}

/// Whether a round comes after round `n`.
fn is_more(n: u16, last: u16) -> bool {
    n != last || last == ENDLESS
}

fn dirty<M: Mapped>(scene: &mut Scene<'_, M>) {
    dirty_flag::<M, false>(scene)
}
fn dirty_plain<M: Mapped>(scene: &mut Scene<'_, M>) {
    dirty_flag::<M, true>(scene)
}

/// A flag is cleared, two values are written, the flag is set: while it is set, they are whole.
/// What a cut leaves half done may be lost.
fn dirty_flag<M: Mapped, const PLAIN: bool>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let at = units(&region);
    let (x, y) = (at.wrapping_add(1), at.wrapping_add(2));
    let (flag, told) = (get(at), scene.read_cell(0));
    if flag != 0 {
        check!(scene, flag == told || flag == told.wrapping_add(1));
        check!(scene, get(x) == flag && get(y) == flag);
    }
    let (mut n, last) = (told, scene.rounds(3));
    while is_more(n, last) {
        n = n.wrapping_add(1);
        put::<M::Unit, PLAIN>(at, unit(0));
        put::<M::Unit, PLAIN>(x, unit(n));
        put::<M::Unit, PLAIN>(y, unit(n));
        put::<M::Unit, PLAIN>(at, unit(n));
        scene.write_cell(0, n);
    }
}

fn erase<M: Mapped>(scene: &mut Scene<'_, M>) {
    erase_first::<M, false>(scene)
}
fn erase_plain<M: Mapped>(scene: &mut Scene<'_, M>) {
    erase_first::<M, true>(scene)
}

/// A value is erased, the state says so, the value is written, the state says that it is there.
fn erase_first<M: Mapped, const PLAIN: bool>(scene: &mut Scene<'_, M>) {
    const ERASED: u16 = 0x4000;
    let region = scene.region();
    let value = units(&region);
    let state = value.wrapping_add(1);
    let (v, s) = (get(value), get(state));
    if s & ERASED != 0 {
        // Never the one before.
        check!(scene, v == 0 || v == s & !ERASED);
        progress!(scene, (s & !ERASED) - 1);
    } else {
        check!(scene, v == 0 || v == s);
        progress!(scene, s);
    }
    for n in scene.read_cell(0) + 1..=scene.rounds(3) {
        put::<M::Unit, PLAIN>(value, unit(0));
        put::<M::Unit, false>(state, unit(ERASED | n));
        put::<M::Unit, PLAIN>(value, unit(n));
        put::<M::Unit, false>(state, unit(n));
        scene.write_cell(0, n);
    }
}

fn served<M: Mapped>(scene: &mut Scene<'_, M>) {
    serve::<M, false>(scene)
}
fn served_plain<M: Mapped>(scene: &mut Scene<'_, M>) {
    serve::<M, true>(scene)
}

/// A counter of requests, which come in twos; each is written to the mailbox.
fn serve<M: Mapped, const PLAIN: bool>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let at = units(&region);
    let found = get(at);
    progress!(scene, found);
    let last = match scene.rounds(4) {
        ENDLESS => ENDLESS,
        n => n.next_multiple_of(2),
    };
    // SAFETY: a unit of the region, which nothing else refers to.
    count::<M, PLAIN>(unsafe { &mut *at }, found, last, scene);
    check!(scene, get(at) == last);
}

/// `counter` belongs to nobody else for the whole of the call, so the compiler may store it
/// whenever it likes.
#[inline(never)]
fn count<M: Mapped, const PLAIN: bool>(
    counter: &mut M::Unit,
    from: u16,
    to: u16,
    scene: &Scene<'_, M>,
) {
    let mut one = |n: u16| {
        put::<M::Unit, PLAIN>(counter, unit(n));
        if PLAIN {
            scene.write_cell_unordered(0, n);
        } else {
            scene.write_cell(0, n);
        }
    };
    let mut n = from;
    if n % 2 == 1 {
        n += 1;
        one(n);
    }
    while is_more(n, to) {
        one(n + 1);
        n = n.wrapping_add(2);
        one(n);
    }
}

#[cfg(target_os = "none")]
#[repr(C)]
struct Pair {
    n: u16,
    check: u16,
}

/// A number and its complement, which must agree: two copies in turn and a unit that says which one
/// counts; or, wrongly, both in one word that is no unit.
fn number_and_check<M: Mapped>(scene: &mut Scene<'_, M>) {
    let bug = scene.argument();
    let region = scene.region();
    let at = units(&region);
    let word = region.base().cast::<u32>();
    let (n, check) = if bug == 0 {
        let n = get(at);
        (n, get(at.wrapping_add(1 + usize::from(n % 2))))
    } else {
        let halves = region.base().cast::<u16>();
        (get(halves), get(halves.wrapping_add(1)))
    };
    check!(scene, check == !n || (n, check) == (0, 0));
    progress!(scene, n);
    for n in n + 1..=scene.rounds(3) {
        let both = u32::from(n) | u32::from(!n) << 16;
        match bug {
            0 => {
                put::<M::Unit, false>(at.wrapping_add(1 + usize::from(n % 2)), unit(!n));
                put::<M::Unit, false>(at, unit(n));
            }
            #[cfg(target_os = "none")]
            PAIR => {
                let both = Pair { n, check: !n };
                // SAFETY: the first four bytes of the region, which nothing refers to.
                unsafe { word.cast::<Pair>().write_volatile(both) }
            }
            _ => put::<u32, false>(word, both),
        }
        scene.write_cell(0, n);
    }
}

fn backwards<M: Mapped>(scene: &mut Scene<'_, M>) {
    last_to_first::<M, false>(scene)
}
fn backwards_plain<M: Mapped>(scene: &mut Scene<'_, M>) {
    last_to_first::<M, true>(scene)
}

/// Four units of which the first counts: it is taken away, the others are written, and it last.
fn last_to_first<M: Mapped, const PLAIN: bool>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let at = units(&region);
    let (first, told) = (get(at), scene.read_cell(0));
    if first != 0 {
        check!(scene, first == told || first == told + 1);
        check!(scene, (1..4).all(|i| get(at.wrapping_add(i)) == first));
    }
    for n in told + 1..=scene.rounds(3) {
        put::<M::Unit, false>(at, unit(0));
        let new = black_box([unit::<M::Unit>(n); 4]);
        // SAFETY: four units of the region, which nothing else refers to.
        copy::<M::Unit, PLAIN>(unsafe { &mut *at.cast() }, &new);
        scene.write_cell(0, n);
    }
}

#[inline(never)]
fn copy<U: Unit, const PLAIN: bool>(to: &mut [U; 4], from: &[U; 4]) {
    for (to, from) in to.iter_mut().zip(from).rev() {
        put::<U, PLAIN>(to, *from);
    }
}
