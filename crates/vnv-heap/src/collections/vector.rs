//! A vector that grows.

use super::Run;
use super::chunked::place;
use crate::Heap;
use crate::error::{Error, Refused};
use crate::policy::Policy;
use crate::promise::Promise;
use nvmem::describe::{Part, To, Type};
use nvmem::persist::Visit;
use nvmem::{Invalid, Medium, Persist, Plain};

/// Segments of 1, 2, 4, … chunks.
const SEGMENTS: usize = 12;

/// A vector, `PER` elements in each chunk: 52 bytes. It holds up to 4,095 chunks.
///
/// It grows by a segment that has as many chunks as all before it and one more; nothing is moved. It is empty by [`Vector::new`].
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(C)]
pub struct Vector<'h, T, const PER: usize> {
    segments: [Run<'h, [T; PER]>; SEGMENTS],
    len: u32,
}

// SAFETY: runs of 4 bytes and a number, without padding; the runs show their handles.
unsafe impl<T: Persist, const PER: usize> Persist for Vector<'_, T, PER> {
    type At<'p> = Vector<'p, T::At<'p>, PER>;
    type Leads = To<[T; PER]>;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Vector",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[PER as u128],
        parts: &[
            Part::Field {
                name: "segments",
                offset: 0,
                of: <[Run<'static, [T; PER]>; SEGMENTS] as Persist>::LAYOUT,
            },
            Part::Field {
                name: "len",
                offset: 4 * SEGMENTS,
                of: u32::LAYOUT,
            },
        ],
    };
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: the runs are the first field; as the caller vouches.
        unsafe { <[Run<'_, [T; PER]>; SEGMENTS]>::check(p, v) }
    }
}

const _: () = assert!(size_of::<Vector<'static, u8, 1>>() == 4 * SEGMENTS + 4);

/// The segment of a chunk, and its place there.
fn segment(chunk: u16) -> (usize, u16) {
    let n = u32::from(chunk) + 1;
    let k = n.ilog2();
    (k as usize, (n - (1 << k)) as u16)
}

impl<T, const PER: usize> Default for Vector<'_, T, PER> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const PER: usize> Vector<'_, T, PER> {
    /// Without elements and without room.
    pub const fn new() -> Self {
        Vector {
            segments: [const { Run::EMPTY }; SEGMENTS],
            len: 0,
        }
    }

    /// How many elements are in it.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<'h, T: Plain + Copy, const PER: usize> Vector<'h, T, PER> {
    /// Adds an element at the end.
    ///
    /// **Power loss**: it is there from the persist or commit on that saves the object in which the vector lies. **Cost**: the first of a chunk is written
    /// without a load; the first of a segment allocates it. **Errors**: [`Error::Full`]; as [`Heap::get_mut`]. The vector is as it was.
    pub fn push<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol>,
        value: T,
    ) -> Result<(), Error<S::Error>> {
        let (chunk, at) = place::<PER>(self.len);
        let (k, i) = segment(chunk);
        let run = self.segments.get_mut(k).ok_or(Error::Full)?;
        if run.count() == 0 {
            *run = Run::reserve(heap, 1 << k)?;
        } else if run.count() < 1 << k {
            // Left by a `free` that failed.
            return Err(Error::Full);
        }
        if at == 0 {
            run.put(heap, i, [value; PER])?;
        } else if let Some(held) = run.get_mut(heap, i)
            && let Some(v) = held?.get_mut(at)
        {
            *v = value;
        }
        self.len += 1;
        Ok(())
    }

    /// Takes the last element; `None` when there is none. Room is kept: [`Vector::free`] gives it back.
    ///
    /// **Errors**: as [`Heap::get`]; the vector is as it was.
    pub fn pop<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol>,
    ) -> Result<Option<T>, Error<S::Error>> {
        let Some(last) = self.len.checked_sub(1) else {
            return Ok(None);
        };
        let value = self.get(heap, last)?;
        self.len = last;
        let (chunk, at) = place::<PER>(last);
        if at == 0 {
            let (k, i) = segment(chunk);
            if let Some(run) = self.segments.get(k) {
                // Nothing of it counts any more.
                let _ = run.forget(heap, i);
            }
        }
        Ok(value)
    }

    /// An element; `None` when there is none of this number. **Cost**, **Errors**: as [`Heap::get`].
    pub fn get<R, S: Medium, P: Promise, Pol: Policy>(
        &self,
        heap: &Heap<'h, R, S, P, Pol>,
        i: u32,
    ) -> Result<Option<T>, Error<S::Error>> {
        if i >= self.len {
            return Ok(None);
        }
        let (chunk, at) = place::<PER>(i);
        let (k, i) = segment(chunk);
        match self.segments.get(k).and_then(|run| run.get(heap, i)) {
            Some(held) => Ok(held?.get(at).copied()),
            None => Ok(None),
        }
    }

    /// Changes an element; false when there is none of this number. **Cost**, **Errors**: as [`Heap::get_mut`].
    pub fn set<R, S: Medium, P: Promise, Pol: Policy>(
        &self,
        heap: &Heap<'h, R, S, P, Pol>,
        i: u32,
        value: T,
    ) -> Result<bool, Error<S::Error>> {
        if i >= self.len {
            return Ok(false);
        }
        let (chunk, at) = place::<PER>(i);
        let (k, i) = segment(chunk);
        let Some(held) = self.segments.get(k).and_then(|run| run.get_mut(heap, i)) else {
            return Ok(false);
        };
        if let Some(v) = held?.get_mut(at) {
            *v = value;
        }
        Ok(true)
    }

    /// Frees all of it. **Errors**: as [`Heap::free`], with what is left, without elements.
    pub fn free<R, S: Medium, P: Promise, Pol: Policy>(
        mut self,
        heap: &Heap<'h, R, S, P, Pol>,
    ) -> Result<(), Refused<Self, S::Error>> {
        self.len = 0;
        for k in (0..SEGMENTS).rev() {
            let run = self.segments.get_mut(k).map_or(Run::EMPTY, Run::take);
            if let Err((error, rest)) = run.free(heap) {
                // A segment that lost chunks is not used again: it is what a later `free` takes up.
                if let Some(place) = self.segments.get_mut(k) {
                    *place = rest;
                }
                return Err(Refused { error, value: self });
            }
        }
        Ok(())
    }
}
