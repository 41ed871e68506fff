//! The heap as a program uses it.

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

/// The number of the root.
pub(crate) const ROOT: u16 = 1;

/// A heap of persistent objects on the medium `S`, cached in a buffer of RAM, with a root of type `R`.
///
/// `P` is what it promises about a power cut: [`JustInTime`] or [`Snapshot`](crate::Snapshot); `Pol` decides what leaves RAM; `B` is the
/// marker of its [`Brand`](crate::Brand).
///
/// All operations take `&self`: objects are held by guards, and a second guard that the first one excludes is
/// [`Error::Busy`]. In each, the medium is written at most a [burst](crate::Config::burst) at a time with interrupts masked.
#[repr(transparent)]
pub struct Heap<'h, R, S: Medium, P: Promise = JustInTime, Pol: Policy = Predict, B = ()> {
    pub(crate) core: Core<S, P, Pol>,
    pub(crate) _r: PhantomData<fn(R) -> R>,
    pub(crate) _brand: Tag<'h, B>,
    /// The buffer is borrowed.
    pub(crate) _ram: PhantomData<&'h mut [u8]>,
}

/// The root of a heap that has none yet, which is what the `init` of [`Heap::open`] and [`Heap::format`] gets: there is no value of
/// it, and a heap has no method for its root then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrooted {}

// SAFETY: a heap that moves to another thread is borrowed by nobody: no guard, no saver. It has the medium, a buffer that is its own, and plain
// data, pointers into that buffer among it; an object is made of bytes, which any thread may have read from the medium.
unsafe impl<R, S: Medium + Send, P: Promise, Pol: Policy, B> Send for Heap<'_, R, S, P, Pol, B> {}

impl<'h, R, S, P, Pol, B> Heap<'h, R, S, P, Pol, B>
where
    S: Medium,
    P: Promise,
    Pol: Policy,
{
    /// The same heap, as `init` sees it: what object 1 holds, if anything, is no root yet.
    #[inline(always)]
    pub(crate) fn unrooted(&self) -> &Heap<'h, Unrooted, S, P, Pol, B> {
        // SAFETY: a heap is a transparent core, whatever its root.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    /// A new object.
    ///
    /// **Power loss**: until something that the root leads to owns it, the next open frees it. **Cost**: its number and its room on the medium;
    /// what must leave RAM is written. **Errors**: [`Error::Full`], [`Error::RamFull`], [`Error::DirtyLimit`], with the value back.
    pub fn alloc<T: Persist<At<'h> = T> + Marked<B>>(
        &self,
        value: T,
    ) -> Result<Own<'h, T, B>, Rejected<T, S::Error>> {
        let value = ManuallyDrop::new(value);
        let kind = Kind::of::<T>();
        // SAFETY: the value is not used again when it has become the object's.
        match unsafe { self.core.alloc(kind, (&raw const value).cast()) } {
            Ok(number) => Ok(Own::new(number.id())),
            Err(fail) => Err(Rejected {
                error: self.core.error(fail),
                value: ManuallyDrop::into_inner(value),
            }),
        }
    }

    /// The object, to be read. It stays in RAM while the guard lives; many can be read at once.
    ///
    /// **Power loss**: nothing changes. **Cost**: a look-up when it is in RAM; else what must leave is written, and it is
    /// read. **Errors**: [`Error::Busy`] while it is held to be written; [`Error::RamFull`], [`Error::DirtyLimit`] when what is held
    /// takes up the RAM or the limit; [`Error::Damaged`]; [`Error::Suspended`].
    #[inline(always)]
    pub fn get<T: Persist + Marked<B>>(
        &self,
        own: &Own<'h, T, B>,
    ) -> Result<Ref<'_, T, S, P, Pol>, Error<S::Error>> {
        self.held(own)
    }

    /// [`Heap::get`] of anything.
    #[inline(always)]
    fn held<T: Persist>(
        &self,
        own: &Own<'h, T, B>,
    ) -> Result<Ref<'_, T, S, P, Pol>, Error<S::Error>> {
        let at = self.core.pin(own.id(), Kind::of::<T>(), false)?;
        // SAFETY: the handle's object is a `T`, and is held now.
        Ok(unsafe { Ref::new(&self.core, at) })
    }

    /// The object, to be written. It stays in RAM while the guard lives, and counts as changed.
    ///
    /// **Power loss**: *just in time*, what was written counts from the next persist on; with the snapshot promise, from the
    /// next commit on. **Cost**, **Errors**: as [`Heap::get`]; [`Error::Busy`] while it is held in any way; [`Error::Full`] with the
    /// snapshot promise, which keeps the committed content too.
    #[inline(always)]
    pub fn get_mut<T: Persist + Marked<B>>(
        &self,
        own: &Own<'h, T, B>,
    ) -> Result<RefMut<'_, T, S, P, Pol>, Error<S::Error>> {
        self.held_mut(own)
    }

    /// [`Heap::get_mut`] of anything.
    #[inline(always)]
    fn held_mut<T: Persist>(
        &self,
        own: &Own<'h, T, B>,
    ) -> Result<RefMut<'_, T, S, P, Pol>, Error<S::Error>> {
        let at = self.core.pin(own.id(), Kind::of::<T>(), true)?;
        // SAFETY: the handle's object is a `T`, and is held alone now.
        Ok(unsafe { RefMut::new(&self.core, at) })
    }

    /// What `f` makes of the object. See [`Heap::get`].
    #[inline]
    pub fn with<T: Persist + Marked<B>, O>(
        &self,
        own: &Own<'h, T, B>,
        f: impl FnOnce(&T) -> O,
    ) -> Result<O, Error<S::Error>> {
        Ok(f(&*self.get(own)?))
    }

    /// What `f` makes of the object, which it may change. See [`Heap::get_mut`].
    #[inline]
    pub fn update<T: Persist + Marked<B>, O>(
        &self,
        own: &Own<'h, T, B>,
        f: impl FnOnce(&mut T) -> O,
    ) -> Result<O, Error<S::Error>> {
        Ok(f(&mut *self.get_mut(own)?))
    }

    /// A copy of the object, which holds no handle. See [`Heap::get`].
    #[inline]
    pub fn read<T: Plain>(&self, own: &Own<'h, T, B>) -> Result<T, Error<S::Error>> {
        let held = self.held(own)?;
        // SAFETY: a valid value; plain data may be copied.
        Ok(unsafe { core::ptr::from_ref::<T>(&held).read() })
    }

    /// Overwrites the object, which holds no handle. See [`Heap::get_mut`].
    #[inline]
    pub fn write<T: Plain>(&self, own: &Own<'h, T, B>, value: T) -> Result<(), Error<S::Error>> {
        *self.held_mut(own)? = value;
        Ok(())
    }

    /// Puts a value in and gives the one before back, with the handles in it. See [`Heap::get_mut`]; an error has the value.
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

    /// Frees an object and all that it owns, without recursion.
    ///
    /// What of it is held is freed when it is released. **Power loss**: *just in time*, as any change; with the snapshot
    /// promise it is there again unless a commit follows. **Cost**: reads what may hold handles; an entry of the table for
    /// each object. RAM holds a dozen objects' places, whatever the size and the shape of what is freed; where that is deep and branches
    /// all the way, objects are read a few times. **Errors**: [`Error::Busy`] while it is held, with the handle; those of
    /// [`Heap::get`], with the handle when nothing is freed yet. Without the handle, the object is gone, and what is left of what it owned is
    /// unreachable until the next open frees it.
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

    /// Gives up an object that is damaged, with what only it leads to. One that is not is freed, as by [`Heap::free`].
    ///
    /// What it owns cannot be known. It is kept, unreachable, until an open that finds nothing damaged, which frees it: see
    /// [`Heap::damage`]. **Power loss**, **Cost**: as [`Heap::free`] of one object. **Errors**: as [`Heap::free`], but for
    /// [`Error::Damaged`].
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

    /// How many objects that the root leads to were found damaged when the heap was opened: 0 when nothing is
    /// known, 254 for so many and more.
    ///
    /// While it is not 0, what cannot be reached is not freed, because a damaged object may own it. Each damaged object is
    /// [`Error::Damaged`] when it is asked for, until the program gives it up by [`Heap::give_up`] or loses its handle.
    /// The next open that finds no damage frees what is unreachable then. An object without handles is checked when it is
    /// read: its damage may be unknown until then.
    pub fn damage(&self) -> u16 {
        self.core.peek(|st| st.store.damaged.into()).unwrap_or(0)
    }

    /// Frees all that a value owns, which a collection, [`Heap::replace`] or [`Heap::take`] gave back: what dropping it would be where
    /// handles have destructors. What owns nothing costs nothing.
    ///
    /// What of it is held is freed when it is released. **Power loss**, **Cost**: as [`Heap::free`]. **Errors**: as [`Heap::free`] when the object is
    /// gone: what could not be freed is unreachable, and the next open frees it.
    pub fn discard<T: Persist<At<'h> = T> + Marked<B>>(
        &self,
        value: T,
    ) -> Result<(), Error<S::Error>> {
        if !T::HANDLES {
            return Ok(());
        }
        let value = ManuallyDrop::new(value);
        // SAFETY: a value of the type, which nobody has any more.
        let freed = unsafe { self.core.free_owned(T::check, (&raw const value).cast()) };
        self.core.with_medium_error(freed)
    }

    /// Frees an object and gives its value, with the handles in it. **Errors**: as [`Heap::get_mut`], with the handle; what the medium fails to
    /// free once the object is gone is freed by the next open.
    pub fn take<T: Persist + Marked<B>>(
        &self,
        own: Own<'h, T, B>,
    ) -> Result<T, Rejected<Own<'h, T, B>, S::Error>> {
        let mut value = MaybeUninit::<T>::uninit();
        let copied = self.get_mut(&own).map(|held| {
            // SAFETY: a valid value; the object is freed before anybody can use it again, or else the copy is not.
            unsafe { value.write(core::ptr::from_ref::<T>(&held).read()) };
        });
        let freed = copied.and_then(|()| {
            let mut gone = false;
            match self.core.free_one(own.id(), Kind::of::<T>().len, &mut gone) {
                Err(fail) if !gone => Err(self.core.error(fail)),
                // What the medium did not take of it, the next open does.
                _ => Ok(()),
            }
        });
        match freed {
            // SAFETY: written above.
            Ok(()) => Ok(unsafe { value.assume_init() }),
            Err(error) => Err(Rejected { error, value: own }),
        }
    }

    /// What the heap has done since it was opened, also between a persist and its restore. A driver of the medium that asks in the midst of an
    /// operation is told of nothing: all zero.
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

    /// Bytes of the medium that are free for objects, each of which takes 8 more than its size, rounded up to 8.
    pub fn free_bytes(&self) -> Result<u32, Error<S::Error>> {
        self.core
            .with_medium_error(self.core.section(|st| Ok(st.store.free_bytes())))
    }

    /// How many objects can still be allocated, as far as their numbers go.
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
    /// The root's handle, for what takes one: [`Heap::with`], [`Heap::read`], the methods of [`Fields`](crate::Fields).
    pub fn root_handle(&self) -> &Own<'h, R, B> {
        static NUMBER: NonZeroU16 = NonZeroU16::MIN;
        const { assert!(ROOT == 1) };
        // SAFETY: a handle is a transparent number, and object 1 is an `R` of this heap; lent, it can be neither stored nor freed.
        unsafe { &*(&raw const NUMBER).cast() }
    }

    /// The root, to be read. See [`Heap::get`].
    #[inline]
    pub fn root(&self) -> Result<Ref<'_, R, S, P, Pol>, Error<S::Error>> {
        let at = self.core.pin(ROOT, Kind::of::<R>(), false)?;
        // SAFETY: the object 1 is an `R`, and is held now.
        Ok(unsafe { Ref::new(&self.core, at) })
    }

    /// The root, to be written. See [`Heap::get_mut`].
    #[inline]
    pub fn root_mut(&self) -> Result<RefMut<'_, R, S, P, Pol>, Error<S::Error>> {
        let at = self.core.pin(ROOT, Kind::of::<R>(), true)?;
        // SAFETY: the object 1 is an `R`, and is held alone now.
        Ok(unsafe { RefMut::new(&self.core, at) })
    }
}

/// An object's number, as wide as comes in a register.
pub(crate) struct Number(Word);

impl Number {
    pub(crate) fn id(&self) -> NonZeroU16 {
        // It is not 0.
        NonZeroU16::new(self.0 as u16).unwrap_or(NonZeroU16::MIN)
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// A number and room on the medium for an object of this kind. It has no content yet.
    pub(crate) fn alloc_id(&self, alloc: &mut Alloc) -> Result<(), Fail> {
        self.sections(|st| st.store.alloc::<false>(alloc))
    }

    /// Just in time: undoes an allocation whose object has got no content.
    fn undo_alloc(&self, alloc: &mut Alloc) -> Result<(), Fail> {
        self.sections(|st| st.store.undo_alloc(alloc))
    }

    /// A new object.
    ///
    /// # Safety
    /// `value` is a value of this kind, and the object's when this has succeeded.
    #[inline(never)]
    pub(crate) unsafe fn alloc(&self, kind: &Kind, value: *const u8) -> Result<Number, Fail> {
        let mut alloc = Alloc::one(kind.len);
        self.alloc_id(&mut alloc)?;
        let id = alloc.id();
        // SAFETY: as the caller vouches.
        let filled = unsafe { self.fill(id, kind, value) };
        if filled.is_err() {
            // What fails here leaves an object that the next open frees.
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
