//! `vnv-heap` on the driver, with a bus fault at each byte of each operation. The error is
//! returned, the heap continues, and nothing that it has promised is lost.

use crate::chip::bench::{Bench, Fault, Plain};
use critical_section as _;
use nvmem::ram::RamFram;
use nvmem::{Persist, Trusted};
use spi_fram::sim::Kind;
use spi_fram::{Error as Bus, Part, SpiFram};
use std::cell::Cell;
use vnv_heap::collections::Fifo;
use vnv_heap::{
    Config, Error, Heap, JustInTime, OpenError, Own, Promise, Snapshot, Unrooted, brand,
};

const SIZE: usize = 1024;
const PART: Part = Part::new("small", SIZE as u32);
/// Less than the objects need: nearly every operation evicts.
const RAM: usize = 240;
const CONFIG: Config = Config {
    dirty_limit: 160,
    burst: 16,
    objects: 16,
    max_pins: 4,
    budget: None,
};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    blobs: [Option<Own<'h, Blob>>; 3],
    node: Option<Own<'h, Node<'h>>>,
    queue: Fifo<'h, Element>,
    n: u32,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    value: u16,
    data: Option<Own<'h, [u8; 24]>>,
    next: Option<Own<'h, Node<'h>>>,
}

type Blob = [u8; 40];
type Element = [u8; 12];
type Chip = Plain<SIZE>;
type TestHeap<'h, P> = Heap<'h, Root<'h>, Trusted<SpiFram<Chip>>, P>;
type Failure = Error<Bus<Fault>>;

/// The expected contents of the heap.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Model {
    blobs: [u8; 3],
    /// The values of a list's nodes, each with its data.
    nodes: Vec<u16>,
    queue: Vec<u8>,
    n: u32,
}

/// How a heap with this promise is saved and continues.
trait Save: Promise + Sized {
    fn save<'h>(heap: &mut TestHeap<'h, Self>) -> Result<(), Failure>;
    fn go_on<'h>(heap: &mut TestHeap<'h, Self>) -> Result<(), Failure>;
}
impl Save for JustInTime {
    fn save<'h>(heap: &mut TestHeap<'h, Self>) -> Result<(), Failure> {
        heap.persist()
    }
    fn go_on<'h>(heap: &mut TestHeap<'h, Self>) -> Result<(), Failure> {
        heap.restore()
    }
}
impl Save for Snapshot {
    fn save<'h>(heap: &mut TestHeap<'h, Self>) -> Result<(), Failure> {
        heap.commit()
    }
    fn go_on<'h>(_: &mut TestHeap<'h, Self>) -> Result<(), Failure> {
        Ok(())
    }
}

fn node<'h, R, P: Promise>(
    heap: &Heap<'h, R, Trusted<SpiFram<Chip>>, P>,
    value: u16,
    next: Option<Own<'h, Node<'h>>>,
) -> Result<Own<'h, Node<'h>>, Failure> {
    let data = Some(heap.alloc([value as u8; 24])?);
    Ok(heap.alloc(Node { value, data, next })?)
}

fn root<'h, P: Promise>(
    heap: &Heap<'h, Unrooted, Trusted<SpiFram<Chip>>, P>,
) -> Result<Root<'h>, Failure> {
    let mut blobs = [const { None }; 3];
    for (b, i) in blobs.iter_mut().zip(0..) {
        *b = Some(heap.alloc([i; 40])?);
    }
    let mut queue = Fifo::alloc(heap, 3)?;
    queue.push(heap, [5; 12]).map_err(|r| r.error)?;
    let last = node(heap, 7, None)?;
    Ok(Root {
        blobs,
        node: Some(node(heap, 8, Some(last))?),
        queue,
        n: 0,
    })
}

fn fresh() -> Model {
    Model {
        blobs: [0, 1, 2],
        nodes: vec![8, 7],
        queue: vec![5],
        n: 0,
    }
}

fn bench(image: RamFram<SIZE>) -> Chip {
    Bench::new(Kind::of(PART), image, RamFram::filled(0))
}

fn image(b: &Chip) -> RamFram<SIZE> {
    b.chip.borrow().cells.clone()
}

/// Makes the bus fail once.
struct Fuse<'a> {
    chip: &'a Chip,
    /// The number of bytes before the fault.
    after: u64,
    /// Whether the fault has occurred.
    failed: Cell<bool>,
}

impl<'a> Fuse<'a> {
    fn new(chip: &'a Chip, after: u64) -> Self {
        let failed = Cell::new(false);
        Fuse {
            chip,
            after,
            failed,
        }
    }

    /// Runs `f` with the fault armed.
    fn run_with_fault<O>(&self, f: impl FnOnce() -> O) -> O {
        self.chip.fault.replace(Some(self.after));
        let o = f();
        let left = self.chip.fault.replace(None);
        self.failed
            .set(left.is_some_and(|left| left > u64::MAX / 2));
        o
    }
}

/// Reads the heap's contents; each object must have been written as a whole.
fn view<P: Promise>(heap: &TestHeap<'_, P>) -> Result<Model, Failure> {
    let filled = |bytes: &[u8]| {
        assert!(bytes.iter().all(|b| *b == bytes[0]), "a mixture: {bytes:?}");
        bytes[0]
    };
    let root = heap.root()?;
    let mut seen = Model {
        blobs: [0; 3],
        nodes: Vec::new(),
        queue: Vec::new(),
        n: root.n,
    };
    for (to, own) in seen.blobs.iter_mut().zip(&root.blobs) {
        *to = filled(&*heap.get(own.as_ref().unwrap())?);
    }
    for i in 0..root.queue.len() {
        let element = root.queue.get(heap, i)?.unwrap();
        seen.queue.push(filled(&element));
    }
    let mut at = root.node.as_ref().map(|own| heap.get(own)).transpose()?;
    while let Some(node) = at {
        let data = heap.with(node.data.as_ref().unwrap(), |d| filled(d))?;
        assert_eq!(data, node.value as u8);
        seen.nodes.push(node.value);
        at = node.next.as_ref().map(|own| heap.get(own)).transpose()?;
    }
    Ok(seen)
}

/// The heap's medium: it reports bus faults, and no other driver uses it.
fn trusted(chip: &Chip) -> Trusted<SpiFram<Chip>> {
    // SAFETY: the model of the chip stores what it accepted, and the bench reports each byte that
    // it did not.
    unsafe { Trusted::new(SpiFram::new(chip.clone(), PART)) }
}

/// The contents after a boot from this image; `None` if the heap was interrupted.
fn reopened<P: Save>(image: RamFram<SIZE>) -> Option<Model> {
    let mut ram = [0xA5; RAM];
    brand!(b);
    let fram = trusted(&bench(image));
    match TestHeap::<P>::open(b, fram, &mut ram, CONFIG, root) {
        Ok(mut heap) => {
            let audit = heap.audit().unwrap();
            assert_eq!(audit.reachable, audit.allocated);
            Some(view(&heap).unwrap())
        }
        Err(OpenError::Interrupted) => None,
        Err(e) => panic!("{e}"),
    }
}

/// An operation on the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Get,
    Write,
    Change,
    Alloc,
    Free,
    Take,
    Replace,
    Push,
    Pop,
    Save,
    GoOn,
    Audit,
}
use Op::*;

const OPS: [Op; 12] = [
    Get, Write, Change, Alloc, Free, Take, Replace, Push, Pop, Save, GoOn, Audit,
];

/// Runs an operation with a bus fault, and updates `m` to the expected contents.
fn run<'h, P: Save>(
    op: Op,
    heap: &mut TestHeap<'h, P>,
    m: &mut Model,
    fuse: &Fuse<'_>,
) -> Result<(), Failure> {
    match op {
        Get => {
            let root = heap.root()?;
            let blob = root.blobs[2].as_ref().unwrap();
            let value = fuse.run_with_fault(|| heap.read(blob))?;
            assert_eq!(value, [m.blobs[2]; 40]);
        }
        Write => {
            let root = heap.root()?;
            let blob = root.blobs[1].as_ref().unwrap();
            fuse.run_with_fault(|| heap.write(blob, [77; 40]))?;
            m.blobs[1] = 77;
        }
        Change => {
            fuse.run_with_fault(|| heap.root_mut().map(|mut root| root.n = 9))?;
            m.n = 9;
        }
        Alloc => {
            let made = fuse.run_with_fault(|| heap.alloc([66; 40])).map_err(|r| {
                assert_eq!(r.value, [66; 40]);
                r.error
            })?;
            let old = heap.root_mut().unwrap().blobs[0].replace(made).unwrap();
            m.blobs[0] = 66;
            heap.free(old).unwrap();
        }
        Free => {
            let first = heap.root_mut()?.node.take().unwrap();
            let nodes = core::mem::take(&mut m.nodes);
            if let Err(r) = fuse.run_with_fault(|| heap.free(first)) {
                if let Some(own) = r.value {
                    // The object and its children are unchanged.
                    heap.root_mut().unwrap().node = Some(own);
                    m.nodes = nodes;
                }
                return Err(r.error);
            }
        }
        Take => {
            let first = heap.root_mut()?.node.take().unwrap();
            match fuse.run_with_fault(|| heap.take(first)) {
                Ok(mut node) => {
                    heap.root_mut().unwrap().node = node.next.take();
                    assert_eq!(node.value, m.nodes.remove(0));
                    let data = node.data.take().unwrap();
                    assert_eq!(heap.take(data).unwrap(), [node.value as u8; 24]);
                }
                Err(r) => {
                    heap.root_mut().unwrap().node = Some(r.value);
                    return Err(r.error);
                }
            }
        }
        Replace => {
            let root = heap.root()?;
            let blob = root.blobs[1].as_ref().unwrap();
            match fuse.run_with_fault(|| heap.replace(blob, [55; 40])) {
                Ok(old) => assert_eq!(old, [m.blobs[1]; 40]),
                Err(r) => {
                    assert_eq!(r.value, [55; 40]);
                    return Err(r.error);
                }
            }
            m.blobs[1] = 55;
        }
        Push => {
            let mut root = heap.root_mut()?;
            let queue = &mut root.queue;
            fuse.run_with_fault(|| queue.push(heap, [44; 12]))
                .map_err(|r| r.error)?;
            m.queue.push(44);
        }
        Pop => {
            let mut root = heap.root_mut()?;
            let queue = &mut root.queue;
            let popped = fuse.run_with_fault(|| queue.pop(heap))?;
            assert_eq!(popped, Some([m.queue.remove(0); 12]));
        }
        Save => {
            fuse.run_with_fault(|| P::save(heap))?;
            P::go_on(heap).unwrap();
        }
        GoOn => {
            // A forgotten loan keeps an object pinned: the heap pages it in again.
            core::mem::forget(heap.get(heap.root()?.blobs[1].as_ref().unwrap()));
            P::save(heap)?;
            if let Err(e) = fuse.run_with_fault(|| P::go_on(heap)) {
                assert_eq!(heap.root().err(), Some(Error::Suspended));
                P::go_on(heap).unwrap();
                return Err(e);
            }
        }
        Audit => {
            let audit = fuse.run_with_fault(|| heap.audit()).map_err(|e| match e {
                OpenError::Failed(e) => e,
                e => panic!("{e}"),
            })?;
            assert_eq!(audit.reachable, audit.allocated);
        }
    }
    Ok(())
}

/// The image of a new heap.
fn saved<P: Save>() -> RamFram<SIZE> {
    let b = bench(RamFram::filled(0));
    let mut ram = [0; RAM];
    brand!(brand);
    let fram = trusted(&b);
    TestHeap::<P>::open(brand, fram, &mut ram, CONFIG, root).unwrap();
    image(&b)
}

/// Runs an operation whose bus fails after `k` bytes. Returns whether the fault occurred.
fn fails_at<P: Save>(op: Op, before: &RamFram<SIZE>, k: u64) -> bool {
    let b = bench(before.clone());
    let (mut ram, mut m) = ([0; RAM], fresh());
    brand!(brand);
    let fram = trusted(&b);
    let mut heap = TestHeap::<P>::open(brand, fram, &mut ram, CONFIG, root).unwrap();
    // Some data is only in RAM.
    let mut changed = !matches!(op, Get | Audit | Change);
    if changed {
        let root = heap.root().unwrap();
        let blob = root.blobs[0].as_ref().unwrap();
        heap.write(blob, [99; 40]).unwrap();
        m.blobs[0] = 99;
    }
    let fuse = Fuse::new(&b, k);
    let done = run(op, &mut heap, &mut m, &fuse);
    let failed = fuse.failed.get();
    changed |= op == Change && done.is_ok();
    match done {
        Err(e) => assert_eq!(e, Error::Medium(Bus::Bus(Fault::Bus)), "{op:?} at {k}"),
        // The value was returned; the next open finishes the remaining work.
        Ok(()) if op == Take => {}
        Ok(()) => assert!(!failed, "{op:?}: the error at {k} is lost"),
    }
    // The power is cut now.
    let cut = reopened::<P>(image(&b));
    let complete = matches!(op, Save | GoOn) && done.is_ok();
    if P::SNAPSHOT {
        let committed = if complete || op == GoOn {
            m.clone()
        } else {
            fresh()
        };
        // The commit's record may have been stored before the error occurred.
        let arrived = op == Save && cut.as_ref() == Some(&m);
        assert!(cut == Some(committed) || arrived, "{op:?} at {k}: {cut:?}");
    } else if let Some(cut) = cut {
        let persisted = complete || op == GoOn || op == Save && cut == m;
        assert!(persisted || !changed, "{op:?} at {k}: not interrupted");
        assert_eq!(cut, if changed { m.clone() } else { fresh() });
    }
    // The bus fails again, at the next use.
    if failed && !(P::SNAPSHOT && op == Save) {
        let changed =
            Fuse::new(&b, 0).run_with_fault(|| heap.root_mut().map(|mut root| root.n = 3));
        if changed.is_ok() {
            m.n = 3;
        }
    }
    // An interrupted commit must finish before anything else changes.
    if P::SNAPSHOT && op == Save && failed {
        P::save(&mut heap).unwrap();
    }
    assert_eq!(view(&heap).unwrap(), m, "{op:?} at {k}");
    {
        let root = heap.root().unwrap();
        let blob = root.blobs[2].as_ref().unwrap();
        heap.write(blob, [88; 40]).unwrap();
        m.blobs[2] = 88;
    }
    P::save(&mut heap).unwrap_or_else(|e| panic!("{op:?} at {k}: {e}"));
    P::go_on(&mut heap).unwrap();
    assert_eq!(view(&heap).unwrap(), m, "{op:?} at {k}");
    assert_eq!(reopened::<P>(image(&b)), Some(m), "{op:?} at {k}");
    failed
}

fn every_byte<P: Save>() {
    let before = saved::<P>();
    for op in OPS {
        let n = (0..).find(|k| !fails_at::<P>(op, &before, *k)).unwrap();
        println!("{op:?}: {n} bytes on the bus");
        // These operations do not use the medium; they are listed for the checks after them.
        let nothing = if P::SNAPSHOT { op == GoOn } else { op == Push };
        assert!(nothing || n > 15, "{op:?} is too small: {n}");
    }
}

#[test]
fn just_in_time() {
    every_byte::<JustInTime>();
}

#[test]
fn snapshot() {
    every_byte::<Snapshot>();
}

/// The first open, which formats, and later ones.
fn opens<P: Save>(before: RamFram<SIZE>) {
    for k in 0.. {
        let b = bench(before.clone());
        for fails in [true, false] {
            let fuse = Fuse::new(&b, if fails { k } else { u64::MAX / 2 });
            let mut ram = [0; RAM];
            brand!(brand);
            let fram = trusted(&b);
            let opened =
                fuse.run_with_fault(|| TestHeap::<P>::open(brand, fram, &mut ram, CONFIG, root));
            let failed = fuse.failed.get();
            match opened {
                Ok(_) if fails && !failed => {
                    assert!(k > 100);
                    return;
                }
                Ok(heap) => {
                    assert!(!failed, "the error at {k} is lost");
                    assert_eq!(view(&heap).unwrap(), fresh(), "{k}");
                }
                Err(OpenError::Failed(e)) => {
                    assert_eq!(e, Error::Medium(Bus::Bus(Fault::Bus)));
                    assert!(failed, "{k}");
                }
                Err(e) => panic!("{k}: {e}"),
            }
        }
    }
}

#[test]
fn opening() {
    opens::<JustInTime>(RamFram::filled(0));
    opens::<Snapshot>(RamFram::filled(0));
    opens::<JustInTime>(saved::<JustInTime>());
    opens::<Snapshot>(saved::<Snapshot>());
}
