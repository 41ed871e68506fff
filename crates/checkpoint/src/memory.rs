//! What a program's volatile state is: three segments, and which parts of them are in use.

use crate::layout::{bytes, sum};
use core::marker::PhantomData;
use nvmem::crc::Crc32;

/// A segment: all of its bytes are initialised and may be read and written as long as the [`Memory`] exists.
#[derive(Clone, Copy)]
struct Segment {
    start: *mut u8,
    /// The offset of its start.
    base: u32,
    len: u32,
}

/// A program's volatile memory: statics (`.data` and `.bss`), heap and stack, in this order, and how much of heap and
/// stack is in use. A segment that a program does not have is empty.
///
/// A segment has at most 512 MiB; what is behind that is not part of it. Offsets, as in an [`Extent`], count through the three segments one after the other.
pub struct Memory<'m> {
    segments: [Segment; 3],
    /// Bytes of the heap, from its start, that are in use.
    heap_used: u32,
    /// Offset in the stack segment of the last byte that was pushed.
    stack_from: u32,
    /// Addresses are part of what an image depends on.
    fixed: bool,
    _m: PhantomData<&'m mut [u8]>,
}

/// A part of a [`Memory`] that goes into an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// All of it is zero, and none of its bytes are written.
    pub(crate) zero: bool,
}

impl Extent {
    /// Bytes of it that are written.
    pub(crate) fn written(&self) -> u32 {
        if self.zero { 0 } else { self.len }
    }
}

/// Bytes of a segment: offsets through all three have 31 bits.
const MOST: u32 = 1 << 29;

const STATICS: usize = 0;
const HEAP: usize = 1;
const STACK: usize = 2;

impl<'m> Memory<'m> {
    /// Memory that is lent: on a host, in tests, and for programs that keep all of their state in buffers.
    pub fn new(statics: &'m mut [u8], heap: &'m mut [u8], stack: &'m mut [u8]) -> Self {
        let parts = [statics, heap, stack].map(|s| s.as_mut_ptr_range());
        let parts = parts.map(|s| (s.start, s.end));
        // What is lent may be lent from another address next time.
        Self::of(parts, false)
    }

    /// Memory by its addresses, each from the start to the byte after the end, as linker symbols tell them.
    ///
    /// A segment that ends before it starts is empty. Images of it are restored only where the three segments have the same addresses.
    ///
    /// # Safety
    /// - Each range is initialised RAM of one piece that may be read at any time, and the three do not overlap.
    /// - While [`Images::checkpoint`](crate::Images::checkpoint) runs nobody writes to what it saves: interrupts and DMA that do are off,
    ///   and so is what the medium's driver and critical sections keep in variables of their own.
    /// - Nor does it itself: its own stack frame, and those of what it calls, lie below what `stack_from` says. With a mode that saves all
    ///   of the stack ([`Full`](crate::Full)) it runs on another stack.
    /// - [`Images::restore`](crate::Images::restore) writes to what the image holds. Then no reference to any of it is used again, and
    ///   none of it is the stack that `restore` runs on, the [`Images`](crate::Images), or anything that its medium uses.
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
                let len = u32::try_from(len).unwrap_or(MOST).min(MOST);
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

    /// The same with this many bytes of the heap in use, from its start: all of it unless told.
    #[must_use]
    pub fn heap_used(mut self, bytes: usize) -> Self {
        self.heap_used = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// The same with the stack in use from this offset in its segment to the end: all of it unless told.
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

    /// The heap that is in use.
    pub fn heap_in_use(&self) -> Extent {
        self.used(HEAP)
    }

    /// The whole stack.
    pub fn stack(&self) -> Extent {
        self.whole(STACK)
    }

    /// The stack that is in use.
    pub fn stack_in_use(&self) -> Extent {
        self.used(STACK)
    }

    /// The whole of a segment.
    pub(crate) fn whole(&self, segment: usize) -> Extent {
        self.extent(segment, 0, u32::MAX)
    }

    /// What of a segment is in use.
    pub(crate) fn used(&self, segment: usize) -> Extent {
        match segment {
            HEAP => self.extent(HEAP, 0, self.heap_used),
            STACK => self.extent(STACK, self.stack_from, u32::MAX),
            _ => self.whole(segment),
        }
    }

    /// A part of a segment, cut to it.
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

    /// Where `len` bytes at this offset are, if they lie in one segment.
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

    /// Copies bytes of one segment; whether they lie in one.
    pub(crate) fn read(&self, at: u32, to: &mut [u8]) -> bool {
        let Some(from) = self.locate(at, to.len() as u32) else {
            return false;
        };
        // SAFETY: *In one segment*, of which *Segments are memory* says that it may be read; `to` is borrowed mutably, so is no part of it.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Writes bytes of one segment; whether they lie in one.
    pub(crate) fn write(&mut self, at: u32, from: &[u8]) -> bool {
        let Some(to) = self.locate(at, from.len() as u32) else {
            return false;
        };
        // SAFETY: *In one segment*, of which *Segments are memory* says that it is ours to write; `from` is borrowed, so is no part of it.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    /// Whether it holds these bytes there; they lie in one segment.
    pub(crate) fn holds(&self, at: u32, bytes: &[u8]) -> bool {
        let Some(from) = self.locate(at, bytes.len() as u32) else {
            return false;
        };
        bytes.iter().enumerate().all(|(i, b)| {
            // SAFETY: *In one segment*, of which *Segments are memory* says that it may be read.
            unsafe { from.wrapping_add(i).read() == *b }
        })
    }

    /// Whether these bytes are zero; they lie in one segment.
    pub(crate) fn is_zero(&self, at: u32, len: u32) -> bool {
        let Some(from) = self.locate(at, len) else {
            return true;
        };
        (0..len as usize).all(|i| {
            // SAFETY: *In one segment*, of which *Segments are memory* says that it may be read.
            unsafe { from.wrapping_add(i).read() == 0 }
        })
    }

    /// What an image depends on: sizes and, where they are fixed, addresses.
    pub(crate) fn fingerprint(&self) -> u32 {
        let mut crc = sum(Crc32::new(), bytes(&[u32::from(self.fixed).to_le()]));
        for s in &self.segments {
            let addr = s.start.addr() as u64;
            let told = [s.len, addr as u32, (addr >> 32) as u32].map(u32::to_le);
            let n = if self.fixed { told.len() } else { 1 };
            crc = sum(crc, bytes(told.get(..n).unwrap_or_default()));
        }
        crc.finish()
    }
}
