//! A kernel without protection, with the names of `nv-rtos`: what the programs are compared with.
//!
//! Each call takes effect at once, nothing is logged, and nothing is recovered. The states of the
//! objects and the data of the threads are in the memory that the program is given. If that is
//! non-volatile, the program is *persistent and unprotected*. If it is RAM, it is *volatile*. The
//! instructions are the same. Who is ready and who waits is in RAM, as in `nv-rtos`.
//!
//! It has what the programs use. Ports are those of `nv-rtos`.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::num::NonZeroUsize;
use core::ops::Range;
use nv_rtos::nvmem::fields::{FieldAccess, Fields};
use nv_rtos::nvmem::{Model, Region};
use nv_rtos::{Port, Runs};

pub use nv_rtos::{Config, Error, OpenError, ThreadSpec, Until, nvmem};

/// What programs use of `pmem-tx`.
pub mod pmem_tx {
    pub use super::Ptr;
    pub use nv_rtos::pmem_tx::{Config, Error};
}

/// A program's threads and objects: [`system!`] implements it.
pub trait System: Sized + 'static {
    /// The medium, with the critical section.
    type Model: Model;
    /// Everything that is in the memory: the objects, then the data of the threads.
    type Memory;
    /// The threads.
    const THREADS: &'static [ThreadSpec];
    /// Writes what the memory holds at first. Slots of queues stay as they are.
    ///
    /// # Safety
    /// The memory is there, and nothing of it is lent.
    unsafe fn begin(memory: *mut Self::Memory);
}

/// Bits of `threads`.
fn bit(t: usize) -> u8 {
    1 << (t % 8)
}

/// Threads of one priority, and the one whose turn it is.
#[derive(Clone, Copy, Default)]
struct Level {
    threads: u8,
    turn: u8,
}

/// Who runs, who is ready, who waits for which object.
struct State {
    /// From the highest priority.
    levels: [Level; 8],
    ready: u8,
    ended: u8,
    current: Option<u8>,
    waiters: [u8; 8],
}

impl State {
    #[inline(always)]
    fn pick(&mut self) -> Option<u8> {
        for level in &mut self.levels {
            let ready = u32::from(self.ready & level.threads);
            if ready != 0 {
                let later = ready >> level.turn << level.turn;
                let first = if later != 0 { later } else { ready };
                level.turn = first.trailing_zeros() as u8;
                return Some(level.turn);
            }
            if level.threads == 0 {
                break;
            }
        }
        None
    }

    fn reschedule(&mut self, port: &dyn Port) {
        let (before, next) = (self.current, self.pick());
        if before != next {
            self.current = next;
            port.switch(next.map(usize::from));
        }
    }

    #[inline(always)]
    fn wake(&mut self, object: usize, port: &dyn Port) {
        if let Some(waiters) = self.waiters.get_mut(object)
            && *waiters != 0
        {
            self.ready |= core::mem::take(waiters);
            self.reschedule(port);
        }
    }

    #[cold]
    fn block(&mut self, t: usize, object: usize, port: &dyn Port) {
        if let Some(waiters) = self.waiters.get_mut(object) {
            *waiters |= bit(t);
        }
        self.ready &= !bit(t);
        self.reschedule(port);
    }
}

/// The kernel of a system.
pub struct Kernel<'m, S: System> {
    memory: *mut S::Memory,
    /// Where [`Ptr::new`] finds room, and how much there is.
    free: Cell<*mut u8>,
    left: Cell<usize>,
    state: RefCell<State>,
    _region: PhantomData<Region<'m, S::Model>>,
}

impl<S: System> Kernel<'_, S> {
    #[inline(always)]
    fn section<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        S::Model::section(|| f(&mut self.state.borrow_mut()))
    }

    /// How a thread has ended; `None` if it has not.
    pub fn ended(&self, t: usize) -> Option<Result<(), Error>> {
        self.has_ended(t).then_some(Ok(()))
    }
}

impl<S: System> Runs for Kernel<'_, S> {
    const THREADS: usize = S::THREADS.len();

    fn start(&self, port: &dyn Port) {
        self.section(|s| s.reschedule(port));
    }
    fn tick(&self, _: &dyn Port) {}
    fn slice(&self, port: &dyn Port) {
        self.section(|s| {
            let Some(current) = s.current else { return };
            let mut levels = s.levels.iter_mut();
            if let Some(level) = levels.find(|l| l.threads & bit(current.into()) != 0) {
                level.turn = (level.turn + 1) % 8;
            }
            s.reschedule(port);
        });
    }
    fn has_ended(&self, thread: usize) -> bool {
        self.section(|s| s.ended & bit(thread) != 0)
    }
}

/// The threads of a system, before they are made.
pub struct Threads<S: System>(PhantomData<S>);

/// Their places.
#[derive(Clone, Copy)]
pub struct Places;

impl<S: System> Threads<S> {
    /// The places of the threads, for `spawn`. **Errors**: none.
    pub fn share(&mut self) -> Result<(Places, ()), Error> {
        Ok((Places, ()))
    }
}

/// Writes what the memory holds at first, in each life.
pub(crate) fn open<S: System>(
    region: Region<'_, S::Model>,
) -> Result<(Kernel<'_, S>, Threads<S>), OpenError> {
    let memory = region.base().cast::<S::Memory>();
    let used = size_of::<S::Memory>().next_multiple_of(8);
    if region.len() < used || !memory.is_aligned() {
        return Err(OpenError::TooSmall);
    }
    // SAFETY: the region is this kernel's, as long and as aligned as it needs.
    unsafe { S::begin(memory) };
    let mut state = State {
        levels: [Level::default(); 8],
        ready: 0,
        ended: 0,
        current: None,
        waiters: [0; 8],
    };
    for (t, spec) in S::THREADS.iter().enumerate() {
        let higher = |p: &u8| S::THREADS.iter().any(|s| s.priority == *p);
        let level = (spec.priority + 1..=u8::MAX).filter(higher).count();
        if let Some(level) = state.levels.get_mut(level) {
            level.threads |= bit(t);
        }
        state.ready |= bit(t);
    }
    let kernel = Kernel {
        memory,
        free: Cell::new(region.base().wrapping_add(used)),
        left: Cell::new(region.len() - used),
        state: RefCell::new(state),
        _region: PhantomData,
    };
    Ok((kernel, Threads(PhantomData)))
}

/// A thread of the program, and the token of its steps.
pub struct Sys<'k, 'm, S: System> {
    kernel: &'k Kernel<'m, S>,
    port: &'k dyn Port,
    me: usize,
}

impl<S: System> Clone for Sys<'_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: System> Copy for Sys<'_, '_, S> {}

impl<S: System> Sys<'_, '_, S> {
    /// An error that ends a step.
    pub fn abort(&self, code: u16) -> pmem_tx::Error {
        pmem_tx::Error::Aborted(code)
    }

    /// Waits until `find` finds something in an object; then those wake who wait for it.
    #[inline]
    fn wait<R>(&self, object: usize, mut find: impl FnMut() -> Option<R>) -> R {
        loop {
            let found = self.kernel.section(|s| {
                let found = find();
                match found {
                    Some(_) => s.wake(object, self.port),
                    None => s.block(self.me, object, self.port),
                }
                found
            });
            if let Some(found) = found {
                return found;
            }
        }
    }
}

/// The time, in ticks since the boot.
pub fn now<S: System>(step: &Sys<'_, '_, S>) -> u64 {
    step.kernel.section(|_| step.port.now())
}

/// The body of a step.
pub type StepBody<'k, 'm, S, R, A, O> =
    fn(&Sys<'k, 'm, S>, &mut Root<R>, A) -> Result<O, pmem_tx::Error>;
/// The body of a loop of one step.
pub type TurnBody<'k, 'm, S, R, A> =
    fn(&Sys<'k, 'm, S>, &mut Root<R>, u32, A) -> Result<(), pmem_tx::Error>;

/// The error of a step.
#[derive(Debug)]
pub struct StepError(pmem_tx::Error);
impl From<StepError> for Error {
    fn from(e: StepError) -> Self {
        e.0.into()
    }
}

/// A thread, as its body sees it.
pub struct Thread<'k, 'm, S: System, R> {
    sys: Sys<'k, 'm, S>,
    root: Root<R>,
}

/// Runs a thread's body.
pub(crate) fn run<'k, 'm, S: System, R>(
    kernel: &'k Kernel<'m, S>,
    port: &'k dyn Port,
    me: usize,
    root: impl FnOnce(*mut S::Memory) -> *mut R,
    body: impl FnOnce(&mut Thread<'k, 'm, S, R>) -> Result<(), Error>,
) {
    let sys = Sys { kernel, port, me };
    let root = Root(root(kernel.memory));
    let r = body(&mut Thread { sys, root });
    kernel.section(|s| {
        if r.is_ok() {
            s.ended |= bit(me);
        }
        s.ready &= !bit(me);
        port.ended(me);
        s.current = None;
        s.reschedule(port);
        if s.current.is_none() {
            port.switch(None);
        }
    });
}

impl<'k, 'm, S: System, R> Thread<'k, 'm, S, R> {
    /// Runs the body. **Errors**: those of the body.
    #[inline(always)]
    pub fn step<A, O>(
        &mut self,
        args: A,
        body: StepBody<'k, 'm, S, R, A, O>,
    ) -> Result<O, StepError> {
        body(&self.sys, &mut self.root, args).map_err(StepError)
    }

    /// Runs the body for each number of the range. **Errors**: those of the body.
    #[inline(always)]
    pub fn each_step<A: Copy>(
        &mut self,
        range: Range<u32>,
        args: A,
        body: TurnBody<'k, 'm, S, R, A>,
    ) -> Result<(), Error> {
        for i in range {
            body(&self.sys, &mut self.root, i, args)?;
        }
        Ok(())
    }
}

/// The data of a thread.
pub struct Root<R>(*mut R);

#[allow(clippy::unnecessary_wraps)]
impl<R> Root<R> {
    /// Borrows it to read it.
    #[inline(always)]
    pub fn get<X>(&self, _: &X) -> &R {
        // SAFETY: the thread's own part of the memory, of which nothing else is lent.
        unsafe { &*self.0 }
    }
    /// Borrows it to write it. **Errors**: none.
    #[inline(always)]
    pub fn get_mut<X>(&mut self, _: &X) -> Result<&mut R, pmem_tx::Error> {
        // SAFETY: as in `get`.
        Ok(unsafe { &mut *self.0 })
    }
    /// The same as a field slot.
    #[inline(always)]
    pub fn slot<X>(&mut self, _: &X) -> FieldSlot<'_, R> {
        FieldSlot(self.0, PhantomData)
    }
    /// Its fields.
    #[inline(always)]
    pub fn fields<'a, X>(&'a mut self, _: &X) -> R::Slots<Lender<'a>>
    where
        R: Fields,
    {
        // SAFETY: as in `get`.
        unsafe { R::project(self.0, Lender(PhantomData)) }
    }
}

/// Lends fields.
#[derive(Clone, Copy)]
pub struct Lender<'a>(PhantomData<&'a mut ()>);
// SAFETY: a slot reaches the field that it was made for.
unsafe impl<'a> FieldAccess for Lender<'a> {
    type FieldSlot<U> = FieldSlot<'a, U>;
    #[inline(always)]
    unsafe fn field_slot<U>(self, at: *mut U) -> FieldSlot<'a, U> {
        FieldSlot(at, PhantomData)
    }
}

/// A field.
pub struct FieldSlot<'a, U>(*mut U, PhantomData<&'a mut ()>);

#[allow(clippy::unnecessary_wraps)]
impl<U> FieldSlot<'_, U> {
    /// Borrows it to read it.
    #[inline(always)]
    pub fn get(&self) -> &U {
        // SAFETY: the field is borrowed with its slot.
        unsafe { &*self.0 }
    }
    /// Writes it. **Errors**: none.
    #[inline(always)]
    pub fn set(&mut self, v: U) -> Result<(), pmem_tx::Error> {
        // SAFETY: as in `get`.
        unsafe { *self.0 = v };
        Ok(())
    }
}

impl<T, const N: usize> FieldSlot<'_, [T; N]> {
    /// An element, to read it. **Errors**: there is none of this number.
    #[inline(always)]
    pub fn at(&self, i: usize) -> Result<&T, pmem_tx::Error> {
        let none = pmem_tx::Error::Index { index: i, len: N };
        self.get().get(i).ok_or(none)
    }
    /// An element, to write it. **Errors**: as for [`at`](Self::at).
    #[inline(always)]
    pub fn at_mut(&mut self, i: usize) -> Result<&mut T, pmem_tx::Error> {
        let none = pmem_tx::Error::Index { index: i, len: N };
        // SAFETY: as in `get`.
        unsafe { &mut *self.0 }.get_mut(i).ok_or(none)
    }
}

impl<T, W> FieldSlot<'_, Option<Ptr<'_, T, W>>> {
    /// Writes what it leads to. **Errors**: none.
    #[inline(always)]
    pub fn write(&mut self, v: T) -> Result<(), pmem_tx::Error> {
        // SAFETY: as in `get`.
        if let Some(p) = unsafe { &*self.0 } {
            // SAFETY: the handle is the only one.
            unsafe { *p.at() = v }
        }
        Ok(())
    }
}

/// A handle to a value.
pub struct Ptr<'p, T, W = u32> {
    /// Its address.
    at: NonZeroUsize,
    _t: PhantomData<(&'p (), T, W)>,
}

impl<T, W> Ptr<'_, T, W> {
    /// Allocates room for a value. **Errors**: there is none left.
    pub fn new<S: System>(sys: &Sys<'_, '_, S>, v: T) -> Result<Self, pmem_tx::Error> {
        let bytes = size_of::<T>().next_multiple_of(8);
        let (kernel, full) = (sys.kernel, pmem_tx::Error::PoolFull { bytes });
        kernel.section(|_| {
            let (at, left) = (kernel.free.get(), kernel.left.get());
            if left < bytes || align_of::<T>() > 8 {
                return Err(full);
            }
            kernel.free.set(at.wrapping_add(bytes));
            kernel.left.set(left - bytes);
            // SAFETY: a part of the region that nothing uses.
            unsafe { at.cast::<T>().write(v) };
            let at = NonZeroUsize::new(at as usize).ok_or(full)?;
            Ok(Ptr {
                at,
                _t: PhantomData,
            })
        })
    }
    #[inline(always)]
    fn at(&self) -> *mut T {
        self.at.get() as *mut T
    }
    /// Borrows the value to read it.
    #[inline(always)]
    pub fn get<X>(&self, _: &X) -> &T {
        // SAFETY: the handle is the only one.
        unsafe { &*self.at() }
    }
}

/// A kind of object.
pub trait Object {
    /// What of it is in the memory.
    type State;
    /// Writes what it is at first.
    ///
    /// # Safety
    /// The state is there, and nothing of it is lent.
    unsafe fn begin(state: *mut Self::State);
}

/// Where an object is.
#[derive(Clone, Copy)]
pub struct At {
    /// Its number.
    pub number: usize,
    /// How far behind the start of the memory.
    pub offset: usize,
}

/// A queue of up to `N` messages.
pub struct Queue<S, T, const N: usize> {
    at: At,
    _s: PhantomData<fn() -> (S, T)>,
}

/// What of a queue is in the memory.
#[repr(C)]
pub struct Messages<T, const N: usize> {
    first: u8,
    len: u8,
    slots: [core::mem::MaybeUninit<T>; N],
}

impl<S, T, const N: usize> Object for Queue<S, T, N> {
    type State = Messages<T, N>;
    unsafe fn begin(state: *mut Messages<T, N>) {
        // SAFETY: by the contract.
        unsafe { ((*state).first, (*state).len) = (0, 0) }
    }
}

impl<S: System, T: Copy, const N: usize> Queue<S, T, N> {
    pub(crate) const fn at(at: At) -> Self {
        let _s = PhantomData;
        Queue { at, _s }
    }
    #[inline(always)]
    fn state(&self, sys: &Sys<'_, '_, S>) -> *mut Messages<T, N> {
        sys.kernel.memory.wrapping_byte_add(self.at.offset).cast()
    }

    /// Sends a message; waits until there is a slot for it. **Errors**: none.
    pub fn send(&self, sys: &Sys<'_, '_, S>, message: T) -> Result<(), pmem_tx::Error> {
        sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            let q = unsafe { &mut *self.state(sys) };
            if usize::from(q.len) >= N {
                return None;
            }
            let slot = (usize::from(q.first) + usize::from(q.len)) % N;
            q.slots[slot].write(message);
            q.len += 1;
            Some(())
        });
        Ok(())
    }

    /// Receives the oldest message; waits until there is one. **Errors**: none.
    pub fn receive(&self, sys: &Sys<'_, '_, S>) -> Result<T, pmem_tx::Error> {
        Ok(sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            let q = unsafe { &mut *self.state(sys) };
            if q.len == 0 {
                return None;
            }
            let slot = usize::from(q.first) % N;
            q.first = ((slot + 1) % N) as u8;
            q.len -= 1;
            // SAFETY: it was sent.
            Some(unsafe { q.slots[slot].assume_init() })
        }))
    }
}

/// An event group.
pub struct Events<S> {
    at: At,
    _s: PhantomData<fn() -> S>,
}

impl<S> Object for Events<S> {
    type State = u32;
    unsafe fn begin(state: *mut u32) {
        // SAFETY: by the contract.
        unsafe { *state = 0 }
    }
}

impl<S: System> Events<S> {
    pub(crate) const fn at(at: At) -> Self {
        let _s = PhantomData;
        Events { at, _s }
    }
    #[inline(always)]
    fn flags(&self, sys: &Sys<'_, '_, S>) -> *mut u32 {
        sys.kernel.memory.wrapping_byte_add(self.at.offset).cast()
    }

    /// Sets flags. **Errors**: none.
    pub fn set(&self, sys: &Sys<'_, '_, S>, flags: u8) -> Result<(), pmem_tx::Error> {
        sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            unsafe { *self.flags(sys) |= u32::from(flags) };
            Some(())
        });
        Ok(())
    }

    /// Waits for flags, and clears them. Returns those that were set. **Errors**: none.
    pub fn wait(
        &self,
        sys: &Sys<'_, '_, S>,
        flags: u8,
        until: Until,
    ) -> Result<u8, pmem_tx::Error> {
        Ok(sys.wait(self.at.number, || {
            // SAFETY: the object's part of the memory, in a section.
            let all = unsafe { &mut *self.flags(sys) };
            let seen = *all as u8 & flags;
            let enough = match until {
                Until::Any => seen != 0,
                Until::All => seen == flags,
            };
            enough.then(|| {
                *all &= !u32::from(seen);
                seen
            })
        }))
    }
}

/// Describes a system, as `nv_rtos::system!` does. The layout of tables and pool is not used.
macro_rules! system {
    (
        $(#[$doc:meta])*
        $vis:vis $system:ident on $model:ty;
        table { $($table:tt)* }
        $(pool { $($pool:tt)* })?
        objects { $($(#[$about:meta])* $object:ident: $kind:ident $(<$message:ty, $n:literal>)?;)* }
        threads { $($thread:ident($root:ty = $init:expr): $priority:expr;)+ }
    ) => {
        $(#[$doc])*
        $vis enum $system {}

        $(
            $(#[$about])*
            $vis const $object: crate::plain_kernel::$kind<$system $(, $message, $n)?> =
                crate::plain_kernel::$kind::at(crate::plain_kernel::At {
                    number: Objects::$object as usize,
                    offset: core::mem::offset_of!(Memory, $object),
                });
        )*

        /// The numbers of the objects.
        #[allow(clippy::upper_case_acronyms)]
        enum Objects { $($object),* }

        /// What is in the memory.
        #[allow(non_snake_case)]
        #[repr(C)]
        $vis struct Memory {
            $(
                $object: <crate::plain_kernel::$kind<$system $(, $message, $n)?>
                    as crate::plain_kernel::Object>::State,
            )*
            $($thread: $root,)+
        }

        impl crate::plain_kernel::System for $system {
            type Model = $model;
            type Memory = Memory;
            const THREADS: &'static [crate::plain_kernel::ThreadSpec] = &[
                $(crate::plain_kernel::ThreadSpec {
                    name: stringify!($thread),
                    priority: $priority,
                },)+
            ];
            unsafe fn begin(memory: *mut Memory) {
                const { crate::plain_kernel::Config { $($table)* } };
                $(const { crate::plain_kernel::pmem_tx::Config { $($pool)* } };)?
                // SAFETY: by the contract.
                unsafe {
                    $(<crate::plain_kernel::$kind<$system $(, $message, $n)?>
                        as crate::plain_kernel::Object>::begin(&raw mut (*memory).$object);)*
                    $((&raw mut (*memory).$thread).write($init);)+
                }
            }
        }

        impl $system {
            $vis fn open(
                region: crate::plain_kernel::nvmem::Region<'_, $model>,
            ) -> Result<
                (crate::plain_kernel::Kernel<'_, $system>, crate::plain_kernel::Threads<$system>),
                crate::plain_kernel::OpenError,
            > {
                crate::plain_kernel::open(region)
            }

            $vis fn spawn<'s, 'm: 's>(
                kernel: &'s crate::plain_kernel::Kernel<'m, $system>,
                _: crate::plain_kernel::Places,
                to: &mut impl ::nv_rtos::Spawn<'s>,
                $(
                    $thread: impl for<'k> FnOnce(
                        &mut crate::plain_kernel::Thread<'k, 'm, $system, $root>,
                    ) -> Result<(), crate::plain_kernel::Error> + 's,
                )+
            ) {
                let mut number = 0;
                $(
                    let me = number;
                    to.spawn(me, stringify!($thread), move |port| {
                        // SAFETY: a field of the memory, which is not lent.
                        let root = |m: *mut Memory| unsafe { &raw mut (*m).$thread };
                        crate::plain_kernel::run(kernel, port, me, root, $thread)
                    });
                    number += 1;
                )+
                let _ = number;
            }
        }
    };
}
pub(crate) use system;
