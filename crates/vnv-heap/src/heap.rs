//! The heap's API for programs.

use crate::brand::Tag;
use crate::error::{Error, Fail, Rejected, Word};
use crate::guard::{Ref, RefMut};
use crate::object::Marked;
use crate::own::{Kind, Own};
use crate::policy::{Policy, Predict};
use crate::promise::{JustInTime, Promise};
use crate::state::Core;
use crate::stats::Stats;
use crate::store::Alloc;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::num::NonZeroU16;
use nvmem::{Medium, Persist, Plain};

/// The root's object number.
pub(crate) const ROOT: u16 = 1;

/// A heap of persistent objects on the medium `S`, cached in a RAM buffer, with a root of type `R`.
///
/// `P` is its promise after a power cut: [`JustInTime`] or [`Snapshot`](crate::Snapshot). `Pol` is
/// the replacement policy. `B` is the marker type of its [`Brand`](crate::Brand).
///
/// All operations take `&self`: guards pin objects, and a guard that another one excludes is
/// [`Error::Busy`]. With interrupts masked, an operation writes at most one
/// [burst](crate::Config::burst) to the medium.
#[repr(transparent)]
pub struct Heap<'h, R, S: Medium, P: Promise = JustInTime, Pol: Policy = Predict, B = ()> {
    pub(crate) core: Core<S, P, Pol>,
    pub(crate) _r: PhantomData<fn(R) -> R>,
    pub(crate) _brand: Tag<'h, B>,
    /// Borrows the buffer.
    pub(crate) _ram: PhantomData<&'h mut [u8]>,
}

/// The root type of a heap that has no root yet: the `init` of [`Heap::open`] and [`Heap::format`]
/// gets such a heap. The type has no value, so no method can access a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrooted {}

// SAFETY: a heap that moves to another thread is not borrowed, so no guard and no saver exists. It
// consists of the medium, its own buffer, and plain data including pointers into that buffer. An
// object is plain bytes, which any thread may read from the medium.
unsafe impl<R, S: Medium + Send, P: Promise, Pol: Policy, B> Send for Heap<'_, R, S, P, Pol, B> {}

impl<'h, R, S, P, Pol, B> Heap<'h, R, S, P, Pol, B>
where
    S: Medium,
    P: Promise,
    Pol: Policy,
{
    /// The same heap as `init` sees it: object 1 is not a root yet.
    #[inline(always)]
    pub(crate) fn unrooted(&self) -> &Heap<'h, Unrooted, S, P, Pol, B> {
        // SAFETY: a heap is a transparent core for every root type.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

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
        // SAFETY: the value is not used again after it belongs to the object.
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
        let at = self.core.pin_shared(own.id(), Kind::of::<T>())?;
        // SAFETY: the handle's object is a `T`, and is pinned now.
        Ok(unsafe { Ref::new(&self.core, at) })
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
        let at = self.core.pin_exclusive(own.id(), Kind::of::<T>())?;
        // SAFETY: the handle's object is a `T`, and is pinned exclusively now.
        Ok(unsafe { RefMut::new(&self.core, at) })
    }

    /// Calls `f` with the object and returns its result. See [`Heap::get`].
    #[inline]
    pub fn with<T: Persist + Marked<B>, O>(
        &self,
        own: &Own<'h, T, B>,
        f: impl FnOnce(&T) -> O,
    ) -> Result<O, Error<S::Error>> {
        Ok(f(&*self.get(own)?))
    }

    /// Calls `f` with the object, which it may change, and returns its result. See
    /// [`Heap::get_mut`].
    #[inline]
    pub fn update<T: Persist + Marked<B>, O>(
        &self,
        own: &Own<'h, T, B>,
        f: impl FnOnce(&mut T) -> O,
    ) -> Result<O, Error<S::Error>> {
        Ok(f(&mut *self.get_mut(own)?))
    }

    /// A copy of the object, whose type holds no handles. See [`Heap::get`].
    #[inline]
    pub fn read<T: Plain>(&self, own: &Own<'h, T, B>) -> Result<T, Error<S::Error>> {
        let held = self.held(own)?;
        // SAFETY: a valid value; plain data may be copied.
        Ok(unsafe { core::ptr::from_ref::<T>(&held).read() })
    }

    /// Overwrites the object, whose type holds no handles. See [`Heap::get_mut`].
    #[inline]
    pub fn write<T: Plain>(&self, own: &Own<'h, T, B>, value: T) -> Result<(), Error<S::Error>> {
        *self.held_mut(own)? = value;
        Ok(())
    }

    /// Stores a value and returns the previous one, with its handles. See [`Heap::get_mut`]. An
    /// error returns the new value.
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
        self.core.peek(|st| st.store.damaged.into()).unwrap_or(0)
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
        // SAFETY: a value of the type, which is not used again.
        let freed = unsafe { self.core.free_owned(T::check, (&raw const value).cast()) };
        self.core.with_medium_error(freed)
    }

    /// Frees an object and returns its value, with its handles. **Errors**: as [`Heap::get_mut`],
    /// with the handle. If the medium fails after the object is gone, the next open frees the rest.
    pub fn take<T: Persist + Marked<B>>(
        &self,
        own: Own<'h, T, B>,
    ) -> Result<T, Rejected<Own<'h, T, B>, S::Error>> {
        let mut value = MaybeUninit::<T>::uninit();
        let copied = self.get_mut(&own).map(|held| {
            // SAFETY: a valid value. Either the object is freed before it can be used again, or the
            // copy is not used.
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
            // SAFETY: written above.
            Ok(()) => Ok(unsafe { value.assume_init() }),
            Err(error) => Err(Rejected { error, value: own }),
        }
    }

    /// Counters since the heap was opened; also available between a persist and its restore. A
    /// driver of the medium that calls this inside an operation gets zeros.
    pub fn stats(&self) -> Stats {
        self.core
            .peek(|st| {
                let (bytes_written, bytes_read) = st.store.traffic();
                Stats {
                    bytes_written,
                    bytes_read,
                    hits: st.stats.hits,
                    loads: st.stats.loads,
                    write_backs: st.stats.write_backs,
                    dirty_high_water: st.cache.high_water(),
                }
            })
            .unwrap_or_default()
    }

    /// Free bytes of the medium for objects. An object takes 8 bytes more than its size, rounded up
    /// to 8.
    pub fn free_bytes(&self) -> Result<u32, Error<S::Error>> {
        self.core
            .with_medium_error(self.core.section(|st| Ok(st.store.free_bytes())))
    }

    /// How many objects can still be allocated, as far as numbers allow.
    pub fn free_objects(&self) -> Result<u16, Error<S::Error>> {
        self.core
            .with_medium_error(self.core.section(|st| Ok(st.store.free_objects())))
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
        // SAFETY: a handle is a transparent number, and object 1 is an `R` of this heap; lent, it
        // can be neither stored nor freed.
        unsafe { &*(&raw const NUMBER).cast() }
    }

    /// Pins the root for reading. See [`Heap::get`].
    #[inline]
    pub fn root(&self) -> Result<Ref<'_, R, S, P, Pol>, Error<S::Error>> {
        let at = self.core.pin_shared(ROOT, Kind::of::<R>())?;
        // SAFETY: object 1 is an `R`, and is pinned now.
        Ok(unsafe { Ref::new(&self.core, at) })
    }

    /// Pins the root for writing. See [`Heap::get_mut`].
    #[inline]
    pub fn root_mut(&self) -> Result<RefMut<'_, R, S, P, Pol>, Error<S::Error>> {
        let at = self.core.pin_exclusive(ROOT, Kind::of::<R>())?;
        // SAFETY: object 1 is an `R`, and is pinned exclusively now.
        Ok(unsafe { RefMut::new(&self.core, at) })
    }
}

/// An object's number, as wide as a register.
pub(crate) struct Number(Word);

impl Number {
    pub(crate) fn id(&self) -> NonZeroU16 {
        // It is not 0.
        NonZeroU16::new(self.0 as u16).unwrap_or(NonZeroU16::MIN)
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Allocates a number and space on the medium for an object of this kind. It has no content
    /// yet.
    pub(crate) fn alloc_id(&self, alloc: &mut Alloc) -> Result<(), Fail> {
        self.sections(|st| st.store.alloc::<false>(alloc))
    }

    /// Just in time: undoes an allocation whose object has no content yet.
    fn undo_alloc(&self, alloc: &mut Alloc) -> Result<(), Fail> {
        self.sections(|st| st.store.undo_alloc(alloc))
    }

    /// Allocates an object.
    ///
    /// # Safety
    /// `value` is a value of this kind, and belongs to the object when this has succeeded.
    #[inline(never)]
    pub(crate) unsafe fn alloc(&self, kind: &Kind, value: *const u8) -> Result<Number, Fail> {
        let mut alloc = Alloc::one(kind.len);
        self.alloc_id(&mut alloc)?;
        let id = alloc.id();
        // SAFETY: as the caller vouches.
        let filled = unsafe { self.fill(id, kind, value) };
        if filled.is_err() {
            // If this fails too, the next open frees the object.
            let _ = if P::SNAPSHOT {
                self.free_unfilled(id, kind.len)
            } else {
                self.undo_alloc(&mut alloc)
            };
        }
        filled?;
        Ok(Number(id.into()))
    }
}
