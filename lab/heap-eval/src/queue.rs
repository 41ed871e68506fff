//! The queue workload: a FIFO of 256-byte elements that has a length, and into which one is put and
//! from which one is taken, again and again.

use crate::medium::{Counts, Fram};
use nvmem::Medium;

/// Bytes of an element.
pub const ELEMENT: usize = 256;

/// An element.
pub type Element = [u8; ELEMENT];

/// RAM for the queue.
pub const RAM: usize = 4096;

/// The lengths that are shown.
pub const LENGTHS: [usize; 12] = [1, 5, 10, 12, 14, 15, 16, 20, 30, 60, 90, 120];

/// A queue.
pub trait Queue {
    /// Puts an element that is `fill` everywhere; false when there is no room.
    fn enqueue(&mut self, fill: u8) -> bool;
    /// Takes the oldest; `None` when there is none, or when it is not the same everywhere.
    fn dequeue(&mut self) -> Option<u8>;
}

/// What one element is filled with.
pub const fn fill(i: usize) -> u8 {
    (i % 251) as u8
}

/// Makes a queue `len` elements long.
pub fn start<Q: Queue>(q: &mut Q, len: usize) -> bool {
    (0..len).all(|i| q.enqueue(fill(i)))
}

/// Takes and puts `rounds` elements, the first of which is number `from`: never are there more than
/// `len`. Whether the right ones came out.
#[inline(always)]
pub fn rounds<Q: Queue>(q: &mut Q, len: usize, from: usize, rounds: usize) -> bool {
    (from..from + rounds).all(|i| q.dequeue() == Some(fill(i)) && q.enqueue(fill(len + i)))
}

/// The first byte, if all are the same.
pub fn same(e: &Element) -> Option<u8> {
    e.iter().all(|b| *b == e[0]).then_some(e[0])
}

/// All elements in RAM: at most 15, as the positions need room too.
pub struct RamQueue {
    slots: Vec<Element>,
    head: usize,
    len: usize,
}

impl Default for RamQueue {
    fn default() -> Self {
        let positions = 2 * size_of::<u16>();
        RamQueue {
            slots: vec![[0; ELEMENT]; (RAM - positions) / ELEMENT],
            head: 0,
            len: 0,
        }
    }
}

impl Queue for RamQueue {
    fn enqueue(&mut self, fill: u8) -> bool {
        let all = self.slots.len();
        if self.len == all {
            return false;
        }
        self.slots[(self.head + self.len) % all].fill(fill);
        self.len += 1;
        true
    }

    fn dequeue(&mut self) -> Option<u8> {
        if self.len == 0 {
            return None;
        }
        let e = same(&self.slots[self.head]);
        self.head = (self.head + 1) % self.slots.len();
        self.len -= 1;
        e
    }
}

/// All elements on the medium, the positions in RAM.
pub struct NvmQueue<'c> {
    fram: Fram<'c>,
    slots: usize,
    head: usize,
    len: usize,
}

impl<'c> NvmQueue<'c> {
    /// Room for `slots`.
    pub fn new(slots: usize, counts: &'c Counts) -> Self {
        NvmQueue {
            fram: Fram::new(slots * ELEMENT, counts),
            slots,
            head: 0,
            len: 0,
        }
    }
}

impl Queue for NvmQueue<'_> {
    fn enqueue(&mut self, fill: u8) -> bool {
        if self.len == self.slots {
            return false;
        }
        let at = (self.head + self.len) % self.slots * ELEMENT;
        self.len += 1;
        self.fram.write(at as u32, &[fill; ELEMENT]).is_ok()
    }

    fn dequeue(&mut self) -> Option<u8> {
        if self.len == 0 {
            return None;
        }
        let mut e = [0; ELEMENT];
        self.fram.read((self.head * ELEMENT) as u32, &mut e).ok()?;
        self.head = (self.head + 1) % self.slots;
        self.len -= 1;
        same(&e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_queues() {
        let mut q = RamQueue::default();
        assert!(start(&mut q, 14) && rounds(&mut q, 14, 0, 1_000));
        assert!(q.enqueue(0) && !q.enqueue(0), "15 and no more");
        let counts = Counts::default();
        let mut q = NvmQueue::new(61, &counts);
        assert!(start(&mut q, 60));
        counts.reset();
        assert!(rounds(&mut q, 60, 0, 1_000));
        assert_eq!((counts.written(), counts.read()), (256_000, 256_000));
        assert!(!rounds(&mut q, 60, 0, 1), "other elements are noticed");
    }
}
