//! Steps with something beside the kernel that takes part in their commits: devices.
//!
//! ```text
//!  th.step_with(&mut devices, ..)   body: step.token() is both, step.inner() the kernel's step
//!  join   the other one stages with the step's number
//!           the kernel's join, one section: its words, the commit store
//!         the other one finishes: settles, has its devices follow
//! ```
//!
//! The other one stages and finishes outside of the kernel's section, so its buses do not hold up
//! interrupts. In between other threads may run. They do not see what is staged: it belongs to one
//! thread, which has lent it by `&mut`, and its numbers are those of that thread.
//!
//! # A thread that is aborted
//!
//! It may stop between staging and the commit, or between that and the end. Neither is finished in
//! this boot, and nothing uses what was staged: no other thread has it. The next open settles or
//! reverts it by the number of the thread's last commit, which does not change any more. So the
//! thread of a reserved place has no such steps: a later thread in this place would continue the
//! numbers, and one of its steps would commit the number in doubt.

use crate::error::code;
use crate::kernel::Sys;
use crate::spawn::is_reserved;
use crate::system::System;
use crate::thread::Thread;
use core::cell::Cell;
use core::convert::Infallible;
use core::ops::{Deref, Range};
use nv_replay::nvmem::cross::{Arg, Repeat, Ret};
use nv_replay::nvmem::{Model, NumberOwner, Persist, planted};
use nv_replay::{Commit, Committed, Error, HasInner, StepBody, StepError, Token, TurnBody};

/// A value that takes part in the commits of a thread's steps, beside the kernel.
///
/// `nv-device` implements it for a `Set` of devices.
pub trait Joiner<M: Model> {
    /// Stages what the step's body has done with it, with the step's number; calls `store` with the
    /// commit, once; and finishes.
    ///
    /// **Errors**: that of `store`, or one of its own before it calls that. Then it has undone the
    /// body's claims, and has cleared what it has staged, as [`Token::join`] asks for.
    fn join_by<'c>(
        &self,
        commit: Commit<'c, M>,
        store: impl FnOnce(Commit<'c, M>) -> Result<Committed<'c>, Error>,
    ) -> Result<Committed<'c>, Error>;

    /// Undoes the body's claims: the step is undone.
    fn undone(&self);

    /// Whose numbers resolve what it stages: those of one thread. `None`: nothing stays staged
    /// after `join_by`, so it takes part in steps of any thread.
    fn owner(&self) -> Option<NumberOwner>;
}

/// The token of a step with a [`Joiner`], to which it dereferences. The step's
/// [`inner`](nv_replay::Step::inner) is the kernel's step, for the calls on its objects.
pub struct With<'k, 'm, 'd, S: System, J> {
    sys: Sys<'k, 'm, S>,
    joiner: &'d J,
}

/// Ends the body's claims on kernel objects when it is dropped, unless the kernel's join has begun:
/// that does it by itself.
struct Kernels<'a, 'k, 'm, S: System> {
    sys: &'a Sys<'k, 'm, S>,
    begun: Cell<bool>,
}

impl<S: System> Drop for Kernels<'_, '_, '_, S> {
    fn drop(&mut self) {
        if !self.begun.get() && !planted!("nv-rtos/refused-joiner-keeps-claims") {
            Token::undone(self.sys)
        }
    }
}

impl<S: System, J: Joiner<S::Model>> Token<S::Model> for With<'_, '_, '_, S, J> {
    #[inline(always)]
    fn join<'c>(&self, commit: Commit<'c, S::Model>) -> Result<Committed<'c>, Error> {
        let kernels = Kernels {
            sys: &self.sys,
            begun: Cell::new(false),
        };
        self.joiner.join_by(commit, |commit| {
            kernels.begun.set(true);
            Token::join(&self.sys, commit)
        })
    }

    fn undone(&self) {
        if !planted!("nv-rtos/joiner-not-undone") {
            self.joiner.undone();
        }
        Token::undone(&self.sys)
    }
}

impl<'k, 'm, S: System, J> HasInner for With<'k, 'm, '_, S, J> {
    type Inner = Sys<'k, 'm, S>;
    fn inner(&self) -> &Sys<'k, 'm, S> {
        &self.sys
    }
}

impl<S: System, J> Deref for With<'_, '_, '_, S, J> {
    type Target = J;
    fn deref(&self) -> &J {
        self.joiner
    }
}

// INVARIANT "Joined by one thread": what takes part in steps beside the kernel is staged with the
// numbers of one thread, which is no thread of a reserved place; a step that either refuses leaves
// nothing of the other. Also kept by `With`.
// Noticed by: planted `joiner-of-any-thread`, `joiner-not-undone`, `refused-joiner-keeps-claims`.
/// Whether the thread `me`, which is `owner`, may have steps with it.
fn check<S: System, J: Joiner<S::Model>>(
    me: usize,
    owner: NumberOwner,
    joiner: &J,
) -> Result<(), Error> {
    if planted!("nv-rtos/joiner-of-any-thread") {
        return Ok(());
    }
    if is_reserved::<S>(me) {
        return Err(Error::Aborted(code::NOT_OF_THREAD));
    }
    if joiner.owner().is_some_and(|own| own != owner) {
        return Err(Error::WrongOwner);
    }
    Ok(())
}

impl<'k, 'm, 'c, S: System, R: Persist> Thread<'k, 'm, 'c, S, R> {
    /// Like [`step`](Self::step), with something beside the kernel that takes part in the step's
    /// commit: a `Set` of devices of `nv-device`. The calls on objects of the kernel take
    /// [`step.inner()`](nv_replay::Step::inner).
    ///
    /// **Power loss**: before the commit store nothing of the step has happened, with the objects
    /// and with what is beside the kernel neither; after it, all. **Cost**: that of
    /// [`step`](Self::step), and of what is beside the kernel. **Errors**: those of
    /// [`step`](Self::step); [`Error::WrongOwner`] and [`code::NOT_OF_THREAD`], which are no
    /// records.
    #[track_caller]
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn step_with<'d, J: Joiner<S::Model>, A: Arg, O>(
        &mut self,
        joiner: &'d mut J,
        args: A,
        body: StepBody<R, S::Model, A, O, With<'k, 'm, 'd, S, J>>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        let sys = self.sys();
        let checked = check::<S, J>(sys.me(), self.rt.owner(), joiner);
        if let Err(error) = checked.and_then(|()| sys.before_a_number()) {
            return Err(StepError { error, args });
        }
        let live = self.rt.is_live();
        let done = self.rt.step_with(&With { sys, joiner }, args, body);
        if S::CONTROL.lives != 0 && live && done.is_err() {
            // The error is a record.
            sys.progressed();
        }
        done
    }

    /// Like [`each_step`](Self::each_step), with something beside the kernel: see
    /// [`step_with`](Self::step_with). **Power loss**, **Cost** and **Errors**: as in both.
    #[track_caller]
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn each_step_with<'d, J: Joiner<S::Model>, A: Repeat>(
        &mut self,
        joiner: &'d mut J,
        range: Range<u32>,
        args: A,
        body: TurnBody<R, S::Model, A, With<'k, 'm, 'd, S, J>>,
    ) -> Result<(), Error> {
        let sys = self.sys();
        check::<S, J>(sys.me(), self.rt.owner(), joiner)?;
        sys.before_a_number()?;
        let token = With { sys, joiner };
        self.rt.each_step_with(&token, range, args, body)
    }

    /// Like [`forever_step`](Self::forever_step), with something beside the kernel: see
    /// [`step_with`](Self::step_with). **Power loss**, **Cost** and **Errors**: as in both.
    #[track_caller]
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn forever_step_with<'d, J: Joiner<S::Model>, A: Repeat>(
        &mut self,
        joiner: &'d mut J,
        args: A,
        body: TurnBody<R, S::Model, A, With<'k, 'm, 'd, S, J>>,
    ) -> Result<Infallible, Error> {
        let sys = self.sys();
        check::<S, J>(sys.me(), self.rt.owner(), joiner)?;
        sys.before_a_number()?;
        let token = With { sys, joiner };
        self.rt.forever_step_with(&token, args, body)
    }
}
