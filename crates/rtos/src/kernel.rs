//! The kernel's state, and the ways to it: [`Kernel`] for `main`, [`Sys`] for a thread, [`Isr`] for
//! a handler.
//!
//! Everything here is in RAM, but for the [`Store`]. It changes in critical sections only.

use crate::commit::changes_words;
use crate::error::code;
use crate::me::Me;
use crate::port::{Port, Runs};
use crate::ram::{AN_END, NOTHING, Object, READS};
use crate::schedule::Schedule;
use crate::section::InSection;
use crate::store::{self, Store};
use crate::system::{Kind, ObjectSpec, System};
use nv_replay::nvmem::superblock::Superblock;
use nv_replay::nvmem::tagged::{Stamp, TagError};
use nv_replay::nvmem::{NumberOwner, planted};
use nv_replay::{Error, Outlet, pmem_tx};

/// The kernel's state.
pub(crate) struct State<'m, S: System> {
    pub store: Store<'m, S>,
    pub ram: S::Ram,
    pub schedule: Schedule,
    /// The clock at the boot, and the last time that is on the medium.
    pub base: u64,
    pub stored: u64,
}

/// The stamp of the words of a thread's step with this number.
pub(crate) fn stamp(t: usize, number: u32) -> Stamp {
    Stamp {
        owner: t as u32,
        sequence: number,
    }
}

/// The error with which a call inside a step fails.
pub(crate) fn abort(code: u16) -> pmem_tx::Error {
    pmem_tx::Error::Aborted(code)
}

pub(crate) fn damaged(_: TagError) -> pmem_tx::Error {
    abort(code::DAMAGED)
}

/// The system's description of an object.
pub(crate) fn spec<S: System>(object: u8) -> Option<&'static ObjectSpec> {
    S::OBJECTS.get(usize::from(object))
}

/// Whether an object is of a kind. The compiler knows it where all objects are, or none is.
#[inline(always)]
pub(crate) fn is<S: System>(o: &Object, kind: Kind) -> bool {
    let n = kinds::<S>(kind);
    n == S::OBJECTS.len() || n > 0 && o.kind == kind
}

/// How many objects are of a kind.
pub(crate) const fn kinds<S: System>(kind: Kind) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < S::OBJECTS.len() {
        n += (S::OBJECTS[i].kind as u8 == kind as u8) as usize;
        i += 1;
    }
    n
}

pub(crate) fn word_of<S: System>(object: u8) -> u16 {
    spec::<S>(object).map_or(0, |s| s.word)
}

impl<S: System> State<'_, S> {
    /// The clock.
    pub fn now(&self, port: &dyn Port) -> u64 {
        self.base.saturating_add(port.now())
    }

    // INVARIANT "Time is stored before it is known": a boot after a thread has learned a time never
    // begins with an earlier clock.
    // Noticed by: planted `clock-not-stored`.
    /// Stores a time before a thread knows it.
    pub fn reach(&mut self, time: u64) -> Result<(), TagError> {
        if time > self.stored && !planted!("nv-rtos/clock-not-stored") {
            self.store.set_time(time)?;
            self.stored = time;
        }
        Ok(())
    }
}

/// The kernel of a system. [`System::open`](crate::system!) makes it at each boot.
pub struct Kernel<'m, S: System> {
    pub(crate) state: InSection<State<'m, S>>,
}

impl<'m, S: System> Kernel<'m, S> {
    /// Bytes of the kernel's part of the region.
    pub(crate) const BYTES: usize = Superblock::BYTES
        + store::bytes::<S::Model>(store::all::<S>() as usize, S::END.slots as usize);

    // INVARIANT "Threads of its own": the numbers that commit a kernel's words are those of its own
    // threads, whose region begins where the kernel's ends.
    // Noticed by: `places_of_another_kernel` in tests/suite/system.rs; planted
    // `places-of-any-kernel`.
    /// **Panics**: the place of the first thread is one of another kernel.
    #[doc(hidden)]
    #[inline(never)]
    pub fn has_places(&self, first: NumberOwner) {
        let base = self
            .section(|s| s.store.base())
            .wrapping_sub(Superblock::BYTES);
        let own = NumberOwner::at(base.wrapping_add(Self::BYTES));
        if first != own && !planted!("nv-rtos/places-of-any-kernel") {
            panic!("the places are those of another kernel")
        }
    }

    /// Runs `f` in a critical section.
    #[inline(always)]
    pub(crate) fn section<R>(&self, f: impl FnOnce(&mut State<'m, S>) -> R) -> R {
        self.state.with::<S::Model, R>(f)
    }

    /// Starts the system: switches to the first thread. The machine calls it once, when all threads
    /// are made.
    pub fn start(&self, port: &dyn Port) {
        self.section(|s| {
            s.watch(port);
            s.begin(port);
        });
    }

    /// The time of the timer has come. The machine calls it in the timer's handler.
    ///
    /// **Power loss**: the clock is stored before a thread that was due wakes. **Cost**: three
    /// stores, on 16-bit units five, if one was.
    pub fn tick(&self, port: &dyn Port) {
        self.section(|s| {
            let now = s.now(port);
            s.timer_due(now, port);
            s.reschedule(port);
        });
    }

    /// Lets the next thread of the running one's priority run. The machine calls it at the end of
    /// each time slice, in a handler. Stores nothing.
    pub fn slice(&self, port: &dyn Port) {
        self.section(|s| s.end_slice(port));
    }

    /// How a thread has ended; `None` if it has not.
    ///
    /// **Errors**: the one with which the thread's function returned.
    pub fn ended(&self, thread: usize) -> Option<Result<(), Error>> {
        self.section(|s| s.thread(thread)?.ended)
    }

    /// The bytes that a thread has never used of its stack, in this boot: those above its guard
    /// that still hold zeros. `None` if the port does not know. The stack was made as zeros; where
    /// it was not, the number means nothing. It does not know what a thread needs in other
    /// circumstances, such as an interrupt at its deepest point.
    ///
    /// **Cost**: a load for each of these bytes. Stores nothing.
    pub fn unused_stack(&self, port: &dyn Port, thread: usize) -> Option<usize> {
        port.unused_stack(thread)
    }

    /// The kernel's calls for an interrupt's handler.
    pub fn isr<'k>(&'k self, port: &'k dyn Port) -> Isr<'k, 'm, S> {
        Isr { kernel: self, port }
    }
}

impl<S: System> Runs for Kernel<'_, S> {
    const THREADS: usize = S::THREADS.len();
    const SLICES: bool = {
        let (mut equals, mut i) = (false, 0);
        while i < S::THREADS.len() {
            let mut j = 0;
            while j < i {
                equals |= S::THREADS[i].priority == S::THREADS[j].priority;
                j += 1;
            }
            i += 1;
        }
        equals
    };

    fn start(&self, port: &dyn Port) {
        Kernel::start(self, port);
    }

    fn tick(&self, port: &dyn Port) {
        Kernel::tick(self, port);
    }

    fn slice(&self, port: &dyn Port) {
        Kernel::slice(self, port);
    }

    fn has_ended(&self, thread: usize) -> bool {
        self.section(|s| s.stopped(thread).is_some())
    }

    fn next_deadline(&self) -> Option<u64> {
        Kernel::next_deadline(self)
    }
}

/// The calls that an interrupt's handler may make.
pub struct Isr<'k, 'm, S: System> {
    pub(crate) kernel: &'k Kernel<'m, S>,
    pub(crate) port: &'k dyn Port,
}

impl<S: System> Isr<'_, '_, S> {
    /// Changes the state of a semaphore or an event group at once, wakes the threads that wait for
    /// it, and picks the next thread. `set` are flags that are set now.
    pub(crate) fn publish(
        &self,
        object: u8,
        set: u8,
        f: impl FnOnce(&Object) -> Option<u8>,
    ) -> Result<bool, Error> {
        let published = self.kernel.section(|s| {
            let Some(new) = s.object(object).and_then(|o| f(o)) else {
                return Ok(false);
            };
            s.store
                .put_settled(word_of::<S>(object), new)
                .map_err(damaged)?;
            if let Some(o) = s.object(object) {
                o.state = new;
            }
            if set != 0 {
                s.keep_set(object, set);
            }
            s.wake(object);
            s.reschedule(self.port);
            Ok::<_, pmem_tx::Error>(true)
        });
        Ok(published?)
    }
}

/// A thread's access to the kernel: the token of its steps, and the environment of its runtime.
pub struct Sys<'k, 'm, S: System> {
    pub(crate) kernel: &'k Kernel<'m, S>,
    pub(crate) port: &'k dyn Port,
    pub(crate) me: Me<S>,
}

impl<S: System> Clone for Sys<'_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: System> Copy for Sys<'_, '_, S> {}
/// The result of a check of an object.
enum Look<R> {
    Found(R),
    TimedOut,
    Waits,
}

impl<'m, S: System> Sys<'_, 'm, S> {
    /// The thread's number.
    #[inline(always)]
    pub(crate) fn me(&self) -> usize {
        self.me.get()
    }

    /// Waits until `find` finds something, at most until `until`.
    #[inline]
    pub(crate) fn wait<R>(
        &self,
        object: u8,
        until: u64,
        mut find: impl FnMut(&mut State<'m, S>) -> Result<Option<R>, pmem_tx::Error>,
    ) -> Result<Option<R>, pmem_tx::Error> {
        loop {
            let look = self.kernel.section(|s| {
                if let Some(found) = find(s)? {
                    return Ok(Look::Found(found));
                }
                if !self.block(s, object, until) {
                    return Ok(Look::TimedOut);
                }
                Ok::<_, pmem_tx::Error>(Look::Waits)
            })?;
            match look {
                Look::Found(found) => return Ok(Some(found)),
                Look::TimedOut => return Ok(None),
                // The section's end has switched away, and this thread was woken.
                Look::Waits => {}
            }
        }
    }

    /// Waits, unless the time has come.
    #[cold]
    #[inline(never)]
    pub(crate) fn block(&self, s: &mut State<'m, S>, object: u8, until: u64) -> bool {
        if until != u64::MAX && s.now(self.port) >= until {
            return false;
        }
        s.block(self.me(), object, until, self.port);
        true
    }

    /// The time after so many ticks; never, for the largest number.
    pub(crate) fn after(&self, ticks: u64) -> u64 {
        let now = self.kernel.section(|s| s.now(self.port));
        now.saturating_add(ticks)
    }

    /// Waits until the clock shows `at`. Then this time is stored.
    pub(crate) fn sleep_until(&self, at: u64) -> Result<(), Error> {
        let port = self.port;
        self.wait(NOTHING, at, |s| {
            let now = s.now(port);
            if now < at {
                return Ok(None);
            }
            s.reach(now).map_err(damaged)?;
            Ok(Some(()))
        })?;
        Ok(())
    }

    /// The time. It is stored before the caller knows it.
    pub(crate) fn now_stored(&self) -> Result<u64, Error> {
        self.kernel.section(|s| {
            let now = s.now(self.port);
            s.reach(now).map_err(|_| Error::Aborted(code::DAMAGED))?;
            Ok(now)
        })
    }

    /// The time, which the step's commit stores.
    pub(crate) fn now_in_step(&self) -> u64 {
        self.kernel.section(|s| {
            let now = s.now(self.port);
            s.control(self.me()).done |= READS;
            now
        })
    }

    /// Waits until a thread has ended.
    pub(crate) fn join(&self, thread: usize) -> Result<(), Error> {
        let ended = self.wait(AN_END, u64::MAX, |s| Ok(s.stopped(thread)));
        match ended?.unwrap_or(code::FAILED) {
            0 => Ok(()),
            code => Err(Error::Aborted(code)),
        }
    }

    pub(crate) fn yield_now(&self) {
        self.kernel.section(|s| s.next_turn(self.port));
    }

    /// Before a call that may use a number.
    pub(crate) fn before_a_number(&self) -> Result<(), Error> {
        self.before_numbers::<1>()
    }

    /// Before a call that may use `N` sequence numbers. A system whose steps change no words has
    /// nothing to sweep and no mutexes: then there is nothing to do.
    pub(crate) fn before_numbers<const N: usize>(&self) -> Result<(), Error> {
        if const { !changes_words::<S>() } {
            return Ok(());
        }
        let done = self.kernel.section(|s| s.before_numbers::<N>(self.me()));
        done.map_err(|_| Error::Aborted(code::DAMAGED))
    }

    /// The thread has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&self, r: Result<(), Error>) {
        self.kernel.section(|s| {
            let c = s.control(self.me());
            c.ended = Some(r);
            c.held = 0;
            if c.live {
                s.give_back(self.me());
            }
            s.wake_joiners();
            s.leave(self.me(), self.port);
        });
    }
}

impl<S: System> Outlet for Sys<'_, '_, S> {
    fn live(&mut self) {
        // An error comes again from the first call on a damaged object.
        let _ = self.go_live();
    }

    /// A kernel has no outlet: a program links no code that sends messages.
    fn discards(&self) -> bool {
        true
    }

    #[inline(always)]
    fn sends_nothing() -> bool {
        S::TABLE.outbox_bytes == 0
    }
}
