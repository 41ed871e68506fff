//! The energy that is left, if the board knows it: a program may choose by it what to do next.

use crate::object::Step;
use crate::system::System;
use crate::thread::Thread;
use nv_replay::Error;
use nv_replay::nvmem::{Persist, planted};

/// The facts that a port gives a program when no thread is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Idle {
    /// When the kernel's timer is due: see [`Kernel::next_deadline`](crate::Kernel::next_deadline).
    pub deadline: Option<u64>,
    /// What [`Port::energy`](crate::Port::energy) says.
    pub energy: Option<u32>,
}

/// The energy that is left, in microjoules, as [`Port::energy`](crate::Port::energy) says now. A
/// step that is cut and begins anew gets another number: what it does by it takes effect with its
/// commit, or not at all.
///
/// **Cost**: stores nothing.
pub fn energy<S: System>(step: &Step<'_, '_, '_, '_, S>) -> Option<u32> {
    step.token().port.energy()
}

/// The record of a board that does not know it.
const UNKNOWN: u64 = u64::MAX;

impl<S: System, R: Persist> Thread<'_, '_, '_, S, R> {
    /// The energy that is left, in microjoules: see [`Port::energy`](crate::Port::energy). It is
    /// recorded, so a thread may choose by it which step comes next: each boot gets the same, and
    /// chooses the same. In a step, [`energy`] is not recorded.
    ///
    /// **Power loss**: recorded, or asked again. **Cost**: three stores. **Errors**: those of
    /// [`record_with`](Self::record_with).
    #[track_caller]
    pub fn energy(&mut self) -> Result<Option<u32>, Error> {
        let sys = self.sys();
        if planted!("nv-rtos/energy-not-recorded") {
            return Ok(sys.port.energy());
        }
        let found = self.record_with(|| sys.port.energy().map_or(UNKNOWN, u64::from))?;
        Ok(u32::try_from(found).ok())
    }
}
