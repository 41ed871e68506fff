//! A kernel without protection, with the names of `nv-rtos`: what the programs are compared with.
//!
//! Each call takes effect at once, nothing is logged, and nothing is recovered. The states of the
//! objects and the data of the threads are in the memory that the program is given. If that is
//! non-volatile, the program is *persistent and unprotected*. If it is RAM, it is *volatile*. The
//! instructions are the same. Who is ready and who waits is in RAM, as in `nv-rtos`.
//!
//! It has what the programs use. Ports are those of `nv-rtos`.

use core::cell::RefCell;
use core::marker::PhantomData;
use core::ops::{Deref, Range};
use nv_rtos::nvmem::{Model, Region};
use nv_rtos::{Port, Runs};

pub use nv_rtos::{Config, Error, OpenError, ThreadSpec, Until, nvmem};

/// What programs use of `pmem-tx`.
pub mod pmem_tx {
    pub use super::{PBox, Ptr, Root, Tx};
    pub use nv_rtos::pmem_tx::{Config, Error};
}

mod heap;
mod objects;

use heap::Heap;
pub use heap::{FieldSlot, Lender, PBox, Ptr, Root, Tx};
pub use objects::{Events, Messages, Mutex, Queue, Timer, TimerId, expired};

/// A program's threads and objects: [`system!`] implements it.
pub trait System: Sized + 'static {
    /// The medium, with the critical section.
    type Model: Model;
    /// Everything that is in the memory: the objects, then the data of the threads.
    type Memory;
    /// The threads.
    const THREADS: &'static [ThreadSpec];
    /// Where the timers are.
    const TIMERS: &'static [At];
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
    waiters: [u8; WAITED_FOR],
}

/// Objects for which threads wait, and what those wait for who wait for a timer.
const WAITED_FOR: usize = 16;
const TIME: usize = WAITED_FOR - 1;

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
    heap: Heap,
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
    fn tick(&self, port: &dyn Port) {
        self.section(|s| {
            port.set_timer(None);
            s.wake(TIME, port);
        });
    }
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
/// Where a kernel and its threads are.
pub(crate) struct Room<'m, S: System> {
    pub(crate) kernel: Option<Kernel<'m, S>>,
    pub(crate) threads: Option<Threads<S>>,
}

impl<S: System> Room<'_, S> {
    pub(crate) const fn new() -> Self {
        Room {
            kernel: None,
            threads: None,
        }
    }
}

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
        waiters: [0; WAITED_FOR],
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
        heap: Heap::new(region.base().wrapping_add(used), region.len() - used),
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
    tx: Tx<'static, S::Model>,
}

impl<S: System> Clone for Sys<'_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: System> Copy for Sys<'_, '_, S> {}

impl<S: System> Deref for Sys<'_, '_, S> {
    type Target = Tx<'static, S::Model>;
    fn deref(&self) -> &Self::Target {
        &self.tx
    }
}

impl<S: System> Sys<'_, '_, S> {
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
    fn(&Sys<'k, 'm, S>, &mut RootOf<S, R>, A) -> Result<O, pmem_tx::Error>;
/// The body of a loop of one step.
pub type TurnBody<'k, 'm, S, R, A> =
    fn(&Sys<'k, 'm, S>, &mut RootOf<S, R>, u32, A) -> Result<(), pmem_tx::Error>;
/// The body of a loop of several steps.
pub type Turn<'k, 'm, S, R, A> = fn(&mut Thread<'k, 'm, S, R>, u32, A) -> Result<(), Error>;
/// The data of a thread of the system `S`.
pub type RootOf<S, R> = Root<'static, R, <<S as System>::Model as Model>::Unit>;

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
    root: RootOf<S, R>,
}

/// Runs a thread's body.
pub(crate) fn run<'k, 'm, S: System, R>(
    kernel: &'k Kernel<'m, S>,
    port: &'k dyn Port,
    me: usize,
    root: impl FnOnce(*mut S::Memory) -> *mut R,
    body: impl FnOnce(&mut Thread<'k, 'm, S, R>) -> Result<(), Error>,
) {
    let tx = Tx::new(&kernel.heap);
    let sys = Sys {
        kernel,
        port,
        me,
        tx,
    };
    let root = Root::new(root(kernel.memory));
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

    /// Runs the body, which has steps, for each number of the range. **Errors**: those of the body.
    #[inline(always)]
    pub fn each<A: Copy>(
        &mut self,
        range: Range<u32>,
        args: A,
        body: Turn<'k, 'm, S, R, A>,
    ) -> Result<(), Error> {
        for i in range {
            body(self, i, args)?;
        }
        Ok(())
    }

    /// Locks a mutex; waits until no other thread has it. The guard gives it back.
    /// **Errors**: none.
    pub fn lock<T>(&mut self, mutex: &Mutex<S, T>) -> Result<Guard<'k, 'm, S, T>, Error> {
        mutex.lock(&self.sys);
        Ok(Guard {
            sys: self.sys,
            mutex: *mutex,
        })
    }
}

/// A locked mutex. It is given back when this is dropped.
pub struct Guard<'k, 'm, S: System, T> {
    sys: Sys<'k, 'm, S>,
    mutex: Mutex<S, T>,
}

impl<S: System, T> Guard<'_, '_, S, T> {
    /// What the mutex guards, as an argument of a step.
    pub fn data(&mut self) -> RootOf<S, T> {
        self.mutex.data(&self.sys)
    }
}

impl<S: System, T> Drop for Guard<'_, '_, S, T> {
    fn drop(&mut self) {
        self.mutex.unlock(&self.sys)
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
    /// Whether it is a timer.
    const TIMER: bool = false;
}

/// How many of these objects are timers.
pub(crate) const fn count(is: &[bool]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < is.len() {
        n += is[i] as usize;
        i += 1;
    }
    n
}

/// Those that are timers.
pub(crate) const fn timers<const N: usize>(is: &[bool], at: &[At]) -> [At; N] {
    let (mut all, mut n, mut i) = ([NOWHERE; N], 0, 0);
    while i < is.len() {
        if is[i] {
            all[n] = at[i];
            n += 1;
        }
        i += 1;
    }
    all
}
const NOWHERE: At = At {
    number: 0,
    offset: 0,
    data: 0,
};

/// Where an object is.
#[derive(Clone, Copy)]
pub struct At {
    /// Its number.
    pub number: usize,
    /// How far behind the start of the memory.
    pub offset: usize,
    /// The same of what it guards.
    pub data: usize,
}

/// Describes a system, as `nv_rtos::system!` does. The layout of tables and pool is not used.
macro_rules! system {
    (
        $(#[$doc:meta])*
        $vis:vis $system:ident on $model:ty;
        table { $($table:tt)* }
        $(pool { $($pool:tt)* })?
        objects { $(
            $(#[$about:meta])*
            $object:ident: $kind:ident $(<$message:ty, $n:literal>)? $(= $make:ident($made:expr))?;
        )* }
        $(shared { $($(#[$shared_doc:meta])* $shared:ident: $data:ty = $first:expr;)+ })?
        threads { $($thread:ident($root:ty = $init:expr): $priority:expr;)+ }
    ) => {
        $(#[$doc])*
        $vis enum $system {}

        $(
            $(#[$about])*
            $vis const $object: crate::plain_kernel::$kind<$system $(, $message, $n)?> =
                crate::plain_kernel::$kind::at(crate::plain_kernel::At {
                    number: Numbers::$object as usize,
                    offset: core::mem::offset_of!(Memory, $object),
                    data: 0,
                })$(.$make($made))?;
        )*
        $($(
            $(#[$shared_doc])*
            $vis const $shared: crate::plain_kernel::Mutex<$system, $data> =
                crate::plain_kernel::Mutex::at(crate::plain_kernel::At {
                    number: Numbers::$shared as usize,
                    offset: core::mem::offset_of!(Memory, $shared),
                    data: core::mem::offset_of!(Memory, shared)
                        + core::mem::offset_of!(Data, $shared),
                });
        )+)?

        /// The numbers of the objects.
        #[allow(clippy::upper_case_acronyms, non_camel_case_types, dead_code)]
        enum Numbers { $($object,)* $($($shared,)+)? Last }

        /// What the mutexes guard.
        #[allow(non_snake_case)]
        #[repr(C)]
        $vis struct Data { $($($shared: $data,)+)? }

        /// What is in the memory.
        #[allow(non_snake_case)]
        #[repr(C)]
        $vis struct Memory {
            $(
                $object: <crate::plain_kernel::$kind<$system $(, $message, $n)?>
                    as crate::plain_kernel::Object>::State,
            )*
            $($($shared: <crate::plain_kernel::Mutex<$system, $data>
                    as crate::plain_kernel::Object>::State,)+)?
            shared: Data,
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
            const TIMERS: &'static [crate::plain_kernel::At] = {
                const IS: &[bool] = &[
                    $(<crate::plain_kernel::$kind<$system $(, $message, $n)?>
                        as crate::plain_kernel::Object>::TIMER,)*
                ];
                const ALL: &[crate::plain_kernel::At] = &[$($object.at,)*];
                const TIMERS: [crate::plain_kernel::At; crate::plain_kernel::count(IS)] =
                    crate::plain_kernel::timers(IS, ALL);
                &TIMERS
            };
            unsafe fn begin(memory: *mut Memory) {
                const { crate::plain_kernel::Config { $($table)* } };
                $(const { crate::plain_kernel::pmem_tx::Config { $($pool)* } };)?
                // SAFETY: by the contract.
                unsafe {
                    $(<crate::plain_kernel::$kind<$system $(, $message, $n)?>
                        as crate::plain_kernel::Object>::begin(&raw mut (*memory).$object);)*
                    $($(
                        <crate::plain_kernel::Mutex<$system, $data>
                            as crate::plain_kernel::Object>::begin(&raw mut (*memory).$shared);
                        (&raw mut (*memory).shared.$shared).write($first);
                    )+)?
                    $((&raw mut (*memory).$thread).write($init);)+
                }
            }
        }

        #[allow(dead_code)]
        impl $system {
            $vis fn open(
                region: crate::plain_kernel::nvmem::Region<'_, $model>,
            ) -> Result<
                (crate::plain_kernel::Kernel<'_, $system>, crate::plain_kernel::Threads<$system>),
                crate::plain_kernel::OpenError,
            > {
                crate::plain_kernel::open(region)
            }

            $vis fn open_in<'p, 'm>(
                room: &'p mut crate::plain_kernel::Room<'m, $system>,
                region: crate::plain_kernel::nvmem::Region<'m, $model>,
            ) -> Result<
                (
                    &'p crate::plain_kernel::Kernel<'m, $system>,
                    &'p mut crate::plain_kernel::Threads<$system>,
                ),
                crate::plain_kernel::OpenError,
            > {
                let (kernel, threads) = $system::open(region)?;
                Ok((room.kernel.insert(kernel), room.threads.insert(threads)))
            }

            #[allow(clippy::too_many_arguments)]
            $vis fn spawn<'s, 'm: 's>(
                kernel: &'s crate::plain_kernel::Kernel<'m, $system>,
                _: crate::plain_kernel::Places,
                $(_: &crate::plain_kernel::given!(crate::plain_kernel::Places, $($shared)+),)?
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

            $vis fn share(
                threads: &mut crate::plain_kernel::Threads<$system>,
            ) -> Result<
                (crate::plain_kernel::Places, crate::plain_kernel::Places),
                crate::plain_kernel::Error,
            > {
                let (places, ()) = threads.share()?;
                Ok((places, places))
            }
        }
    };
}
pub(crate) use system;

/// The first of its arguments.
macro_rules! given {
    ($type:ty, $($shared:ident)+) => {
        $type
    };
}
pub(crate) use given;
