//! The memory of all simulated media, and a shadow copy of what it should hold.
//!
//! ```text
//!  memory   | medium 0 |pad| medium 1 |pad| ...     the program reads and writes here
//!  shadow   | medium 0 |pad| medium 1 |pad| ...     what recorded stores have written
//! ```
//!
//! A unit that differs between the two was written without an event: by user code in a lent range,
//! or by mistake.

use crate::hash;
use std::mem::MaybeUninit;

/// All media of a program, one after the other, each at a multiple of 64 bytes.
pub(crate) struct Arena {
    block: *mut [MaybeUninit<u64>],
    base: *mut u8,
    shadow: Vec<u8>,
    hash: u128,
}

// SAFETY: the arena owns its block, and no pointer into it is used between runs.
unsafe impl Send for Arena {}

impl Arena {
    /// `skew` moves the start by whole 64 bytes, so that an address stored in one arena is wrong in
    /// another.
    pub(crate) fn new(image: &[u8], skew: usize) -> Self {
        let words = image.len().div_ceil(8) + 8 * (skew + 1);
        let block = Box::into_raw(vec![MaybeUninit::<u64>::new(0); words].into_boxed_slice());
        let start = block.cast::<u8>();
        let to = start.align_offset(64) + 64 * skew;
        // SAFETY: the block has 64 bytes to spare for the alignment and 64 for each step of the
        // skew.
        let base = unsafe { start.add(to) };
        let mut a = Arena {
            block,
            base,
            shadow: vec![0; image.len().next_multiple_of(4)],
            hash: 0,
        };
        for i in 0..a.shadow.len() as u32 / 4 {
            a.hash ^= hash::item(0, i, 0);
        }
        a.put(0, image);
        a
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
    pub(crate) fn len(&self) -> usize {
        self.shadow.len()
    }
    pub(crate) fn hash(&self) -> u128 {
        self.hash
    }
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.shadow
    }

    /// Reads the unit of `len` ≤ 4 bytes at `at` from the shadow.
    pub(crate) fn unit(&self, at: u32, len: u8) -> u32 {
        let mut w = [0; 4];
        w[..len as usize].copy_from_slice(&self.shadow[at as usize..][..len as usize]);
        u32::from_le_bytes(w)
    }

    pub(crate) fn put_unit(&mut self, at: u32, len: u8, v: u32) {
        self.put(at, &v.to_le_bytes()[..len as usize]);
    }

    /// Writes bytes between runs, and updates the hash.
    pub(crate) fn put(&mut self, at: u32, bytes: &[u8]) {
        let from = at as usize;
        let mut i = 0;
        // Most words of a large patch do not change, and hashing is expensive.
        while i < bytes.len() {
            let word = (from + i) / 4;
            let n = (4 * (word + 1) - (from + i)).min(bytes.len() - i);
            if self.shadow[from + i..][..n] != bytes[i..][..n] {
                let old = self.unit(word as u32 * 4, 4);
                self.shadow[from + i..][..n].copy_from_slice(&bytes[i..][..n]);
                let new = self.unit(word as u32 * 4, 4);
                self.hash ^= hash::item(0, word as u32, old.into());
                self.hash ^= hash::item(0, word as u32, new.into());
                // SAFETY: the slice above checked the bounds, and no run holds a reference now.
                unsafe {
                    self.base
                        .add(from + i)
                        .copy_from_nonoverlapping(bytes[i..].as_ptr(), n)
                }
            }
            i += n;
        }
    }

    /// Records in the shadow what the program is about to store. Returns the old value.
    pub(crate) fn record_store(&mut self, at: u32, len: u8, new: u32) -> u32 {
        let old = self.unit(at, len);
        self.shadow[at as usize..][..len as usize]
            .copy_from_slice(&new.to_le_bytes()[..len as usize]);
        old
    }

    /// Reads a unit from memory instead of the shadow.
    ///
    /// # Safety
    /// The bytes are initialised, and reading them invalidates no reference that is used again.
    pub(crate) unsafe fn live(&self, at: u32, len: u8) -> u32 {
        debug_assert!(at as usize + len as usize <= self.shadow.len());
        // SAFETY: in bounds. Media begin at multiples of 64 and units at multiples of their size,
        // so they are aligned. The caller promises the rest.
        unsafe {
            let at = self.base.add(at as usize);
            match len {
                4 => at.cast::<u32>().read_volatile().to_le(),
                2 => at.cast::<u16>().read_volatile().to_le().into(),
                _ => at.read_volatile().into(),
            }
        }
    }

    /// Undoes one store of a run in memory and shadow. The hash stays that of the run's start
    /// throughout.
    pub(crate) fn undo(&mut self, at: u32, old: &[u8]) {
        self.shadow[at as usize..][..old.len()].copy_from_slice(old);
        // SAFETY: the line above checked the bounds.
        unsafe {
            self.base
                .add(at as usize)
                .copy_from_nonoverlapping(old.as_ptr(), old.len())
        }
    }

    /// Scratch memory was written without events: copies the shadow over it.
    pub(crate) fn forget(&mut self, at: u32, len: u32) {
        let bytes = &self.shadow[at as usize..][..len as usize];
        // SAFETY: the slice checked the bounds, and the run is over.
        unsafe {
            self.base
                .add(at as usize)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        }
    }

    /// The first unit where memory and shadow differ, if any. Then copies the shadow to memory.
    pub(crate) fn find_stray(&mut self) -> Option<u32> {
        let n = self.shadow.len();
        // SAFETY: the run is over, so no reference into the arena is used again; all bytes were
        // initialised by `new`.
        let live = unsafe { std::slice::from_raw_parts(self.base, n) };
        if live == &self.shadow[..] {
            return None;
        }
        let at = (0..n).find(|&i| live[i] != self.shadow[i])?;
        // SAFETY: in bounds; `live` is not used any more.
        unsafe { self.base.copy_from_nonoverlapping(self.shadow.as_ptr(), n) }
        Some(at as u32)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`.
        drop(unsafe { Box::from_raw(self.block) })
    }
}
