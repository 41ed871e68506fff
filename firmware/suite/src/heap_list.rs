//! A list of nodes each of which owns its data, on a heap.

use crate::heap::{Error, Program};
use nvmem::device::Misuse;
use nvmem::{Medium, Persist};
use vnv_heap::{Heap, Own, Promise, Ref, RefMut, Unrooted};

/// An operation.
#[derive(Clone, Copy)]
pub(crate) enum List {
    /// A node before the first one, with its data.
    Push(u8),
    /// The first node and its data are freed.
    Pop,
    /// The first node's data.
    Write(u8),
    /// All nodes get another value, each held while the next one is got.
    Values(u8),
    /// The whole list is freed.
    Clear,
    /// Something is allocated and forgotten: the next open frees it.
    Forget,
}

impl List {
    pub(crate) const PROGRAMS: [&[Self]; 3] = [
        &[Self::Forget],
        &[Self::Push(1), Self::Write(2), Self::Pop],
        &[Self::Push(1), Self::Push(2), Self::Values(3), Self::Clear],
    ];
}

impl List {
    /// Whether a list may look like this while the operation is under way, `before` which it looked
    /// like that. `None` is a node with half of its data.
    pub(crate) fn passes(self, before: View, seen: Option<View>) -> bool {
        let Some(seen) = seen else {
            return matches!(self, List::Write(_));
        };
        let stage = match self {
            // The nodes have no owner but the new one, which is not there yet; or the first one has
            // no next one any more.
            List::Push(_) => View::default(),
            List::Pop => View {
                nodes: 1,
                list: [before.list[0], [0; 2]],
            },
            List::Values(x) => {
                let mut first = before;
                first.list[0][0] = x;
                first
            }
            List::Write(_) | List::Clear | List::Forget => before,
        };
        seen == before || seen == stage
    }
}

#[derive(Persist)]
#[repr(C)]
pub(crate) struct Top<'h> {
    done: u16,
    first: Option<Own<'h, Node<'h>>>,
}

#[derive(Persist)]
#[repr(C)]
pub(crate) struct Node<'h> {
    value: u16,
    next: Option<Own<'h, Node<'h>>>,
    data: Option<Own<'h, Data>>,
}

type Data = [u8; 24];

/// Value and data of the nodes.
#[derive(Clone, Copy, PartialEq, Default)]
pub(crate) struct View {
    nodes: usize,
    list: [[u8; 2]; 2],
}

impl Program for List {
    type Root<'h> = Top<'h>;
    type View = View;

    fn root<'h, S: Medium<Error = Misuse>, P: Promise>(
        _: &Heap<'h, Unrooted, S, P>,
    ) -> Result<Top<'h>, Error> {
        Ok(Top {
            done: 0,
            first: None,
        })
    }

    fn after(ops: &[Self]) -> View {
        let mut v = View::default();
        for op in ops {
            match *op {
                List::Forget => {}
                List::Push(x) => {
                    v.list = [[x, x], v.list[0]];
                    v.nodes += 1;
                }
                List::Pop => {
                    v.list = [v.list[1], [0; 2]];
                    v.nodes -= 1;
                }
                List::Write(x) => v.list[0][1] = x,
                List::Values(x) => v.list.iter_mut().take(v.nodes).for_each(|n| n[0] = x),
                List::Clear => v = View::default(),
            }
        }
        v
    }

    fn seen<'h, S: Medium<Error = Misuse>, P: Promise>(
        heap: &On<'h, S, P>,
    ) -> Result<Option<(u16, View)>, Error> {
        let top = heap.root()?;
        let mut v = View::default();
        let mut held: Option<Guard<'_, 'h, S, P>> = None;
        loop {
            let own = match &held {
                Some(node) => &node.next,
                None => &top.first,
            };
            let Some(own) = own else {
                return Ok(Some((top.done, v)));
            };
            let node = node(heap, own)?;
            let Some(data) = &node.data else {
                return Ok(None);
            };
            let (Some(x), Some(place)) = (value(heap, data)?, v.list.get_mut(v.nodes)) else {
                return Ok(None);
            };
            *place = [node.value as u8, x];
            v.nodes += 1;
            held = Some(node);
        }
    }

    fn run<'h, S: Medium<Error = Misuse>, P: Promise>(
        self,
        heap: &On<'h, S, P>,
    ) -> Result<(), Error> {
        let mut top = heap.root_mut()?;
        top.done += 1;
        let first = &mut top.first;
        match (self, &*first) {
            (List::Push(x), _) => {
                let data = alloc(heap, x)?;
                let node = Node {
                    value: u16::from(x),
                    next: first.take(),
                    data: Some(data),
                };
                *first = Some(heap.alloc(node)?);
            }
            (List::Pop, Some(own)) => {
                let next = node_mut(heap, own)?.next.take();
                free(heap, core::mem::replace(first, next))?;
            }
            (List::Write(x), Some(own)) => {
                if let Some(data) = &node(heap, own)?.data {
                    heap.get_mut(data)?.fill(x);
                }
            }
            (List::Values(x), Some(own)) => {
                let mut node = node_mut(heap, own)?;
                loop {
                    node.value = u16::from(x);
                    // The next one is held before this one is released.
                    node = match &node.next {
                        Some(own) => node_mut(heap, own)?,
                        None => break,
                    };
                }
            }
            (List::Clear, _) => free(heap, first.take())?,
            // Of a long life it leaves room for the others.
            (List::Forget, _) if heap.free_objects()? > 6 => drop(alloc(heap, 7)?),
            _ => {}
        }
        Ok(())
    }
}

type On<'h, S, P> = Heap<'h, Top<'h>, S, P>;
type Guard<'a, 'h, S, P> = Ref<'a, Node<'h>, S, P>;
type GuardMut<'a, 'h, S, P> = RefMut<'a, Node<'h>, S, P>;

// Not inlined, because it is less code.

#[inline(never)]
fn node<'a, 'h, S: Medium<Error = Misuse>, P: Promise>(
    heap: &'a On<'h, S, P>,
    own: &Own<'h, Node<'h>>,
) -> Result<Guard<'a, 'h, S, P>, Error> {
    heap.get(own)
}

#[inline(never)]
fn node_mut<'a, 'h, S: Medium<Error = Misuse>, P: Promise>(
    heap: &'a On<'h, S, P>,
    own: &Own<'h, Node<'h>>,
) -> Result<GuardMut<'a, 'h, S, P>, Error> {
    heap.get_mut(own)
}

#[inline(never)]
fn alloc<'h, S: Medium<Error = Misuse>, P: Promise>(
    heap: &On<'h, S, P>,
    x: u8,
) -> Result<Own<'h, Data>, Error> {
    Ok(heap.alloc([x; _])?)
}

/// What all its bytes are, if they are the same.
#[inline(never)]
fn value<'h, S: Medium<Error = Misuse>, P: Promise>(
    heap: &On<'h, S, P>,
    own: &Own<'h, Data>,
) -> Result<Option<u8>, Error> {
    let data = heap.get(own)?;
    let x = data[0];
    Ok(data.iter().all(|b| *b == x).then_some(x))
}

/// With all that it owns.
#[inline(never)]
fn free<'h, S: Medium<Error = Misuse>, P: Promise>(
    heap: &On<'h, S, P>,
    own: Option<Own<'h, Node<'h>>>,
) -> Result<(), Error> {
    if let Some(own) = own {
        heap.free(own)?;
    }
    Ok(())
}
