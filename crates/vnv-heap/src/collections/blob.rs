//! Byte strings.

use super::run::any;
use crate::brand::Tag;
use crate::error::Error;
use crate::handle::{HeapHandles, Kind, MAX_OBJECT, OWN, OWN_ID};
use crate::sections::Core;
use crate::{HeapOf, Policy, Promise};
use core::marker::PhantomData;
use core::num::NonZeroU16;
use core::ptr::NonNull;
use nvmem::describe::Type;
use nvmem::persist::{HandleKind, Target, Visit};
use nvmem::{Invalid, Medium, Persist};

/// Owns a byte string: a handle of 4 bytes. Its length is fixed: [`Blob::replace`] makes another
/// blob.
///
/// For a value of `serde` whose length varies: it holds the bytes from `postcard::to_slice`, and
/// `blob.with(heap, |bytes| postcard::from_bytes(bytes))` reads them.
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
    mutable: bool,
}

impl<S: Medium, P: Promise, Pol: Policy> Drop for Hold<'_, S, P, Pol> {
    fn drop(&mut self) {
        // SAFETY: invariant "What is held stays": the object is pinned for this, which ends.
        unsafe { self.core.release(self.content, &self.kind, self.mutable) }
    }
}

impl<'h, B> Blob<'h, B> {
    /// Allocates an object with these bytes.
    ///
    /// **Power loss**, **Cost**: as [`Heap::alloc`](crate::Heap::alloc). **Errors**: the same;
    /// [`Error::RamFull`] for more than 16 KiB less 8 bytes.
    pub fn alloc<H: HeapOf<'h, B>>(heap: &H, bytes: &[u8]) -> Result<Self, Error<H::Error>> {
        if bytes.len() > MAX_OBJECT {
            return Err(Error::RamFull);
        }
        let core = &heap.unrooted().core;
        let len = bytes.len() as u16;
        let from = if bytes.is_empty() { &[0] } else { bytes };
        // SAFETY: invariant "A kind is its type": as many bytes as the kind has; any are a content.
        let id = unsafe { core.alloc(&kind(len), from.as_ptr()) };
        let number = core.with_medium_error(id)?;
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

    fn hold<'a, H: HeapOf<'h, B>>(
        &self,
        heap: &'a H,
        mutable: bool,
    ) -> Result<Hold<'a, H::Medium, H::Promise, H::Policy>, Error<H::Error>>
    where
        'h: 'a,
        B: 'a,
    {
        let (core, kind) = (&heap.unrooted().core, kind(self.len));
        let content = match mutable {
            true => core.pin_exclusive(self.id.get(), &kind)?,
            false => core.pin_shared(self.id.get(), &kind)?,
        };
        Ok(Hold {
            core,
            content,
            kind,
            mutable,
        })
    }

    /// Calls `f` with the bytes and returns its result. **Cost**, **Errors**: as
    /// [`Heap::get`](crate::Heap::get).
    pub fn with<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        f: impl FnOnce(&[u8]) -> O,
    ) -> Result<O, Error<H::Error>> {
        let held = self.hold(heap, false)?;
        // SAFETY: invariant "What is held stays", "One writer or many readers", "All bytes have a
        // value": so many initialised bytes, which are not written to while they are pinned.
        Ok(f(unsafe {
            core::slice::from_raw_parts(held.content.as_ptr(), usize::from(self.len))
        }))
    }

    /// Calls `f` with the bytes, which it may change, and returns its result. **Cost**, **Errors**:
    /// as [`Heap::get_mut`](crate::Heap::get_mut).
    pub fn update<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        f: impl FnOnce(&mut [u8]) -> O,
    ) -> Result<O, Error<H::Error>> {
        let held = self.hold(heap, true)?;
        // SAFETY: invariant "What is held stays", "One writer or many readers", "All bytes have a
        // value": so many initialised bytes, pinned exclusively by this.
        Ok(f(unsafe {
            core::slice::from_raw_parts_mut(held.content.as_ptr(), usize::from(self.len))
        }))
    }

    /// Replaces the bytes by others. If freeing the former bytes fails, the next open frees them.
    ///
    /// **Power loss**: as any change of the object that holds the blob. **Errors**: as
    /// [`Blob::alloc`], and as [`Heap::get_mut`](crate::Heap::get_mut) for as many bytes as before;
    /// the blob is unchanged then.
    pub fn replace<H: HeapOf<'h, B>>(
        &mut self,
        heap: &H,
        bytes: &[u8],
    ) -> Result<(), Error<H::Error>> {
        if bytes.len() == usize::from(self.len) {
            return self.update(heap, |b| b.copy_from_slice(bytes));
        }
        let old = core::mem::replace(self, Self::alloc(heap, bytes)?);
        let _ = heap.unrooted().discard(old);
        Ok(())
    }
}
