//! A program's volatile memory: three segments, and how much of each is in use.
//!
//! ```text
//!  offset 0          base of heap        base of stack
//!    |                  |                   |
//!    v                  v                   v
//!    +------------------+-------------------+-------------------+
//!    | statics          | heap              | stack             |
//!    +------------------+-------------------+-------------------+
//!                       |<- heap_used ->|        |<- in use  ->|
//!                                                ^ stack_from
//! ```
//!
//! Images and logs never hold addresses of memory. They hold offsets that count through the three
//! segments. `Memory::locate` turns an offset and a length back into a pointer, and only if all of
//! the bytes lie in one segment. A damaged image can therefore never make a restore write
//! elsewhere.

use crate::format::{bytes, sum};
use core::marker::PhantomData;
use nvmem::crc::Crc32;

// INVARIANT "Segments are memory": each segment of a `Memory` is initialised RAM. No other code
// writes to it while it is saved, and no reference to it exists while it is restored. Kept by the
// borrows of `Memory::new`, and by the contracts of `Memory::from_addresses` and `Segments::new`.
// Noticed by: compile-fail tests in tests/ui; tests/suite/soundness.rs under Miri.
/// A segment. Its bytes are initialised and may be read and written as long as the [`Memory`]
/// exists.
#[derive(Clone, Copy)]
struct Segment {
    start: *mut u8,
    /// The offset of its first byte.
    base: u32,
    len: u32,
}

/// A program's volatile memory: statics (`.data` and `.bss`), heap and stack, in this order. It
/// also says how much of the heap and of the stack is in use. A segment that a program lacks is
/// empty.
///
/// A segment has at most 512 MiB; bytes beyond that are ignored. Offsets, as in an [`Extent`],
/// count through the three segments one after the other.
pub struct Memory<'m> {
    segments: [Segment; 3],
    /// Bytes of the heap, from its start, that are in use.
    heap_used: u32,
    /// Offset in the stack segment of the byte that was pushed last.
    stack_from: u32,
    /// The segments' addresses are part of the fingerprint.
    fixed: bool,
    _m: PhantomData<&'m mut [u8]>,
}

/// A range of a [`Memory`] that goes into an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// All of it is zero. The image holds its length only.
    pub(crate) zero: bool,
}

impl Extent {
    /// Bytes that the image holds for it.
    pub(crate) fn written(&self) -> u32 {
        if self.zero { 0 } else { self.len }
    }
}

/// The largest segment, in bytes: offsets through all three segments fit in 31 bits.
const SEGMENT_MAX: u32 = 1 << 29;

const STATICS: usize = 0;
const HEAP: usize = 1;
const STACK: usize = 2;

impl<'m> Memory<'m> {
    /// Memory in borrowed buffers: for tests on a host, and for programs that keep all of their
    /// state in buffers.
    pub fn new(statics: &'m mut [u8], heap: &'m mut [u8], stack: &'m mut [u8]) -> Self {
        let parts = [statics, heap, stack].map(|s| s.as_mut_ptr_range());
        let parts = parts.map(|s| (s.start, s.end));
        // Buffers may lie at another address after a reboot.
        Self::of(parts, false)
    }

    /// Memory by its addresses, as linker symbols give them: each from its start to the byte after
    /// its end.
    ///
    /// A segment that ends before it starts is empty. An image of this memory is restored only
    /// where the three segments have the same addresses.
    ///
    /// # Safety
    /// - Each range is one contiguous piece of initialised RAM. It may be read at any time, and the
    ///   three do not overlap.
    /// - While [`Images::checkpoint`](crate::Images::checkpoint) runs, nothing else writes to the
    ///   bytes that it saves. Interrupts and DMA that would are off. The medium's driver and
    ///   critical sections keep no variables of their own in these bytes.
    /// - `checkpoint` does not write to these bytes either: its stack frame, and those of the
    ///   functions it calls, lie below `stack_from`. With a mode that saves all of the stack
    ///   ([`Full`](crate::Full)) it runs on another stack.
    /// - [`Images::restore`](crate::Images::restore) writes to the bytes that the image holds. No
    ///   reference to any of them is used again. None of them belongs to the stack that `restore`
    ///   runs on, to the [`Images`](crate::Images), or to its medium.
    pub unsafe fn from_addresses(
        statics: (*mut u8, *mut u8),
        heap: (*mut u8, *mut u8),
        stack: (*mut u8, *mut u8),
    ) -> Self {
        Self::of([statics, heap, stack], true)
    }

    fn of(parts: [(*mut u8, *mut u8); 3], fixed: bool) -> Self {
        let mut base = 0;
        Memory {
            segments: parts.map(|(start, end)| {
                let len = end.addr().saturating_sub(start.addr());
                let len = u32::try_from(len).unwrap_or(SEGMENT_MAX).min(SEGMENT_MAX);
                base += len;
                Segment {
                    start,
                    base: base - len,
                    len,
                }
            }),
            heap_used: u32::MAX,
            stack_from: 0,
            fixed,
            _m: PhantomData,
        }
    }

    /// Sets how many bytes of the heap are in use, from its start. The default is all of it.
    #[must_use]
    pub fn heap_used(mut self, bytes: usize) -> Self {
        self.heap_used = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// Sets the offset in the stack segment where the stack in use begins; it reaches to the
    /// segment's end. The default is all of it.
    #[must_use]
    pub fn stack_from(mut self, offset: usize) -> Self {
        self.stack_from = u32::try_from(offset).unwrap_or(u32::MAX);
        self
    }

    /// The statics.
    pub fn statics(&self) -> Extent {
        self.whole(STATICS)
    }

    /// The whole heap.
    pub fn heap(&self) -> Extent {
        self.whole(HEAP)
    }

    /// The part of the heap that is in use.
    pub fn heap_in_use(&self) -> Extent {
        self.used(HEAP)
    }

    /// The whole stack.
    pub fn stack(&self) -> Extent {
        self.whole(STACK)
    }

    /// The part of the stack that is in use.
    pub fn stack_in_use(&self) -> Extent {
        self.used(STACK)
    }

    /// The whole of a segment.
    pub(crate) fn whole(&self, segment: usize) -> Extent {
        self.extent(segment, 0, u32::MAX)
    }

    /// The part of a segment that is in use.
    pub(crate) fn used(&self, segment: usize) -> Extent {
        match segment {
            HEAP => self.extent(HEAP, 0, self.heap_used),
            STACK => self.extent(STACK, self.stack_from, u32::MAX),
            _ => self.whole(segment),
        }
    }

    /// A range of a segment, clamped to the segment.
    fn extent(&self, segment: usize, from: u32, to: u32) -> Extent {
        let (mut base, mut len) = (0, 0);
        if let Some(s) = self.segments.get(segment) {
            (base, len) = (s.base, s.len);
        }
        let to = to.min(len);
        let from = from.min(to);
        Extent {
            at: base + from,
            len: to - from,
            zero: false,
        }
    }

    // INVARIANT "In one segment": a pointer to memory comes from `locate`, which checks that all of
    // its bytes lie in one segment. Modes and images only give offsets, and the fields of `Extent`
    // are private.
    // Noticed by: hostile modes and images in tests/suite/soundness.rs, under Miri.
    /// The address of `len` bytes at this offset, if all of them lie in one segment.
    pub(crate) fn locate(&self, at: u32, len: u32) -> Option<*mut u8> {
        for s in &self.segments {
            let off = at.wrapping_sub(s.base);
            if off <= s.len && len <= s.len - off {
                return Some(s.start.wrapping_add(off as usize));
            }
        }
        None
    }

    /// The length of each segment.
    pub(crate) fn lengths(&self) -> [u32; 3] {
        self.segments.map(|s| s.len)
    }

    /// How much of the heap is in use, and where in its segment the stack in use begins.
    pub(crate) fn in_use(&self) -> (u32, u32) {
        let [_, heap, stack] = self.lengths();
        (self.heap_used.min(heap), self.stack_from.min(stack))
    }

    /// Copies bytes from memory. Returns `false` if they do not lie in one segment.
    pub(crate) fn read(&self, at: u32, to: &mut [u8]) -> bool {
        let Some(from) = self.locate(at, to.len() as u32) else {
            return false;
        };
        // SAFETY: *In one segment*: the source bytes lie in one segment. *Segments are memory*: a
        // segment may be read. `to` is borrowed mutably, so it does not overlap the segment.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies bytes to memory. Returns `false` if they do not lie in one segment.
    pub(crate) fn write(&mut self, at: u32, from: &[u8]) -> bool {
        let Some(to) = self.locate(at, from.len() as u32) else {
            return false;
        };
        // SAFETY: *In one segment*: the target bytes lie in one segment. *Segments are memory*: we
        // may write to a segment. `from` is a live borrow, so it does not overlap the segment.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    /// Whether memory holds these bytes at this offset; `false` if they do not lie in one segment.
    pub(crate) fn holds(&self, at: u32, bytes: &[u8]) -> bool {
        let Some(from) = self.locate(at, bytes.len() as u32) else {
            return false;
        };
        bytes.iter().enumerate().all(|(i, b)| {
            // SAFETY: *In one segment*: the byte lies in a segment. *Segments are memory*: it may
            // be read.
            unsafe { from.wrapping_add(i).read() == *b }
        })
    }

    /// Whether these bytes are zero. They must lie in one segment.
    pub(crate) fn is_zero(&self, at: u32, len: u32) -> bool {
        let Some(from) = self.locate(at, len) else {
            return true;
        };
        (0..len as usize).all(|i| {
            // SAFETY: *In one segment*: the byte lies in a segment. *Segments are memory*: it may
            // be read.
            unsafe { from.wrapping_add(i).read() == 0 }
        })
    }

    /// A checksum of what an image depends on: the segments' sizes and, where they are fixed,
    /// addresses.
    pub(crate) fn fingerprint(&self) -> u32 {
        let mut crc = sum(Crc32::new(), bytes(&[u32::from(self.fixed).to_le()]));
        for s in &self.segments {
            let addr = s.start.addr() as u64;
            let fields = [s.len, addr as u32, (addr >> 32) as u32].map(u32::to_le);
            let n = if self.fixed { fields.len() } else { 1 };
            crc = sum(crc, bytes(fields.get(..n).unwrap_or_default()));
        }
        crc.finish()
    }
}
