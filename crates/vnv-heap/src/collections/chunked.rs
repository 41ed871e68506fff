//! An array in chunks.

use super::Run;
use crate::Heap;
use crate::error::{Error, Rejected};
use crate::guard::{Ref, RefMut};
use crate::object::{HeapHandles, Marked};
use crate::policy::Policy;
use crate::promise::Promise;
use core::marker::PhantomData;
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::Visit;
use nvmem::{Invalid, Medium, Persist, Plain};

/// An array whose length is set when it is made, with `PER` elements in each chunk: 4 bytes.
///
/// Chunks are paged in and written back separately: choose `PER` so that one has 32 to 256 bytes.
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(transparent)]
pub struct Chunked<'h, T, const PER: usize, B = ()>(Run<'h, [T; PER]>, PhantomData<fn(B) -> B>);

// SAFETY: a transparent `Run`.
unsafe impl<T: Persist, const PER: usize, B> Persist for Chunked<'_, T, PER, B> {
    type At<'p> = Chunked<'p, T::At<'p>, PER, B>;
    type HandleTargets = HeapHandles<HandleTo<[T; PER]>, B>;
    const LAYOUT: &'static Type = <Run<'static, [T; PER]> as Persist>::LAYOUT;
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: as the caller vouches.
        unsafe { <Run<'_, [T; PER]>>::check(p, v) }
    }
}

impl<'h, T: Persist<At<'h> = T> + Marked<B>, const PER: usize, B> Chunked<'h, T, PER, B> {
    /// Makes `chunks` chunks by calling `make`.
    ///
    /// **Cost**: number, space and content of each. **Errors**: those of [`Heap::alloc`] and of
    /// `make`; nothing stays allocated then.
    pub fn alloc<R, S: Medium, P: Promise, Pol: Policy>(
        heap: &Heap<'h, R, S, P, Pol, B>,
        chunks: u16,
        make: impl FnMut(u16) -> Result<[T; PER], Error<S::Error>>,
    ) -> Result<Self, Error<S::Error>> {
        Run::alloc(heap, chunks, make).map(|run| Chunked(run, PhantomData))
    }

    /// The number of chunks.
    pub const fn chunks(&self) -> u16 {
        self.0.count()
    }

    /// The number of elements.
    pub const fn len(&self) -> u32 {
        self.0.count() as u32 * PER as u32
    }

    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pins a chunk for reading. `None` when the index is out of range. **Cost**, **Errors**: as
    /// [`Heap::get`].
    pub fn chunk<'a, R, S: Medium, P: Promise, Pol: Policy>(
        &self,
        heap: &'a Heap<'h, R, S, P, Pol, B>,
        chunk: u16,
    ) -> Option<Result<Ref<'a, [T; PER], S, P, Pol>, Error<S::Error>>> {
        self.0.get(heap, chunk)
    }

    /// Pins a chunk for writing. `None` when the index is out of range. **Cost**, **Errors**: as
    /// [`Heap::get_mut`].
    pub fn chunk_mut<'a, R, S: Medium, P: Promise, Pol: Policy>(
        &self,
        heap: &'a Heap<'h, R, S, P, Pol, B>,
        chunk: u16,
    ) -> Option<Result<RefMut<'a, [T; PER], S, P, Pol>, Error<S::Error>>> {
        self.0.get_mut(heap, chunk)
    }

    /// Calls `f` with an element. `None` when the index is out of range.
    pub fn with<R, S: Medium, P: Promise, Pol: Policy, O>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u32,
        f: impl FnOnce(&T) -> O,
    ) -> Result<Option<O>, Error<S::Error>> {
        let (chunk, at) = place::<PER>(i);
        match self.0.get(heap, chunk) {
            Some(held) => Ok(held?.get(at).map(f)),
            None => Ok(None),
        }
    }

    /// Calls `f` with an element, which it may change. `None` when the index is out of range.
    pub fn update<R, S: Medium, P: Promise, Pol: Policy, O>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u32,
        f: impl FnOnce(&mut T) -> O,
    ) -> Result<Option<O>, Error<S::Error>> {
        let (chunk, at) = place::<PER>(i);
        match self.0.get_mut(heap, chunk) {
            Some(held) => Ok(held?.get_mut(at).map(f)),
            None => Ok(None),
        }
    }

    /// Frees all chunks and the objects that elements own. **Errors**: as [`Heap::free`], with the
    /// remaining chunks.
    pub fn free<R, S: Medium, P: Promise, Pol: Policy>(
        self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) -> Result<(), Rejected<Self, S::Error>> {
        self.0.free(heap).map_err(|(error, rest)| Rejected {
            error,
            value: Chunked(rest, PhantomData),
        })
    }
}

impl<'h, T: Plain + Copy + Marked<B>, const PER: usize, B> Chunked<'h, T, PER, B> {
    /// A copy of an element. `None` when the index is out of range.
    pub fn get<R, S: Medium, P: Promise, Pol: Policy>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u32,
    ) -> Result<Option<T>, Error<S::Error>> {
        self.with(heap, i, |v| *v)
    }

    /// Changes an element. False when the index is out of range.
    pub fn set<R, S: Medium, P: Promise, Pol: Policy>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        i: u32,
        value: T,
    ) -> Result<bool, Error<S::Error>> {
        Ok(self.update(heap, i, |v| *v = value)?.is_some())
    }
}

/// The chunk of an element, and its index there.
pub(super) fn place<const PER: usize>(i: u32) -> (u16, usize) {
    const { assert!(PER > 0, "a chunk has at least one element") };
    let chunk = u16::try_from(i / PER as u32).unwrap_or(u16::MAX);
    (chunk, i as usize % PER)
}
