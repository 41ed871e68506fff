//! Scenarios of `checkpoint`. On a machine a recursive program, interrupted and brought back in the
//! middle of its recursion; on a host the same media under a program that keeps its state in a
//! buffer.

#[cfg(target_os = "none")]
mod calls;
#[cfg(not(target_os = "none"))]
mod host;
#[cfg(target_os = "none")]
mod interrupted;
#[cfg(target_os = "none")]
mod target;

#[cfg(target_os = "none")]
use calls::calls;
#[cfg(not(target_os = "none"))]
use host::{calls, flash, fram, fram as interrupted, full};
#[cfg(target_os = "none")]
use interrupted::interrupted;
#[cfg(target_os = "none")]
use target::{flash, fram, full};

use crate::flash::ERASE;
use crate::{Group, Mapped, Scenario};

/// The scenarios of the image `checkpoint`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "checkpoint",
            primitive: "checkpoint",
            scenarios: &[
                Scenario::long("fram", 2 * SLOT, fram, 64),
                Scenario::long("full", crate::abi::NVM_BYTES, full, 64),
                Scenario::torn("flash", 3 * SLOT, flash, 4096),
            ],
        }
    }
}

/// The scenarios of the image `checkpoint-interrupt`.
pub const fn interrupt_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "checkpoint-interrupt",
            primitive: "checkpoint",
            scenarios: &[Scenario {
                sample: 32,
                ..Scenario::interrupted("handler", 2 * SLOT, interrupted)
            }],
        }
    }
}

/// The scenarios of the image `device-calls`: devices of a program with checkpoints.
pub const fn calls_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "device-calls",
            primitive: "nv-device",
            scenarios: &[Scenario::long("restored", CONTEXTS + 2 * SLOT, calls, 64)],
        }
    }
}

/// Bytes of the contexts of devices.
const CONTEXTS: usize = 256;

/// The mailbox's arguments: planted bugs.
pub(crate) const FORGOTTEN: u16 = 13;
pub(crate) const NO_FPU: u16 = 14;
pub(crate) const OWN_STACK: u16 = 15;
pub(crate) const EARLY: u16 = 16;

/// The number of this build.
const PROGRAM: u64 = 1;
/// Bytes of a slot where an image holds what is in use.
const SLOT: usize = 10 * ERASE as usize;
