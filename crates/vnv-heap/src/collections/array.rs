//! Arrays of a fixed length.

use super::run::Run;
use crate::HeapOf;
use crate::error::Error;
use crate::handle::{HeapHandles, Marked, Ref, RefMut};
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::Visit;
use nvmem::{Invalid, Persist, Plain};

/// An array whose length is set when it is made, with `PER` elements in each chunk: 4 bytes.
///
/// Chunks are paged in and written back separately: choose `PER` so that one has 32 to 256 bytes.
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(transparent)]
pub struct Chunked<'h, T, const PER: usize, B = ()>(Run<'h, [T; PER], B>);

// SAFETY: invariant "Sole owner": a transparent `Run`.
unsafe impl<T: Persist, const PER: usize, B> Persist for Chunked<'_, T, PER, B> {
    type At<'p> = Chunked<'p, T::At<'p>, PER, B>;
    type HandleTargets = HeapHandles<HandleTo<[T; PER]>, B>;
    const LAYOUT: &'static Type = <Run<'static, [T; PER], B> as Persist>::LAYOUT;
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": as the caller vouches.
        unsafe { <Run<'_, [T; PER], B>>::check(p, v) }
    }
}

impl<'h, T: Persist<At<'h> = T> + Marked<B>, const PER: usize, B> Chunked<'h, T, PER, B> {
    /// Makes `chunks` chunks by calling `make`.
    ///
    /// **Cost**: number, space and content of each. **Errors**: those of
    /// [`Heap::alloc`](crate::Heap::alloc) and of `make`; nothing stays allocated then.
    pub fn alloc<H: HeapOf<'h, B>>(
        heap: &H,
        chunks: u16,
        make: impl FnMut(u16) -> Result<[T; PER], Error<H::Error>>,
    ) -> Result<Self, Error<H::Error>> {
        heap.unrooted().alloc_run(chunks, make).map(Chunked)
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
    /// [`Heap::get`](crate::Heap::get).
    pub fn chunk<'a, H: HeapOf<'h, B>>(
        &self,
        heap: &'a H,
        chunk: u16,
    ) -> Result<Option<Ref<'a, [T; PER], H::Medium, H::Promise, H::Policy>>, Error<H::Error>>
    where
        'h: 'a,
        B: 'a,
    {
        heap.unrooted().chunk(&self.0, chunk)
    }

    /// Pins a chunk for writing. `None` when the index is out of range. **Cost**, **Errors**: as
    /// [`Heap::get_mut`](crate::Heap::get_mut).
    pub fn chunk_mut<'a, H: HeapOf<'h, B>>(
        &self,
        heap: &'a H,
        chunk: u16,
    ) -> Result<Option<RefMut<'a, [T; PER], H::Medium, H::Promise, H::Policy>>, Error<H::Error>>
    where
        'h: 'a,
        B: 'a,
    {
        heap.unrooted().chunk_mut(&self.0, chunk)
    }

    /// Calls `f` with an element. `None` when the index is out of range. **Cost**, **Errors**: as
    /// [`Heap::get`](crate::Heap::get).
    pub fn with<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        i: u32,
        f: impl FnOnce(&T) -> O,
    ) -> Result<Option<O>, Error<H::Error>> {
        let (chunk, at) = place::<PER>(i);
        let held = heap.unrooted().chunk(&self.0, chunk)?;
        Ok(held.and_then(|elements| elements.get(at).map(f)))
    }

    /// Calls `f` with an element, which it may change. `None` when the index is out of range.
    /// **Cost**, **Errors**: as [`Heap::get_mut`](crate::Heap::get_mut).
    pub fn update<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        i: u32,
        f: impl FnOnce(&mut T) -> O,
    ) -> Result<Option<O>, Error<H::Error>> {
        let (chunk, at) = place::<PER>(i);
        let held = heap.unrooted().chunk_mut(&self.0, chunk)?;
        Ok(held.and_then(|mut elements| elements.get_mut(at).map(f)))
    }
}

impl<'h, T: Plain + Copy + Marked<B>, const PER: usize, B> Chunked<'h, T, PER, B> {
    /// A copy of an element. `None` when the index is out of range. **Cost**, **Errors**: as
    /// [`Heap::get`](crate::Heap::get).
    pub fn get<H: HeapOf<'h, B>>(&self, heap: &H, i: u32) -> Result<Option<T>, Error<H::Error>> {
        self.with(heap, i, |v| *v)
    }

    /// Changes an element. False when the index is out of range. **Cost**, **Errors**: as
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

/// The chunk of an element, and its index there.
pub(super) fn place<const PER: usize>(i: u32) -> (u16, usize) {
    const { assert!(PER > 0, "a chunk has at least one element") };
    let chunk = u16::try_from(i / PER as u32).unwrap_or(u16::MAX);
    (chunk, i as usize % PER)
}
