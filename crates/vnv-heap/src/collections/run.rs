//! Runs of objects, of which all collections but `Blob` consist.
//!
//! ```text
//!  Run: base, count     objects base, base+1, ... of one type, under one handle
//! ```
//!
//! A chunk of a collection is an object. So paging in, changes, checks and copies by chunk need no
//! concept of their own.

use crate::brand::Tag;
use crate::error::Error;
use crate::handle::{HeapHandles, Kind, OWN, OWN_ID, Ref, RefMut, assert_alignment};
use crate::heap::Unrooted;
use crate::store::Alloc;
use crate::{Heap, Policy, Promise};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use nvmem::describe::{HandleTo, Member, Type};
use nvmem::persist::{HandleKind, Target, Visit};
use nvmem::{Invalid, Medium, Persist, planted};

/// A field of a layout.
pub(super) const fn field(name: &'static str, offset: usize, of: &'static Type) -> Member {
    Member::Field { name, offset, of }
}

/// Owns `count` objects from number `base` on: 4 bytes. No objects when the base is 0.
#[repr(C)]
pub(super) struct Run<'h, T, B> {
    base: u16,
    count: u16,
    _t: PhantomData<fn(T) -> T>,
    _brand: Tag<'h, B>,
}

// SAFETY: invariant "Sole owner": two numbers without padding; `At` differs in the brand only;
// `check` shows each handle to the owner of the memory.
unsafe impl<T: Persist, B> Persist for Run<'_, T, B> {
    type At<'p> = Run<'p, T::At<'p>, B>;
    type HandleTargets = HeapHandles<HandleTo<T>, B>;
    const LAYOUT: &'static Type = &Type::Handle("vnv-heap run");
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": as the caller vouches.
        unsafe { Self::show(p, v, |_| true) }
    }
}

/// Accepts any bytes: for content that is never interpreted.
pub(super) unsafe fn any(_: *const u8, _: &mut dyn Visit) -> Result<(), Invalid> {
    Ok(())
}

impl<T: Persist, B> Run<'_, T, B> {
    // INVARIANT "A run is all of it": a collection's handle shows each of its objects to the walk.
    // Noticed by: tests/suite/collections.rs; planted `run-shows-one`.
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
        const { assert_alignment::<T>() }
        // SAFETY: invariant "Checked before it is a value": readable and aligned by the contract.
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

impl<T, B> Run<'_, T, B> {
    /// Owns nothing.
    pub(super) const EMPTY: Self = Run {
        base: 0,
        count: 0,
        _t: PhantomData,
        _brand: PhantomData,
    };

    pub(super) const fn count(&self) -> u16 {
        self.count
    }

    /// The number of an object.
    pub(super) fn id(&self, i: u16) -> Option<u16> {
        (i < self.count).then(|| self.base.checked_add(i)).flatten()
    }
}

/// A chunk that is pinned for reading; `None` when there is none of that index.
type Chunk<'a, T, S, P, Pol> = Result<Option<Ref<'a, T, S, P, Pol>>, Error<<S as Medium>::Error>>;
/// The same, for writing.
type ChunkMut<'a, T, S, P, Pol> =
    Result<Option<RefMut<'a, T, S, P, Pol>>, Error<<S as Medium>::Error>>;

impl<'h, S: Medium, P: Promise, Pol: Policy, B> Heap<'h, Unrooted, S, P, Pol, B> {
    /// Allocates `count` objects without content. Each must be [put](Heap::put_chunk) before it is
    /// read.
    pub(super) fn reserve_run<T: Persist>(
        &self,
        count: u16,
    ) -> Result<Run<'h, T, B>, Error<S::Error>> {
        let mut alloc = Alloc::run(count, Kind::of::<T>().len);
        self.core
            .with_medium_error(self.core.alloc_run(&mut alloc))?;
        Ok(Run {
            base: alloc.id(),
            count,
            ..Run::EMPTY
        })
    }

    /// Allocates `count` objects that `make` makes. After an error none stays allocated.
    pub(super) fn alloc_run<T: Persist>(
        &self,
        count: u16,
        mut make: impl FnMut(u16) -> Result<T, Error<S::Error>>,
    ) -> Result<Run<'h, T, B>, Error<S::Error>> {
        let run = self.reserve_run(count)?;
        for i in 0..count {
            let put = make(i).and_then(|value| {
                let value = ManuallyDrop::new(value);
                // SAFETY: invariant "A kind is its type", "Sole owner": a `T`, which is not used
                // again.
                unsafe { self.put_chunk(&run, i, &raw const *value) }
            });
            if let Err(e) = put {
                // Objects that these own become unreachable, as with any dropped value.
                self.free_chunks(run);
                return Err(e);
            }
        }
        Ok(run)
    }

    /// Overwrites an object with the value at `from`, without reading the object.
    ///
    /// # Safety
    /// A value lies there. It belongs to the object when this has succeeded.
    pub(super) unsafe fn put_chunk<T: Persist>(
        &self,
        run: &Run<'h, T, B>,
        i: u16,
        from: *const T,
    ) -> Result<(), Error<S::Error>> {
        let Some(id) = run.id(i) else {
            return Err(Error::Damaged { object: run.base });
        };
        // SAFETY: invariant "A kind is its type": as the caller vouches.
        let put = unsafe { self.core.put(id, Kind::of::<T>(), from.cast()) };
        self.core.with_medium_error(put)
    }

    pub(super) fn chunk<T: Persist>(&self, run: &Run<'h, T, B>, i: u16) -> Chunk<'_, T, S, P, Pol> {
        let Some(id) = run.id(i) else {
            return Ok(None);
        };
        // SAFETY: invariant "Sole owner": the run's objects are of type `T`.
        unsafe { Ref::pin(&self.core, id) }.map(Some)
    }

    pub(super) fn chunk_mut<T: Persist>(
        &self,
        run: &Run<'h, T, B>,
        i: u16,
    ) -> ChunkMut<'_, T, S, P, Pol> {
        let Some(id) = run.id(i) else {
            return Ok(None);
        };
        // SAFETY: invariant "Sole owner": the run's objects are of type `T`.
        unsafe { RefMut::pin(&self.core, id) }.map(Some)
    }

    /// Frees the objects, but not what they own. If this fails, the next open frees them.
    pub(super) fn free_chunks<T: Persist>(&self, run: Run<'h, T, B>) {
        let kind = Kind {
            handles: false,
            ..*Kind::of::<T>()
        };
        for id in (0..run.count).filter_map(|i| run.id(i)) {
            let _ = self.core.free(id, &kind);
        }
    }

    /// The content of an object is not needed any more: evicts it without a write.
    pub(super) fn forget_chunk<T>(&self, run: &Run<'h, T, B>, i: u16) {
        if planted!("vnv-heap/dequeued-is-written") {
            return;
        }
        if let Some(id) = run.id(i) {
            // A pinned one stays resident for a while, which does no harm.
            let _ = self.core.forget(id);
        }
    }
}
