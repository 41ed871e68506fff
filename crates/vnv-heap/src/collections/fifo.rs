//! A queue.
//!
//! ```text
//!        head            place(len)
//!         v                v
//!   [ . | 0 | 1 | 2 | 3 | . | . ]      push writes the next place without reading it
//!         pop: evicts without writing  an element that was taken out owns nothing any more
//! ```
//!
//! Why it is safe: `head` and `len` lie in the object that holds the queue, so they and the
//! elements are as of the same persist or commit. A place outside of them counts as bytes without
//! meaning, so no object has two owners.

use super::run::{Run, field};
use crate::HeapOf;
use crate::error::{Error, Rejected};
use crate::handle::{HeapHandles, Marked};
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::Visit;
use nvmem::{Invalid, Persist, Plain, planted};

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
    ring: Run<'h, T, B>,
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
            field("ring", 0, <Run<'static, T, B> as Persist>::LAYOUT),
            field("head", 4, u16::LAYOUT),
            field("len", 6, u16::LAYOUT),
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
        unsafe { <Run<'_, T, B>>::show(p, v, live) }
    }
}

impl<'h, T: Persist<At<'h> = T> + Marked<B>, B> Fifo<'h, T, B> {
    /// An empty queue for `capacity` elements. **Cost**: a number and space for each; no content.
    /// **Errors**: [`Error::Full`].
    pub fn alloc<H: HeapOf<'h, B>>(heap: &H, capacity: u16) -> Result<Self, Error<H::Error>> {
        Ok(Fifo {
            ring: heap.unrooted().reserve_run(capacity)?,
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

    /// Whether [`push`](Fifo::push) answers [`Error::Full`] because each place holds an element.
    pub const fn is_full(&self) -> bool {
        self.len >= self.ring.count()
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
    /// **Errors**: [`Error::Full`] when the queue [is full](Fifo::is_full); as
    /// [`Heap::get_mut`](crate::Heap::get_mut). The value is returned, and the queue is unchanged.
    pub fn push<H: HeapOf<'h, B>>(
        &mut self,
        heap: &H,
        value: T,
    ) -> Result<(), Rejected<T, H::Error>> {
        if self.is_full() {
            let error = Error::Full;
            return Err(Rejected { error, value });
        }
        let place = self.place(self.len);
        // SAFETY: invariant "A kind is its type", "Sole owner": a `T`, which is not used again
        // after it belongs to the object.
        match unsafe {
            heap.unrooted()
                .put_chunk(&self.ring, place, &raw const value)
        } {
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
    /// with the queue. **Cost**: reads it unless it is resident. **Errors**: as
    /// [`Heap::get`](crate::Heap::get); the element stays in the queue. A damaged one can be
    /// [skipped](Fifo::skip).
    pub fn pop<H: HeapOf<'h, B>>(&mut self, heap: &H) -> Result<Option<T>, Error<H::Error>> {
        // SAFETY: invariant "Sole owner": a valid value. The queue drops its own below; if a driver
        // panics there, the copy is lost.
        let copy = |v: &T| unsafe { core::ptr::from_ref(v).read() };
        let value = self.with(heap, 0, copy)?;
        if value.is_some() {
            self.skip(heap);
        }
        Ok(value)
    }

    /// Drops the oldest element, even if it is damaged; this cannot fail. Objects that it owned are
    /// unreachable, and the next open frees them. **Cost**: none; with the snapshot promise it
    /// writes 2 bytes and reads 12 if the element was changed and not written yet.
    pub fn skip<H: HeapOf<'h, B>>(&mut self, heap: &H) {
        if self.len > 0 {
            heap.unrooted().forget_chunk(&self.ring, self.head);
            self.head = self.place(1);
            self.len -= 1;
        }
    }

    /// Calls `f` with the `i`-th oldest element; `None` when there are fewer. **Cost**, **Errors**:
    /// as [`Heap::get`](crate::Heap::get).
    pub fn with<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        i: u16,
        f: impl FnOnce(&T) -> O,
    ) -> Result<Option<O>, Error<H::Error>> {
        if i >= self.len {
            return Ok(None);
        }
        let held = heap.unrooted().chunk(&self.ring, self.place(i))?;
        Ok(held.map(|element| f(&*element)))
    }

    /// Takes all elements out, and frees the objects that they own. A damaged element is skipped.
    ///
    /// **Power loss**: as [`Fifo::pop`]. **Cost**: reads elements that may own objects. **Errors**:
    /// as [`Heap::get`](crate::Heap::get) and [`Heap::discard`](crate::Heap::discard); the
    /// remaining elements stay in the queue.
    pub fn clear<H: HeapOf<'h, B>>(&mut self, heap: &H) -> Result<(), Error<H::Error>> {
        while self.len > 0 {
            if !T::HANDLES {
                self.skip(heap);
                continue;
            }
            match self.pop(heap) {
                Ok(Some(value)) => heap.unrooted().discard(value)?,
                Ok(None) | Err(Error::Damaged { .. }) => self.skip(heap),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl<'h, T: Plain + Marked<B>, B> Fifo<'h, T, B> {
    /// A copy of the `i`-th oldest element; `None` when there are fewer. **Cost**, **Errors**: as
    /// [`Heap::get`](crate::Heap::get).
    pub fn get<H: HeapOf<'h, B>>(&self, heap: &H, i: u16) -> Result<Option<T>, Error<H::Error>> {
        self.with(heap, i, crate::handle::copy)
    }
}
