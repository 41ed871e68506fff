//! Semaphores, queues, event groups and mutexes.
//!
//! Their functions take the [`Step`] of a thread of the same system, so they are called in steps
//! only; a mutex is locked outside of steps. What a step has done with objects takes effect with
//! its commit, or not at all.

use crate::error::code;
use crate::kernel::{Isr, Sys, abort};
use crate::places::{Always, Exists};
use crate::shared::{Find, Held, Shares, UnitOf};
use crate::system::{Kind, Layout, ObjectSpec, System};
use crate::tags::MESSAGE_MAX;
use core::marker::PhantomData;
use nv_replay::nvmem::cross::type_hash;
use nv_replay::nvmem::{Persist, Plain};
use nv_replay::{Error, pmem_tx};

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

/// A queue of the system `S` with up to `N` messages of the type `T`, first in, first out.
///
/// Messages come out in the order in which the steps that have sent them committed.
pub struct Queue<S, T, const N: usize, G = Always> {
    at: Layout,
    exists: G,
    _s: PhantomData<fn() -> (S, T)>,
}

impl<S: System, T: Plain, const N: usize> Queue<S, T, N> {
    #[doc(hidden)]
    pub const fn at(at: Layout) -> Self {
        assert!(N > 0 && N <= 32, "a queue has 1 to 32 slots");
        assert!(
            size_of::<T>() <= MESSAGE_MAX,
            "a message has at most 64 bytes"
        );
        Queue {
            at,
            exists: Always,
            _s: PhantomData,
        }
    }
    #[doc(hidden)]
    pub const fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            kind: Kind::Queue,
            word: self.at.word,
            words: N as u16,
            initial: 0,
            content: type_hash::<T>("message"),
            timer: 0,
            reserved: 0,
        }
    }
    #[doc(hidden)]
    pub const fn behind(&self) -> Layout {
        self.at.behind(self.spec(), (N * Self::STRIDE) as u32)
    }
    /// This queue, if it exists.
    pub(crate) fn if_it<G>(self, exists: G) -> Queue<S, T, N, G> {
        Queue {
            at: self.at,
            exists,
            _s: PhantomData,
        }
    }
}

impl<S: System, T: Plain, const N: usize, G: Exists> Queue<S, T, N, G> {
    /// Bytes from a slot to the next.
    const STRIDE: usize = size_of::<T>().next_multiple_of(4);

    /// Sends a message; waits until there is a slot for it.
    ///
    /// **Power loss**: sent if and only if the step has committed. A step that waits has changed
    /// nothing. **Cost**: the message and one store, two on 16-bit units. **Errors**:
    /// [`code::TOO_MANY`].
    pub fn send(&self, step: &Step<'_, '_, '_, '_, S>, message: T) -> Result<(), pmem_tx::Error> {
        self.send_until(step.token(), FOREVER, message).done()
    }

    /// Like [`send`](Self::send), for at most so many ticks. Whether it was sent.
    ///
    /// **Power loss**: the time counts anew. **Errors**: as there.
    pub fn send_timeout(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        message: T,
        ticks: u64,
    ) -> Result<bool, pmem_tx::Error> {
        let sys = step.token();
        self.send_until(sys, sys.after(ticks), message).found()
    }

    /// Like [`send`](Self::send), without waiting. Whether it was sent. **Errors**: as there.
    pub fn try_send(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        message: T,
    ) -> Result<bool, pmem_tx::Error> {
        self.send_until(step.token(), 0, message).found()
    }

    fn send_until(&self, sys: &Sys<'_, '_, S>, until: u64, message: T) -> Waited {
        Waited::new(sys.wait(self.at.object, until, |s| {
            self.exists.check(s, sys.me())?;
            let Some(slot) = s.reserve(sys.me(), self.at.object)? else {
                return Ok(None);
            };
            s.store.write_slot(self.slot(slot), &message);
            Ok(Some(()))
        }))
    }

    /// Receives the oldest message that no other step has; waits until there is one. Until the step
    /// commits, the message stays in its slot: if the step fails or the power is cut, another
    /// receive gets it. So a step that receives `N` messages, and waits for one more, waits for
    /// ever: there is no slot to send it.
    ///
    /// **Power loss**: received if and only if the step has committed. A step that waits has
    /// changed nothing. **Cost**: one store, two on 16-bit units. **Errors**: [`code::TOO_MANY`];
    /// [`code::DAMAGED`] for a message that is no `T`.
    pub fn receive(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<T, pmem_tx::Error> {
        let found = self.receive_until(step.token(), FOREVER)?;
        found.ok_or(abort(code::DAMAGED))
    }

    /// Like [`receive`](Self::receive), for at most so many ticks.
    ///
    /// **Power loss**: the time counts anew. **Errors**: as there.
    pub fn receive_timeout(
        &self,
        step: &Step<'_, '_, '_, '_, S>,
        ticks: u64,
    ) -> Result<Option<T>, pmem_tx::Error> {
        let sys = step.token();
        self.receive_until(sys, sys.after(ticks))
    }

    /// Like [`receive`](Self::receive), without waiting. **Errors**: as there.
    pub fn try_receive(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<Option<T>, pmem_tx::Error> {
        self.receive_until(step.token(), 0)
    }

    fn receive_until(&self, sys: &Sys<'_, '_, S>, until: u64) -> Result<Option<T>, pmem_tx::Error> {
        sys.wait(self.at.object, until, |s| {
            self.exists.check(s, sys.me())?;
            let Some(slot) = s.claim(sys.me(), self.at.object)? else {
                return Ok(None);
            };
            let message = s.store.read_slot(self.slot(slot));
            message.map(Some).ok_or(abort(code::DAMAGED))
        })
    }

    /// Sends a message at once, from an interrupt's handler. Returns whether there was a slot for
    /// it. It comes after all messages that committed before, and before those that commit later.
    ///
    /// **Power loss**: sent, or not. **Cost**: the message and one settled store, two on 16-bit
    /// units. Bounded: it checks each slot at most once. **Errors**: the slot's word is damaged.
    pub fn send_from_isr(&self, isr: &Isr<'_, '_, S>, message: T) -> Result<bool, Error> {
        self.exists.check_in(isr)?;
        isr.send(self.at.object, |slot| self.slot(slot), &message)
    }

    fn slot(&self, slot: u8) -> u32 {
        self.at.slots + u32::from(slot) * Self::STRIDE as u32
    }
}

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

/// A mutex of the system `S`. A thread [locks](crate::Thread::lock) it outside of steps, and runs
/// steps while it has it.
///
/// The holder may lock it again: it is free when it was unlocked as often as it was locked.
///
/// A thread that waits for it lends the holder its priority. A power cut does not open it: the
/// holder's first commit under the lock stores who it is, and after the next boot no other thread
/// gets it before the holder has replayed to where it was.
///
/// A mutex from the block `shared` of a system has data of the type `T`: a root that all threads
/// share, and that a step reaches through the [`Guard`](crate::Guard) only.
///
/// ```ignore
/// nv_rtos::system! {
///     Plan on Fram;
///     // table, objects
///     shared { BOARD: Board = Board::NEW; } // a Mutex<Plan, Board>
///     // threads
/// }
///
/// let (places, data) = Plan::share(&mut threads)?;
/// Plan::spawn(&kernel, places, &data, &mut port, sampler, maximum);
///
/// let mut board = th.lock(&BOARD)?;
/// th.step((board.data(), 3), |sys, mine, (mut board, n)| {
///     board.get_mut(sys)?.samples += n; // with the step, or not
///     *mine.get_mut(sys)? += n;
///     Ok(())
/// })?;
/// ```
///
/// A mutex that was [made](crate::Places) at run time is marked [`Alive`](crate::Alive), and has no
/// data: those would be a root of the pool, which is made when the pool is.
pub struct Mutex<S: Shares, T = (), G = Always> {
    at: Layout,
    content: u64,
    find: Option<Find<S, T>>,
    pub(crate) exists: G,
}

impl<S: System> Mutex<S> {
    #[doc(hidden)]
    pub const fn at(at: Layout) -> Self {
        Mutex {
            at,
            content: 0,
            find: None,
            exists: Always,
        }
    }
    /// This mutex, if it exists.
    pub(crate) fn if_it<G>(self, exists: G) -> Mutex<S, (), G> {
        Mutex {
            at: self.at,
            content: self.content,
            find: None,
            exists,
        }
    }
}

impl<S: System, T: Persist> Mutex<S, T> {
    #[doc(hidden)]
    pub const fn with(at: Layout, find: Find<S, T>) -> Self {
        assert!(
            size_of::<T>() > 0,
            "the data of a mutex have at least one byte"
        );
        Mutex {
            at,
            content: type_hash::<T>("shared"),
            find: Some(find),
            exists: Always,
        }
    }
}

impl<S: System, T, G> Mutex<S, T, G> {
    #[doc(hidden)]
    pub const fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            kind: Kind::Mutex,
            word: self.at.word,
            words: 1,
            initial: 0,
            content: self.content,
            timer: 0,
            reserved: 0,
        }
    }
    #[doc(hidden)]
    pub const fn behind(&self) -> Layout {
        self.at.behind(self.spec(), 0)
    }
    pub(crate) const fn object(&self) -> u8 {
        self.at.object
    }
    /// The key to its data, if it has some.
    pub(crate) fn data<'c>(&self, cells: S::At<'c>) -> Option<Held<'c, T, UnitOf<S>>> {
        // Known at compile time: a plain mutex has no code for data.
        if size_of::<T>() == 0 {
            return None;
        }
        self.find
            .map(|find| Held::new(Some(find(cells, PhantomData))))
    }
}
