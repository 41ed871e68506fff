//! The heap's API for programs: open it, use objects, commit, audit.
//!
//! ```text
//!  open/format/salvage -> store.open or store.begin
//!      blank: allocate object 1 -> init(heap without root) -> write the root
//!             -> persist or commit -> finish_format
//!      used:  pass 1 walk (marks in RAM) -> pass 2 sweep (table and bitmap) -> ready
//!
//!  alloc: store (number, block)  -> pager (fill a frame: dirty) -> later: write back
//!  get, get_mut -> pager (frame) -> guard -> release
//!  free:  free.rs (what it owns) -> store (entry, units)
//! ```

use crate::brand::{Brand, Tag};
use crate::cache::Cache;
use crate::config::{Config, Promise, Snapshot};
use crate::error::{Error, Fail, OpenError, Rejected};
use crate::handle::{HandleRange, Kind, Marked, OWN, OWN_ID, Own, Ref, RefMut, Scoped};
use crate::pager::{Pager, Place};
use crate::policy::{Policy, Predict};
use crate::sections::Core;
use crate::store::{Check, Store};
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::num::NonZeroU16;
use nvmem::device::Misuse;
use nvmem::persist::HandleKind;
use nvmem::superblock::Copies;
use nvmem::{Faithful, Medium, Model, Persist, Plain, Region, mapped};

/// The root's object number.
pub(crate) const ROOT: u16 = 1;

/// A heap of persistent objects on the medium `S`, cached in a RAM buffer, with a root of type `R`.
///
/// `P` is its promise after a power cut: [`JustInTime`](crate::JustInTime) or [`Snapshot`]. `Pol`
/// is the replacement policy. `B` is the marker type of its [`Brand`].
///
/// All operations take `&self`: guards pin objects, and a guard that another one excludes is
/// [`Error::Busy`]. With interrupts masked, an operation writes at most one
/// [burst](crate::Config::burst) to the medium.
#[repr(transparent)]
pub struct Heap<'h, R, S: Medium, P: Promise = Snapshot, Pol: Policy = Predict, B = ()> {
    pub(crate) core: Core<S, P, Pol>,
    pub(crate) _r: PhantomData<fn(R) -> R>,
    pub(crate) _brand: Tag<'h, B>,
    /// Borrows the buffer.
    pub(crate) _ram: PhantomData<&'h mut [u8]>,
}

// INVARIANT "No root before its time": until the root is written, the program cannot name object 1,
// which may still hold the bytes of an older image, of another type. `Unrooted` is not `Persist`,
// so a heap without its root type offers no operation on the root. It is only lent, so it neither
// commits nor audits.
// Noticed by: the compile-fail case `init`.
/// The root type of a heap that has no root yet: the `init` of [`Heap::open`] and [`Heap::format`]
/// gets such a heap. The type has no value, so no method can access a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrooted {}

mod sealed {
    pub trait Sealed {}
}

// One method, so that there is one place for each operation. With a `dyn` heap each access would be
// a call through a table. With one type parameter for medium, promise and policy together, each
// program would have to declare a type of its own.

/// Any heap with the brand `'h` and the marker `B`, or a reference to one. A function that takes
/// one need not name its root, medium, promise and policy.
///
/// ```
/// use vnv_heap::collections::{Blob, Vector};
/// use vnv_heap::{Error, HeapOf, Own};
/// # use vnv_heap::{Config, Heap, brand, nvmem::{Persist, ram::RamFram}};
///
/// # #[derive(Persist)]
/// # #[repr(C)]
/// struct Packet<'h> {
///     data: Blob<'h>,
///     ttl: u16,
/// }
///
/// fn packet<'h, H: HeapOf<'h>>(heap: &H) -> Result<Own<'h, Packet<'h>>, Error<H::Error>> {
///     let data = Blob::alloc(heap, b"hello")?;
///     Ok(heap.unrooted().alloc(Packet { data, ttl: 8 })?)
/// }
///
/// # fn main() {
/// # let (fram, mut ram) = (RamFram::<4096>::filled(0), [0; 512]);
/// # brand!(b);
/// # let new = |_: &_| Ok(Vector::<Own<Packet>, 4>::new());
/// # let heap = Heap::<Vector<Own<Packet>, 4>, _>::open(b, fram, &mut ram, Config::DEFAULT, new).unwrap();
/// let packet = packet(&heap).unwrap();
/// heap.root_mut().unwrap().push(&heap, packet).unwrap();
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a heap with the marker `{B}`",
    label = "not a heap, or the heap of another marker",
    note = "the marker is the last parameter of a type: `Fifo<'h, u32, Log>`; without one it is `()`"
)]
pub trait HeapOf<'h, B = ()>: sealed::Sealed {
    /// The error of the medium's driver.
    type Error;
    /// The medium.
    type Medium: Medium<Error = Self::Error>;
    /// The promise after a power cut.
    type Promise: Promise;
    /// The replacement policy.
    type Policy: Policy;
    /// The same heap without its root, for all operations on objects: `heap.unrooted().alloc(…)`.
    fn unrooted(&self) -> &Heap<'h, Unrooted, Self::Medium, Self::Promise, Self::Policy, B>;
}

impl<R, S: Medium, P: Promise, Pol: Policy, B> sealed::Sealed for Heap<'_, R, S, P, Pol, B> {}
impl<'h, R, S: Medium, P: Promise, Pol: Policy, B> HeapOf<'h, B> for Heap<'h, R, S, P, Pol, B> {
    type Error = S::Error;
    type Medium = S;
    type Promise = P;
    type Policy = Pol;
    #[inline(always)]
    fn unrooted(&self) -> &Heap<'h, Unrooted, S, P, Pol, B> {
        // SAFETY: invariant "No root before its time": for every root type, a heap is a transparent
        // core. `Unrooted` is not `Persist`, so no method of the result reaches the root.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }
}

macro_rules! references {
    ($($reference:ty),*) => {$(
        impl<H: sealed::Sealed> sealed::Sealed for $reference {}
        #[diagnostic::do_not_recommend]
        impl<'h, B, H: HeapOf<'h, B>> HeapOf<'h, B> for $reference {
            type Error = H::Error;
            type Medium = H::Medium;
            type Promise = H::Promise;
            type Policy = H::Policy;
            #[inline(always)]
            fn unrooted(&self) -> &Heap<'h, Unrooted, H::Medium, H::Promise, H::Policy, B> {
                (**self).unrooted()
            }
        }
    )*};
}
references!(&H, &mut H);

/// The result of [`Heap::audit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Audit {
    /// Reachable objects, the root included.
    pub reachable: u16,
    /// Allocated objects. Those that are not reachable are owned by variables of the program or by
    /// damaged objects, or are leaked.
    pub allocated: u16,
    /// Reachable objects with handles that are damaged. The objects that they own count as
    /// unreachable. See [`Heap::damage`].
    pub damaged: u16,
}

/// What a heap has done since it was opened. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Stats {
    /// Accesses to objects that were resident.
    pub hits: u32,
    /// Objects that were paged in.
    pub page_ins: u32,
    /// Objects that were written back, also by persists and commits.
    pub write_backs: u32,
    /// Bytes that were read from the medium, all metadata included.
    pub bytes_read: u32,
    /// Bytes that were written to it, all metadata included.
    pub bytes_written: u32,
    /// The most bytes that a persist would have written at any time, for dirty and pinned objects.
    pub dirty_high_water: u32,
}

// SAFETY: invariant "State in sections": a heap that moves to another thread is not borrowed, so no
// guard and no saver is used any more. It consists of the medium, the medium's last error, its own
// buffer, and plain data including pointers into that buffer. An object is plain bytes, which any
// thread may read from the medium.
unsafe impl<R, S: Medium<Error: Send> + Send, P: Promise, Pol: Policy, B> Send
    for Heap<'_, R, S, P, Pol, B>
{
}

impl<'h, R, S, P, Pol, B> Heap<'h, R, S, P, Pol, B>
where
    S: Medium,
    P: Promise,
    Pol: Policy,
{
    /// Allocates an object.
    ///
    /// **Power loss**: until a reachable object owns it, the next open frees it. **Cost**: its
    /// number and its space on the medium; objects that must leave RAM are written back.
    /// **Errors**: [`Error::Full`], [`Error::RamFull`], [`Error::DirtyLimit`], with the value back.
    pub fn alloc<T: Persist<At<'h> = T> + Marked<B>>(
        &self,
        value: T,
    ) -> Result<Own<'h, T, B>, Rejected<T, S::Error>> {
        let value = ManuallyDrop::new(value);
        let kind = Kind::of::<T>();
        // SAFETY: invariant "A kind is its type", "Sole owner": a `T`, which is not used again
        // after it belongs to the object.
        match unsafe { self.core.alloc(kind, (&raw const value).cast()) } {
            Ok(number) => Ok(Own::new(number.id())),
            Err(fail) => Err(Rejected {
                error: self.core.error(fail),
                value: ManuallyDrop::into_inner(value),
            }),
        }
    }

    /// Pins the object for reading. It stays in RAM while the guard lives. Several guards may read
    /// it at once.
    ///
    /// **Power loss**: nothing changes. **Cost**: a look-up when it is resident; else a write-back
    /// of what must leave RAM, and a read. **Errors**: [`Error::Busy`] while it is pinned for
    /// writing; [`Error::RamFull`], [`Error::DirtyLimit`] when pinned objects take up the RAM or
    /// the limit; [`Error::Damaged`]; [`Error::Suspended`].
    #[inline(always)]
    pub fn get<T: Persist + Marked<B>>(
        &self,
        own: &Own<'h, T, B>,
    ) -> Result<Ref<'_, T, S, P, Pol>, Error<S::Error>> {
        self.held(own)
    }

    /// [`Heap::get`] without the bound on the marker.
    #[inline(always)]
    fn held<T: Persist>(
        &self,
        own: &Own<'h, T, B>,
    ) -> Result<Ref<'_, T, S, P, Pol>, Error<S::Error>> {
        // SAFETY: invariant "Sole owner": the handle's object is a `T`.
        unsafe { Ref::pin(&self.core, own.id()) }
    }

    /// Pins the object for writing. It stays in RAM while the guard lives, and counts as changed.
    ///
    /// **Power loss**: *just in time*, the next persist saves the changes; with the snapshot
    /// promise, the next commit does. **Cost**, **Errors**: as [`Heap::get`]; [`Error::Busy`] while
    /// it is pinned in any way; [`Error::Full`] with the snapshot promise, which keeps the
    /// committed content too.
    #[inline(always)]
    pub fn get_mut<T: Persist + Marked<B>>(
        &self,
        own: &Own<'h, T, B>,
    ) -> Result<RefMut<'_, T, S, P, Pol>, Error<S::Error>> {
        self.held_mut(own)
    }

    /// [`Heap::get_mut`] without the bound on the marker.
    #[inline(always)]
    fn held_mut<T: Persist>(
        &self,
        own: &Own<'h, T, B>,
    ) -> Result<RefMut<'_, T, S, P, Pol>, Error<S::Error>> {
        // SAFETY: invariant "Sole owner": the handle's object is a `T`.
        unsafe { RefMut::pin(&self.core, own.id()) }
    }

    /// Calls `f` with the object and returns its result. **Power loss**, **Cost**, **Errors**: as
    /// [`Heap::get`].
    #[inline]
    pub fn with<T: Persist + Marked<B>, O>(
        &self,
        own: &Own<'h, T, B>,
        f: impl FnOnce(&T) -> O,
    ) -> Result<O, Error<S::Error>> {
        Ok(f(&*self.get(own)?))
    }

    /// Calls `f` with the object, which it may change, and returns its result. **Power loss**,
    /// **Cost**, **Errors**: as [`Heap::get_mut`].
    #[inline]
    pub fn update<T: Persist + Marked<B>, O>(
        &self,
        own: &Own<'h, T, B>,
        f: impl FnOnce(&mut T) -> O,
    ) -> Result<O, Error<S::Error>> {
        Ok(f(&mut *self.get_mut(own)?))
    }

    /// A copy of the object, whose type holds no handles. **Power loss**, **Cost**, **Errors**: as
    /// [`Heap::get`].
    #[inline]
    pub fn read<T: Plain>(&self, own: &Own<'h, T, B>) -> Result<T, Error<S::Error>> {
        let held = self.held(own)?;
        // SAFETY: invariant "Plain is plain": a valid value; plain data may be copied.
        Ok(unsafe { core::ptr::from_ref::<T>(&held).read() })
    }

    /// Overwrites the object, whose type holds no handles. **Power loss**, **Cost**, **Errors**: as
    /// [`Heap::get_mut`].
    #[inline]
    pub fn write<T: Plain>(&self, own: &Own<'h, T, B>, value: T) -> Result<(), Error<S::Error>> {
        *self.held_mut(own)? = value;
        Ok(())
    }

    /// Stores a value and returns the previous one, with its handles. **Power loss**, **Cost**,
    /// **Errors**: as [`Heap::get_mut`], with the new value.
    pub fn replace<T: Persist + Marked<B>>(
        &self,
        own: &Own<'h, T, B>,
        value: T,
    ) -> Result<T, Rejected<T, S::Error>> {
        match self.get_mut(own) {
            Ok(mut held) => Ok(core::mem::replace(&mut *held, value)),
            Err(error) => Err(Rejected { error, value }),
        }
    }

    /// Frees an object and all objects that it owns, without recursion.
    ///
    /// A pinned object among them is freed when its guard ends. **Power loss**: *just in time*, as
    /// any change; with the snapshot promise it exists again unless a commit follows. **Cost**:
    /// reads each object that may hold handles, and writes a table entry for each object. RAM use
    /// is constant: about a dozen objects are remembered, for trees of any size and shape.
    /// In a tree that is deep and branches everywhere, objects are read a few times. **Errors**:
    /// [`Error::Busy`] while it is pinned, with the handle; those of [`Heap::get`], with the handle
    /// when nothing is freed yet. Without the handle, the object is gone, and the rest of what it
    /// owned is unreachable until the next open frees it.
    #[allow(clippy::type_complexity)]
    pub fn free<T: Persist>(
        &self,
        own: Own<'h, T, B>,
    ) -> Result<(), Rejected<Option<Own<'h, T, B>>, S::Error>> {
        self.core
            .free(own.id(), Kind::of::<T>())
            .map_err(|(fail, gone)| Rejected {
                error: self.core.error(fail),
                value: (!gone).then_some(own),
            })
    }

    /// Gives up a damaged object, with everything that only it owns. An object that is not damaged
    /// is freed as by [`Heap::free`].
    ///
    /// The objects that it owns are unknown. They are kept, unreachable, until an open that finds
    /// no damage frees them: see [`Heap::damage`]. **Power loss**, **Cost**: as [`Heap::free`] of
    /// one object. **Errors**: as [`Heap::free`], except [`Error::Damaged`].
    #[allow(clippy::type_complexity)]
    pub fn give_up<T: Persist>(
        &self,
        own: Own<'h, T, B>,
    ) -> Result<(), Rejected<Option<Own<'h, T, B>>, S::Error>> {
        let kind = Kind::of::<T>();
        let mut done = self.core.free(own.id(), kind);
        if done.is_err_and(|(fail, gone)| fail.is_damage() && !gone) {
            let mut gone = false;
            let freed = self.core.free_one(own.id(), kind.len, &mut gone);
            done = freed.map_err(|fail| (fail, gone));
        }
        done.map_err(|(fail, gone)| Rejected {
            error: self.core.error(fail),
            value: (!gone).then_some(own),
        })
    }

    /// How many reachable objects were found damaged when the heap was opened. 0 when no damage is
    /// known, 254 for 254 or more.
    ///
    /// While it is not 0, unreachable objects are not freed, because a damaged object may own them.
    /// Access to a damaged object is [`Error::Damaged`], until the program gives it up by
    /// [`Heap::give_up`] or drops its handle. The next open that finds no damage frees unreachable
    /// objects. An object without handles is checked when it is read: its damage may be unknown
    /// until then.
    pub fn damage(&self) -> u16 {
        self.core.peek(|pager| pager.store().damage()).unwrap_or(0)
    }

    /// Frees all objects that a value owns. For values that a collection, [`Heap::replace`] or
    /// [`Heap::take`] returned: it does what a destructor of handles would do. A value without
    /// handles costs nothing.
    ///
    /// Pinned objects among them are freed when their guards end. **Power loss**, **Cost**: as
    /// [`Heap::free`]. **Errors**: as [`Heap::free`] when the object is gone: the next open frees
    /// the rest.
    pub fn discard<T: Persist<At<'h> = T> + Marked<B>>(
        &self,
        value: T,
    ) -> Result<(), Error<S::Error>> {
        if !T::HANDLES {
            return Ok(());
        }
        let value = ManuallyDrop::new(value);
        // SAFETY: invariant "A kind is its type", "Sole owner": a `T` with its check, which is not
        // used again.
        let freed = unsafe { self.core.free_owned(T::check, (&raw const value).cast()) };
        self.core.with_medium_error(freed)
    }

    /// A value that is freed with all that it owns at the end of the block: see [`Scoped`]. For
    /// objects and collections that only one computation needs.
    ///
    /// ```
    /// use vnv_heap::collections::Vector;
    /// use vnv_heap::{Error, HeapOf, Own, Scoped};
    /// # use vnv_heap::{Config, Heap, brand, nvmem::ram::RamFram};
    ///
    /// fn longest<'h, H: HeapOf<'h>>(heap: &H, samples: &[u8]) -> Result<u32, Error<H::Error>> {
    ///     let heap = heap.unrooted();
    ///     let mut run = heap.scoped(Vector::<u8, 16>::new());
    ///     let mut longest = 0;
    ///     for s in samples {
    ///         if *s == 0 {
    ///             run.clear(heap)?; // an error frees the vector, too
    ///         } else {
    ///             run.push(heap, *s)?;
    ///         }
    ///         longest = longest.max(run.len());
    ///     }
    ///     Ok(longest) // the vector's objects are freed here
    /// }
    /// # let (fram, mut ram) = (RamFram::<4096>::filled(0), [0; 512]);
    /// # brand!(b);
    /// # let heap = Heap::<Option<Own<u32>>, _>::open(b, fram, &mut ram, Config::DEFAULT, |_| Ok(None)).unwrap();
    /// # let before = heap.free_objects().unwrap();
    /// # assert_eq!(longest(&heap, &[1, 0, 2, 3, 0]).unwrap(), 2);
    /// # assert_eq!(heap.free_objects().unwrap(), before);
    ///
    /// let number = heap.scoped(heap.alloc(7u32).unwrap());
    /// if heap.read(&number).unwrap() == 7 {
    ///     *heap.root_mut().unwrap() = Some(Scoped::keep(number)); // it stays after all
    /// }
    /// ```
    pub fn scoped<T: Persist<At<'h> = T> + Marked<B>>(&self, value: T) -> Scoped<'_, T, S, P, Pol> {
        Scoped::new(&self.core, value)
    }

    /// Frees an object and returns its value, with its handles. **Errors**: as [`Heap::get_mut`],
    /// with the handle. If the medium fails after the object is gone, the next open frees the rest.
    pub fn take<T: Persist + Marked<B>>(
        &self,
        own: Own<'h, T, B>,
    ) -> Result<T, Rejected<Own<'h, T, B>, S::Error>> {
        let mut value = MaybeUninit::<T>::uninit();
        let copied = self.get_mut(&own).map(|held| {
            // SAFETY: invariant "Sole owner": a valid value. Either the object is freed before it
            // can be used again, or the copy is not used.
            unsafe { value.write(core::ptr::from_ref::<T>(&held).read()) };
        });
        let freed = copied.and_then(|()| {
            let mut gone = false;
            match self.core.free_one(own.id(), Kind::of::<T>().len, &mut gone) {
                Err(fail) if !gone => Err(self.core.error(fail)),
                // The next open frees the rest.
                _ => Ok(()),
            }
        });
        match freed {
            // SAFETY: invariant "Written before it is read": written above.
            Ok(()) => Ok(unsafe { value.assume_init() }),
            Err(error) => Err(Rejected { error, value: own }),
        }
    }

    /// Counters since the heap was opened; also available between a persist and its restore. A
    /// driver of the medium that calls this inside an operation gets zeros.
    pub fn stats(&self) -> Stats {
        self.core.peek(|pager| pager.stats()).unwrap_or_default()
    }

    /// Free bytes of the medium for objects. An object takes 8 bytes more than its size, rounded up
    /// to 8. **Errors**: [`Error::Suspended`]; [`Error::Busy`] when the medium's driver asks.
    pub fn free_bytes(&self) -> Result<u32, Error<S::Error>> {
        self.core
            .with_medium_error(self.core.section(|pager| Ok(pager.store().free_bytes())))
    }

    /// How many objects can still be allocated, as far as numbers allow. **Errors**: as
    /// [`Heap::free_bytes`].
    pub fn free_objects(&self) -> Result<u16, Error<S::Error>> {
        self.core
            .with_medium_error(self.core.section(|pager| Ok(pager.store().free_objects())))
    }
}

impl<'h, R, S, P, Pol, B> Heap<'h, R, S, P, Pol, B>
where
    R: Persist<At<'h> = R> + Marked<B>,
    S: Medium,
    P: Promise,
    Pol: Policy,
{
    /// The root's handle, for functions that take a handle: [`Heap::with`], [`Heap::read`], the
    /// methods of [`Fields`](crate::Fields).
    pub fn root_handle(&self) -> &Own<'h, R, B> {
        static NUMBER: NonZeroU16 = NonZeroU16::MIN;
        const { assert!(ROOT == 1) };
        // SAFETY: invariant "Sole owner": a handle is a transparent number, and object 1 is an `R`
        // of this heap; lent, it can be neither stored nor freed.
        unsafe { &*(&raw const NUMBER).cast() }
    }

    /// Pins the root for reading. **Power loss**, **Cost**, **Errors**: as [`Heap::get`].
    #[inline]
    pub fn root(&self) -> Result<Ref<'_, R, S, P, Pol>, Error<S::Error>> {
        self.held(self.root_handle())
    }

    /// Pins the root for writing. **Power loss**, **Cost**, **Errors**: as [`Heap::get_mut`].
    #[inline]
    pub fn root_mut(&self) -> Result<RefMut<'_, R, S, P, Pol>, Error<S::Error>> {
        self.held_mut(self.root_handle())
    }
}

// Why the whole heap is borrowed: a reference into a block forbids that the object is freed, that
// it becomes dirty in RAM (a persist would write into the block), and that its block is written. An
// object that is not resident has no frame to count references in. A frame without content would
// cost 8 bytes of RAM and a pin record, as much as `get` of a small object. One counter for all
// would make every `get_mut` of a clean object and every `free` fail while any reference lives, and
// each heap would pay for the test. The price: while a saver is attached, use `get`.
//
// The program chooses between `in_place` and `get`. A heap that moves objects to RAM when they are
// used often would need a counter for each object on the medium, and cannot move one while a
// reference lives. It would pay only on mapped memory that is much slower than RAM.

/// A heap on a memory-mapped medium that is only read for a while: see [`Heap::in_place`].
pub struct InPlace<'a, H>(&'a H);

impl<'h, R, M: Model, P: Promise, Pol: Policy, B> Heap<'h, R, Region<'_, M>, P, Pol, B> {
    /// For reading objects where they lie: in RAM if they are resident, else on the medium, without
    /// paging them in. No object of the heap changes while this borrows it. So any number of
    /// references live at once, and code can walk a structure from one to the next:
    ///
    /// ```
    /// use vnv_heap::nvmem::{InOrder32, Persist, Region};
    /// use vnv_heap::{Config, Heap, Own, brand};
    ///
    /// #[derive(Persist)]
    /// #[repr(C)]
    /// struct Node<'h> {
    ///     value: u32,
    ///     next: Option<Own<'h, Node<'h>>>,
    /// }
    ///
    /// # fn main() {
    /// # let (mut words, mut ram) = ([core::mem::MaybeUninit::new(0); 512], [0; 512]);
    /// # brand!(b);
    /// # let region = Region::<InOrder32>::new(&mut words);
    /// # let new = |value, next| Node { value, next };
    /// # let mut heap = Heap::<Node, _>::open(b, region, &mut ram, Config::DEFAULT, |_| Ok(new(1, None))).unwrap();
    /// # let next = Some(heap.alloc(new(2, None)).unwrap());
    /// # heap.root_mut().unwrap().next = next;
    /// let view = heap.in_place();
    /// let mut node = view.root().unwrap();
    /// let mut sum = node.value;
    /// while let Some(next) = &node.next {
    ///     node = view.get(next).unwrap();
    ///     sum += node.value;
    /// }
    /// # assert_eq!(sum, 3);
    /// # }
    /// ```
    pub fn in_place(&mut self) -> InPlace<'_, Self> {
        InPlace(self)
    }
}

impl<'a, 'h, R, M: Model, P: Promise, Pol: Policy, B>
    InPlace<'a, Heap<'h, R, Region<'_, M>, P, Pol, B>>
{
    /// The object where it lies.
    ///
    /// **Power loss**: nothing changes. **Cost**: the check over its bytes. **Errors**:
    /// [`Error::Damaged`]; [`Error::Busy`] when a leaked guard pins it for writing;
    /// [`Error::Suspended`].
    pub fn get<T: Persist + Marked<B>>(&self, own: &Own<'h, T, B>) -> Result<&'a T, Error<Misuse>> {
        self.read(own.id())
    }

    /// The root where it lies. **Power loss**, **Cost**, **Errors**: as [`InPlace::get`].
    pub fn root(&self) -> Result<&'a R, Error<Misuse>>
    where
        R: Persist<At<'h> = R> + Marked<B>,
    {
        self.read(ROOT)
    }

    /// The object `id`, which is a `T`.
    fn read<T: Persist>(&self, id: u16) -> Result<&'a T, Error<Misuse>> {
        let (core, kind) = (&self.0.core, Kind::of::<T>());
        let at = core.with_medium_error(core.section(|pager| {
            let damaged = || Fail::damaged(id);
            let mut known = HandleRange {
                objects: pager.store().objects(),
            };
            let (address, expected) = match pager.place(id, kind.len)? {
                Place::Ram(content) => return Ok(content.as_ptr().cast_const()),
                Place::Medium { at, check } => (at, check),
            };
            let region = pager.store_mut().image().medium();
            if address + u32::from(kind.len) > region.capacity() {
                return Err(damaged());
            }
            // SAFETY: invariant "Inside the region": compared with its length above. Aligned to 8,
            // as all blocks are ("Regions are aligned").
            let at = unsafe { region.base().add(address as usize) };
            mapped::will_read(at, usize::from(kind.len));
            let mut check = Check::new(id, kind.len);
            // SAFETY: invariant "Sole region": only the heap writes to it, and the heap is
            // borrowed. The object is not resident, so its block was written, in this run or
            // before.
            check.add(unsafe { core::slice::from_raw_parts(at, usize::from(kind.len)) });
            if check.finish() != expected {
                return Err(damaged());
            }
            // SAFETY: invariant "Checked before it is a value", "A kind is its type": as many
            // initialised bytes as a `T` has, aligned to 8.
            unsafe { (kind.check)(at, &mut known) }.map_err(|_| damaged())?;
            Ok(at.cast_const())
        }))?;
        // SAFETY: invariant "Checked before it is a value": a `T` that was checked above, or when
        // it became resident. The heap is borrowed mutably for `'a`, and this view only reads: so
        // no guard is used, no saver is attached, and nothing moves or changes the object. A leaked
        // guard that may write is `Busy` above.
        Ok(unsafe { &*at.cast::<T>() })
    }
}

impl<'h, R, S, P, Pol, B> Heap<'h, R, S, P, Pol, B>
where
    R: Persist<At<'h> = R> + Marked<B>,
    S: Medium,
    P: Promise,
    Pol: Policy,
{
    // INVARIANT "Read as written": a second read in a run returns what was last written there:
    // `nvmem::Faithful`. Otherwise a handle that was moved out of an object could come back, with a
    // right check, when the write-back of that object was lost. Only a copy in RAM of each object's
    // version would notice, at 2 bytes for each object on the medium.
    // Noticed by: the compile-fail case `medium`.
    /// Opens the heap on `storage`. Formats a blank medium, with the root that `init` returns;
    /// reopens a used one; refuses a foreign one. `init` may allocate. Its heap is [`Unrooted`],
    /// because there is no root yet.
    ///
    /// The medium is [`Faithful`]: bytes that are read again in this run are trusted. Accepts any
    /// bytes that the medium holds at first. Open checks all objects with handles that are
    /// reachable from the root, and frees unreachable ones. `ram` needs four bits for each of
    /// `config.objects`, and the size of the largest object with handles.
    ///
    /// **Power loss**: a format starts again; a heap that existed keeps its promise. **Cost**: what
    /// is read does not depend on the size of `ram`. It is the sum of
    ///
    /// - 160 bytes, and a bit for each 8 bytes of the medium,
    /// - 4 bytes for each of `config.objects`, twice with the snapshot promise,
    /// - 8 bytes for each reachable object; its content and 12 bytes more if it has handles,
    /// - at most all bytes that a cut or a dropped handle left over, and 40 for each object that a
    ///   cut commit was to change,
    /// - with damage: the bits, the 8 bytes for each object, what was left over, and 4 bytes for
    ///   each of `config.objects` once more; and the content of each object, with 1/8 and 14 bytes
    ///   more.
    ///
    /// What changes is written: bits and entries of what is free now. To format, zeroes the table.
    /// To avoid a copy of the heap, use it where it is returned: `if let Ok(heap) = &mut opened`.
    /// **Errors**: [`OpenError`]. Pass `&mut storage` to keep the medium after an error.
    /// [`OpenError::Interrupted`] can be overcome by [`Heap::format`].
    pub fn open<F>(
        brand: Brand<'h, B>,
        storage: S,
        ram: &'h mut [u8],
        config: Config,
        init: F,
    ) -> Result<Self, OpenError<S::Error>>
    where
        S: Faithful,
        F: FnOnce(&Heap<'h, Unrooted, S, P, Pol, B>) -> Result<R, Error<S::Error>>,
    {
        let _ = brand;
        Self::new(storage, ram, &config)?.open_or_init(&config, false, init)
    }

    /// Drops what `storage` holds, and formats it. **Power loss**: a format starts again. **Cost**,
    /// **Errors**: as [`Heap::open`] of a blank medium.
    pub fn format<F>(
        brand: Brand<'h, B>,
        storage: S,
        ram: &'h mut [u8],
        config: Config,
        init: F,
    ) -> Result<Self, OpenError<S::Error>>
    where
        S: Faithful,
        F: FnOnce(&Heap<'h, Unrooted, S, P, Pol, B>) -> Result<R, Error<S::Error>>,
    {
        let _ = brand;
        Self::new(storage, ram, &config)?.open_or_init(&config, true, init)
    }

    /// As [`Heap::open`], but frees objects that only damaged objects own, and objects that became
    /// unreachable while damage was known. A damaged object stays damaged until the program gives
    /// it up by [`Heap::give_up`].
    ///
    /// For a program that has read what it could, and needs the space. **Power loss**, **Cost**,
    /// **Errors**: as [`Heap::open`].
    pub fn salvage<F>(
        brand: Brand<'h, B>,
        storage: S,
        ram: &'h mut [u8],
        config: Config,
        init: F,
    ) -> Result<Self, OpenError<S::Error>>
    where
        S: Faithful,
        F: FnOnce(&Heap<'h, Unrooted, S, P, Pol, B>) -> Result<R, Error<S::Error>>,
    {
        let _ = brand;
        let mut heap = Self::new(storage, ram, &config)?;
        heap.core.unshared().store_mut().give_up_damaged();
        heap.open_or_init(&config, false, init)
    }

    /// A heap that is neither opened nor formatted yet.
    fn new(storage: S, ram: &'h mut [u8], config: &Config) -> Result<Self, OpenError<S::Error>> {
        config.check().map_err(OpenError::Config)?;
        let kind = Kind::of::<R>();
        // The root, its header, and the start of the directory.
        let needed = usize::from(kind.len).next_multiple_of(8) + 8 + 16;
        // Take the pointer last: the buffer is not accessed through `ram` afterwards.
        let len = ram.len();
        // SAFETY: invariant "Frames fill the buffer": the buffer is borrowed as long as the heap's
        // brand lives, and only the cache uses it.
        let cache = unsafe { Cache::new_uncleared(ram.as_mut_ptr(), len) };
        let cache = cache
            .filter(|_| len >= needed)
            .ok_or(OpenError::RamTooSmall {
                needed: needed as u32,
            })?;
        Ok(Self::of(Core::new(Pager::new(
            cache,
            Store::new(storage, config),
        ))))
    }

    fn of(core: Core<S, P, Pol>) -> Self {
        Heap {
            core,
            _r: PhantomData,
            _brand: PhantomData,
            _ram: PhantomData,
        }
    }

    /// Opens it, or formats it and writes the root.
    #[inline(always)]
    fn open_or_init<F>(
        mut self,
        config: &Config,
        anew: bool,
        init: F,
    ) -> Result<Self, OpenError<S::Error>>
    where
        F: FnOnce(&Heap<'h, Unrooted, S, P, Pol, B>) -> Result<R, Error<S::Error>>,
    {
        let fingerprint = nvmem::fingerprint::<R>();
        let root = const { &HandleKind::of::<R>(OWN, OWN_ID) };
        let kind = Kind::of::<R>();
        let mut copies = MaybeUninit::uninit();
        let copies = Copies::zeroed(&mut copies);
        let done = match self
            .core
            .open_or_format(config, fingerprint, root, kind, anew, copies)
        {
            Err(Fail::BLANK) => {
                let value = ManuallyDrop::new(init(self.unrooted())?);
                // SAFETY: invariant "A kind is its type", "Sole owner": an `R`, which belongs to
                // the object from here on.
                unsafe {
                    self.core
                        .init_root(fingerprint, kind, (&raw const value).cast())
                }
            }
            done => done,
        };
        match done {
            Ok(()) => Ok(Self::of(self.core.moved())),
            Err(fail) => {
                let store = self.core.unshared().store_mut();
                Err(store.refused(fail, fingerprint, copies))
            }
        }
    }

    /// Writes back all changes, empties the cache, and counts reachable objects.
    ///
    /// **Power loss**: as any write-back. **Cost**: as [`Heap::open`]. **Errors**: [`Error::Busy`]
    /// when a leaked guard pins an object; those of [`Heap::open`].
    pub fn audit(&mut self) -> Result<Audit, OpenError<S::Error>> {
        let root = const { &HandleKind::of::<R>(OWN, OWN_ID) };
        let done = self.core.clean_all();
        let done = done.and_then(|()| self.core.section(|pager| pager.audit(root)));
        done.map_err(|fail| {
            let image = self.core.unshared().store_mut().image();
            fail.refusal(image.take_failure())
        })
    }
}

impl<R, S: Medium, Pol: Policy, B> Heap<'_, R, S, crate::Snapshot, Pol, B> {
    /// Commits: the next open finds everything as it is now.
    ///
    /// No guard can be alive. **Power loss**: before the commit's record, the heap is as of the
    /// previous commit; after it, as of this one; never in between. **Cost**: the dirty objects, 16
    /// bytes, and for each object that has changed since the last commit 2 bytes and its bits of
    /// the bitmap. **Errors**: [`Error::Medium`]; then commit again before anything else changes
    /// ([`Error::Unfinished`]). [`Error::Full`] cannot occur: a dirty object has its space.
    /// [`Error::Busy`] when a guard that wrote an object with padding was leaked.
    pub fn commit(&mut self) -> Result<(), Error<S::Error>> {
        let done = self.core.clean_all().and_then(|()| self.core.commit_all());
        self.core.with_medium_error(done)
    }
}
