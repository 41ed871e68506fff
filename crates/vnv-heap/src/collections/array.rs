//! Arrays of a fixed length: elements in chunks, and bytes.

use super::fifo::{Run, any};
use crate::Heap;
use crate::brand::Tag;
use crate::config::Promise;
use crate::error::{Error, Rejected};
use crate::handle::{HeapHandles, Kind, MAX_OBJECT, Marked, OWN, OWN_ID};
use crate::handle::{Ref, RefMut};
use crate::policy::Policy;
use crate::sections::Core;
use core::marker::PhantomData;
use core::num::NonZeroU16;
use core::ptr::NonNull;
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::{HandleKind, Target, Visit};
use nvmem::{Invalid, Medium, Persist, Plain};

/// An array whose length is set when it is made, with `PER` elements in each chunk: 4 bytes.
///
/// Chunks are paged in and written back separately: choose `PER` so that one has 32 to 256 bytes.
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(transparent)]
pub struct Chunked<'h, T, const PER: usize, B = ()>(Run<'h, [T; PER]>, PhantomData<fn(B) -> B>);

// SAFETY: invariant "Sole owner": a transparent `Run`.
unsafe impl<T: Persist, const PER: usize, B> Persist for Chunked<'_, T, PER, B> {
    type At<'p> = Chunked<'p, T::At<'p>, PER, B>;
    type HandleTargets = HeapHandles<HandleTo<[T; PER]>, B>;
    const LAYOUT: &'static Type = <Run<'static, [T; PER]> as Persist>::LAYOUT;
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": as the caller vouches.
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

/// Owns a byte string: a handle of 4 bytes. Its length is fixed: [`Blob::replace`] makes another
/// blob.
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(C)]
pub struct Blob<'h, B = ()> {
    id: NonZeroU16,
    len: u16,
    _brand: Tag<'h, B>,
}

/// An object has at least a byte.
fn kind(len: u16) -> Kind {
    Kind::to_free(len.max(1), false, any)
}

// SAFETY: invariant "Sole owner": two numbers without padding; `At` differs in the brand only;
// `check` shows the handle; any bytes are a content.
unsafe impl<B> Persist for Blob<'_, B> {
    type At<'p> = Blob<'p, B>;
    type HandleTargets = HeapHandles<(), B>;
    const LAYOUT: &'static Type = &Type::Handle("vnv-heap blob");
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": readable and aligned by the contract.
        let (id, len) = unsafe { (p.cast::<u16>().read(), p.cast::<u16>().add(1).read()) };
        if usize::from(len) > MAX_OBJECT {
            return Err(Invalid::Bits("Blob"));
        }
        let found = HandleKind::new(OWN, OWN_ID, Target::bytes(usize::from(len), any), false);
        v.handle(u32::from(id), &found)
    }
}

/// A pinned blob. Its destructor releases the pin, also when unwinding.
struct Hold<'a, S: Medium, P: Promise, Pol: Policy> {
    core: &'a Core<S, P, Pol>,
    content: NonNull<u8>,
    kind: Kind,
}

impl<S: Medium, P: Promise, Pol: Policy> Drop for Hold<'_, S, P, Pol> {
    fn drop(&mut self) {
        // SAFETY: invariant "What is held stays": the object is pinned for this, which ends.
        unsafe { self.core.release_any(self.content, &self.kind) }
    }
}

impl<'h, B> Blob<'h, B> {
    /// Allocates an object with these bytes.
    ///
    /// **Power loss**, **Cost**: as [`Heap::alloc`]. **Errors**: the same; [`Error::RamFull`] for
    /// more than 16 KiB less 8 bytes.
    pub fn alloc<R, S: Medium, P: Promise, Pol: Policy>(
        heap: &Heap<'h, R, S, P, Pol, B>,
        bytes: &[u8],
    ) -> Result<Self, Error<S::Error>> {
        if bytes.len() > MAX_OBJECT {
            return Err(Error::RamFull);
        }
        let len = bytes.len() as u16;
        let from = if bytes.is_empty() { &[0] } else { bytes };
        // SAFETY: invariant "A kind is its type": as many bytes as the kind has; any are a content.
        let id = unsafe { heap.core.alloc(&kind(len), from.as_ptr()) };
        let number = heap.core.with_medium_error(id)?;
        Ok(Blob {
            id: number.id(),
            len,
            _brand: PhantomData,
        })
    }

    /// The number of bytes.
    pub const fn len(&self) -> u16 {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Calls `f` with the bytes and returns its result. **Cost**, **Errors**: as [`Heap::get`].
    pub fn with<R, S: Medium, P: Promise, Pol: Policy, O>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        f: impl FnOnce(&[u8]) -> O,
    ) -> Result<O, Error<S::Error>> {
        let kind = kind(self.len);
        let content = heap.core.pin_shared(self.id.get(), &kind)?;
        let core = &heap.core;
        let _hold = Hold {
            core,
            content,
            kind,
        };
        // SAFETY: invariant "What is held stays", "One writer or many readers", "All bytes have a
        // value": so many initialised bytes, which are not written to while they are pinned.
        Ok(f(unsafe {
            core::slice::from_raw_parts(content.as_ptr(), usize::from(self.len))
        }))
    }

    /// Calls `f` with the bytes, which it may change, and returns its result. **Cost**, **Errors**:
    /// as [`Heap::get_mut`].
    pub fn update<R, S: Medium, P: Promise, Pol: Policy, O>(
        &self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        f: impl FnOnce(&mut [u8]) -> O,
    ) -> Result<O, Error<S::Error>> {
        let kind = kind(self.len);
        let content = heap.core.pin_exclusive(self.id.get(), &kind)?;
        let core = &heap.core;
        let _hold = Hold {
            core,
            content,
            kind,
        };
        // SAFETY: invariant "What is held stays", "One writer or many readers", "All bytes have a
        // value": so many initialised bytes, pinned exclusively by this.
        Ok(f(unsafe {
            core::slice::from_raw_parts_mut(content.as_ptr(), usize::from(self.len))
        }))
    }

    /// Replaces the bytes by others. **Errors**: as [`Blob::alloc`] and [`Heap::free`]; the blob is
    /// unchanged then.
    pub fn replace<R, S: Medium, P: Promise, Pol: Policy>(
        &mut self,
        heap: &Heap<'h, R, S, P, Pol, B>,
        bytes: &[u8],
    ) -> Result<(), Error<S::Error>> {
        if bytes.len() == usize::from(self.len) {
            return self.update(heap, |b| b.copy_from_slice(bytes));
        }
        let new = Self::alloc(heap, bytes)?;
        let old = core::mem::replace(self, new);
        old.free(heap).map_err(|refused| {
            let new = core::mem::replace(self, refused.value);
            // If this fails, the next open frees it.
            let _ = new.free(heap);
            refused.error
        })
    }

    /// Frees the bytes. **Errors**: as [`Heap::free`], with the blob.
    pub fn free<R, S: Medium, P: Promise, Pol: Policy>(
        self,
        heap: &Heap<'h, R, S, P, Pol, B>,
    ) -> Result<(), Rejected<Self, S::Error>> {
        match heap.core.free(self.id.get(), &kind(self.len)) {
            Ok(()) => Ok(()),
            Err((fail, _)) => Err(Rejected {
                error: heap.core.error(fail),
                value: self,
            }),
        }
    }
}
