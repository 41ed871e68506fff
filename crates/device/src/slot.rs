//! The place of a driver in RAM: built when it is needed, taken out when something fails.

use crate::error::CallError;
use crate::restore::{Apply, Restore};
use nv_replay::nvmem::planted;

/// A driver, if it is built, and the parts that it is built from.
pub(crate) struct Slot<D, P> {
    pub driver: Option<D>,
    pub parts: P,
    /// Built again at once, because the outside sees the device.
    pub eager: bool,
}

// INVARIANT "Nobody knows, nobody keeps": a driver whose call has not succeeded, or that has acted
// for a step that is undone, is taken out. Also in `undone` (staged.rs).
// Noticed by: planted `no-rebuild-after-error`, `undone-step-stays`, `kept-after-apply-failed`,
// `dropped-future-keeps-driver`.

/// A driver in a call. Unless the call has succeeded, the driver is taken out: it is not known how
/// far the call came. Also if it unwinds, or if its future is dropped.
pub(crate) struct InUse<'a, D, P> {
    slot: &'a mut Slot<D, P>,
    release: fn(D, &mut P),
    succeeded: bool,
}

impl<D, P> Slot<D, P> {
    pub fn new(parts: P) -> Self {
        Slot {
            driver: None,
            parts,
            eager: false,
        }
    }

    pub fn enter(&mut self, release: fn(D, &mut P)) -> InUse<'_, D, P> {
        InUse {
            slot: self,
            release,
            succeeded: false,
        }
    }

    /// Takes the driver out.
    pub fn take_out(&mut self, release: fn(D, &mut P)) {
        if let Some(driver) = self.driver.take() {
            release(driver, &mut self.parts)
        }
    }
}

impl<D: Restore> Slot<D, D::Parts> {
    // INVARIANT "Restored before use": a call gets a driver that was built in this boot, from a
    // committed context. `open` has settled before what was in doubt.
    // Noticed by: planted `context-not-resolved`, `restored-from-staged`.

    /// Builds the driver, unless there is one.
    #[inline(always)]
    pub fn build(&mut self, context: &D::Context) -> Result<(), CallError<D::Error>> {
        if self.driver.is_none() {
            let driver = D::restore(&mut self.parts, context).map_err(CallError::Restore)?;
            self.driver = Some(driver);
        }
        Ok(())
    }

    /// Takes the driver out; an eager device is built again at once. If that fails, the next use
    /// builds it.
    pub fn rebuild(&mut self, context: &D::Context) {
        if planted!("nv-device/no-rebuild-after-error") {
            return;
        }
        self.take_out(D::release);
        if self.eager {
            let _ = self.build(context);
        }
    }

    /// [`follow`](Self::follow), whose rare part is a function of its own: then the usual one saves
    /// fewer registers.
    #[inline(always)]
    pub fn follow_alone(&mut self, context: &D::Context) -> Result<(), CallError<D::Error>> {
        if self.driver.is_none() {
            return self.follow_unbuilt(context);
        }
        self.follow(context)
    }

    #[cold]
    #[inline(never)]
    fn follow_unbuilt(&mut self, context: &D::Context) -> Result<(), CallError<D::Error>> {
        self.follow(context)
    }

    /// The committed context has changed: the device follows, if it is in use.
    #[inline(always)]
    pub fn follow(&mut self, context: &D::Context) -> Result<(), CallError<D::Error>> {
        if self.driver.is_none() {
            return if self.eager {
                self.build(context)
            } else {
                Ok(())
            };
        }
        let mut in_use = self.enter(D::release);
        let applied = in_use.driver().map(|driver| driver.apply(context));
        let mut follows = matches!(applied, Some(Ok(Apply::Done)));
        if planted!("nv-device/kept-after-apply-failed") {
            follows = true;
        }
        if follows {
            in_use.succeeded();
            return Ok(());
        }
        drop(in_use);
        self.build(context)
    }
}

impl<D, P> InUse<'_, D, P> {
    /// The driver; `None` if it is not built.
    pub fn driver(&mut self) -> Option<&mut D> {
        self.slot.driver.as_mut()
    }

    /// For a planted bug: the driver stays whatever happens.
    #[cfg(feature = "async")]
    pub fn keep_always(&mut self) {
        self.succeeded = true
    }

    /// The call has succeeded: the driver stays.
    pub fn succeeded(mut self) {
        self.succeeded = true
    }
}

impl<D, P> Drop for InUse<'_, D, P> {
    fn drop(&mut self) {
        if !self.succeeded && !planted!("nv-device/no-rebuild-after-error") {
            self.slot.take_out(self.release)
        }
    }
}
