//! A program of operations on a heap with very little RAM, and the state that it must find after
//! each boot.

use nvmem::{Faithful, Medium, Persist};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use vnv_heap::{
    Config, Error, Heap, JustInTime, OpenError, Own, Promise, Snapshot, Unrooted, brand,
};

#[derive(Persist)]
#[repr(C)]
pub struct Top<'h> {
    pub done: u32,
    pub first: Option<Own<'h, Node<'h>>>,
    pub blob: Option<Own<'h, [u8; 40]>>,
}

#[derive(Persist)]
#[repr(C)]
pub struct Node<'h> {
    pub value: u16,
    pub next: Option<Own<'h, Node<'h>>>,
    pub data: Option<Own<'h, [u8; 24]>>,
}

pub type TestHeap<'h, S, P> = Heap<'h, Top<'h>, S, P>;

/// What the heap shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    pub list: Vec<(u16, [u8; 24])>,
    pub blob: Option<[u8; 40]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A node and its data.
    Push(u16),
    /// The first node and its data are freed.
    Pop,
    /// The first node's data.
    Data(u8),
    /// All nodes get another value.
    Values(u16),
    /// The whole list is freed.
    Clear,
    /// Another blob; the one before is freed.
    Blob(u8),
    /// The blob is overwritten.
    Write(u8),
    /// Allocated and freed at once.
    Churn,
    /// Allocated and forgotten: the next open frees it.
    Forget,
}

impl Op {
    pub fn apply(self, v: &mut View) {
        match self {
            Op::Push(n) => v.list.insert(0, (n, [n as u8; 24])),
            Op::Pop => drop((!v.list.is_empty()).then(|| v.list.remove(0))),
            Op::Data(n) => v.list.iter_mut().take(1).for_each(|x| x.1 = [n; 24]),
            Op::Values(n) => v.list.iter_mut().for_each(|x| x.0 = n),
            Op::Clear => v.list.clear(),
            Op::Blob(n) => v.blob = Some([n; 40]),
            Op::Write(n) => v.blob = v.blob.map(|_| [n; 40]),
            Op::Churn | Op::Forget => {}
        }
    }
}

pub fn model(ops: &[Op]) -> View {
    let mut v = View::default();
    ops.iter().for_each(|o| o.apply(&mut v));
    v
}

/// 16 objects in 192 bytes of RAM: nearly every operation evicts, and what is moved is moved in
/// pieces.
pub const NARROW: Config = Config {
    dirty_limit: 100,
    burst: 16,
    objects: 16,
    max_pins: 4,
    budget: None,
};
/// The same, with bursts that move everything at once.
pub const WIDE: Config = Config {
    burst: 128,
    ..NARROW
};
pub const RAM: usize = 192;

pub fn top<'h, S: Medium, P: Promise>(
    _: &Heap<'h, Unrooted, S, P>,
) -> Result<Top<'h>, Error<S::Error>> {
    Ok(Top {
        done: 0,
        first: None,
        blob: None,
    })
}

pub fn view<'h, S: Medium, P: Promise>(
    heap: &TestHeap<'h, S, P>,
) -> Result<(u32, View), Error<S::Error>> {
    let top = heap.root()?;
    let mut view = View::default();
    if let Some(blob) = &top.blob {
        view.blob = Some(heap.read(blob)?);
    }
    let mut at = match &top.first {
        Some(own) => Some(heap.get(own)?),
        None => None,
    };
    while let Some(node) = at {
        let data = match &node.data {
            Some(data) => heap.read(data)?,
            None => [0; 24],
        };
        view.list.push((node.value, data));
        at = match &node.next {
            Some(own) => Some(heap.get(own)?),
            None => None,
        };
    }
    Ok((top.done, view))
}

pub fn run<'h, S: Medium, P: Promise>(
    heap: &TestHeap<'h, S, P>,
    op: Op,
) -> Result<(), Error<S::Error>> {
    match op {
        Op::Push(value) => {
            let data = heap.alloc([value as u8; 24])?;
            let next = heap.root_mut()?.first.take();
            let node = heap.alloc(Node {
                value,
                next,
                data: Some(data),
            })?;
            heap.root_mut()?.first = Some(node);
        }
        Op::Pop => {
            let first = heap.root_mut()?.first.take();
            if let Some(first) = first {
                let next = heap.get_mut(&first)?.next.take();
                heap.root_mut()?.first = next;
                heap.free(first)?;
            }
        }
        Op::Data(n) => {
            let root = heap.root()?;
            if let Some(first) = &root.first
                && let Some(data) = &heap.get(first)?.data
            {
                heap.write(data, [n; 24])?;
            }
        }
        Op::Values(n) => {
            let root = heap.root()?;
            let mut at = match &root.first {
                Some(own) => Some(heap.get_mut(own)?),
                None => None,
            };
            while let Some(mut node) = at {
                node.value = n;
                at = match &node.next {
                    Some(own) => Some(heap.get_mut(own)?),
                    None => None,
                };
            }
        }
        Op::Clear => {
            let first = heap.root_mut()?.first.take();
            if let Some(first) = first {
                heap.free(first)?;
            }
        }
        Op::Blob(n) => {
            let blob = heap.alloc([n; 40])?;
            let old = heap.root_mut()?.blob.replace(blob);
            if let Some(old) = old {
                heap.free(old)?;
            }
        }
        Op::Write(n) => {
            let root = heap.root()?;
            if let Some(blob) = &root.blob {
                heap.update(blob, |b| *b = [n; 40])?;
            }
        }
        Op::Churn => {
            let x = heap.alloc([9u8; 16])?;
            heap.free(x)?;
        }
        Op::Forget => {
            let _forgotten = heap.alloc([8u8; 16])?;
        }
    }
    heap.root_mut()?.done += 1;
    Ok(())
}

/// How a program saves.
pub trait Save: Promise + Sized {
    fn save<'h, S: Medium>(heap: &mut TestHeap<'h, S, Self>) -> Result<(), Error<S::Error>>;
}
impl Save for JustInTime {
    fn save<'h, S: Medium>(heap: &mut TestHeap<'h, S, Self>) -> Result<(), Error<S::Error>> {
        heap.persist()?;
        heap.restore()
    }
}
impl Save for Snapshot {
    fn save<'h, S: Medium>(heap: &mut TestHeap<'h, S, Self>) -> Result<(), Error<S::Error>> {
        heap.commit()
    }
}

/// The world's knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Known {
    /// Operations that were saved.
    pub saved: u32,
    /// Something was begun since.
    pub begun: bool,
    /// Something has changed since, in RAM at least.
    pub changed: bool,
    /// The heap is being formatted.
    pub anew: bool,
}

/// Operations that were done and saved, of all heaps.
pub static OPERATIONS: AtomicU32 = AtomicU32::new(0);

/// Continues after a cut: checks the state, then does and saves the remaining operations.
pub fn program<P: Save, S: Faithful>(
    mut nv: S,
    config: Config,
    world: &powerfail::World<'_, Known>,
    ops: &[Op],
) {
    if boot::<P, _>(&mut nv, config, world, ops, false) {
        // Never with the snapshot promise, and never after a completed persist, unless something
        // was begun since.
        let known = world.get();
        assert!(!P::SNAPSHOT && known.begun, "{known:?}");
        world.set(Known {
            begun: true,
            ..Known::default()
        });
        assert!(!boot::<P, _>(&mut nv, config, world, ops, true));
    }
}

/// Whether the heap was interrupted.
fn boot<P: Save, S: Faithful>(
    nv: S,
    config: Config,
    world: &powerfail::World<'_, Known>,
    ops: &[Op],
    format: bool,
) -> bool {
    let mut ram = [0xA5u8; RAM];
    brand!(b);
    let heap = if format {
        TestHeap::<_, P>::format(b, nv, &mut ram, config, top)
    } else {
        TestHeap::<_, P>::open(b, nv, &mut ram, config, top)
    };
    let mut heap = match heap {
        Ok(heap) => heap,
        Err(OpenError::Interrupted) => return true,
        Err(e) => panic!("open: {e}"),
    };
    let known = world.get();
    let audit = heap.audit().unwrap_or_else(|e| panic!("audit: {e}"));
    assert_eq!(audit.reachable, audit.allocated);
    let (done, seen) = view(&heap).unwrap_or_else(|e| panic!("view: {e}"));
    let saved = known.begun && done == known.saved + 1 || known.anew && done == 0;
    // Just in time, what has changed is saved, or else the heap was interrupted.
    let unchanged = done == known.saved && (P::SNAPSHOT || !known.changed);
    assert!(unchanged || saved, "{done} found, {known:?}");
    assert_eq!(seen, model(&ops[..done as usize]), "after {done}");
    for (i, op) in ops.iter().enumerate().skip(done as usize) {
        let known = Known {
            saved: i as u32,
            begun: true,
            ..Known::default()
        };
        world.set(known);
        drop(heap.root_mut().unwrap_or_else(|e| panic!("root: {e}")));
        world.set(Known {
            changed: true,
            ..known
        });
        run(&heap, *op).unwrap_or_else(|e| panic!("{op:?}: {e}"));
        P::save(&mut heap).unwrap_or_else(|e| panic!("save: {e}"));
        OPERATIONS.fetch_add(1, Relaxed);
        world.set(Known {
            saved: i as u32 + 1,
            ..Known::default()
        });
    }
    let (_, seen) = view(&heap).unwrap_or_else(|e| panic!("view: {e}"));
    assert_eq!(seen, model(ops));
    false
}
