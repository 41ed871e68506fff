//! Runs: objects of one type with consecutive numbers, under one handle.

use crate::Heap;
use crate::brand::Tag;
use crate::error::{Error, Fail};
use crate::guard::{Ref, RefMut};
use crate::own::{Kind, OWN, OWN_ID};
use crate::policy::Policy;
use crate::promise::Promise;
use crate::state::{Core, State};
use crate::store::{Alloc, BeginWrite};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::{HandleKind, Target, Visit};
use nvmem::{Invalid, Medium, Persist, planted};

/// Owns `count` objects from number `base` on: 4 bytes. No objects when the base is 0.
#[repr(C)]
pub(crate) struct Run<'h, T> {
    base: u16,
    count: u16,
    _t: PhantomData<fn(T) -> T>,
    _brand: Tag<'h>,
}

// SAFETY: two numbers without padding; `At` differs in the brand only; `check` shows each handle to
// the owner of the memory.
unsafe impl<T: Persist> Persist for Run<'_, T> {
    type At<'p> = Run<'p, T::At<'p>>;
    type HandleTargets = HandleTo<T>;
    const LAYOUT: &'static Type = &Type::Handle("vnv-heap run");
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: as the caller vouches.
        unsafe { Self::show(p, v, |_| true) }
    }
}

/// Accepts any bytes: for content that is never interpreted.
pub(super) unsafe fn any(_: *const u8, _: &mut dyn Visit) -> Result<(), Invalid> {
    Ok(())
}

impl<T: Persist> Run<'_, T> {
    /// Checks the bytes of a run, and shows its handles: to a `T`, or, where not `live`, to bytes
    /// without meaning.
    ///
    /// # Safety
    /// As [`Persist::check`].
    pub(super) unsafe fn show(
        p: *const u8,
        v: &mut dyn Visit,
        live: impl Fn(u16) -> bool,
    ) -> Result<(), Invalid> {
        // SAFETY: readable and aligned by the contract.
        let (base, count) = unsafe { (p.cast::<u16>().read(), p.cast::<u16>().add(1).read()) };
        if (base == 0) != (count == 0) {
            return Err(Invalid::Handle(OWN));
        }
        for i in 0..count {
            if i > 0 && planted!("vnv-heap/run-shows-one") {
                break;
            }
            let live = T::HANDLES && live(i);
            let target = if live {
                Target::of::<T>()
            } else {
                Target::bytes(size_of::<T>(), any)
            };
            let value = u32::from(base) + u32::from(i);
            v.handle(value, &HandleKind::new(OWN, OWN_ID, target, live))?;
        }
        Ok(())
    }
}

impl<'h, T> Run<'h, T> {
    /// Owns nothing.
    pub(crate) const EMPTY: Self = Run {
        base: 0,
        count: 0,
        _t: PhantomData,
        _brand: PhantomData,
    };

    pub(crate) const fn count(&self) -> u16 {
        self.count
    }

    /// The number of an object.
    pub(super) fn id(&self, i: u16) -> Option<u16> {
        (i < self.count).then(|| self.base.checked_add(i)).flatten()
    }

    /// Moves its objects to the returned run; it is empty afterwards.
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::EMPTY)
    }
}

impl<'h, T: Persist> Run<'h, T> {
    /// Allocates `count` objects without content. Each must be [put](Run::put) before it is read.
    pub(crate) fn reserve<R, S: Medium, P: Promise, Pol: Policy, B>(
        heap: &Heap<'h, R, S, P, Pol, B>,
        count: u16,
    ) -> Result<Self, Error<S::Error>> {
        let mut alloc = Alloc::run(count, Kind::of::<T>().len);
        let done = heap.core.sections(|st| st.store.alloc::<true>(&mut alloc));
        heap.core.with_medium_error(done)?;
        Ok(Run {
            base: alloc.id(),
            count,
            ..Self::EMPTY
        })
    }

    /// Allocates `count` objects that `make` makes. After an error none stays allocated.
    pub(crate) fn alloc<R, S: Medium, P: Promise, Pol: Policy, B>(
        heap: &Heap<'h, R, S, P, Pol, B>,
        count: u16,
        mut make: impl FnMut(u16) -> Result<T, Error<S::Error>>,
    ) -> Result<Self, Error<S::Error>> {
        let run = Self::reserve(heap, count)?;
        for i in 0..count {
            let put = make(i).and_then(|value| run.put(heap, i, value));
            if let Err(e) = put {
                // Objects that these own become unreachable, as with any dropped value.
                let _ = run.free_shallow(heap);
                return Err(e);
            }
        }
        Ok(run)
    }

    /// Overwrites an object without reading it.
    pub(crate) fn put<R, S: Medium, P: Promise, Pol: Policy, B>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u16,
        value: T,
    ) -> Result<(), Error<S::Error>> {
        let value = ManuallyDrop::new(value);
        // SAFETY: the value is not used again.
        unsafe { self.put_from(heap, i, (&raw const value).cast()) }
    }

    /// [`Run::put`] of the value at `from`.
    ///
    /// # Safety
    /// A value lies there. It belongs to the object when this has succeeded.
    pub(crate) unsafe fn put_from<R, S: Medium, P: Promise, Pol: Policy, B>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u16,
        from: *const T,
    ) -> Result<(), Error<S::Error>> {
        let Some(id) = self.id(i) else {
            return Err(Error::Damaged { object: self.base });
        };
        // SAFETY: as the caller vouches.
        let put = unsafe { heap.core.put(id, Kind::of::<T>(), from.cast()) };
        heap.core.with_medium_error(put)
    }

    pub(crate) fn get<'a, R, S: Medium, P: Promise, Pol: Policy, B>(
        &self,
        heap: &'a Heap<'h, R, S, P, Pol, B>,
        i: u16,
    ) -> Option<Result<Ref<'a, T, S, P, Pol>, Error<S::Error>>> {
        let id = self.id(i)?;
        let held = heap.core.pin_shared(id, Kind::of::<T>());
        // SAFETY: the run's objects are of type `T`, and this one is pinned now.
        Some(held.map(|at| unsafe { Ref::new(&heap.core, at) }))
    }

    pub(crate) fn get_mut<'a, R, S: Medium, P: Promise, Pol: Policy, B>(
        &self,
        heap: &'a Heap<'h, R, S, P, Pol, B>,
        i: u16,
    ) -> Option<Result<RefMut<'a, T, S, P, Pol>, Error<S::Error>>> {
        let id = self.id(i)?;
        let held = heap.core.pin_exclusive(id, Kind::of::<T>());
        // SAFETY: the run's objects are of type `T`, and this one is pinned exclusively now.
        Some(held.map(|at| unsafe { RefMut::new(&heap.core, at) }))
    }

    /// Frees the objects and the objects that they own.
    pub(crate) fn free<R, S: Medium, P: Promise, Pol: Policy, B>(
        self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) -> Result<(), (Error<S::Error>, Self)> {
        self.free_as(heap, Kind::of::<T>())
    }

    /// Frees the objects only.
    pub(super) fn free_shallow<R, S: Medium, P: Promise, Pol: Policy, B>(
        self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) -> Result<(), (Error<S::Error>, Self)> {
        let kind = Kind {
            handles: false,
            ..*Kind::of::<T>()
        };
        self.free_as(heap, &kind)
    }

    /// Frees from the last object on. After an error the remaining run is returned.
    fn free_as<R, S: Medium, P: Promise, Pol: Policy, B>(
        mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        kind: &Kind,
    ) -> Result<(), (Error<S::Error>, Self)> {
        while let Some(id) = self.count.checked_sub(1).and_then(|i| self.id(i)) {
            match heap.core.free(id, kind) {
                Ok(()) => self.count -= 1,
                Err((fail, gone)) => {
                    self.count -= u16::from(gone);
                    if self.count == 0 {
                        self.base = 0;
                    }
                    return Err((heap.core.error(fail), self));
                }
            }
        }
        Ok(())
    }
}

impl<T> Run<'_, T> {
    /// The content of an object is not needed any more: evicts it without a write.
    pub(crate) fn forget<R, S: Medium, P: Promise, Pol: Policy, B>(
        &self,
        heap: &Heap<'_, R, S, P, Pol, B>,
        i: u16,
    ) -> Result<(), Error<S::Error>> {
        match self.id(i) {
            Some(id) if !planted!("vnv-heap/dequeued-is-written") => {
                heap.core.with_medium_error(heap.core.forget(id))
            }
            _ => Ok(()),
        }
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Evicts an object without writing it back. **Errors**: [`Error::Busy`] while it is pinned.
    pub(crate) fn forget(&self, id: u16) -> Result<(), Fail> {
        self.forget_if(id, |_| Ok(()))
    }

    /// The same, if `is_good` allows it.
    #[inline(always)]
    fn forget_if(
        &self,
        id: u16,
        is_good: impl FnOnce(&mut State<S, P, Pol>) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        self.section(|st| {
            is_good(st)?;
            if let Some(frame) = st.cache.lookup(id) {
                if st.cache.is_pinned(frame) {
                    return Err(Fail::BUSY);
                }
                st.cache.remove(frame);
            }
            Ok(())
        })
    }

    /// Gives an object new content without reading the old one.
    ///
    /// **Errors**: those of a write-back. The object has no content then, and must be put again
    /// before it is read.
    ///
    /// # Safety
    /// As [`Core::fill`].
    pub(crate) unsafe fn put(&self, id: u16, kind: &Kind, value: *const u8) -> Result<(), Fail> {
        self.forget_if(id, |st| {
            if P::SNAPSHOT || planted!("vnv-heap/put-over-damage") {
                return Ok(());
            }
            // A write-back uses the length of the kind. If the header has another one, the units
            // behind may belong to other objects.
            st.store.expect(id, kind.len)
        })?;
        if P::SNAPSHOT && !planted!("vnv-heap/put-in-place") {
            let mut begin = BeginWrite::new(id, kind.len);
            self.sections(|st| st.store.begin_write(&mut begin))?;
        }
        // SAFETY: as the caller vouches.
        unsafe { self.fill(id, kind, value) }
    }
}
