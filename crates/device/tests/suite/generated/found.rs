//! What the campaigns have found, and what was decided with them, each as its smallest program.

use super::Narrow;
use super::boot::{BYTES, boot};
use super::model::Seen;
use super::program::{Do, Do::*, End::*, Op::*, Program};
use nv_device::nvmem::InOrder32;
use powerfail::{Mapped, World, explore};

/// The device has carried out the call of a step that was undone. The next step finds that, and the
/// driver, which was built from the context before the call, follows with the commit.
#[test]
fn what_was_done_before_is_followed() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |nv, w: &World<'_, Seen>| {
            let once = || vec![Once { fails: 0 }];
            let ops = vec![Step(once(), Aborts), Step(once(), Commits)];
            let program = Program {
                eager: 8,
                replays: false,
                ops,
            };
            boot::<Narrow, InOrder32>(nv, w, &program)
        },
    )
    .run();
}

/// The same of a device that commits by itself: a cut between the call and its commit.
#[test]
fn what_was_done_before_is_followed_at_once() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |nv, w: &World<'_, Seen>| {
            let ops = vec![OwnOnce { fails: 0 }, OwnOnce { fails: 0 }];
            let program = Program {
                eager: 0x10,
                replays: false,
                ops,
            };
            boot::<Narrow, InOrder32>(nv, w, &program)
        },
    )
    .run();
}

/// A program goes back to its checkpoint while the medium has a later version of a context. That
/// one counts until the next is complete.
#[test]
fn back_to_a_checkpoint() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |nv, w: &World<'_, Seen>| {
            let change = OwnChange {
                wide: true,
                value: 40,
                fails: 0,
            };
            let program = Program {
                eager: 0,
                replays: false,
                ops: vec![Rewind, change, Rewind],
            };
            boot::<Narrow, InOrder32>(nv, w, &program)
        },
    )
    .run();
}

/// A call unwinds in a step that has used the device, and goes on: the driver is built again from
/// the context before the step, and did not follow the commit.
#[test]
fn a_call_that_unwinds() {
    explore(
        Mapped::<InOrder32>::new(BYTES),
        |nv, w: &World<'_, Seen>| {
            let act = Act {
                device: 0,
                value: 79,
                fails: 0,
            };
            let unwinds = ActAndUnwind {
                device: 0,
                value: 90,
            };
            let uses = Do::Use {
                device: 0,
                fails: false,
            };
            let program = Program {
                eager: 0,
                replays: false,
                ops: vec![Step(vec![act, unwinds, uses], Commits)],
            };
            boot::<Narrow, InOrder32>(nv, w, &program)
        },
    )
    .run();
}
