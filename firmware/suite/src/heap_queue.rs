//! A queue of the heap's collections.

use crate::heap::{Error, Program};
use nvmem::device::Misuse;
use nvmem::{Medium, Persist};
use vnv_heap::collections::Fifo;
use vnv_heap::{Heap, Promise, Unrooted};

/// An operation.
#[derive(Clone, Copy)]
pub(crate) enum Queue {
    /// An element at the end.
    Push(u8),
    /// The element at the start.
    Pop,
}

impl Queue {
    pub(crate) const PROGRAMS: [&[Self]; 1] =
        [&[Self::Push(1), Self::Push(2), Self::Pop, Self::Pop]];
}

/// How many elements there can be.
const LENGTH: usize = 2;
/// The bytes of one.
const SIZE: usize = 12;

#[derive(Persist)]
#[repr(C)]
pub(crate) struct Top<'h> {
    done: u16,
    queue: Fifo<'h, [u8; SIZE]>,
}

impl Program for Queue {
    type Root<'h> = Top<'h>;
    /// The elements; 0 for none.
    type View = [u8; LENGTH];

    fn root<'h, S: Medium<Error = Misuse>, P: Promise>(
        heap: &Heap<'h, Unrooted, S, P>,
    ) -> Result<Top<'h>, Error> {
        Ok(Top {
            done: 0,
            queue: Fifo::alloc(heap, LENGTH as u16)?,
        })
    }

    fn after(ops: &[Self]) -> Self::View {
        let mut v = [0; LENGTH];
        for op in ops {
            v = match (*op, v) {
                (Queue::Push(x), [0, _]) => [x, 0],
                (Queue::Push(x), [first, _]) => [first, x],
                (Queue::Pop, [_, second]) => [second, 0],
            };
        }
        v
    }

    fn seen<'h, S: Medium<Error = Misuse>, P: Promise>(
        heap: &Heap<'h, Top<'h>, S, P>,
    ) -> Result<Option<(u16, Self::View)>, Error> {
        let top = heap.root()?;
        let mut v = [0; LENGTH];
        for (i, place) in (0..top.queue.len()).zip(&mut v) {
            match top.queue.get(heap, i)? {
                Some(element) if element == [element[0]; SIZE] => *place = element[0],
                _ => return Ok(None),
            }
        }
        Ok(Some((top.done, v)))
    }

    fn run<'h, S: Medium<Error = Misuse>, P: Promise>(
        self,
        heap: &Heap<'h, Top<'h>, S, P>,
    ) -> Result<(), Error> {
        let mut top = heap.root_mut()?;
        top.done += 1;
        match self {
            Queue::Push(x) => top.queue.push(heap, [x; SIZE])?,
            Queue::Pop => drop(top.queue.pop(heap)?),
        }
        Ok(())
    }
}
