//! Memory that an engine and this program both use.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Page-aligned memory at a place that never changes. It is zero at first.
pub struct Buffer {
    at: *mut u8,
    len: usize,
}

impl Buffer {
    fn layout(len: usize) -> Layout {
        match Layout::from_size_align(len, 4096) {
            Ok(l) if len > 0 => l,
            _ => panic!("not a size of a memory: {len}"),
        }
    }

    /// A buffer of `len` bytes.
    pub fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the size is not zero.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            handle_alloc_error(layout)
        }
        Buffer { at, len }
    }

    /// For an engine.
    pub fn pointer(&self) -> *mut u8 {
        self.at
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.len
    }

    /// What it holds. No engine runs while the slice lives: engines run inside of functions that
    /// borrow their machine mutably.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: allocated with this size in `new`, and initialised there.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }

    /// As [`Buffer::bytes`].
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout. Engines that map it are fields before it in
        // their machine and gone.
        unsafe { dealloc(self.at, Self::layout(self.len)) }
    }
}
