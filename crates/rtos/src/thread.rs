//! A thread of the program.

use crate::error::code;
use crate::kernel::{Kernel, Sys};
use crate::me::Me;
use crate::mutex::Locks;
use crate::mutex::Mutex;
use crate::port::Port;
use crate::shared::{Held, UnitOf};
use crate::system::{System, ThreadId};
use core::convert::Infallible;
use core::mem::MaybeUninit;
use core::ops::Range;
use nv_replay::nvmem::cross::{Arg, Repeat, Ret};
use nv_replay::nvmem::{NumberOwner, Persist, planted};
use nv_replay::{Error, Options, Place, Root, StepBody, StepError, TurnBody, Tx};

/// A thread, as its body sees it: steps, and what is done between them.
///
/// Each boot runs a body from its beginning; steps that have committed are bypassed.
// The layout is the same for every root type: see `Thread::with_root`.
#[repr(C)]
pub struct Thread<'k, 'm, 'c, S: System, R: Persist> {
    /// Its environment is the thread's seat in the kernel.
    pub(crate) rt: nv_replay::Thread<'c, R, S::Model, Sys<'k, 'm, S>>,
    /// Where the keys to the data of mutexes are.
    pub(crate) cells: S::At<'c>,
}

/// The place of a thread. If the thread was aborted, drops its records; objects that only they own
/// are freed.
#[doc(hidden)]
pub fn kept<'c, S: System, R: Persist>(
    kernel: &Kernel<'_, S>,
    me: usize,
    place: Place<'c, R, S::Model>,
) -> Option<Place<'c, R, S::Model>> {
    if !S::CONTROL.change || !kernel.is_aborted(me) {
        return Some(place);
    }
    let options = Options {
        start_over: true,
        ..Options::default()
    };
    // If it cannot begin anew, its records stay, and hold the reclaim up.
    let _ = place.open(options);
    None
}

/// Runs a thread's body from its place. The function that `system!` generates calls it.
#[doc(hidden)]
#[allow(unsafe_code)]
pub fn run<'k, 'm, 'c, S: System, R: Persist>(
    kernel: &'k Kernel<'m, S>,
    port: &'k dyn Port,
    me: usize,
    place: Option<Place<'c, R, S::Model>>,
    cells: S::At<'c>,
    body: impl FnOnce(&mut Thread<'k, 'm, 'c, S, R>) -> Result<(), Error>,
) {
    let Some(place) = place else {
        return;
    };
    let sys = Sys {
        kernel,
        port,
        me: Me::new(me),
    };
    let mut at = MaybeUninit::uninit();
    let r = open(sys, place.untyped(), cells, &mut at).and_then(|()| {
        // SAFETY: invariant "Roots are types only": the thread is there, and the place's root is
        // an `R`.
        unsafe {
            let th = InPlace(at.assume_init_mut());
            body(th.0.with_root())
        }
    });
    sys.end(r);
}

/// A thread that is dropped where it is, also by unwinding.
pub(crate) struct InPlace<'a, 'k, 'm, 'c, S: System>(pub &'a mut Thread<'k, 'm, 'c, S, ()>);
impl<S: System> Drop for InPlace<'_, '_, '_, '_, S> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: invariant "Open in its place": made of a thread that nothing uses afterwards.
        unsafe { core::ptr::drop_in_place(self.0) }
    }
}

/// Opens a thread in `at`. This does not use the root, so it is in a program once.
#[inline(never)]
#[allow(unsafe_code)]
pub(crate) fn open<'k, 'm, 'c, S: System>(
    sys: Sys<'k, 'm, S>,
    place: Place<'c, (), S::Model>,
    cells: S::At<'c>,
    at: &mut MaybeUninit<Thread<'k, 'm, 'c, S, ()>>,
) -> Result<(), Error> {
    let at = at.as_mut_ptr();
    // SAFETY: invariant "Open in its place": the fields of `at`, which is borrowed mutably. Nothing
    // reads them before they are written.
    let rt = unsafe {
        (&raw mut (*at).cells).write(cells);
        &mut *(&raw mut (*at).rt).cast::<MaybeUninit<_>>()
    };
    let opened = place.open_in(rt, Options::default(), sys);
    // The table was scanned when the region was opened.
    opened.map(drop).map_err(|_| Error::Other)
}

impl<'k, 'm, 'c, S: System> Thread<'k, 'm, 'c, S, ()> {
    /// The same thread with its root.
    ///
    /// # Safety
    /// It was opened from the [untyped](Place::untyped) place of a root of the type `R`.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn with_root<R: Persist>(&mut self) -> &mut Thread<'k, 'm, 'c, S, R> {
        const { assert!(size_of::<Self>() == size_of::<Thread<'k, 'm, 'c, S, R>>()) };
        // SAFETY: invariant "Roots are types only": the fields are laid out in their order, and
        // the runtimes of all roots have one layout. The caller promises the root.
        unsafe { &mut *(&raw mut *self).cast() }
    }
}

impl<'k, 'm, 'c, S: System, R: Persist> Thread<'k, 'm, 'c, S, R> {
    #[inline(always)]
    pub(crate) fn sys(&mut self) -> Sys<'k, 'm, S> {
        *self.rt.env()
    }

    /// Runs a step, once in all boots: see [`nv_replay::Replay::step`]. In its body the step is the
    /// access to the kernel's objects, and what it does with them takes effect with its commit.
    ///
    /// **Power loss**: before the commit store nothing of the step has happened, with the objects
    /// neither; after it, all. **Cost**: that of the step, and of what it does with objects.
    /// **Errors**: those of the step, and of the calls on objects.
    #[track_caller]
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn step<A: Arg, O>(
        &mut self,
        args: A,
        body: StepBody<R, S::Model, A, O, Sys<'k, 'm, S>>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        let sys = self.sys();
        if let Err(error) = sys.before_a_number() {
            return Err(StepError { error, args });
        }
        let live = self.rt.is_live();
        let done = self.rt.step_with(&sys, args, body);
        if S::CONTROL.lives != 0 && live && done.is_err() {
            // The error is a record.
            sys.progressed();
        }
        done
    }

    /// Runs a step for each number of the range, with one store for each: see
    /// [`nv_replay::Replay::each_step`].
    ///
    /// **Power loss**: an iteration happened, with all that it did with objects, or it did not
    /// begin. **Cost** and **Errors**: as there, and those of the calls on objects.
    #[track_caller]
    #[inline(always)]
    pub fn each_step<A: Repeat>(
        &mut self,
        range: Range<u32>,
        args: A,
        body: TurnBody<R, S::Model, A, Sys<'k, 'm, S>>,
    ) -> Result<(), Error> {
        let sys = self.sys();
        sys.before_a_number()?;
        self.rt.each_step_with(&sys, range, args, body)
    }

    /// Runs a step without end. **Power loss**, **Cost** and **Errors**: those of
    /// [`each_step`](Self::each_step).
    #[track_caller]
    #[inline(always)]
    pub fn forever_step<A: Repeat>(
        &mut self,
        args: A,
        body: TurnBody<R, S::Model, A, Sys<'k, 'm, S>>,
    ) -> Result<Infallible, Error> {
        let sys = self.sys();
        sys.before_a_number()?;
        self.rt.forever_step_with(&sys, args, body)
    }

    /// Reads an input once and records it: see [`nv_replay::Replay::record_with`].
    ///
    /// **Power loss**, **Cost** and **Errors**: as there.
    #[track_caller]
    #[inline(always)]
    pub fn record_with<O>(&mut self, read: impl FnOnce() -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        let sys = self.sys();
        sys.before_a_number()?;
        let live = self.rt.is_live();
        let done = self.rt.record_with(|| {
            let read = read();
            sys.port.check_stack();
            read
        });
        if S::CONTROL.lives != 0 && live && done.is_ok() {
            sys.progressed();
        }
        done
    }

    /// Calls `f` with the thread's persistent objects; `None` during the replay. See
    /// [`nv_replay::Replay::view`]. **Errors**: as there.
    #[allow(clippy::type_complexity)]
    pub fn view<O>(
        &mut self,
        f: impl for<'p> FnOnce(
            &Tx<'p, S::Model>,
            &Root<'p, R::At<'p>, <S::Model as nv_replay::nvmem::Model>::Unit>,
        ) -> O,
    ) -> Result<Option<O>, Error> {
        self.rt.view(f)
    }

    /// Whether the thread has passed what it has committed before.
    pub fn is_live(&self) -> bool {
        self.rt.is_live()
    }

    /// Whose numbers this thread's steps commit with: see [`step_with`](Self::step_with).
    pub fn owner(&self) -> NumberOwner {
        self.rt.owner()
    }

    /// The bytes that this thread has never used of its stack, in this boot:
    /// [`Kernel::unused_stack`].
    ///
    /// **Power loss**: nothing is stored. **Cost**: a load for each of these bytes.
    pub fn unused_stack(&mut self) -> Option<usize> {
        let sys = self.sys();
        sys.port.unused_stack(sys.me())
    }

    /// The time, in ticks of all power-on periods: the clock goes on where it was stored last.
    /// Recorded: each boot gets the same.
    ///
    /// **Power loss**: time never runs backwards, because it is stored before the program knows it.
    /// An outage counts as nothing, and so does time that was never stored. **Cost**: three stores
    /// of the record; the stores of the clock: three, on 16-bit units five. **Errors**: those of
    /// [`record_with`](Self::record_with).
    #[track_caller]
    pub fn now(&mut self) -> Result<u64, Error> {
        let sys = self.sys();
        // An error of the clock comes again from the sleep, and here as a time that is 0.
        self.record_with(|| sys.now_stored().unwrap_or(0))
    }

    /// Waits for so many ticks.
    ///
    /// **Power loss**: the deadline is recorded. The next boot waits for the rest of the time, as
    /// far as the clock was stored. **Cost**: three stores; when it wakes, those of the clock.
    /// **Errors**: those of [`record_with`](Self::record_with).
    #[track_caller]
    pub fn delay(&mut self, ticks: u64) -> Result<(), Error> {
        let sys = self.sys();
        let deadline = self.record_with(|| sys.after(ticks))?;
        sys.sleep_until(deadline)
    }

    /// Waits until the clock shows `at`, which the program computes from what it has recorded.
    ///
    /// **Power loss**: the next boot waits for the rest of the time. **Cost**: when it wakes, the
    /// stores of the clock. **Errors**: the clock is damaged.
    pub fn delay_until(&mut self, at: u64) -> Result<(), Error> {
        self.sys().sleep_until(at)
    }

    /// Lets the other threads of its priority run. Stores nothing.
    pub fn yield_now(&mut self) {
        self.sys().yield_now()
    }

    /// Waits until another thread has ended. If its place is a reserved one, waits until no thread
    /// is there; the result is that of the last one.
    ///
    /// **Power loss**: the next boot waits until it has ended again, which is as soon as it has
    /// passed its records. **Cost**: stores nothing. In a system with a block `control`, how the
    /// wait ended is a record (1 to 3 stores): each boot gets the same, also if the thread was
    /// parked in between. **Errors**: [`code::FAILED`] if that thread has ended with an error;
    /// [`code::PARKED`], [`code::ABORTED`].
    #[track_caller]
    pub fn join<A>(&mut self, thread: ThreadId<S, A>) -> Result<(), Error> {
        let sys = self.sys();
        if !S::CONTROL.stops() {
            return sys.join(thread.number);
        }
        let code = self.record_with(|| match sys.join(thread.number) {
            Ok(()) => 0,
            Err(Error::Aborted(code)) => code,
            Err(_) => code::FAILED,
        })?;
        match code {
            0 => Ok(()),
            code => Err(Error::Aborted(code)),
        }
    }

    /// Locks a mutex; waits until no other thread has it. The guard unlocks it. A thread that has
    /// it may lock it again, without waiting; it then has as many guards of it. The first of them
    /// has the data.
    ///
    /// **Power loss**: a thread that has committed anything under the lock has it again in the next
    /// boot, before any other thread gets it. If it had released it and another thread has
    /// committed under it since, it does not lock it again; then it repeats, without the lock, what
    /// it does between its last commit and the end of the lock. **Cost**: no store; the first
    /// commit under the lock stores one word more, if another thread has had it before. **Errors**:
    /// [`code::LOCKS`](crate::code).
    ///
    /// Whether a mutex that was [made](crate::Places) at run time exists is a record. **Cost** of
    /// that: three stores, and the word, if another thread has had the mutex before. **Errors**:
    /// also [`code::DELETED`], and those of [`record_with`](Self::record_with).
    // Inlined, so that the guard is made where it stays: its bytes are not copied one by one.
    #[track_caller]
    #[inline(always)]
    pub fn lock<T, G: Locks>(
        &mut self,
        mutex: &Mutex<S, T, G>,
    ) -> Result<Guard<'k, 'm, 'c, S, T>, Error> {
        let (object, again) = mutex.exists.lock(self, mutex.object())?;
        Ok(self.guard(mutex, object, again))
    }

    /// Like [`lock`](Self::lock), for at most so many ticks. `None`: another thread had the mutex
    /// all that time.
    ///
    /// **Power loss**: whether it was locked is a record, so each boot gets the same. A lock that
    /// waits has changed nothing, and its time counts anew. After the record the thread has the
    /// lock again in the next boot, as after a commit under it. **Cost**: three stores; and one
    /// word, if another thread has had the mutex before; if the time is over, the stores of the
    /// clock. **Errors**: those of `lock`, and of [`record_with`](Self::record_with).
    #[track_caller]
    #[inline(always)]
    pub fn lock_timeout<T, G: Locks>(
        &mut self,
        mutex: &Mutex<S, T, G>,
        ticks: u64,
    ) -> Result<Option<Guard<'k, 'm, 'c, S, T>>, Error> {
        let locked = mutex.exists.lock_within(self, mutex.object(), ticks)?;
        Ok(locked.map(|(object, again)| self.guard(mutex, object, again)))
    }

    /// Like [`lock_timeout`](Self::lock_timeout), without waiting: `None` if another thread has the
    /// mutex. In the first moments of a boot that may be a thread that has not passed its records,
    /// and had it when the power was cut.
    ///
    /// **Power loss**, **Cost** and **Errors**: as there.
    #[track_caller]
    #[inline(always)]
    pub fn try_lock<T, G: Locks>(
        &mut self,
        mutex: &Mutex<S, T, G>,
    ) -> Result<Option<Guard<'k, 'm, 'c, S, T>>, Error> {
        self.lock_timeout(mutex, 0)
    }

    /// The guard of a mutex that the thread has locked, and whether it had it already.
    #[inline(always)]
    fn guard<T, G: Locks>(
        &mut self,
        mutex: &Mutex<S, T, G>,
        object: u8,
        again: bool,
    ) -> Guard<'k, 'm, 'c, S, T> {
        let sys = self.sys();
        // INVARIANT "The outermost guard has the data": which guard has them depends on the order
        // of locks only, so a replay comes to the same result of each step.
        // Noticed by: `the_outermost_guard_has_the_data` in tests/suite/system.rs; planted
        // `inner-guard-has-the-data`.
        let inner = again && !planted!("nv-rtos/inner-guard-has-the-data");
        let data = mutex.data(self.cells).filter(|_| !inner);
        Guard { sys, object, data }
    }
}

/// A locked mutex. Dropping this unlocks it.
#[must_use = "a dropped guard gives the mutex back"]
pub struct Guard<'k, 'm, 'c, S: System, T = ()> {
    pub(crate) sys: Sys<'k, 'm, S>,
    pub(crate) object: u8,
    pub(crate) data: Option<Held<'c, T, UnitOf<S>>>,
}

impl<S: System, T> Drop for Guard<'_, '_, '_, S, T> {
    fn drop(&mut self) {
        if size_of::<T>() > 0
            && let Some(data) = &mut self.data
        {
            data.put_back::<S>();
        }
        self.sys.unlock(self.object)
    }
}
