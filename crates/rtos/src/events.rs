//! Event groups: eight flags each. And notifications: an event group of each thread, for which only
//! that thread waits.

use crate::error::code;
use crate::kernel::{Isr, State, Sys, abort};
use crate::made::{Always, Exists};
use crate::object::{Change, FOREVER, Step};
use crate::ram::{Memory, Object};
use crate::system::{Kind, Layout, Notifies, ObjectSpec, System, ThreadId};
use core::marker::PhantomData;
use nv_replay::nvmem::planted;
use nv_replay::{Error, pmem_tx};

/// The condition for which a thread waits in an event group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// One of the flags.
    Any,
    /// All of them.
    All,
}

/// An event group of the system `S`: eight flags.
pub struct Events<S, G = Always> {
    at: Layout,
    exists: G,
    _s: PhantomData<fn() -> S>,
}

impl<S: System> Events<S> {
    #[doc(hidden)]
    pub const fn at(at: Layout) -> Self {
        Events {
            at,
            exists: Always,
            _s: PhantomData,
        }
    }

    #[doc(hidden)]
    pub const fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            kind: Kind::Events,
            word: self.at.word,
            words: 1,
            initial: 0,
            content: 0,
            timer: 0,
            reserved: 0,
        }
    }

    #[doc(hidden)]
    pub const fn behind(&self) -> Layout {
        self.at.behind(self.spec(), 0)
    }

    /// This group, if it exists.
    pub(crate) fn if_it<G>(self, exists: G) -> Events<S, G> {
        Events {
            at: self.at,
            exists,
            _s: PhantomData,
        }
    }
}

impl<S: System, G: Exists> Events<S, G> {
    /// Sets flags, with the commit of the step.
    ///
    /// **Power loss**: set if and only if the step has committed. **Cost**: one store for all that
    /// the step does with this group, two on 16-bit units. **Errors**: [`code::TOO_MANY`].
    pub fn set(&self, step: &Step<'_, '_, '_, '_, S>, flags: u8) -> Result<(), pmem_tx::Error> {
        let sys = step.token();
        sys.kernel.section(|s| {
            self.exists.check(s, sys.me())?;
            s.set(sys.me(), self.at.object, flags)
        })
    }

    /// Waits for flags, and clears them with the commit of the step. Returns those of them that
    /// were set. Until then no other step gets them. A flag that is set again meanwhile stays set.
    ///
    /// **Power loss**: cleared if and only if the step has committed. A step that waits has changed
    /// nothing. **Cost**: that of [`set`](Self::set). **Errors**: as there.
    pub fn wait(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        flags: u8,
        until: Until,
    ) -> Result<u8, pmem_tx::Error> {
        let found = self.wait_until(step.token(), flags, until, FOREVER)?;
        found.ok_or(abort(code::DAMAGED))
    }

    /// Like [`wait`](Self::wait), for at most so many ticks.
    ///
    /// **Power loss**: the time counts anew. **Errors**: as there.
    pub fn wait_timeout(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        flags: u8,
        until: Until,
        ticks: u64,
    ) -> Result<Option<u8>, pmem_tx::Error> {
        let sys = step.token();
        self.wait_until(sys, flags, until, sys.after(ticks))
    }

    fn wait_until(
        &self,
        sys: &Sys<'_, '_, S>,
        flags: u8,
        until: Until,
        time: u64,
    ) -> Result<Option<u8>, pmem_tx::Error> {
        let object = self.at.object;
        sys.wait(object, time, |s| {
            self.exists.check(s, sys.me())?;
            s.clear(sys.me(), object, flags, |seen| match until {
                Until::Any => seen != 0,
                Until::All => seen == flags,
            })
        })
    }

    /// Sets flags at once, from an interrupt's handler.
    ///
    /// **Power loss**: set, or not. **Cost**: one settled store, two on 16-bit units. **Errors**:
    /// the word is damaged.
    pub fn set_from_isr(&self, isr: &Isr<'_, '_, S>, flags: u8) -> Result<(), Error> {
        self.exists.check_in(isr)?;
        isr.publish(self.at.object, flags, |o| Some(o.state | flags))?;
        Ok(())
    }
}

impl<S: System> State<'_, S> {
    /// Sets flags with the commit.
    #[inline]
    fn set(&mut self, t: usize, object: u8, flags: u8) -> Result<(), pmem_tx::Error> {
        self.operate(t, object, |o| o.plus |= flags)
    }

    /// Clears those of some flags with the commit that are set and that nobody has claimed, if
    /// they are enough.
    #[inline]
    fn clear(
        &mut self,
        t: usize,
        object: u8,
        flags: u8,
        enough: impl FnOnce(u8) -> bool,
    ) -> Result<Option<u8>, pmem_tx::Error> {
        let Some(o) = self.object(object) else {
            return Ok(None);
        };
        let seen = o.state & !o.taken & flags;
        if !enough(seen) {
            return Ok(None);
        }
        self.operate(t, object, |o| o.minus |= seen)?;
        if let Some(o) = self.object(object) {
            o.taken |= seen;
        }
        Ok(Some(seen))
    }

    /// Flags that were just set are not those that other steps have claimed: they stay set when
    /// those steps commit, as in a kernel that clears flags when the wait ends.
    #[cold]
    #[inline(never)]
    pub fn keep_set(&mut self, object: u8, now_set: u8) {
        if planted!("nv-rtos/flag-set-again-is-lost") {
            return;
        }
        let claimed = self.object(object).map_or(0, |o| o.taken);
        let again = claimed & now_set;
        if again == 0 {
            return;
        }
        for c in self.ram.threads_mut() {
            let mine = c.operations().filter(|o| o.object == object);
            mine.for_each(|o| o.minus &= !again);
        }
        if let Some(o) = self.object(object) {
            o.taken &= !again;
        }
    }
}

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

/// The commit of an operation that sets the flags `plus` and clears those of `minus`. Whether it
/// has set flags that another step has claimed: see [`State::keep_set`].
#[inline(always)]
pub(crate) fn commit(o: &mut Object, plus: u8, minus: u8) -> (Change, bool) {
    let before = o.state;
    o.state = before & !minus | plus;
    give_up(o, minus);
    let change = Change {
        word: o.word.into(),
        before,
        after: o.state,
    };
    (change, o.taken & plus != 0)
}

/// The operation's claims end.
#[inline(always)]
pub(crate) fn give_up(o: &mut Object, minus: u8) {
    o.taken &= !minus;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_are_set_again_are_told() {
        let mut o = Object {
            state: 0b011,
            taken: 0b011,
            ..Object::NEW
        };
        // This step has claimed the first flag, another one the second.
        let (change, again) = commit(&mut o, 0b100, 0b001);
        assert_eq!((change.before, change.after, again), (0b011, 0b110, false));
        assert_eq!(o.taken, 0b010);
        let (change, again) = commit(&mut o, 0b010, 0);
        assert_eq!((change.after, again), (0b110, true));
        give_up(&mut o, 0b010);
        assert_eq!((o.state, o.taken), (0b110, 0));
    }
}
