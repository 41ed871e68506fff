//! Programs with devices, on the bench: each is written as a user writes it, on `nv-device`, with
//! drivers that know nothing of power cuts. Every access to a register is a point where the power
//! may fail.
//!
//! At each boot a program checks: the power has reset the devices; before a device is used first,
//! it is as its committed context says; the outside has seen nothing that was not committed then.
//! What only the outside can judge, the packets, the bench judges itself.

mod alarm;
mod blink;
mod buttons;
mod lamps;
mod node;
mod radio;
mod receive;
mod sense;
mod sensor;

use crate::{Group, Mapped, Scenario, Scene, ok};
use nv_device::Committed;
use nv_device::nvmem::{CommitNumber, Region};
use nv_replay::{Config, Options, last_committed};

/// The scenarios of the image `device`: lamps, a timer, a clock that keeps its alarm, and a sensor.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "device",
            primitive: "nv-device",
            scenarios: &[
                Scenario::new("lamps", 1024, lamps::counter),
                Scenario::new("lamps_alone", 256, lamps::alone),
                Scenario::new("blink", 1024, blink::blink),
                Scenario::new("alarm", 1024, alarm::alarm),
                Scenario::new("sense", 1024, sense::sense),
            ],
        }
    }
}

/// The scenarios of the image `device-events`: buttons that interrupt.
pub const fn events_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "device-events",
            primitive: "nv-device",
            scenarios: &[
                Scenario::new("buttons", 1024, buttons::pressed),
                Scenario::preempted("buttons_interrupt", 1024, buttons::interrupted),
            ],
        }
    }
}

/// The scenarios of the image `device-radio`: nodes that measure and send, and that receive.
pub const fn radio_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "device-radio",
            primitive: "nv-device",
            scenarios: &[
                Scenario::new("node", 1024, node::node),
                Scenario::new("receive", 1024, receive::receive),
            ],
        }
    }
}

/// Planted bugs, as arguments in the mailbox: contexts are opened without asking which step is
/// committed.
pub(crate) const UNRESOLVED: u16 = 40;
/// A lamp is switched before the commit of its step.
pub(crate) const EARLY: u16 = 41;
/// A driver sets directions before outputs.
pub(crate) const DIRECTION_FIRST: u16 = 42;
/// An alarm is set again without asking the clock.
pub(crate) const UNASKED: u16 = 43;
/// An event's position commits with one step, and what it has done with the next.
pub(crate) const APART: u16 = 44;
/// An interrupt clears its flag before the event is stored.
pub(crate) const CLEARED_FIRST: u16 = 45;
/// A radio is configured once, and not again after a cut.
pub(crate) const CONFIGURED_ONCE: u16 = 46;
/// A packet leaves in the step that makes it, with readings that are not committed.
pub(crate) const SENT_EARLY: u16 = 47;

/// A call changes a device, and not its context.
pub(crate) const UNSAVED: u16 = 48;

/// A packet is answered before the commit of the step that handles it.
pub(crate) const ANSWERED_EARLY: u16 = 49;

/// The table of the programs. Numbers come round again.
const TABLE: Config = Config {
    bytes: 128,
    outbox_bytes: 0,
    seq_bits: 4,
};

/// Bytes for the contexts.
const CONTEXTS: usize = 256;

/// The options of a program with this replay table.
fn options<'m>(table: Config) -> Options<'m> {
    Options {
        table,
        ..Options::default()
    }
}

/// The parts of a program's region: that of the contexts, and that of the steps.
fn parts<'m, M: Mapped>(
    scene: &Scene<'_, M>,
    region: Region<'m, M>,
) -> (Region<'m, M>, Region<'m, M>) {
    let Ok((contexts, rest)) = region.split_at(CONTEXTS) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    (contexts, rest)
}

/// What resolves the contexts.
fn committed<'o, M: Mapped>(
    scene: &Scene<'_, M>,
    steps: &'o Region<'_, M>,
    table: &Config,
) -> Committed<'o> {
    let number = ok!(scene, last_committed(steps));
    let resolved = scene.argument() != UNRESOLVED;
    let last = if resolved { number.get() } else { 0 };
    Committed::of(CommitNumber::new(number.owner(), last), table)
}
