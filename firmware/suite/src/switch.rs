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
//! On a Cortex-M the switch is the handler of PendSV. The threads have the process stack, handlers
//! the main one, and the timer's interrupt is the more urgent one, so that it also comes in the
//! middle of a switch. On other machines, and on a host, the threads run one after the other.

#[cfg(all(target_os = "none", target_abi = "eabihf"))]
mod cortex_m;
#[cfg(all(target_os = "none", target_abi = "eabihf"))]
pub use cortex_m::pendsv;
#[cfg(all(target_os = "none", target_abi = "eabihf"))]
use cortex_m::run;

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
    let ended = [Cell::new(false), Cell::new(false)];
    let life = |thread: u16| {
        let from = region.base().wrapping_add(usize::from(thread) * RECORD);
        // SAFETY: a part of the region that is this thread's alone. The region itself is not used
        // meanwhile.
        let own = unsafe { Region::<M>::from_raw(from, from.wrapping_add(RECORD)) };
        count(scene, &mut ok!(scene, own), thread);
        ended[usize::from(thread)].set(true);
    };
    run(scene, [&|| life(0), &|| life(1)], &ended[1]);
    check!(scene, (0..2).all(|t| scene.read_cell(t) == last(scene, t)));
}

/// One thread after the other.
#[cfg(not(all(target_os = "none", target_abi = "eabihf")))]
fn run<M: Mapped>(_: &Scene<'_, M>, threads: [&dyn Fn(); 2], _: &Cell<bool>) {
    threads.into_iter().for_each(|t| t());
}
