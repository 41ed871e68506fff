//! A queue.

use super::Run;
use crate::Heap;
use crate::error::{Error, Rejected};
use crate::object::{HeapHandles, Marked};
use crate::policy::Policy;
use crate::promise::Promise;
use core::marker::PhantomData;
use nvmem::describe::{Part, To, Type};
use nvmem::persist::Visit;
use nvmem::{Invalid, Medium, Persist, Plain, planted};

/// A queue of at most so many elements as it was made for, in a ring: 8 bytes, and an object for each element.
///
/// An element may own what it likes, as `Fifo<Own<Packet>>` does: it is in the queue, and then the caller's again.
///
/// What is put in replaces what was there without loading it, and what is taken leaves RAM without being written. So a queue that
/// fits into the RAM makes no traffic on the medium but what a persist or a commit writes.
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(C)]
pub struct Fifo<'h, T, B = ()> {
    ring: Run<'h, T>,
    _b: PhantomData<fn(B) -> B>,
    head: u16,
    len: u16,
}

// SAFETY: a run and two numbers, without padding; the run shows its handles.
unsafe impl<T: Persist, B> Persist for Fifo<'_, T, B> {
    type At<'p> = Fifo<'p, T::At<'p>, B>;
    type Leads = HeapHandles<To<T>, B>;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Fifo",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[],
        parts: &[
            Part::Field {
                name: "ring",
                offset: 0,
                of: <Run<'static, T> as Persist>::LAYOUT,
            },
            Part::Field {
                name: "head",
                offset: 4,
                of: u16::LAYOUT,
            },
            Part::Field {
                name: "len",
                offset: 6,
                of: u16::LAYOUT,
            },
        ],
    };
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: the numbers behind the base, aligned.
        let [count, head, len] = [1, 2, 3].map(|i| unsafe { p.cast::<u16>().add(i).read() });
        if len > count || (head >= count && count > 0) {
            return Err(Invalid::Bits("Fifo"));
        }
        // What was taken out still lies there, and owns nothing.
        let live = |i: u16| {
            let behind = if i >= head {
                i - head
            } else {
                i + (count - head)
            };
            behind < len || planted!("vnv-heap/taken-still-owns")
        };
        // SAFETY: the run is the first field; as the caller vouches.
        unsafe { <Run<'_, T>>::show(p, v, live) }
    }
}

impl<'h, T: Persist<At<'h> = T> + Marked<B>, B> Fifo<'h, T, B> {
    /// An empty queue for `capacity` elements. **Cost**: a number and room for each; no content. **Errors**: [`Error::Full`].
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

    /// How many elements are in it.
    pub const fn len(&self) -> u16 {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many it has room for.
    pub const fn capacity(&self) -> u16 {
        self.ring.count()
    }

    fn place(&self, i: u16) -> u16 {
        let n = u32::from(self.ring.count()).max(1);
        ((u32::from(self.head) + u32::from(i)) % n) as u16
    }

    /// Puts an element in.
    ///
    /// **Power loss**: it is in the queue from the persist or commit on that saves the object in which the queue lies. **Cost**: nothing is read; what must
    /// leave RAM is written. **Errors**: [`Error::Full`] when the queue is; as [`Heap::get_mut`]. The value is back, the queue as it was.
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
        // SAFETY: it is not used again when it has become the object's.
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
    /// **Power loss**: it is gone from the persist or commit on that saves the object in which the queue lies. **Cost**: reads it unless it is in
    /// RAM. **Errors**: as [`Heap::get`]; the element is still in the queue. A damaged one can be [skipped](Fifo::skip).
    pub fn pop<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) -> Result<Option<T>, Error<S::Error>> {
        // SAFETY: a valid value, of which none is left in the queue.
        let copy = |v: &T| unsafe { core::ptr::from_ref(v).read() };
        let value = self.with(heap, 0, copy)?;
        if value.is_some() {
            self.skip(heap);
        }
        Ok(value)
    }

    /// Drops the oldest element, whatever it is. **Cost**: nothing is read or written; what it owned is unreachable, and freed by the next open.
    pub fn skip<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) {
        if self.len > 0 {
            // While somebody holds it, it stays in RAM for a while longer, and no harm is done.
            let _ = self.ring.forget(heap, self.head);
            self.head = self.place(1);
            self.len -= 1;
        }
    }

    /// What `f` makes of the `i`-th oldest element; `None` when there are not so many. **Cost**, **Errors**: as [`Heap::get`].
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

    /// Takes all elements out, and frees what they own; a damaged one is skipped.
    ///
    /// **Power loss**: as [`Fifo::pop`]. **Cost**: loads those that may own something. **Errors**: as [`Heap::get`] and
    /// [`Heap::discard`]; the elements that are left are still in the queue.
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

    /// Frees it with all elements and what they own. **Errors**: as [`Fifo::clear`] and [`Heap::free`], with the queue and what is left in it; it may be smaller.
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
    /// A copy of the `i`-th oldest element; `None` when there are not so many. **Cost**, **Errors**: as [`Heap::get`].
    pub fn get<R, S: Medium, P: Promise, Pol: Policy>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u16,
    ) -> Result<Option<T>, Error<S::Error>> {
        self.with(heap, i, crate::fields::copy)
    }
}
