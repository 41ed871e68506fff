//! Counting semaphores.

use crate::error::code;
use crate::kernel::{Isr, State, Sys, abort};
use crate::made::{Always, Exists};
use crate::object::{Change, FOREVER, Step};
use crate::ram::Object;
use crate::system::{Kind, Layout, ObjectSpec, System};
use core::marker::PhantomData;
use nv_replay::nvmem::planted;
use nv_replay::{Error, pmem_tx};

/// A counting semaphore of the system `S`; a binary one, if its maximum is 1.
///
/// One that was [made](crate::Places) at run time is marked [`Alive`](crate::Alive): all calls end
/// with [`code::DELETED`] when it was deleted. The same holds for queues and event groups.
pub struct Semaphore<S, G = Always> {
    at: Layout,
    initial: u8,
    max: u8,
    exists: G,
    _s: PhantomData<fn() -> S>,
}

impl<S: System> Semaphore<S> {
    #[doc(hidden)]
    pub const fn at(at: Layout, initial: u8, max: u8) -> Self {
        assert!(
            initial <= max && max > 0,
            "a semaphore begins with at most its maximum, 1 to 255"
        );
        Semaphore {
            at,
            initial,
            max,
            exists: Always,
            _s: PhantomData,
        }
    }

    #[doc(hidden)]
    pub const fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            kind: Kind::Semaphore,
            word: self.at.word,
            words: 1,
            initial: self.initial,
            content: self.max as u64,
            timer: 0,
            reserved: 0,
        }
    }

    #[doc(hidden)]
    pub const fn behind(&self) -> Layout {
        self.at.behind(self.spec(), 0)
    }

    /// This semaphore, if it exists.
    pub(crate) fn if_it<G>(self, exists: G) -> Semaphore<S, G> {
        let Semaphore {
            at, initial, max, ..
        } = self;
        Semaphore {
            at,
            initial,
            max,
            exists,
            _s: PhantomData,
        }
    }
}

impl<S: System, G: Exists> Semaphore<S, G> {
    /// Gives one, with the commit of the step.
    ///
    /// **Power loss**: given if and only if the step has committed. **Cost**: one store for all
    /// that the step does with this semaphore, two on 16-bit units. **Errors**: the step ends with
    /// [`code::FULL`] if the semaphore is at its maximum; [`code::TOO_MANY`].
    pub fn give(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<(), pmem_tx::Error> {
        if self.try_give(step)? {
            Ok(())
        } else {
            Err(abort(code::FULL))
        }
    }

    /// Like [`give`](Self::give), but says whether there was room for it.
    /// **Errors**: [`code::TOO_MANY`].
    pub fn try_give(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<bool, pmem_tx::Error> {
        let sys = step.token();
        sys.kernel.section(|s| {
            self.exists.check(s, sys.me())?;
            s.give(sys.me(), self.at.object, self.max)
        })
    }

    /// Takes one; waits until there is one. Others do not see it any more, but until the step
    /// commits, it is not gone: if the step fails or the power is cut, it is there again.
    ///
    /// **Power loss**: taken if and only if the step has committed. A step that waits has changed
    /// nothing. **Cost**: that of [`give`](Self::give). **Errors**: [`code::TOO_MANY`].
    pub fn take(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<(), pmem_tx::Error> {
        self.take_until(step.token(), FOREVER).map(|_| ())
    }

    /// Like [`take`](Self::take), for at most so many ticks. Whether it was taken.
    ///
    /// **Power loss**: the time counts anew. **Errors**: as there.
    pub fn take_timeout(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        ticks: u64,
    ) -> Result<bool, pmem_tx::Error> {
        let sys = step.token();
        self.take_until(sys, sys.after(ticks))
    }

    /// Like [`take`](Self::take), without waiting. Whether it was taken. **Errors**: as there.
    pub fn try_take(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<bool, pmem_tx::Error> {
        self.take_until(step.token(), 0)
    }

    fn take_until(&self, sys: &Sys<'_, '_, S>, until: u64) -> Result<bool, pmem_tx::Error> {
        let object = self.at.object;
        let found = sys.wait(object, until, |s| {
            self.exists.check(s, sys.me())?;
            s.take(sys.me(), object)
        })?;
        Ok(found.is_some())
    }

    /// Gives one at once, from an interrupt's handler. Whether there was room for it.
    ///
    /// **Power loss**: given, or not. **Cost**: one settled store, two on 16-bit units.
    /// **Errors**: the word is damaged.
    pub fn give_from_isr(&self, isr: &Isr<'_, '_, S>) -> Result<bool, Error> {
        let max = self.max;
        self.exists.check_in(isr)?;
        isr.publish(self.at.object, 0, |o| {
            let all = u32::from(o.state) + u32::from(o.given);
            (all < max.into()).then(|| o.state + 1)
        })
    }
}

impl<S: System> State<'_, S> {
    /// Gives one with the commit. Whether there is room for it.
    #[inline]
    fn give(&mut self, t: usize, object: u8, max: u8) -> Result<bool, pmem_tx::Error> {
        let Some(o) = self.object(object) else {
            return Ok(false);
        };
        let mut given = u32::from(o.given);
        if planted!("nv-rtos/given-ignored") {
            given = 0;
        }
        if u32::from(o.state) + given >= max.into() {
            return Ok(false);
        }
        self.operate(t, object, |o| o.plus += 1)?;
        if let Some(o) = self.object(object) {
            o.given += 1;
        }
        Ok(true)
    }

    // INVARIANT "Claimed once": no step gets what an operation of another running step has claimed
    // or reserved, before that step has ended. Also kept by `clear`, `claim` and `reserve`.
    // Noticed by: planted `claims-ignored`, `reserved-slot-given-away`, `given-ignored`.
    /// Takes one with the commit, if there is one that nobody has claimed.
    #[inline]
    fn take(&mut self, t: usize, object: u8) -> Result<Option<()>, pmem_tx::Error> {
        let Some(o) = self.object(object) else {
            return Ok(None);
        };
        if o.state <= o.taken {
            return Ok(None);
        }
        self.operate(t, object, |o| o.minus += 1)?;
        if let Some(o) = self.object(object) {
            o.taken += 1;
        }
        Ok(Some(()))
    }
}

/// The commit of an operation that has given `plus` and taken `minus`.
#[inline(always)]
pub(crate) fn commit(o: &mut Object, plus: u8, minus: u8) -> Change {
    let before = o.state;
    o.state = before.wrapping_add(plus).wrapping_sub(minus);
    give_up(o, plus, minus);
    Change {
        word: o.word.into(),
        before,
        after: o.state,
    }
}

/// The operation's claims end.
#[inline(always)]
pub(crate) fn give_up(o: &mut Object, plus: u8, minus: u8) {
    o.given = o.given.wrapping_sub(plus);
    o.taken = o.taken.wrapping_sub(minus);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Object;

    #[test]
    fn a_commit_changes_the_state_and_ends_the_claims() {
        let mut o = Object {
            word: 7,
            state: 3,
            given: 2,
            taken: 3,
            ..Object::NEW
        };
        // Another step has given 1 and taken 2.
        let change = commit(&mut o, 1, 1);
        assert_eq!((change.word, change.before, change.after), (7, 3, 3));
        assert_eq!((o.state, o.given, o.taken), (3, 1, 2));
        give_up(&mut o, 1, 2);
        assert_eq!((o.state, o.given, o.taken), (3, 0, 0));
    }
}
