//! A queue, and the runs of objects of which all collections consist.
//!
//! ```text
//!  Run: base, count     objects base, base+1, ... of one type, under one handle
//!
//!        head            place(len)
//!         v                v
//!   [ . | 0 | 1 | 2 | 3 | . | . ]      push writes the next place without reading it
//!         pop: evicts without writing  an element that was taken out owns nothing any more
//! ```
//!
//! Why it is safe: `head` and `len` lie in the object that holds the queue, so they and the
//! elements are as of the same persist or commit. A place outside of them counts as bytes without
//! meaning, so no object has two owners.

use crate::Heap;
use crate::brand::Tag;
use crate::config::Promise;
use crate::error::{Error, Rejected};
use crate::handle::{HeapHandles, Kind, Marked, OWN, OWN_ID};
use crate::handle::{Ref, RefMut};
use crate::policy::Policy;
use crate::store::Alloc;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use nvmem::describe::{HandleTo, Member, Type};
use nvmem::persist::{HandleKind, Target, Visit};
use nvmem::{Invalid, Medium, Persist, Plain, planted};

/// Owns `count` objects from number `base` on: 4 bytes. No objects when the base is 0.
#[repr(C)]
pub(crate) struct Run<'h, T> {
    base: u16,
    count: u16,
    _t: PhantomData<fn(T) -> T>,
    _brand: Tag<'h>,
}

// SAFETY: invariant "Sole owner": two numbers without padding; `At` differs in the brand only;
// `check` shows each handle to the owner of the memory.
unsafe impl<T: Persist> Persist for Run<'_, T> {
    type At<'p> = Run<'p, T::At<'p>>;
    type HandleTargets = HandleTo<T>;
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
        let done = heap.core.alloc_run(&mut alloc);
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
        // SAFETY: invariant "Sole owner": the value is not used again.
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
        // SAFETY: invariant "A kind is its type": as the caller vouches.
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
        // SAFETY: invariant "Sole owner", "What is held stays": the run's objects are of type `T`,
        // and this one is pinned now.
        Some(held.map(|at| unsafe { Ref::new(&heap.core, at) }))
    }

    pub(crate) fn get_mut<'a, R, S: Medium, P: Promise, Pol: Policy, B>(
        &self,
        heap: &'a Heap<'h, R, S, P, Pol, B>,
        i: u16,
    ) -> Option<Result<RefMut<'a, T, S, P, Pol>, Error<S::Error>>> {
        let id = self.id(i)?;
        let held = heap.core.pin_exclusive(id, Kind::of::<T>());
        // SAFETY: invariant "Sole owner", "What is held stays": the run's objects are of type `T`,
        // and this one is pinned exclusively now.
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

/// A queue with a fixed capacity, as a ring: 8 bytes, and an object for each element.
///
/// An element may own objects, as in `Fifo<Own<Packet>>`: the queue owns it until it is taken out.
///
/// A push replaces the old element without reading it, and a pop evicts the element without writing
/// it. So a queue that fits into the RAM causes no traffic on the medium, except in a persist or
/// commit.
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(C)]
pub struct Fifo<'h, T, B = ()> {
    ring: Run<'h, T>,
    _b: PhantomData<fn(B) -> B>,
    head: u16,
    len: u16,
}

// SAFETY: invariant "Sole owner": a run and two numbers, without padding; the run shows its
// handles.
unsafe impl<T: Persist, B> Persist for Fifo<'_, T, B> {
    type At<'p> = Fifo<'p, T::At<'p>, B>;
    type HandleTargets = HeapHandles<HandleTo<T>, B>;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Fifo",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[],
        members: &[
            Member::Field {
                name: "ring",
                offset: 0,
                of: <Run<'static, T> as Persist>::LAYOUT,
            },
            Member::Field {
                name: "head",
                offset: 4,
                of: u16::LAYOUT,
            },
            Member::Field {
                name: "len",
                offset: 6,
                of: u16::LAYOUT,
            },
        ],
    };
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": the numbers behind the base, aligned.
        let [count, head, len] = [1, 2, 3].map(|i| unsafe { p.cast::<u16>().add(i).read() });
        if len > count || (head >= count && count > 0) {
            return Err(Invalid::Bits("Fifo"));
        }
        // An element that was taken out still has its bytes there, but owns nothing.
        let live = |i: u16| {
            let behind = if i >= head {
                i - head
            } else {
                i + (count - head)
            };
            behind < len || planted!("vnv-heap/taken-still-owns")
        };
        // SAFETY: invariant "Checked before it is a value": the run is the first field; as the
        // caller vouches.
        unsafe { <Run<'_, T>>::show(p, v, live) }
    }
}

impl<'h, T: Persist<At<'h> = T> + Marked<B>, B> Fifo<'h, T, B> {
    /// An empty queue for `capacity` elements. **Cost**: a number and space for each; no content.
    /// **Errors**: [`Error::Full`].
    pub fn alloc<R, S: Medium, P: Promise, Pol: Policy>(
        heap: &Heap<'h, R, S, P, Pol, B>,
        capacity: u16,
    ) -> Result<Self, Error<S::Error>> {
        Ok(Fifo {
            _b: PhantomData,
            ring: Run::reserve(heap, capacity)?,
            head: 0,
            len: 0,
        })
    }

    /// The number of elements.
    pub const fn len(&self) -> u16 {
        self.len
    }

    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most elements it can hold.
    pub const fn capacity(&self) -> u16 {
        self.ring.count()
    }

    fn place(&self, i: u16) -> u16 {
        let n = u32::from(self.ring.count()).max(1);
        ((u32::from(self.head) + u32::from(i)) % n) as u16
    }

    /// Adds an element at the end.
    ///
    /// **Power loss**: it is in the queue from the persist or commit on that saves the object with
    /// the queue. **Cost**: nothing is read; objects that must leave RAM are written back.
    /// **Errors**: [`Error::Full`] when the queue is full; as [`Heap::get_mut`]. The value is
    /// returned, and the queue is unchanged.
    pub fn push<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        value: T,
    ) -> Result<(), Rejected<T, S::Error>> {
        if self.len >= self.ring.count() {
            let error = Error::Full;
            return Err(Rejected { error, value });
        }
        let place = self.place(self.len);
        // SAFETY: invariant "Sole owner": the value is not used again after it belongs to the
        // object.
        match unsafe { self.ring.put_from(heap, place, &raw const value) } {
            Ok(()) => {
                self.len += 1;
                Ok(())
            }
            Err(error) => Err(Rejected { error, value }),
        }
    }

    /// Takes the oldest element; `None` when there is none.
    ///
    /// **Power loss**: it is out of the queue from the persist or commit on that saves the object
    /// with the queue. **Cost**: reads it unless it is resident. **Errors**: as [`Heap::get`]; the
    /// element stays in the queue. A damaged one can be [skipped](Fifo::skip).
    pub fn pop<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) -> Result<Option<T>, Error<S::Error>> {
        // SAFETY: invariant "Sole owner": a valid value; the queue drops its copy below.
        let copy = |v: &T| unsafe { core::ptr::from_ref(v).read() };
        let value = self.with(heap, 0, copy)?;
        if value.is_some() {
            self.skip(heap);
        }
        Ok(value)
    }

    /// Drops the oldest element, even if it is damaged. **Cost**: nothing is read or written.
    /// Objects that it owned are unreachable, and freed by the next open.
    pub fn skip<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) {
        if self.len > 0 {
            // A pinned element stays resident for a while, which does no harm.
            let _ = self.ring.forget(heap, self.head);
            self.head = self.place(1);
            self.len -= 1;
        }
    }

    /// Calls `f` with the `i`-th oldest element; `None` when there are fewer. **Cost**, **Errors**:
    /// as [`Heap::get`].
    pub fn with<R, S: Medium, P: Promise, Pol: Policy, O>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u16,
        f: impl FnOnce(&T) -> O,
    ) -> Result<Option<O>, Error<S::Error>> {
        if i >= self.len {
            return Ok(None);
        }
        match self.ring.get(heap, self.place(i)) {
            Some(held) => Ok(Some(f(&*held?))),
            None => Ok(None),
        }
    }

    /// Takes all elements out, and frees the objects that they own. A damaged element is skipped.
    ///
    /// **Power loss**: as [`Fifo::pop`]. **Cost**: reads elements that may own objects. **Errors**:
    /// as [`Heap::get`] and [`Heap::discard`]; the remaining elements stay in the queue.
    pub fn clear<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) -> Result<(), Error<S::Error>> {
        while self.len > 0 {
            if !T::HANDLES {
                self.skip(heap);
                continue;
            }
            match self.pop(heap) {
                Ok(Some(value)) => heap.discard(value)?,
                Ok(None) | Err(Error::Damaged { .. }) => self.skip(heap),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Frees the queue, its elements and the objects that they own. **Errors**: as [`Fifo::clear`]
    /// and [`Heap::free`], with the queue and its remaining elements; its capacity may be smaller.
    pub fn free<R, S: Medium, P: Promise, Pol: Policy>(
        mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) -> Result<(), Rejected<Self, S::Error>> {
        if let Err(error) = self.clear(heap) {
            return Err(Rejected { error, value: self });
        }
        self.ring
            .free_shallow(heap)
            .map_err(|(error, ring)| Rejected {
                error,
                value: Fifo {
                    _b: PhantomData,
                    ring,
                    head: 0,
                    len: 0,
                },
            })
    }
}

impl<'h, T: Plain + Marked<B>, B> Fifo<'h, T, B> {
    /// A copy of the `i`-th oldest element; `None` when there are fewer. **Cost**, **Errors**: as
    /// [`Heap::get`].
    pub fn get<R, S: Medium, P: Promise, Pol: Policy>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u16,
    ) -> Result<Option<T>, Error<S::Error>> {
        self.with(heap, i, crate::handle::copy)
    }
}
