//! Systems: which threads and objects there are. [`system!`](crate::system!) describes one.

use crate::error::OpenError;
use crate::kernel::Kernel;
use crate::ram::Memory;
use crate::shared::{Shares, UnitOf};
use crate::spawn::{PlaceSpec, arguments};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nv_replay::nvmem::{Model, Region};
use nv_replay::pmem_tx::{self, Contexts, Sharing, Tx, Width};
use nv_replay::{Config, PlacesOf};

/// The threads and objects of a program. [`system!`](crate::system!) implements it.
pub trait System: Shares<Unit = UnitOf<Self>> + Sized + 'static {
    /// The medium, with the machine's critical section: `Preempted<InOrder32, Masked>`.
    type Model: Model<Unit: Width>;
    /// The roots of the threads: `Contexts<(A, B)>`.
    type Roots: PlacesOf;
    /// The threads, in the order of their roots.
    const THREADS: &'static [ThreadSpec];
    /// The reserved places among them, which are the last ones.
    #[doc(hidden)]
    const PLACES: &'static [PlaceSpec] = &[];
    /// The kernel's RAM for them.
    #[doc(hidden)]
    type Ram: Memory;
    /// The objects.
    #[doc(hidden)]
    const OBJECTS: &'static [ObjectSpec];
    /// What the objects take.
    #[doc(hidden)]
    const END: Layout;
    /// What threads may do with each other.
    const CONTROL: ThreadControl = ThreadControl::NONE;
    /// The capacity of each thread's table of records. Its `seq_bits` are at most 13, on 16-bit
    /// units at most 8.
    const TABLE: Config;
    /// The layout of the pool; `None` chooses it by the size.
    const POOL: Option<pmem_tx::Config>;
}

/// A thread of a [`System`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Its name.
    pub name: &'static str,
    /// Of the threads that are ready, one of the highest priority runs.
    pub priority: u8,
}

/// What the threads of a [`System`] may do with each other, and what the kernel may do with them:
/// the block `control` of [`system!`](crate::system!). What is not named there is off, and costs
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadControl {
    /// Each thread has notifications: see [`ThreadId::notify`]. **Cost**: an event group for each.
    pub notify: bool,
    /// Threads change priorities ([`ThreadId::set_priority`]) and abort each other
    /// ([`ThreadId::abort`]). **Cost**: a word for each thread on the medium.
    pub change: bool,
    /// A thread that makes no progress in this many long boots is parked: see
    /// [`Kernel::parked`](crate::Kernel::parked). At most 7; 0: none is. **Cost**: a word for each
    /// thread on the medium.
    pub lives: u8,
    /// After so many ticks a boot is long.
    pub ticks: u32,
}

impl ThreadControl {
    /// Nothing of it.
    pub const NONE: Self = ThreadControl {
        notify: false,
        change: false,
        lives: 0,
        ticks: 0,
    };

    /// The words of each thread whose changes belong to steps, and all of its words.
    pub(crate) const fn words(&self) -> (u16, u16) {
        let staged = self.change as u16;
        (staged, staged + (self.lives != 0) as u16)
    }

    /// Whether a thread may stop without having ended.
    pub(crate) const fn stops(&self) -> bool {
        self.lives != 0 || self.change
    }
}

/// A system whose block `control` has an entry `notify`.
#[diagnostic::on_unimplemented(
    message = "the system `{Self}` has no notifications",
    label = "needs `notify: true` in the block `control` of `{Self}`",
    note = "write `control {{ notify: true }}` behind the threads of `system!`"
)]
pub trait Notifies: System {}

/// A system whose block `control` has an entry `change`.
#[diagnostic::on_unimplemented(
    message = "threads of the system `{Self}` do not change each other",
    label = "needs `change: true` in the block `control` of `{Self}`",
    note = "write `control {{ change: true }}` behind the threads of `system!`"
)]
pub trait Changes: System {}

/// A system whose block `control` has an entry `lives`.
#[diagnostic::on_unimplemented(
    message = "the system `{Self}` parks no thread",
    label = "needs `lives` and `ticks` in the block `control` of `{Self}`",
    note = "write `control {{ lives: 4, ticks: 1000 }}` behind the threads of `system!`"
)]
pub trait Parks: System {}

/// What a system may do for which its block `control` has an entry.
#[doc(hidden)]
#[macro_export]
macro_rules! control_entry {
    ($system:ident notify) => {
        impl $crate::Notifies for $system {}
    };
    ($system:ident change) => {
        impl $crate::Changes for $system {}
    };
    ($system:ident lives) => {
        impl $crate::Parks for $system {}
    };
    ($system:ident $other:ident) => {};
}

/// What a system may do with threads. One with reserved places aborts threads and changes their
/// priorities in any case.
#[doc(hidden)]
#[macro_export]
macro_rules! control_entries {
    ($system:ident [] [$($may:ident)*]) => {
        $($crate::control_entry! { $system $may })*
    };
    ($system:ident [$($place:ident)+] []) => {
        impl $crate::Changes for $system {}
    };
    ($system:ident [$($place:ident)+] [change $($may:ident)*]) => {
        $crate::control_entries! { $system [$($place)+] [$($may)*] }
    };
    ($system:ident [$($place:ident)+] [$first:ident $($may:ident)*]) => {
        $crate::control_entry! { $system $first }
        $crate::control_entries! { $system [$($place)+] [$($may)*] }
    };
}

/// What a block `control` says goes together.
#[doc(hidden)]
pub const fn assert_control(control: ThreadControl) {
    assert!(control.lives < 8, "a system's `lives` are at most 7");
    assert!(
        control.lives == 0 || control.ticks != 0,
        "`lives` needs `ticks` in the block `control`: how long a life must last to count"
    );
    assert!(
        control.ticks == 0 || control.lives != 0,
        "`ticks` needs `lives` in the block `control`: after how many lives a thread is parked"
    );
}

/// The kinds of objects.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Semaphore,
    Queue,
    Mutex,
    Events,
}

/// Where an object is.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub object: u8,
    pub word: u16,
    pub slots: u32,
}

impl Layout {
    /// That of the first object.
    pub const FIRST: Layout = Layout {
        object: 0,
        word: 0,
        slots: 0,
    };

    /// The place after an object.
    pub const fn behind(self, spec: ObjectSpec, slots: u32) -> Layout {
        assert!(self.object < 64, "a system has at most 64 objects");
        Layout {
            object: self.object + 1,
            word: self.word + spec.words,
            slots: self.slots + slots,
        }
    }
}

/// What a system's objects take, with the notifications of its threads and the arguments of its
/// places, which lie after them.
#[doc(hidden)]
pub const fn end_of_all(
    objects: Layout,
    threads: usize,
    places: &[PlaceSpec],
    control: ThreadControl,
) -> Layout {
    let n = if control.notify { threads } else { 0 };
    assert!(
        objects.object as usize + n <= 64,
        "a system has at most 64 objects, with its threads' notifications"
    );
    Layout {
        object: objects.object + n as u8,
        word: objects.word + n as u16,
        slots: objects.slots + arguments(places),
    }
}

/// All of these objects.
#[doc(hidden)]
pub const fn all_objects<const N: usize>(own: &[ObjectSpec], end: Layout) -> [ObjectSpec; N] {
    let first = end.word - (N - own.len()) as u16;
    let mut all = [ObjectSpec {
        kind: Kind::Events,
        word: first,
        words: 1,
        initial: 0,
        content: 0,
        timer: 0,
        reserved: 0,
    }; N];
    let mut i = 0;
    while i < N {
        if i < own.len() {
            all[i] = own[i];
        } else {
            all[i].word = first + (i - own.len()) as u16;
        }
        i += 1;
    }
    all
}

/// What the kernel knows of an object.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectSpec {
    pub kind: Kind,
    pub word: u16,
    pub words: u16,
    pub initial: u8,
    /// A hash of what its messages are; of a timer, its slots and its period.
    pub content: u64,
    /// It is a timer: 1, or a periodic one: 2.
    pub timer: u8,
    /// In the list of a system's objects: for so many reserved places this stands. In the list of
    /// all: what the word is to a place.
    pub reserved: u8,
}

/// A thread of the system `S`, for [`Thread::join`](crate::Thread::join). That of a reserved place
/// is marked [`Reserved`](crate::Reserved), and can be [spawned](Self::spawn).
pub struct ThreadId<S, A = ()> {
    pub(crate) number: usize,
    _s: PhantomData<fn() -> (S, A)>,
}

impl<S: System, A> ThreadId<S, A> {
    /// The thread of this name.
    ///
    /// **Panics**, where the program is compiled, if there is none.
    #[doc(hidden)]
    pub const fn of(name: &str) -> Self {
        let mut number = 0;
        while number < S::THREADS.len() {
            if same(S::THREADS[number].name, name) {
                return ThreadId {
                    number,
                    _s: PhantomData,
                };
            }
            number += 1;
        }
        panic!("no thread of this name")
    }

    /// Its number, from 0, in the order of [`System::THREADS`].
    pub const fn number(&self) -> usize {
        self.number
    }
}

impl<S, A> Clone for ThreadId<S, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, A> Copy for ThreadId<S, A> {}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// A hash of a system's objects and threads: an image of another system is refused.
pub(crate) const fn fingerprint<S: System>() -> u64 {
    const fn add(hash: u64, v: u64) -> u64 {
        (hash.rotate_left(5) ^ v).wrapping_mul(0x100_0000_01b3)
    }
    let mut hash = add(0xcbf2_9ce4_8422_2325, S::THREADS.len() as u64);
    let (staged, all) = S::CONTROL.words();
    if all != 0 {
        hash = add(hash, (staged as u64) << 8 | all as u64);
    }
    let mut threads = S::THREADS;
    while let [t, rest @ ..] = threads {
        let mut name = t.name.as_bytes();
        while let [byte, rest @ ..] = name {
            hash = add(hash, *byte as u64);
            name = rest;
        }
        threads = rest;
    }
    let mut places = S::PLACES;
    while let [place, rest @ ..] = places {
        hash = add(hash, place.content);
        places = rest;
    }
    let mut objects = S::OBJECTS;
    while let [o, rest @ ..] = objects {
        hash = add(hash, o.kind as u64 | (o.reserved as u64) << 8);
        hash = add(hash, o.words as u64);
        // A program may change the period of a timer.
        let content = if o.timer == 0 {
            o.content
        } else {
            o.timer as u64
        };
        hash = add(hash, content);
        objects = rest;
    }
    hash
}

/// The threads of each level, a bit for each. A thread's level is how many priorities below its own
/// the threads have.
pub(crate) const fn members<S: System>() -> [u8; crate::THREADS_MAX] {
    let mut members = [0; crate::THREADS_MAX];
    let mut t = 0;
    while t < S::THREADS.len() {
        let (mut level, mut lower) = (0, 0);
        while lower < S::THREADS[t].priority {
            let mut other = 0;
            while other < S::THREADS.len() && S::THREADS[other].priority != lower {
                other += 1;
            }
            level += (other < S::THREADS.len()) as usize;
            lower += 1;
        }
        members[level] |= 1 << t;
        t += 1;
    }
    members
}

/// Whether two threads may have one priority.
#[inline(always)]
pub(crate) fn takes_turns<S: System>() -> bool {
    const {
        let members = members::<S>();
        let (mut takes, mut level) = (S::CONTROL.change, 0);
        while level < members.len() {
            takes |= members[level].count_ones() > 1;
            level += 1;
        }
        takes
    }
}

/// The roots of a system's pool. A system whose mutexes have no data shares an empty one.
#[doc(hidden)]
pub type RootsOf<S> = Sharing<<S as Shares>::Data, <S as System>::Roots>;

/// The threads of a system.
#[doc(hidden)]
pub type Threads<'m, S> = nv_replay::Threads<'m, RootsOf<S>, <S as System>::Model>;

/// The kernel and the threads of a system.
#[doc(hidden)]
pub type Opened<'m, S> = (Kernel<'m, S>, Threads<'m, S>);

/// RAM for the kernel and the threads of a system, for the function `open_in` that
/// [`system!`](crate::system!) generates. **Size**: that of [`Kernel`], and what the threads share.
pub struct Room<'m, S: System> {
    kernel: MaybeUninit<Kernel<'m, S>>,
    threads: MaybeUninit<Threads<'m, S>>,
}

impl<S: System> Room<'_, S> {
    /// Room for a system that is not open.
    pub const fn new() -> Self {
        Room {
            kernel: MaybeUninit::uninit(),
            threads: MaybeUninit::uninit(),
        }
    }
}

impl<S: System> Default for Room<'_, S> {
    fn default() -> Self {
        Self::new()
    }
}

/// The kernel and the threads of a system, in its [`Room`].
#[doc(hidden)]
pub type OpenedIn<'p, 'm, S> = (&'p Kernel<'m, S>, &'p mut Threads<'m, S>);

/// Where the keys to the data of a system's mutexes are.
#[doc(hidden)]
pub type CellsOf<'c, S> = <S as Shares>::Cells<'c>;

/// The places of a system's threads, and the keys to the data of its mutexes.
#[doc(hidden)]
#[inline(always)]
#[allow(clippy::type_complexity)]
pub fn share<'c, S: System>(
    threads: &'c mut Threads<'_, S>,
) -> Result<(PlacesIn<'c, S>, CellsOf<'c, S>), OpenError> {
    let (places, keys) = threads.share()?;
    Ok((places, S::cells(PhantomData, keys)))
}

/// Opens a system's region: the kernel's part first, with the numbers of the threads' last commits.
#[doc(hidden)]
#[allow(unsafe_code)]
pub fn open<'m, S: System, F>(
    region: Region<'m, S::Model>,
    init: F,
) -> Result<Opened<'m, S>, OpenError>
where
    F: for<'p> FnOnce(
        &Tx<'p, S::Model>,
    ) -> Result<<S::Roots as pmem_tx::Roots>::Init<'p>, pmem_tx::Error>,
{
    let mut room = Room::new();
    open_in(&mut room, region, init)?;
    // SAFETY: invariant "Open in its place": `open_in` has written both, and nothing else refers to
    // the room.
    Ok(unsafe { (room.kernel.assume_init(), room.threads.assume_init()) })
}

/// The same, in a place of the caller.
#[doc(hidden)]
#[inline(always)]
pub fn open_in<'p, 'm, S: System, F>(
    room: &'p mut Room<'m, S>,
    region: Region<'m, S::Model>,
    init: F,
) -> Result<OpenedIn<'p, 'm, S>, OpenError>
where
    F: for<'a> FnOnce(
        &Tx<'a, S::Model>,
    ) -> Result<<S::Roots as pmem_tx::Roots>::Init<'a>, pmem_tx::Error>,
{
    const {
        assert!(
            S::THREADS.len() <= crate::THREADS_MAX,
            "a system has at most 8 threads"
        )
    };
    let split = region.split_at(Kernel::<S>::BYTES);
    let (own, rest) = split.map_err(|_| OpenError::TooSmall)?;
    let mut kernel = None;
    // A system's region is formatted anew where its types change.
    let threads = Threads::<S>::open_beside(
        &mut room.threads,
        rest,
        S::TABLE,
        S::POOL,
        |committed| {
            kernel = Some(Kernel::open_in(&mut room.kernel, own, committed)?);
            Ok::<_, OpenError>(())
        },
        |tx| Ok((S::init(PhantomData), init(tx)?)),
    )?;
    // It was opened, or the threads were not.
    let kernel = kernel.ok_or(OpenError::Damaged)?;
    Ok((kernel, threads))
}

/// The type of a tuple of roots.
#[doc(hidden)]
pub type Each<T> = Contexts<T>;

/// The places of a system's threads.
#[doc(hidden)]
pub type PlacesIn<'c, S> = <<S as System>::Roots as PlacesOf>::Places<'c, <S as System>::Model>;

/// Describes a system: its medium, its objects and its threads.
///
/// ```text
/// nv_rtos::system! {
///     /// What it is.
///     pub Blinky on Fram;                   // a type of its own, and the system's `Model`
///     table { bytes: 64, outbox_bytes: 0, seq_bits: 12 }     // each thread's records
///     objects {
///         DONE: Semaphore = (0, 3);          // how many at first, and at most
///         READINGS: Queue<[u32; 2], 8>;      // messages, slots
///         BUS: Mutex;
///         FLAGS: Events;
///         BLINK: Timer = periodic(500);      // in ticks; or one_shot
///     }
///     shared {                              // if there are any, at most 4
///         BOARD: Board = Board::NEW;         // a Mutex<Board>: its data, and their first value
///     }
///     threads {
///         sample(u32 = 0): 1;                // name(root = its first value): priority
///         report([u32; 4] = [0; 4]): 3;      // the higher one runs first
///     }
/// }
/// ```
///
/// A block `reserve` after the threads has places for threads that are spawned at run time: see
/// [`ThreadId::spawn`]. It turns on `change` of the block `control`.
///
/// ```text
///     reserve {
///         worker(u32 = 0, Job): 1;           // name(root = its first value, argument): priority
///     }
/// ```
///
/// A block `control { change: true, notify: true, lives: 4, ticks: 1000 }` after the threads turns
/// on what [`ThreadControl`] has.
///
/// Objects that are made and deleted at run time have places in the block `objects`: see
/// [`Places`](crate::Places).
///
/// ```text
///         REPLIES: [Queue<u32, 4>; 3] => Reply;      // places for 3 queues, a type for handles
///         PERMITS: [Semaphore = 9; 2] => Permit;     // for 2 semaphores of at most 9
///         PHASES: [Events; 2] => Phase;              // for 2 event groups
///         ALARMS: [Timer = one_shot(50); 4] => Alarm;
///         LOCKS: [Mutex; 2] => Lock;                 // for 2 mutexes without data
/// ```
///
/// Each object becomes a constant of the module, and `Blinky` implements [`System`]. It gets the
/// functions `Blinky::open`, which opens the region at each boot, `Blinky::spawn`, which makes the
/// threads, and `Blinky::BYTES`, the least length of a region's first part.
///
/// A system has 1 to 8 threads, with those of reserved places.
#[macro_export]
macro_rules! system {
    (
        $(#[$doc:meta])*
        $vis:vis $system:ident on $model:ty;
        table { $($table:tt)* }
        $(pool { $($pool:tt)* })?
        objects { $($objects:tt)* }
        shared { $(#[$shared_doc:meta])* $shared:ident: Mutex<$($data:tt)* }
        $($more:tt)*
    ) => {
        ::core::compile_error!(
            "the block `shared` makes the mutexes: it has the types of their data alone, as in \
             `BOARD: Board = Board::new();`"
        );
    };
    (
        $(#[$doc:meta])*
        $vis:vis $system:ident on $model:ty;
        table { $($table:tt)* }
        $(pool { $($pool:tt)* })?
        objects { $($objects:tt)* }
        $(shared { $($(#[$shared_doc:meta])* $shared:ident: $data:ty = $first:expr;)+ })?
        threads { $($thread:ident($root:ty = $init:expr): $priority:expr;)+ }
        $(reserve {
            $($place:ident($place_root:ty = $place_init:expr, $arg:ty): $place_priority:expr;)+
        })?
        $(control { $($may:ident: $value:expr),+ $(,)? })?
    ) => {
        $(#[$doc])*
        $vis enum $system {}
        const _: () = $crate::__private::assert_preempted::<$model>();
        const _: () = $crate::__private::assert_numbers::<$system>();
        const _: () = $crate::__private::assert_control($system::__CONTROL);
        $crate::control_entries! { $system [$($($place)+)?] [$($($may)+)?] }

        $crate::objects! {
            $system, $vis, $crate::__private::Layout::FIRST, [];
            $($objects)*
            $($($(#[$shared_doc])* $shared: Mutex<$data>;)+)?
        }
        $crate::shares! { $system, $model; $($($shared: $data = $first;)+)? }

        impl $crate::System for $system {
            type Model = $model;
            type Roots = $crate::__private::Each<($($root,)+ $($($place_root,)+)?)>;
            type Ram = $crate::__private::Ram<
                { $system::__THREADS },
                { $system::__ALL.object as usize },
                { $system::__ALL.word as usize },
            >;
            const THREADS: &'static [$crate::ThreadSpec] = &[
                $($crate::ThreadSpec { name: ::core::stringify!($thread), priority: $priority },)+
                $($($crate::ThreadSpec {
                    name: ::core::stringify!($place),
                    priority: $place_priority,
                },)+)?
            ];
            const PLACES: &'static [$crate::__private::PlaceSpec] = $system::__PLACES;
            const OBJECTS: &'static [$crate::__private::ObjectSpec] =
                &$crate::__private::all_objects::<{ $system::__ALL.object as usize }>(
                    $system::__OBJECTS,
                    $system::__ALL,
                );
            const END: $crate::__private::Layout = $system::__ALL;
            const CONTROL: $crate::ThreadControl = $system::__CONTROL;
            const TABLE: $crate::Config = $crate::Config { $($table)* };
            const POOL: ::core::option::Option<$crate::pmem_tx::Config> =
                $crate::pool_config!($({ $($pool)* })?);
        }

        #[allow(dead_code)]
        impl $system {
            const __THREADS: usize = [
                $(::core::stringify!($thread),)+ $($(::core::stringify!($place),)+)?
            ].len();
            const __PLACES: &'static [$crate::__private::PlaceSpec] = &[
                $($($crate::__private::PlaceSpec::of::<$arg>(),)+)?
            ];
            const __CONTROL: $crate::ThreadControl = {
                #[allow(unused_mut)]
                let mut control = $crate::ThreadControl::NONE;
                $($(control.$may = $value;)+)?
                control.change |= !$system::__PLACES.is_empty();
                control
            };
            const __ALL: $crate::__private::Layout = $crate::__private::end_of_all(
                $system::__END,
                $system::__THREADS,
                $system::__PLACES,
                $system::__CONTROL,
            );

            /// Opens the region at a boot: formats a blank one, or recovers a used one. All that
            /// was not committed is undone before any thread runs.
            ///
            /// **Power loss**: the next open continues. **Errors**:
            /// [`OpenError`]($crate::OpenError).
            $vis fn open(
                region: $crate::nvmem::Region<'_, $model>,
            ) -> ::core::result::Result<$crate::__private::Opened<'_, $system>, $crate::OpenError> {
                $crate::__private::open::<$system, _>(
                    region,
                    |_| ::core::result::Result::Ok(
                        ($($init,)+ $($($place_init,)+)?)
                    ),
                )
            }

            /// Like `open`, but makes the kernel and the threads in `room`: a boot that moves them
            /// nowhere is shorter, by some ten instructions for each 16 bytes of
            /// [`Room`]($crate::Room): some 1,300 with four threads. **Power loss** and **Errors**:
            /// as there.
            $vis fn open_in<'p, 'm>(
                room: &'p mut $crate::Room<'m, $system>,
                region: $crate::nvmem::Region<'m, $model>,
            ) -> ::core::result::Result<$crate::__private::OpenedIn<'p, 'm, $system>, $crate::OpenError> {
                $crate::__private::open_in::<$system, _>(
                    room,
                    region,
                    |_| ::core::result::Result::Ok(
                        ($($init,)+ $($($place_init,)+)?)
                    ),
                )
            }

            $(
                /// The threads' places and the data of the mutexes, for `spawn`: once an open.
                ///
                /// **Power loss**: objects that nothing owns are reclaimed now, or later.
                /// **Errors**: it was called before.
                #[inline(always)]
                #[allow(clippy::type_complexity)]
                $vis fn share<'c>(
                    threads: &'c mut $crate::__private::Threads<'_, $system>,
                ) -> ::core::result::Result<
                    (
                        $crate::__private::PlacesIn<'c, $system>,
                        $crate::cells_of!('c, $system; $($shared)+),
                    ),
                    $crate::OpenError,
                > {
                    $crate::__private::share::<$system>(threads)
                }
            )?

            /// Makes the threads, each with its body, in the order of the system. A body may
            /// capture what the thread needs of the machine. The body of a reserved place also gets
            /// the argument of each thread there.
            ///
            /// **Panics**: the places are those of another kernel. Nothing was stored.
            #[allow(clippy::too_many_arguments, clippy::let_unit_value)]
            $vis fn spawn<'s, 'm: 's, 'c: 's>(
                kernel: &'s $crate::Kernel<'m, $system>,
                places: $crate::__private::PlacesIn<'c, $system>,
                $(data: &'c $crate::cells_of!('c, $system; $($shared)+),)?
                to: &mut impl $crate::Spawn<'s>,
                $(
                    $thread: impl for<'k> ::core::ops::FnOnce(
                        &mut $crate::Thread<'k, 'm, 'c, $system, $root>,
                    ) -> ::core::result::Result<(), $crate::Error> + 's,
                )+
                $($(
                    $place: impl for<'k> ::core::ops::FnMut(
                        &mut $crate::Thread<'k, 'm, 'c, $system, $place_root>,
                        $arg,
                    ) -> ::core::result::Result<(), $crate::Error> + 's,
                )+)?
            ) {
                // They are of one `share`, so the first one tells.
                kernel.has_places(places.0.owner());
                let cells = $crate::cells_given!($(data $($shared)+)?);
                $crate::spawn_each! {
                    kernel, places, cells, to, [$($thread)+] [$($($place)+)?],
                    [0 1 2 3 4 5 6 7]
                }
            }

            $(
                /// The thread of this name.
                $vis const fn $thread() -> $crate::ThreadId<$system> {
                    $crate::ThreadId::of(::core::stringify!($thread))
                }
            )+
            $($(
                /// The reserved place of this name.
                $vis const fn $place() -> $crate::ThreadId<$system, $crate::Reserved<$arg>> {
                    $crate::ThreadId::of(::core::stringify!($place))
                }
            )+)?
        }
    };
}

/// Makes the threads, each in its place.
#[doc(hidden)]
#[macro_export]
macro_rules! spawn_each {
    ($kernel:ident, $places:ident, $cells:ident, $to:ident, [] [], [$($i:tt)*]) => {};
    (
        $kernel:ident, $places:ident, $cells:ident, $to:ident,
        [] [$body:ident $($rest:ident)*], [$i:tt $($more:tt)*]
    ) => {
        let place = $crate::__private::reserved($kernel, $i, $places.$i);
        $to.spawn($i, ::core::stringify!($body), move |port| {
            $crate::__private::run_place($kernel, port, $i, place, $cells, $body)
        });
        $crate::spawn_each! { $kernel, $places, $cells, $to, [] [$($rest)*], [$($more)*] }
    };
    (
        $kernel:ident, $places:ident, $cells:ident, $to:ident,
        [$body:ident $($rest:ident)*] [$($reserved:ident)*], [$i:tt $($more:tt)*]
    ) => {
        let place = $crate::__private::kept($kernel, $i, $places.$i);
        $to.spawn($i, ::core::stringify!($body), move |port| {
            $crate::__private::run($kernel, port, $i, place, $cells, $body)
        });
        $crate::spawn_each! {
            $kernel, $places, $cells, $to, [$($rest)*] [$($reserved)*], [$($more)*]
        }
    };
}

/// The data of a system's mutexes.
#[doc(hidden)]
#[macro_export]
macro_rules! shares {
    ($system:ident, $model:ty;) => {
        impl $crate::__private::Shares for $system {
            type Unit = <$model as $crate::nvmem::Model>::Unit;
            type Data = (u8,);
            type Cells<'c> = ();
            type At<'c> = ();
            fn init<'p>(_: $crate::__private::In<'p>) -> (u8,) {
                (0,)
            }
            fn cells<'c>(
                _: $crate::__private::In<'c>,
                _: ($crate::pmem_tx::Shared<'c, u8, Self::Unit>,),
            ) {
            }
        }
    };
    ($system:ident, $model:ty; $($shared:ident: $data:ty = $first:expr;)+) => {
        const _: () = {
            // Names that a type of the program does not have: `$data` is looked up in this block.
            type __Unit = <$model as $crate::nvmem::Model>::Unit;
            #[allow(non_snake_case, unreachable_pub)]
            pub struct __Cells<'c> {
                $(pub $shared: $crate::__private::KeyCell<'c, $data, __Unit>,)+
            }
            impl $crate::__private::Shares for $system {
                type Unit = __Unit;
                type Data = ($($data,)+);
                type Cells<'c> = __Cells<'c>;
                type At<'c> = &'c __Cells<'c>;
                fn init<'p>(
                    _: $crate::__private::In<'p>,
                ) -> <Self::Data as $crate::__private::SharedRoots>::Init<'p> {
                    ($($first,)+)
                }
                fn cells<'c>(
                    _: $crate::__private::In<'c>,
                    keys: ($($crate::pmem_tx::Shared<'c, $data, __Unit>,)+),
                ) -> __Cells<'c> {
                    $crate::cells_each! { keys, __Cells, [$($shared)+], [0 1 2 3] }
                }
            }
        };
    };
}

/// Puts each key into its cell.
#[doc(hidden)]
#[macro_export]
macro_rules! cells_each {
    ($keys:ident, $cells:ident, [$($shared:ident)*], [$($i:tt)*]) => {
        $crate::cells_each! { $keys, $cells, [$($shared)*], [$($i)*], {} }
    };
    (
        $keys:ident, $cells:ident, [$shared:ident $($rest:ident)*], [$i:tt $($more:tt)*],
        { $($done:tt)* }
    ) => {
        $crate::cells_each! {
            $keys, $cells, [$($rest)*], [$($more)*],
            { $($done)* $shared: $crate::__private::KeyCell::new($keys.$i, $i), }
        }
    };
    ($keys:ident, $cells:ident, [], [$($i:tt)*], { $($done:tt)* }) => {
        $cells { $($done)* }
    };
}

/// Where the keys are, for a system whose mutexes have data.
#[doc(hidden)]
#[macro_export]
macro_rules! cells_of {
    ($c:lifetime, $system:ident; $($shared:ident)+) => {
        $crate::__private::CellsOf<$c, $system>
    };
}

/// What `spawn` got.
#[doc(hidden)]
#[macro_export]
macro_rules! cells_given {
    () => {
        ()
    };
    ($data:ident $($shared:ident)+) => {
        $data
    };
}

/// The layout of the pool.
#[doc(hidden)]
#[macro_export]
macro_rules! pool_config {
    () => {
        ::core::option::Option::None
    };
    ({ $($pool:tt)* }) => {
        ::core::option::Option::Some($crate::pmem_tx::Config { $($pool)* })
    };
}

/// The handles of objects that are made at run time.
#[doc(hidden)]
#[macro_export]
macro_rules! made {
    ($vis:vis $made:ident) => {
        /// An object that was made at run time.
        #[derive(
            ::core::fmt::Debug,
            ::core::clone::Clone,
            ::core::marker::Copy,
            ::core::cmp::PartialEq,
            ::core::cmp::Eq,
            $crate::nvmem::Persist,
        )]
        #[persist(crate = $crate::nvmem)]
        #[repr(C)]
        $vis struct $made {
            place: u8,
            state: u8,
        }
        impl $crate::Made for $made {
            fn new(place: u8, state: u8) -> Self {
                $made { place, state }
            }
            fn parts(self) -> (u8, u8) {
                (self.place, self.state)
            }
        }
    };
}

/// The objects of a system: each is placed after the one before.
#[doc(hidden)]
#[macro_export]
macro_rules! objects {
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];) => {
        impl $system {
            const __END: $crate::__private::Layout = $at;
            const __OBJECTS: &'static [$crate::__private::ObjectSpec] =
                &$crate::__private::each_place::<{ $system::__END.object as usize }>(
                    &[$($name.spec()),*],
                );
        }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: Semaphore = ($initial:expr, $max:expr); $($rest:tt)*) => {
        $(#[$doc])*
        $vis const $new: $crate::Semaphore<$system> =
            $crate::Semaphore::at($at, $initial, $max);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: Queue<$message:ty, $n:literal>; $($rest:tt)*) => {
        $(#[$doc])*
        $vis const $new: $crate::Queue<$system, $message, $n> = $crate::Queue::at($at);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])*
        $new:ident: [Queue<$message:ty, $n:literal>; $count:literal] => $made:ident;
        $($rest:tt)*) => {
        $crate::made! { $vis $made }
        $(#[$doc])*
        $vis const $new: $crate::Places<$crate::Queue<$system, $message, $n>, $made> =
            $crate::Places::of_queues($at, $count);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: [Semaphore = $max:expr; $count:literal] => $made:ident;
        $($rest:tt)*) => {
        $crate::made! { $vis $made }
        $(#[$doc])*
        $vis const $new: $crate::Places<$crate::Semaphore<$system>, $made> =
            $crate::Places::of_semaphores($at, $max, $count);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: [Events; $count:literal] => $made:ident;
        $($rest:tt)*) => {
        $crate::made! { $vis $made }
        $(#[$doc])*
        $vis const $new: $crate::Places<$crate::Events<$system>, $made> =
            $crate::Places::of_events($at, $count);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])*
        $new:ident: [Timer = one_shot($period:expr); $count:literal] => $made:ident;
        $($rest:tt)*) => {
        $crate::made! { $vis $made }
        $(#[$doc])*
        $vis const $new: $crate::Places<$crate::Timer<$system>, $made> =
            $crate::Places::of_one_shots($at, $period, $count);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])*
        $new:ident: [Timer = periodic($period:expr); $count:literal] => $made:ident;
        $($rest:tt)*) => {
        $crate::made! { $vis $made }
        $(#[$doc])*
        $vis const $new: $crate::Places<$crate::Timer<$system>, $made> =
            $crate::Places::of_periodic_ones($at, $period, $count);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: [Mutex; $count:literal] => $made:ident;
        $($rest:tt)*) => {
        $crate::made! { $vis $made }
        $(#[$doc])*
        $vis const $new: $crate::Places<$crate::Mutex<$system>, $made> =
            $crate::Places::of_mutexes($at, $count);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: [Mutex<$data:ty>; $count:literal] => $made:ident;
        $($rest:tt)*) => {
        ::core::compile_error!(
            "a mutex that is made at run time has no data: write `[Mutex; 2] => Lock`, or declare \
             a mutex with data in the block `shared`"
        );
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: Mutex; $($rest:tt)*) => {
        $(#[$doc])*
        $vis const $new: $crate::Mutex<$system> = $crate::Mutex::at($at);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: Timer = $kind:ident($period:expr); $($rest:tt)*) => {
        $(#[$doc])*
        $vis const $new: $crate::Timer<$system> = $crate::Timer::$kind($at, $period);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: Mutex<$data:ty>; $($rest:tt)*) => {
        $(#[$doc])*
        $vis const $new: $crate::Mutex<$system, $data> =
            $crate::Mutex::with($at, |cells, _| &cells.$new);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
    ($system:ident, $vis:vis, $at:expr, [$($name:ident)*];
        $(#[$doc:meta])* $new:ident: Events; $($rest:tt)*) => {
        $(#[$doc])*
        $vis const $new: $crate::Events<$system> = $crate::Events::at($at);
        $crate::objects! { $system, $vis, $new.behind(), [$($name)* $new]; $($rest)* }
    };
}
