//! Task notifications: an event group of each thread, for which only that thread waits.

use crate::kernel::Isr;
use crate::objects::{Events, Step, Until};
use crate::system::{Layout, Notifies, System, ThreadId};
use nv_replay::nvmem::planted;
use nv_replay::{Error, pmem_tx};

/// The notifications of a thread: they lie after the objects of the system.
fn of<S: System>(thread: usize) -> Events<S> {
    const {
        assert!(
            S::CONTROL.notify,
            "the system has no `notify: true` in its block `control`"
        )
    };
    let mut back = S::THREADS.len() - thread;
    if planted!("nv-rtos/notifies-the-first-thread") {
        back = S::THREADS.len();
    }
    Events::at(Layout {
        object: S::END.object - back as u8,
        word: S::END.word - back as u16,
        slots: S::END.slots,
    })
}

impl<S: System, A> ThreadId<S, A> {
    /// Sets notifications of a thread, with the commit of the step: flags, which stay set until
    /// that thread waits for them.
    ///
    /// **Power loss**: set if and only if the step has committed. **Cost** and **Errors**: those of
    /// [`Events::set`].
    pub fn notify(self, step: &Step<'_, '_, '_, '_, S>, flags: u8) -> Result<(), pmem_tx::Error>
    where
        S: Notifies,
    {
        of::<S>(self.number).set(step, flags)
    }

    /// Sets notifications of a thread at once, from an interrupt's handler.
    ///
    /// **Power loss**: set, or not. **Cost** and **Errors**: those of [`Events::set_from_isr`].
    pub fn notify_from_isr(self, isr: &Isr<'_, '_, S>, flags: u8) -> Result<(), Error>
    where
        S: Notifies,
    {
        of::<S>(self.number).set_from_isr(isr, flags)
    }
}

/// Waits for notifications of the running thread, and clears them with the commit of the step.
/// Returns those of the flags that were set.
///
/// **Power loss**: cleared if and only if the step has committed. A step that waits has changed
/// nothing. **Cost** and **Errors**: those of [`Events::wait`].
pub fn wait_notification<S: Notifies>(
    step: &Step<'_, '_, '_, '_, S>,
    flags: u8,
    until: Until,
) -> Result<u8, pmem_tx::Error> {
    of::<S>(step.token().me()).wait(step, flags, until)
}

/// Like [`wait_notification`], for at most so many ticks.
///
/// **Power loss**: the time counts anew. **Cost** and **Errors**: as there.
pub fn wait_notification_timeout<S: Notifies>(
    step: &Step<'_, '_, '_, '_, S>,
    flags: u8,
    until: Until,
    ticks: u64,
) -> Result<Option<u8>, pmem_tx::Error> {
    of::<S>(step.token().me()).wait_timeout(step, flags, until, ticks)
}
