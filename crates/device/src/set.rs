//! The devices of a program whose contexts commit with its steps.
//!
//! ```text
//! step_with(&set, …)   body: calls stage nothing yet; changed contexts wait in RAM
//!                        |                          |
//!                        | Ok                       | error, unwinds
//!                        v                          v
//!                      join                       undone
//!                       1 stage each changed       forget the changes; a driver that has acted
//!                         context with n           is taken out
//!                       2 commit.store()   <-- commits the step, its data and all contexts
//!                       3 settle each
//!                       4 each device follows its context
//!
//! cut before 2: the next open reverts what is staged; the devices are restored from before
//! cut after 2:  the next open settles it; the devices are restored to what is committed
//! ```

use crate::error::Code;
use core::cell::Cell;
use core::ops::Deref;
use nv_replay::nvmem::{Model, planted};
use nv_replay::{Commit, Committed, Error, Token};

/// The devices of a program: names each of them once.
pub trait Devices {
    /// Calls `f` with each [`StagedDevice`](crate::StagedDevice) and each
    /// [`Events`](crate::Events). A step that changes one that is left out here fails with
    /// [`Code::Forgotten`].
    fn each(&self, f: &mut dyn FnMut(&dyn Joined));
}

/// One run of a step's body, of one set.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The address of the set: a device may be in several.
    set: usize,
    number: u32,
}

impl Attempt {
    /// No step runs.
    pub(crate) const NONE: Attempt = Attempt { set: 0, number: 0 };
}

/// A part of a step's commit: a device, or events.
pub trait Joined {
    /// Stages what has changed in this attempt. Returns whether anything has; an error means that
    /// the stored context is damaged.
    #[doc(hidden)]
    fn stage(&self, attempt: Attempt, number: u32) -> Result<bool, Code>;
    /// Undoes what `stage` has stored.
    #[doc(hidden)]
    fn revert(&self, attempt: Attempt, number: u32);
    /// The step has committed.
    #[doc(hidden)]
    fn settle(&self, attempt: Attempt);
    /// Brings the device to its committed context, if it has changed.
    #[doc(hidden)]
    fn follow(&self, attempt: Attempt);
    /// Forgets what has changed in this attempt.
    #[doc(hidden)]
    fn undone(&self, attempt: Attempt);
}

/// The token that takes a program's devices into its steps: `rt.step_with(&set, …)`.
///
/// It dereferences to the devices. In a step's body they are `step.token()`.
pub struct Set<T> {
    devices: T,
    /// The number of the running attempt of a step; others are over.
    number: Cell<u32>,
    /// How many devices have changed in it.
    changed: Cell<u32>,
}

impl<T: Devices> Set<T> {
    /// Devices as a token.
    pub fn new(devices: T) -> Self {
        Set {
            devices,
            number: Cell::new(1),
            changed: Cell::new(0),
        }
    }
}

impl<T> Set<T> {
    #[inline(always)]
    pub(crate) fn attempt(&self) -> Attempt {
        Attempt {
            set: core::ptr::from_ref(self).addr(),
            number: self.number.get(),
        }
    }

    /// One more device has changed in this attempt.
    #[inline(always)]
    pub(crate) fn one_changed(&self) {
        self.changed.set(self.changed.get() + 1)
    }

    /// The attempt is over. Returns it.
    fn over(&self) -> Attempt {
        let attempt = self.attempt();
        self.number.set(attempt.number.wrapping_add(1));
        self.changed.set(0);
        attempt
    }
}

impl<T> Deref for Set<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.devices
    }
}

impl<T: Devices, M: Model> Token<M> for Set<T> {
    fn join<'c>(&self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error> {
        let devices = &self.devices;
        let changed = self.changed.get();
        let attempt = self.over();
        if changed == 0 {
            return Ok(commit.store());
        }
        if planted!("nv-device/output-before-commit") {
            devices.each(&mut |d| d.follow(attempt));
        }
        let number = commit.number();
        let (mut staged, mut failed) = (0, None);
        devices.each(&mut |d| match d.stage(attempt, number) {
            Ok(true) => staged += 1,
            Ok(false) => {}
            Err(code) => failed = Some(code),
        });
        if staged != changed {
            failed = failed.or(Some(Code::Forgotten));
        }
        if let Some(code) = failed {
            // The record of this error commits the same number.
            devices.each(&mut |d| {
                if !planted!("nv-device/join-does-not-abandon") {
                    d.revert(attempt, number);
                }
                d.undone(attempt);
            });
            return Err(Error::Aborted(code as u16));
        }
        let done = commit.store();
        if changed == 1 {
            devices.each(&mut |d| {
                d.settle(attempt);
                d.follow(attempt);
            });
        } else {
            // All are settled before a driver can unwind.
            devices.each(&mut |d| d.settle(attempt));
            devices.each(&mut |d| d.follow(attempt));
        }
        Ok(done)
    }

    fn undone(&self) {
        let changed = self.changed.get();
        let attempt = self.over();
        if changed > 0 {
            self.devices.each(&mut |d| d.undone(attempt))
        }
    }
}
