//! A vector that grows, and its chunks of places.
//!
//! ```text
//!  segment 0   [c0]                      a segment has one chunk more than all before it together;
//!  segment 1   [c1][c2]                  nothing moves when the vector grows
//!  segment 2   [c3][c4][c5][c6]
//!
//!  chunk = Places   [ T | T | 0 0 0 | 0 0 0 ]     zero bytes: an empty place, which owns nothing
//! ```

use super::array::place;
use super::run::{Run, field};
use crate::HeapOf;
use crate::error::{Error, Rejected};
use crate::handle::{HeapHandles, Marked};
use core::mem::MaybeUninit;
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::{HandleKind, Visit};
use nvmem::{Invalid, Persist, Plain, planted};

/// Segments of 1, 2, 4, … chunks.
const SEGMENTS: usize = 12;

/// A vector with `PER` elements in each chunk: 52 bytes. It holds up to 4,095 chunks. An element
/// may own objects.
///
/// It grows by a segment that has one chunk more than all earlier segments together; nothing is
/// moved. [`Vector::new`] makes an empty one.
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(C)]
pub struct Vector<'h, T, const PER: usize, B = ()> {
    segments: [Run<'h, Places<T, PER>, B>; SEGMENTS],
    len: u32,
}

// SAFETY: invariant "Sole owner": runs of 4 bytes and a number, without padding; the runs show
// their handles.
unsafe impl<T: Persist, const PER: usize, B> Persist for Vector<'_, T, PER, B> {
    type At<'p> = Vector<'p, T::At<'p>, PER, B>;
    type HandleTargets = HeapHandles<HandleTo<[T; PER]>, B>;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Vector",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[PER as u128],
        members: &[
            field(
                "segments",
                0,
                <[Run<'static, Places<T, PER>, B>; SEGMENTS] as Persist>::LAYOUT,
            ),
            field("len", 4 * SEGMENTS, u32::LAYOUT),
        ],
    };
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": the number behind the runs, aligned.
        let len = unsafe { p.add(4 * SEGMENTS).cast::<u32>().read() };
        let chunks = len.div_ceil(PER.max(1) as u32);
        for k in 0..SEGMENTS {
            // Chunks behind the last element have no valid content.
            let live = |i: u16| u32::from(i) + (1 << k) - 1 < chunks;
            // SAFETY: invariant "Checked before it is a value": run `k`; as the caller vouches.
            unsafe { <Run<'_, Places<T, PER>, B>>::show(p.add(4 * k), v, live)? }
        }
        Ok(())
    }
}

const _: () = assert!(size_of::<Vector<'static, u8, 1>>() == 4 * SEGMENTS + 4);

/// The segment of a chunk, and its index there.
fn segment(chunk: u16) -> (usize, u16) {
    let n = u32::from(chunk) + 1;
    let k = n.ilog2();
    (k as usize, (n - (1 << k)) as u16)
}

impl<T, const PER: usize, B> Default for Vector<'_, T, PER, B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const PER: usize, B> Vector<'_, T, PER, B> {
    /// An empty vector without segments.
    pub const fn new() -> Self {
        Vector {
            segments: [const { Run::EMPTY }; SEGMENTS],
            len: 0,
        }
    }

    /// The number of elements.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<'h, T: Persist<At<'h> = T> + Marked<B>, const PER: usize, B> Vector<'h, T, PER, B> {
    /// Adds an element at the end.
    ///
    /// **Power loss**: it counts from the persist or commit on that saves the object with the
    /// vector. **Cost**: the first element of a chunk is written without a read; the first of a
    /// segment allocates it. **Errors**: [`Error::Full`]; as
    /// [`Heap::get_mut`](crate::Heap::get_mut). The value is returned, and the vector is unchanged.
    pub fn push<H: HeapOf<'h, B>>(
        &mut self,
        heap: &H,
        value: T,
    ) -> Result<(), Rejected<T, H::Error>> {
        let (heap, refused) = (heap.unrooted(), |error, value| {
            Err(Rejected { error, value })
        });
        let (chunk, at) = place::<PER>(self.len);
        let (k, i) = segment(chunk);
        let Some(run) = self.segments.get_mut(k) else {
            return refused(Error::Full, value);
        };
        if run.count() == 0 {
            match heap.reserve_run(1 << k) {
                Ok(new) => *run = new,
                Err(error) => return refused(error, value),
            }
        }
        if i >= run.count() {
            // A `free` that failed left a shorter segment.
            return refused(Error::Full, value);
        }
        if at == 0 {
            let mut places = MaybeUninit::uninit();
            let new = Places::<T, PER>::empty_in(&mut places);
            // SAFETY: invariant "Sole owner": a valid value. The copy counts when the chunk does,
            // and then the value is not used again.
            new.put(0, unsafe { core::ptr::from_ref(&value).read() });
            // SAFETY: invariant "A kind is its type", "Sole owner": initialised places, one of them
            // with the copy.
            if let Err(error) = unsafe { heap.put_chunk(run, i, new) } {
                return refused(error, value);
            }
        } else {
            match heap.chunk_mut(run, i) {
                Ok(Some(mut places)) => {
                    places.put(at, value);
                }
                Ok(None) => return refused(Error::Full, value),
                Err(error) => return refused(error, value),
            }
        }
        self.len += 1;
        Ok(())
    }

    /// Takes the last element; `None` when there is none. Its space stays allocated until
    /// [`Vector::clear`].
    ///
    /// **Power loss**: it is gone from the persist or commit on that saves the object with the
    /// vector. **Cost**, **Errors**: as [`Heap::get`](crate::Heap::get), and as
    /// [`Heap::get_mut`](crate::Heap::get_mut) when it may own objects; the vector is unchanged
    /// then.
    pub fn pop<H: HeapOf<'h, B>>(&mut self, heap: &H) -> Result<Option<T>, Error<H::Error>> {
        let Some(last) = self.len.checked_sub(1) else {
            return Ok(None);
        };
        let (chunk, at) = place::<PER>(last);
        let value = if T::HANDLES && at > 0 {
            self.held_mut(heap, last, |places| places.take(at))?
        } else {
            // SAFETY: invariant "Sole owner": a valid value. Either it owns nothing, or it was the
            // last element of a chunk that is not used any more.
            let copy = |v: &T| unsafe { core::ptr::from_ref(v).read() };
            self.held(heap, last, |places| places.get(at).map(copy))?
        };
        self.len = last;
        if at == 0 {
            let (k, i) = segment(chunk);
            if let Some(run) = self.segments.get(k) {
                // The chunk is not used any more.
                heap.unrooted().forget_chunk(run, i);
            }
        }
        Ok(Some(value))
    }

    /// Calls `f` with an element; `None` when the index is out of range. **Cost**, **Errors**: as
    /// [`Heap::get`](crate::Heap::get).
    pub fn with<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        i: u32,
        f: impl FnOnce(&T) -> O,
    ) -> Result<Option<O>, Error<H::Error>> {
        if i >= self.len {
            return Ok(None);
        }
        let (_, at) = place::<PER>(i);
        self.held(heap, i, |places| places.get(at).map(f)).map(Some)
    }

    /// Calls `f` with an element, which it may change; `None` when the index is out of range.
    /// **Cost**, **Errors**: as [`Heap::get_mut`](crate::Heap::get_mut).
    pub fn update<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        i: u32,
        f: impl FnOnce(&mut T) -> O,
    ) -> Result<Option<O>, Error<H::Error>> {
        if i >= self.len {
            return Ok(None);
        }
        let (_, at) = place::<PER>(i);
        self.held_mut(heap, i, |places| places.update(at, f))
            .map(Some)
    }

    /// Calls `f` with the chunk of element `i`.
    fn held<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        i: u32,
        f: impl FnOnce(&Places<T, PER>) -> Option<O>,
    ) -> Result<O, Error<H::Error>> {
        let (k, i) = segment(place::<PER>(i).0);
        let run = self.segments.get(k).ok_or(Error::Full)?;
        let held = heap.unrooted().chunk(run, i)?.ok_or(Error::Full)?;
        let object = run.id(i).unwrap_or(0);
        f(&held).ok_or(Error::Damaged { object })
    }

    /// The same, to be changed.
    fn held_mut<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        i: u32,
        f: impl FnOnce(&mut Places<T, PER>) -> Option<O>,
    ) -> Result<O, Error<H::Error>> {
        let (k, i) = segment(place::<PER>(i).0);
        let run = self.segments.get(k).ok_or(Error::Full)?;
        let held = heap.unrooted().chunk_mut(run, i)?;
        let mut held = held.ok_or(Error::Full)?;
        let object = run.id(i).unwrap_or(0);
        f(&mut held).ok_or(Error::Damaged { object })
    }

    /// Frees all elements, the objects that they own, and the space. Same as
    /// [`Heap::discard`](crate::Heap::discard) of the vector, which is empty afterwards.
    ///
    /// **Power loss**, **Cost**, **Errors**: as there.
    pub fn clear<H: HeapOf<'h, B>>(&mut self, heap: &H) -> Result<(), Error<H::Error>> {
        heap.unrooted().discard(core::mem::take(self))
    }
}

impl<'h, T: Plain + Marked<B>, const PER: usize, B> Vector<'h, T, PER, B> {
    /// A copy of an element; `None` when the index is out of range. **Cost**, **Errors**: as
    /// [`Heap::get`](crate::Heap::get).
    pub fn get<H: HeapOf<'h, B>>(&self, heap: &H, i: u32) -> Result<Option<T>, Error<H::Error>> {
        self.with(heap, i, crate::handle::copy)
    }

    /// Changes an element; false when the index is out of range. **Cost**, **Errors**: as
    /// [`Heap::get_mut`](crate::Heap::get_mut).
    pub fn set<H: HeapOf<'h, B>>(
        &self,
        heap: &H,
        i: u32,
        value: T,
    ) -> Result<bool, Error<H::Error>> {
        Ok(self.update(heap, i, |v| *v = value)?.is_some())
    }
}

// INVARIANT "A place is zero or a value": each place of a vector's chunk is all zero, or holds a
// value with its padding cleared: `Places`.
// Noticed by: `an_empty_place_has_no_element` in this file; planted `popped-is-kept`.
/// All bytes are initialised. A place is all zero, and then owns nothing; or it holds a `T` with
/// its padding cleared.
#[repr(transparent)]
struct Places<T, const PER: usize>([MaybeUninit<T>; PER]);

/// Accepts every handle that is not 0.
struct NotNull;
impl Visit for NotNull {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        match value {
            0 => Err(Invalid::Handle(found.family)),
            _ => Ok(()),
        }
    }
}

fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == 0)
}

// SAFETY: invariant "A place is zero or a value": as an array of `T`, but for places of zero bytes,
// which hold no handle; there is no padding, as it is always cleared.
unsafe impl<T: Persist, const PER: usize> Persist for Places<T, PER> {
    type At<'p> = Places<T::At<'p>, PER>;
    const HANDLES: bool = PER > 0 && T::HANDLES;
    type HandleTargets = T::HandleTargets;
    const LAYOUT: &'static Type = <[T; PER]>::LAYOUT;
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        for i in 0..PER {
            // SAFETY: invariant "A place is zero or a value": place `i` of the chunk that the
            // caller vouches for; all its bytes are initialised.
            let (place, bytes) = unsafe {
                let p = p.add(i * size_of::<T>());
                (p, core::slice::from_raw_parts(p, size_of::<T>()))
            };
            // The first handle of an empty place is refused before it is counted anywhere.
            // SAFETY: invariant "Checked before it is a value": the bytes of the same place.
            match unsafe { T::check(place, v) } {
                Err(e) if !all_zero(bytes) => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

impl<T: Persist, const PER: usize> Places<T, PER> {
    /// Empty places, written in the given memory and not moved: a move need not preserve padding.
    fn empty_in(place: &mut MaybeUninit<Self>) -> &mut Self {
        // SAFETY: invariant "A place is zero or a value": zeros are empty places.
        unsafe {
            place.as_mut_ptr().write_bytes(0, 1);
            place.assume_init_mut()
        }
    }

    /// The element of a place, if it has one.
    fn get(&self, at: usize) -> Option<&T> {
        let place = self.0.get(at)?.as_ptr();
        // SAFETY: invariant "A place is zero or a value": inside of the chunk, whose bytes are
        // initialised; what the check accepts is a `T`.
        unsafe {
            T::check(place.cast(), &mut NotNull).ok()?;
            Some(&*place)
        }
    }

    /// Calls `f` with the element of a place, which it may change; `None` when it has none.
    fn update<O>(&mut self, at: usize, f: impl FnOnce(&mut T) -> O) -> Option<O> {
        struct Cleared<'a, T: Persist>(&'a mut T);
        impl<T: Persist> Drop for Cleared<'_, T> {
            fn drop(&mut self) {
                // SAFETY: invariant "A place is zero or a value": a value that is borrowed.
                unsafe { T::clear_padding(core::ptr::from_mut::<T>(self.0).cast()) }
            }
        }
        let place = self.0.get_mut(at)?.as_mut_ptr();
        // SAFETY: invariant "A place is zero or a value": as in `get`.
        let element = unsafe {
            T::check(place.cast(), &mut NotNull).ok()?;
            Cleared(&mut *place)
        };
        Some(f(element.0))
    }

    /// Stores an element in a place. False when the index is out of range.
    fn put(&mut self, at: usize, value: T) -> bool {
        let Some(place) = self.0.get_mut(at) else {
            return false;
        };
        // SAFETY: invariant "A place is zero or a value": a value that has just been written;
        // afterwards all its bytes are initialised.
        unsafe { T::clear_padding(core::ptr::from_mut(place.write(value)).cast()) }
        true
    }

    /// Takes the element out of a place.
    fn take(&mut self, at: usize) -> Option<T> {
        // SAFETY: invariant "Sole owner": a valid value; its place is emptied below, so no second
        // one remains.
        let value = unsafe { core::ptr::from_ref(self.get(at)?).read() };
        if planted!("vnv-heap/popped-is-kept") {
            return Some(value);
        }
        if let Some(place) = self.0.get_mut(at) {
            // SAFETY: invariant "A place is zero or a value": zeros are an empty place.
            unsafe { place.as_mut_ptr().write_bytes(0, 1) }
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU16;

    /// A place without an element has no value, for any image.
    #[test]
    fn an_empty_place_has_no_element() {
        let mut place = MaybeUninit::uninit();
        let places = Places::<NonZeroU16, 2>::empty_in(&mut place);
        let seven = NonZeroU16::MIN.saturating_add(6);
        assert!(places.put(1, seven) && !places.put(2, seven));
        assert_eq!((places.get(0), places.get(1)), (None, Some(&seven)));
        assert_eq!(places.update(0, |_| ()), None);
        let doubled = places.update(1, |n| core::mem::replace(n, n.saturating_mul(*n)));
        assert_eq!(doubled, Some(seven));
        assert_eq!(places.take(1).map(u16::from), Some(49));
        assert_eq!(places.get(1), None);
        assert_eq!(places.take(1), None);
    }
}
