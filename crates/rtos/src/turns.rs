//! Loops whose turns have several steps, locks and delays.
//!
//! ```text
//!  th.each(0..9, (), |th, i, ()| {       records of the running turn only
//!      let guard = th.lock(&BUS)?;         none: the replay of this turn comes to it again
//!      let v = th.step(...)?;              record 1
//!      th.delay(10)?;                      record 2: the deadline
//!      drop(guard);
//!      th.step(v, ...)?;                   record 3
//!  })                                    end of the turn: one store; the records no longer count
//! ```
//!
//! A cut in a turn: the next boot comes to the loop, begins this turn again, and passes its
//! records. So it reaches the locks of this turn and those around the loop again, and none of
//! earlier turns. It is live after the last record of the turn, or where the turn begins. The rules
//! for its locks there are the same as without a loop (`Sys::go_live`).
//!
//! The end of a turn commits under a lock that is held around the loop. So the lock's word names
//! the thread before it, as before a step.

use crate::kernel::Sys;
use crate::system::System;
use crate::thread::Thread;
use core::convert::Infallible;
use core::ops::Range;
use nv_replay::nvmem::cross::Share;
use nv_replay::nvmem::{Persist, planted};
use nv_replay::{Error, Replay};

/// The body of a turn: a function pointer, so that turns share no volatile state.
pub type Turn<'k, 'm, 'c, S, R, A> =
    for<'a> fn(&mut Thread<'k, 'm, 'c, S, R>, u32, <A as Share>::In<'a>) -> Result<(), Error>;

/// The same, with what the thread needs of the machine.
pub type TurnWith<'k, 'm, 'c, S, R, D, A> = for<'a> fn(
    &mut Thread<'k, 'm, 'c, S, R>,
    &mut D,
    u32,
    <A as Share>::In<'a>,
) -> Result<(), Error>;

impl<S: System> Sys<'_, '_, S> {
    /// Before the end of a turn, which uses a number, or two.
    fn before_the_next_turn(&self) -> Result<(), Error> {
        self.port.check_stack();
        if planted!("nv-rtos/turns-not-counted") {
            return Ok(());
        }
        self.before_numbers::<2>()
    }
}

impl<'k, 'm, 'c, S: System, R: Persist> Thread<'k, 'm, 'c, S, R> {
    /// Runs `body` for each number of the range: see [`nv_replay::Replay::each_with`]. Beside
    /// steps, a turn may lock, wait, join and loop again. Its arguments are plain values,
    /// `&mut held` to lend a handle, and tuples of them.
    ///
    /// The body captures nothing: one turn hands data to the next through persistent objects. A
    /// loop whose turn is one step is [`each_step`](Self::each_step), which is faster.
    ///
    /// **Power loss**: the next boot goes on in the turn that was cut, after its last record. It
    /// holds again what was locked there and around the loop. **Cost**: one store for the end of a
    /// turn; two or three to open the loop. **Errors**: those of
    /// [`Replay::each_with`](nv_replay::Replay::each_with). An error that leaves the body ends the
    /// thread's calls until the next boot, which begins this turn again.
    #[track_caller]
    #[inline(always)]
    pub fn each<A: Share>(
        &mut self,
        range: Range<u32>,
        args: A,
        body: Turn<'k, 'm, 'c, S, R, A>,
    ) -> Result<(), Error> {
        self.sys().before_a_number()?;
        Replay::each_of(
            self,
            |th| &mut th.rt,
            range,
            args,
            |th, i, a| {
                body(th, i, a)?;
                th.sys().before_the_next_turn()
            },
        )
    }

    /// Like [`each`](Self::each), with what the thread needs of the machine: a driver, which the
    /// body cannot capture. It must not carry state from one turn to the next: a later boot would
    /// not know that state. **Errors**: as there.
    #[track_caller]
    #[inline(always)]
    pub fn each_with<D, A: Share>(
        &mut self,
        machine: &mut D,
        range: Range<u32>,
        args: A,
        body: TurnWith<'k, 'm, 'c, S, R, D, A>,
    ) -> Result<(), Error> {
        self.sys().before_a_number()?;
        Replay::each_of(
            self,
            |th| &mut th.rt,
            range,
            args,
            |th, i, a| {
                body(th, machine, i, a)?;
                th.sys().before_the_next_turn()
            },
        )
    }

    /// Runs `body` without end. Returns only with an error. The number of the turn wraps.
    ///
    /// **Power loss**, **Cost** and **Errors**: those of [`each`](Self::each).
    #[track_caller]
    #[inline(always)]
    pub fn forever<A: Share>(
        &mut self,
        args: A,
        body: Turn<'k, 'm, 'c, S, R, A>,
    ) -> Result<Infallible, Error> {
        self.sys().before_a_number()?;
        Replay::forever_of(
            self,
            |th| &mut th.rt,
            args,
            |th, i, a| {
                body(th, i, a)?;
                th.sys().before_the_next_turn()
            },
        )
    }

    /// Like [`forever`](Self::forever), with what the thread needs of the machine: see
    /// [`each_with`](Self::each_with). **Errors**: as there.
    #[track_caller]
    #[inline(always)]
    pub fn forever_with<D, A: Share>(
        &mut self,
        machine: &mut D,
        args: A,
        body: TurnWith<'k, 'm, 'c, S, R, D, A>,
    ) -> Result<Infallible, Error> {
        self.sys().before_a_number()?;
        Replay::forever_of(
            self,
            |th| &mut th.rt,
            args,
            |th, i, a| {
                body(th, machine, i, a)?;
                th.sys().before_the_next_turn()
            },
        )
    }
}
