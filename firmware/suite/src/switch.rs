//! Two threads that preempt each other: a context switch before any instruction.
//!
//! ```text
//!  timer's interrupt -> asks for a switch -> switch: keeps the registers of one thread on its stack,
//!                                            takes those of the other one from its stack
//! ```
//!
//! Each thread increments a record of its own, and the number in the mailbox after that. So
//! whatever is under way in one of them when the other runs, and whenever the power is cut: each
//! record holds what its thread has told, or one more.
//!
//! | machine | the switch is | the timer's interrupt |
//! |---|---|---|
//! | Cortex-M4 | the handler of PendSV; handlers have a stack of their own | is more urgent: it also comes in the middle of a switch |
//! | RV32IMC | the handler of the software interrupt; a thread's registers are on its stack | comes in the middle of a switch, because that enables it |
//! | MSP430 | a call, also from the timer's handler | is masked in a switch |
//!
//! On a host there are no interrupts: the threads take turns.

#[cfg(all(target_os = "none", target_abi = "eabihf"))]
mod cortex_m;
#[cfg(target_arch = "msp430")]
mod msp430;
#[cfg(all(target_os = "none", target_arch = "riscv32"))]
mod riscv;

#[cfg(all(target_os = "none", target_abi = "eabihf"))]
use cortex_m as core_of;
#[cfg(all(target_os = "none", target_abi = "eabihf"))]
pub use cortex_m::pendsv;
#[cfg(target_arch = "msp430")]
use msp430 as core_of;
#[cfg(all(target_os = "none", target_arch = "riscv32"))]
use riscv as core_of;
#[cfg(all(target_os = "none", target_arch = "riscv32"))]
pub use riscv::software;

use crate::{Group, Mapped, Scenario, Scene, check, ok};
use ::nvmem::{Record, Region};
use core::cell::Cell;

/// The scenarios of the image `switch`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "switch",
            primitive: "nvmem",
            scenarios: &[Scenario::preempted("two_threads", 2 * RECORD, two_threads)],
        }
    }
}

/// The argument of a planted bug: the switch forgets a register.
pub(crate) const REGISTER_LOST: u16 = 17;

/// Bytes of a thread's part of the region.
const RECORD: usize = 64;
/// How far each thread counts. The second one goes on alone for a while, and the first one waits.
fn last<M: Mapped>(scene: &Scene<'_, M>, thread: u16) -> u16 {
    scene.rounds(2) + 2 * thread
}

/// One thread's life. Both give their number in the mailbox when they have told.
fn count<M: Mapped>(scene: &Scene<'_, M>, own: &mut Region<'_, M>, thread: u16) {
    let all = 0..own.len() as u32;
    let mut r = ok!(scene, Record::open(own, all, 0_u32));
    let (found, told) = (*r.get() as u16, scene.read_cell(thread));
    check!(scene, found == told || found == told + 1);
    scene.write_cell(thread, found);
    for n in found + 1..=last(scene, thread) {
        ok!(scene, r.set(n.into()));
        check!(scene, *r.get() == u32::from(n));
        scene.write_cell(thread, n);
    }
}

fn two_threads<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    let scene = &*scene;
    let life = |thread: u16| {
        let from = region.base().wrapping_add(usize::from(thread) * RECORD);
        // SAFETY: a part of the region that is this thread's alone. The region itself is not used
        // meanwhile.
        let own = unsafe { Region::<M>::from_raw(from, from.wrapping_add(RECORD)) };
        count(scene, &mut ok!(scene, own), thread);
        Turn::Ended
    };
    run(scene, [&|| life(0), &|| life(1)]);
    check!(scene, (0..2).all(|t| scene.read_cell(t) == last(scene, t)));
}

/// What a thread has done when its function returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// An operation. It goes on.
    Done,
    /// Nothing: it waits for the other one.
    Waits,
    /// All of its operations.
    Ended,
}

/// Runs two threads until both have ended. Each is a function that is called again and again.
///
/// **Preempted** by the timer's interrupt anywhere outside of critical sections, on a machine.
#[cfg(any(
    target_abi = "eabihf",
    target_arch = "msp430",
    all(target_os = "none", target_arch = "riscv32")
))]
pub(crate) fn run<M: Mapped>(scene: &Scene<'_, M>, threads: [&dyn Fn() -> Turn; 2]) {
    let ended = Cell::new(false);
    let live = |thread: &dyn Fn() -> Turn| {
        let mut turns = 5;
        loop {
            match thread() {
                Turn::Done => {}
                Turn::Waits => core_of::wait(&mut turns),
                Turn::Ended => return,
            }
        }
    };
    let [first, second] = threads;
    let both: [&dyn Fn(); 2] = [&|| live(first), &|| {
        live(second);
        ended.set(true);
    }];
    core_of::run(scene, both, &ended);
}

/// Runs two threads until both have ended: they take turns.
#[cfg(not(any(
    target_abi = "eabihf",
    target_arch = "msp430",
    all(target_os = "none", target_arch = "riscv32")
)))]
pub(crate) fn run<M: Mapped>(_: &Scene<'_, M>, threads: [&dyn Fn() -> Turn; 2]) {
    let ended = threads.map(|_| Cell::new(false));
    while !ended.iter().all(Cell::get) {
        for (thread, ended) in threads.iter().zip(&ended).filter(|t| !t.1.get()) {
            ended.set(thread() == Turn::Ended);
        }
    }
}
