//! Bytes of a length that is known at run time.

use super::run::any;
use crate::Heap;
use crate::brand::Tag;
use crate::error::{Error, Rejected};
use crate::object::HeapHandles;
use crate::own::{Kind, MAX_OBJECT, OWN, OWN_ID};
use crate::policy::Policy;
use crate::promise::Promise;
use crate::state::Core;
use core::marker::PhantomData;
use core::num::NonZeroU16;
use core::ptr::NonNull;
use nvmem::describe::Type;
use nvmem::persist::{HandleKind, Target, Visit};
use nvmem::{Invalid, Medium, Persist};

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

// SAFETY: two numbers without padding; `At` differs in the brand only; `check` shows the handle;
// any bytes are a content.
unsafe impl<B> Persist for Blob<'_, B> {
    type At<'p> = Blob<'p, B>;
    type HandleTargets = HeapHandles<(), B>;
    const LAYOUT: &'static Type = &Type::Handle("vnv-heap blob");
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: readable and aligned by the contract.
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
        // SAFETY: the object is pinned for this, which ends.
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
        // SAFETY: as many bytes as the kind has; any are a content.
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
        // SAFETY: so many initialised bytes, which are not written to while they are pinned.
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
        // SAFETY: so many initialised bytes, pinned exclusively by this.
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
