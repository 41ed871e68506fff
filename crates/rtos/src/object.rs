//! What all objects share: the step in which they are called, how a wait ends, and what the commit
//! of an operation changes.
//!
//! The file of an object has two halves. `commit` and `give_up` take the object as it is in RAM,
//! and nothing else: no kernel, no port, no medium. The methods of `State` and the calls of
//! programs are the other half.
//!
//! The functions of objects take the [`Step`] of a thread of the same system, so they are called in
//! steps only; a mutex is locked outside of steps. What a step has done with objects takes effect
//! with its commit, or not at all.

use crate::error::code;
use crate::kernel::{Sys, abort};
use crate::system::System;
use nv_replay::pmem_tx;

/// A running step of a thread of the system `S`: its transaction's token, to which it dereferences,
/// and its access to the kernel's objects.
pub type Step<'t, 'p, 'k, 'm, S> = nv_replay::Step<'t, 'p, <S as System>::Model, Sys<'k, 'm, S>>;

/// The time, in ticks of all power-on periods: see [`Thread::now`](crate::Thread::now).
///
/// **Power loss**: the commit of the step stores it, so time never runs backwards for a program
/// that knows it. **Cost**: the stores of the clock, with the commit: three, on 16-bit units five.
pub fn now<S: System>(step: &Step<'_, '_, '_, '_, S>) -> u64 {
    step.token().now_in_step()
}

/// What the commit of an operation stores: the word of this number goes from one state to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub word: usize,
    pub before: u8,
    pub after: u8,
}

/// Waits for ever.
pub(crate) const FOREVER: u64 = u64::MAX;

/// How a wait ended, in one register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited(u16);

impl Waited {
    pub const FOUND: Self = Waited(0);
    pub const TIMED_OUT: Self = Waited(1);

    /// All errors of the kernel's calls have one of its codes.
    #[inline(always)]
    pub fn new(found: Result<Option<()>, pmem_tx::Error>) -> Self {
        match found {
            Ok(Some(())) => Self::FOUND,
            Ok(None) => Self::TIMED_OUT,
            Err(pmem_tx::Error::Aborted(code)) => Waited(code),
            Err(_) => Waited(code::DAMAGED),
        }
    }

    /// As it is in a record.
    pub fn code(self) -> u16 {
        self.0
    }

    /// What a record says.
    pub fn of(code: u16) -> Self {
        Waited(code)
    }

    /// Whether something was found in time.
    #[inline(always)]
    pub fn found(self) -> Result<bool, pmem_tx::Error> {
        match self {
            Self::FOUND => Ok(true),
            Self::TIMED_OUT => Ok(false),
            Waited(code) => Err(abort(code)),
        }
    }

    /// The same, for a wait without end.
    #[inline(always)]
    pub fn done(self) -> Result<(), pmem_tx::Error> {
        match self {
            Self::FOUND => Ok(()),
            Waited(code) => Err(abort(code)),
        }
    }
}
