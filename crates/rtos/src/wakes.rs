//! Waiting for something that is no object of the kernel: a handler wakes the thread, which checks
//! again.
//!
//! ```text
//!  thread, in a step               handler
//!    look: nothing there
//!                                    the event is there
//!                                    wake: woken 1
//!    woken? yes: woken 0, look again                      no wake-up is lost
//!    look: nothing there
//!    woken? no: wait
//!                                    the event is there
//!                                    wake: woken 1, ready
//!    woken 0, look again
//! ```
//!
//! Nothing of it is stored: what the thread waits for is on the medium already, and each boot
//! checks before it waits.

use crate::kernel::{Isr, State, Sys};
use crate::objects::{FOREVER, Step};
use crate::ram::A_WAKE;
use crate::schedule::bit;
use crate::system::{System, ThreadId};
use nv_replay::nvmem::planted;
use nv_replay::pmem_tx;

impl<S: System> State<'_, S> {
    /// Whether thread `t` was woken. Forgets it.
    fn was_woken(&mut self, t: usize) -> Option<()> {
        let woken = self.schedule.woken & bit(t);
        self.schedule.woken &= !bit(t);
        (woken != 0).then_some(())
    }
}

impl<S: System> ThreadId<S> {
    /// Wakes the thread, which calls `look` of [`wait_until`] again. If it does not wait, its next
    /// wait calls `look` twice. The handler calls this when the event that the thread waits for is
    /// posted.
    ///
    /// **Power loss**: nothing is stored; each boot checks before it waits. **Cost**: no store, a
    /// bounded number of instructions.
    pub fn wake_from_isr(self, isr: &Isr<'_, '_, S>) {
        let t = self.number();
        isr.kernel.section(|s| {
            let waits = s.control(t).waits_for == A_WAKE && !s.is_ready(t);
            if !waits && planted!("nv-rtos/wake-before-the-wait-is-lost") {
                return;
            }
            s.schedule.woken |= bit(t);
            if waits {
                s.wake_all(bit(t));
                s.reschedule(isr.port);
            }
        });
    }
}

/// Calls `look` until it finds something. Between two calls the thread waits until an interrupt's
/// handler [wakes](ThreadId::wake_from_isr) it.
///
/// `look` may find nothing though the thread was woken. It is called outside of critical sections.
///
/// **Power loss**: a step that waits has changed nothing. **Cost**: no store. **Errors**: those of
/// `look`.
pub fn wait_until<S: System, O>(
    step: &Step<'_, '_, '_, '_, S>,
    look: impl FnMut() -> Result<Option<O>, pmem_tx::Error>,
) -> Result<O, pmem_tx::Error> {
    let mut look = look;
    loop {
        if let Some(found) = until(step.token(), FOREVER, &mut look)? {
            return Ok(found);
        }
    }
}

/// Like [`wait_until`], for at most so many ticks.
///
/// **Power loss**: the time counts anew. **Cost**: no store; if the time is over, those of the
/// clock. **Errors**: as there.
pub fn wait_until_timeout<S: System, O>(
    step: &Step<'_, '_, '_, '_, S>,
    ticks: u64,
    look: impl FnMut() -> Result<Option<O>, pmem_tx::Error>,
) -> Result<Option<O>, pmem_tx::Error> {
    let sys = step.token();
    until(sys, sys.after(ticks), look)
}

// INVARIANT "No wake-up is lost": a thread that waits for what a handler makes does so only if no
// handler has woken it since its last check: `ThreadId::wake_from_isr` sets a bit for each thread,
// which is taken in the section in which the thread begins to wait.
// Noticed by: planted `wake-before-the-wait-is-lost`.
fn until<S: System, O>(
    sys: &Sys<'_, '_, S>,
    time: u64,
    mut look: impl FnMut() -> Result<Option<O>, pmem_tx::Error>,
) -> Result<Option<O>, pmem_tx::Error> {
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if sys
            .wait(A_WAKE, time, |s| Ok(s.was_woken(sys.me())))?
            .is_none()
        {
            // It may have come with the end of the time.
            return look();
        }
    }
}
