//! Damage does not spread over any number of opens. The tests flip each bit of an image, and
//! overwrite each page with noise.
//!
//! Each damaged image is opened three times. In between, the test reads every readable object,
//! overwrites all free space, and changes objects. Only touched objects and objects that only they
//! own may be lost. The latter must still lie on the medium, and are freed when the program gives
//! the damaged objects up.

use crate::support::shared::Shared;
use nvmem::Persist;
use nvmem::device::Misuse;
use powerfail::Rng;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use vnv_heap::collections::Fifo;
use vnv_heap::{
    Component, Config, Error, Heap, JustInTime, OpenError, Own, Promise, Snapshot, Unrooted, brand,
};

const SIZE: usize = 1024;
const RAM: usize = 512;
const CONFIG: Config = Config {
    dirty_limit: 200,
    burst: 32,
    objects: 20,
    max_pins: 8,
    budget: None,
};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    tag: u32,
    list: Option<Own<'h, Node<'h>>>,
    tree: Option<Own<'h, Tree<'h>>>,
    plain: [Option<Own<'h, Leaf>>; 2],
    large: Option<Own<'h, Large>>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    tag: u32,
    next: Option<Own<'h, Node<'h>>>,
    leaf: Option<Own<'h, Leaf>>,
}

#[derive(Persist)]
#[repr(C)]
struct Tree<'h> {
    tag: u32,
    two: [Option<Own<'h, Tree<'h>>>; 2],
}

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Leaf {
    tag: u32,
    round: u32,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Large {
    tag: u32,
    round: u32,
    rest: [u32; 8],
}

type TestHeap<'h, P> = Heap<'h, Root<'h>, Shared, P>;
type Failure = Error<Misuse>;

fn leaf(tag: u32) -> Leaf {
    Leaf { tag, round: 0 }
}

/// A list of four, a tree of four, three that hold nothing.
fn root<'h, P: Promise>(heap: &Heap<'h, Unrooted, Shared, P>) -> Result<Root<'h>, Failure> {
    let mut list = None;
    for tag in [101, 102, 103, 104] {
        let leaf = Some(heap.alloc(leaf(tag + 100))?);
        list = Some(heap.alloc(Node {
            tag,
            next: list,
            leaf,
        })?);
    }
    let tree = |tag, two| heap.alloc(Tree { tag, two });
    let low = Some(tree(303, [None, None])?);
    let two = [
        Some(tree(302, [low, None])?),
        Some(tree(304, [None, None])?),
    ];
    let rest = [7; 8];
    Ok(Root {
        tag: 100,
        list,
        tree: Some(tree(301, two)?),
        plain: [Some(heap.alloc(leaf(401))?), Some(heap.alloc(leaf(402))?)],
        large: Some(heap.alloc(Large {
            tag: 501,
            round: 0,
            rest,
        })?),
    })
}

/// An object as a program sees it: its tag, its round, and its owner.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    value: Option<(u32, u32)>,
    owner: u16,
}

/// Reachable objects, by number.
type All = BTreeMap<u16, Seen>;

struct Survey<'a, 'h, P: Promise> {
    heap: &'a TestHeap<'h, P>,
    all: All,
}

impl<'h, P: Promise> Survey<'_, 'h, P> {
    fn saw(&mut self, number: u16, owner: u16, value: Result<(u32, u32), Failure>) {
        let value = match value {
            Ok(value) => Some(value),
            Err(Error::Damaged { object }) => {
                assert_eq!(object, number, "the damage is another one's");
                None
            }
            Err(e) => panic!("{e}"),
        };
        self.all.insert(number, Seen { value, owner });
    }

    fn list(&mut self, own: &Option<Own<'h, Node<'h>>>, owner: u16) {
        let Some(own) = own else { return };
        let number = Own::number(own);
        match self.heap.get(own) {
            Ok(node) => {
                self.saw(number, owner, Ok((node.tag, 0)));
                self.leaf(&node.leaf, number);
                self.list(&node.next, number);
            }
            Err(e) => self.saw(number, owner, Err(e)),
        }
    }

    fn tree(&mut self, own: &Option<Own<'h, Tree<'h>>>, owner: u16) {
        let Some(own) = own else { return };
        let number = Own::number(own);
        match self.heap.get(own) {
            Ok(tree) => {
                self.saw(number, owner, Ok((tree.tag, 0)));
                tree.two.iter().for_each(|own| self.tree(own, number));
            }
            Err(e) => self.saw(number, owner, Err(e)),
        }
    }

    fn leaf(&mut self, own: &Option<Own<'h, Leaf>>, owner: u16) {
        let Some(own) = own else { return };
        let value = self.heap.read(own).map(|l| (l.tag, l.round));
        self.saw(Own::number(own), owner, value);
    }

    fn all(heap: &TestHeap<'h, P>) -> All {
        let mut survey = Survey {
            heap,
            all: All::new(),
        };
        let root = heap.root().unwrap();
        survey.saw(1, 0, Ok((root.tag, 0)));
        survey.list(&root.list, 1);
        survey.tree(&root.tree, 1);
        root.plain.iter().for_each(|own| survey.leaf(own, 1));
        if let Some(own) = &root.large {
            let value = heap.with(own, |l| {
                assert_eq!(l.rest, [7; 8]);
                (l.tag, l.round)
            });
            survey.saw(Own::number(own), 1, value);
        }
        survey.all
    }
}

/// Changes the rounds of all leaves that can be changed. There may be no space.
fn change<'h, P: Promise>(heap: &TestHeap<'h, P>, all: &mut All) {
    let mut one = |own: &Option<Own<'h, Leaf>>| {
        let Some(own) = own else { return };
        if heap.update(own, |l| l.round += 1).is_ok()
            && let Some((_, round)) = all
                .get_mut(&Own::number(own))
                .and_then(|s| s.value.as_mut())
        {
            *round += 1;
        }
    };
    let root = heap.root().unwrap();
    root.plain.iter().for_each(&mut one);
    let mut at = root.list.as_ref().and_then(|own| heap.get(own).ok());
    while let Some(node) = at {
        one(&node.leaf);
        at = node.next.as_ref().and_then(|own| heap.get(own).ok());
    }
}

trait Save: Promise + Sized {
    /// Whether an open first finishes what a commit has begun.
    const FINISHES: bool;
    fn save(heap: &mut TestHeap<'_, Self>);
    fn settle(heap: &mut TestHeap<'_, Self>);
}
impl Save for JustInTime {
    const FINISHES: bool = false;
    fn save(heap: &mut TestHeap<'_, Self>) {
        heap.persist().unwrap();
    }
    fn settle(_: &mut TestHeap<'_, Self>) {}
}
impl Save for Snapshot {
    const FINISHES: bool = true;
    fn save(heap: &mut TestHeap<'_, Self>) {
        heap.commit().unwrap();
    }
    fn settle(heap: &mut TestHeap<'_, Self>) {
        heap.commit().unwrap();
    }
}

/// Overwrites all free space, and frees it again.
fn fill<P: Save>(heap: &mut TestHeap<'_, P>) {
    let mut large = Vec::new();
    while let Ok(own) = heap.alloc([0xA5_u8; 56]) {
        large.push(own);
    }
    let mut small = Vec::new();
    while let Ok(own) = heap.alloc([0x5A_u8; 8]) {
        small.push(own);
    }
    P::settle(heap);
    for own in large {
        assert_eq!(heap.read(&own).unwrap(), [0xA5; 56]);
        heap.free(own).map_err(|r| r.error).unwrap();
    }
    for own in small {
        assert_eq!(heap.read(&own).unwrap(), [0x5A; 8]);
        heap.free(own).map_err(|r| r.error).unwrap();
    }
    P::settle(heap);
}

/// Gives up the damaged objects. **Errors**: there is no space to change an owner.
fn give_up<'h, P: Promise>(heap: &TestHeap<'h, P>) -> Result<(), Failure> {
    fn one<'h, T: Persist + vnv_heap::Marked<()>, P: Promise>(
        heap: &TestHeap<'h, P>,
        own: &mut Option<Own<'h, T>>,
    ) -> Result<(), Failure> {
        let damaged = own
            .as_ref()
            .is_some_and(|o| matches!(heap.get(o), Err(Error::Damaged { .. })));
        match own {
            Some(_) if damaged => heap.give_up(own.take().unwrap()).map_err(|r| r.error),
            _ => Ok(()),
        }
    }
    fn list<'h, P: Promise>(
        heap: &TestHeap<'h, P>,
        own: &mut Option<Own<'h, Node<'h>>>,
    ) -> Result<(), Failure> {
        one(heap, own)?;
        let Some(own) = own else { return Ok(()) };
        let mut node = heap.get_mut(own)?;
        one(heap, &mut node.leaf)?;
        list(heap, &mut node.next)
    }
    fn tree<'h, P: Promise>(
        heap: &TestHeap<'h, P>,
        own: &mut Option<Own<'h, Tree<'h>>>,
    ) -> Result<(), Failure> {
        one(heap, own)?;
        let Some(own) = own else { return Ok(()) };
        let mut node = heap.get_mut(own)?;
        node.two.iter_mut().try_for_each(|own| tree(heap, own))
    }
    let mut root = heap.root_mut()?;
    list(heap, &mut root.list)?;
    tree(heap, &mut root.tree)?;
    root.plain.iter_mut().try_for_each(|own| one(heap, own))?;
    one(heap, &mut root.large)
}

/// An image, and the objects that a program must find in it.
struct Image {
    bytes: Vec<u8>,
    all: All,
    /// The table's address, and the current block of each object.
    table: usize,
    blocks: BTreeMap<u16, Range<usize>>,
    bitmap: Range<usize>,
    /// It was not saved.
    refused: bool,
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

impl Image {
    fn of<P: Save>(bytes: Vec<u8>) -> Self {
        let chip = Shared::new(bytes.clone());
        let mut ram = vec![0; RAM];
        brand!(b);
        let heap = TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
        assert_eq!(heap.damage(), 0);
        let all = Survey::all(&heap);
        assert_eq!(all.len(), 16);
        drop(heap);
        // Where all lies is what the first open leaves.
        let after = chip.bytes();
        let at = |i: usize| number(&after, 64 + 24 + 4 * i);
        let (objects, units, pins) = (at(0), at(1), at(2));
        let table = 168 + 8 * pins;
        let bitmap = (table + 4 * objects).next_multiple_of(8);
        let first = (bitmap + units / 8).next_multiple_of(8);
        let blocks = all.keys().map(|id| {
            let unit = number(&after, table + 4 * (usize::from(*id) - 1));
            let start = first + 8 * (unit - 1);
            (*id, start..start + 8 + number(&after, start + 2))
        });
        Image {
            blocks: blocks.collect(),
            bitmap: bitmap..bitmap + units / 8,
            bytes,
            all,
            table,
            refused: false,
        }
    }

    fn touched(&self, damage: &Range<usize>) -> Vec<u16> {
        let meets = |r: &Range<usize>| r.start < damage.end && damage.start < r.end;
        let entry = |id: u16| {
            let at = self.table + 4 * (usize::from(id) - 1);
            at..at + 4
        };
        let ids = self.all.keys().copied();
        ids.filter(|id| meets(&entry(*id)) || meets(&self.blocks[id]))
            .collect()
    }

    /// Whether something touched leads to this object.
    fn is_behind(&self, id: u16, touched: &[u16]) -> bool {
        let mut at = self.all[&id].owner;
        while at != 0 {
            if touched.contains(&at) {
                return true;
            }
            at = self.all[&at].owner;
        }
        false
    }

    /// **Errors**: how damage in this range of `bytes` has spread.
    fn judge<P: Save>(&self, bytes: Vec<u8>, damage: Range<usize>) -> Result<(), String> {
        let touched = self.touched(&damage);
        let first = bytes.clone();
        let chip = Shared::new(bytes);
        let mut expected = self.all.clone();
        let mut known = 0;
        for open in 1..=3 {
            let (before, mut ram) = (chip.bytes(), vec![0xEE; RAM]);
            brand!(b);
            let opened = TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, root);
            let mut heap = match opened {
                Ok(heap) if !self.refused => heap,
                Ok(_) => return Err("a heap that was not saved is opened".into()),
                Err(e) => {
                    let named = match e {
                        OpenError::Damaged(Component::Object(1)) => touched.contains(&1),
                        OpenError::Foreign => damage.start == 0 && damage.end >= 128,
                        OpenError::Damaged(Component::Header | Component::Record) => {
                            damage.start < 168
                        }
                        OpenError::Interrupted => damage.start < 168 || self.refused,
                        _ => false,
                    };
                    if !named {
                        return Err(format!("open {open} is refused: {e}"));
                    }
                    if !P::FINISHES && chip.bytes() != before {
                        return Err(format!("open {open} is refused and has written"));
                    }
                    continue;
                }
            };
            if open > 1 && heap.damage() < known {
                return Err(format!("open {open} has forgotten what is damaged"));
            }
            known = heap.damage();
            let mut found = Survey::all(&heap);
            for (id, seen) in &expected {
                match found.get(id) {
                    Some(now) if now.value == seen.value => {}
                    Some(now) if now.value.is_none() && touched.contains(id) => {}
                    None if self.is_behind(*id, &touched) => {}
                    now => {
                        return Err(format!("open {open}: object {id} was {seen:?}, is {now:?}"));
                    }
                }
            }
            fill(&mut heap);
            change(&heap, &mut found);
            P::save(&mut heap);
            drop(heap);
            let lost = |id: &u16| found.get(id).is_some_and(|s| s.value.is_none());
            let lost: Vec<u16> = touched.iter().copied().filter(lost).collect();
            let now = chip.bytes();
            for (id, block) in &self.blocks {
                if self.is_behind(*id, &lost) && !touched.contains(id) && !found.contains_key(id) {
                    let entry = self.table + 4 * (usize::from(*id) - 1);
                    if now[block.clone()] != first[block.clone()] || number(&now, entry) == 0 {
                        return Err(format!("open {open}: object {id} is not kept"));
                    }
                }
            }
            expected.extend(found.into_iter().filter(|(_, s)| s.value.is_some()));
        }
        self.goes_on::<P>(chip)
    }

    /// Gives up the damaged objects, and checks the remaining ones.
    fn goes_on<P: Save>(&self, chip: Shared) -> Result<(), String> {
        for salvages in [false, true] {
            let mut ram = vec![0xEE; RAM];
            brand!(b);
            let open = if salvages {
                TestHeap::<P>::salvage
            } else {
                TestHeap::<P>::open
            };
            let Ok(mut heap) = open(b, chip.clone(), &mut ram, CONFIG, root) else {
                return Ok(());
            };
            match give_up(&heap) {
                Ok(()) => {
                    let before = Survey::all(&heap);
                    fill(&mut heap);
                    heap.audit().unwrap();
                    assert_eq!(Survey::all(&heap), before);
                    P::save(&mut heap);
                }
                Err(Error::Full) if !salvages => continue,
                Err(e) => return Err(format!("it is not given up: {e}")),
            }
            break;
        }
        used::<P>(&chip, |heap| {
            let audit = heap.audit().unwrap();
            assert_eq!((heap.damage(), audit.damaged), (0, 0));
            assert_eq!(audit.allocated, audit.reachable);
        });
        Ok(())
    }
}

/// Opens the heap on `chip`, with the root of [`root`].
fn used<P: Save>(chip: &Shared, f: impl FnOnce(&mut TestHeap<'_, P>)) {
    let mut ram = vec![0; RAM];
    brand!(b);
    let mut heap = TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
    f(&mut heap);
}

/// Writes each object unchanged. With the snapshot promise, former blocks then remain on the
/// medium.
fn write_all<P: Promise>(heap: &TestHeap<'_, P>) {
    fn one<'h, T: Persist + vnv_heap::Marked<()>, P: Promise>(
        heap: &TestHeap<'h, P>,
        own: &Option<Own<'h, T>>,
    ) {
        if let Some(own) = own {
            heap.update(own, |_| ()).unwrap();
        }
    }
    fn tree<'h, P: Promise>(heap: &TestHeap<'h, P>, own: &Option<Own<'h, Tree<'h>>>) {
        one(heap, own);
        if let Some(own) = own {
            let node = heap.get(own).unwrap();
            node.two.iter().for_each(|own| tree(heap, own));
        }
    }
    fn list<'h, P: Promise>(heap: &TestHeap<'h, P>, own: &Option<Own<'h, Node<'h>>>) {
        one(heap, own);
        if let Some(own) = own {
            let node = heap.get(own).unwrap();
            one(heap, &node.leaf);
            list(heap, &node.next);
        }
    }
    heap.root_mut().unwrap().tag = 100;
    let root = heap.root().unwrap();
    tree(heap, &root.tree);
    list(heap, &root.list);
    root.plain.iter().for_each(|own| one(heap, own));
    one(heap, &root.large);
}

/// After a clean end.
fn clean<P: Save>() -> (Image, Shared) {
    let chip = Shared::blank(SIZE);
    used::<P>(&chip, |heap| {
        for _ in 0..3 {
            write_all(heap);
            change(heap, &mut All::new());
            P::settle(heap);
        }
        P::save(heap);
    });
    (Image::of::<P>(chip.bytes()), chip)
}

/// With pending changes of the next commit.
fn cut() -> Image {
    let (image, chip) = clean::<Snapshot>();
    used::<Snapshot>(&chip, |heap| {
        change(heap, &mut All::new());
        let root = heap.root().unwrap();
        for own in [&root.tree, &None].into_iter().flatten() {
            heap.update(own, |tree| tree.tag = 999).unwrap();
        }
        // What is changed leaves RAM.
        let _ = heap.alloc([1_u8; 40]).unwrap();
        drop(root);
        heap.root_mut().unwrap().tag = 1000;
    });
    let cut = Image::of::<Snapshot>(chip.bytes());
    assert_eq!(cut.all, image.all);
    cut
}

/// Cut while a commit updates the table.
fn late() -> Image {
    let mut images = Vec::new();
    for calls in 1.. {
        let (_, chip) = clean::<Snapshot>();
        let mut done = false;
        used::<Snapshot>(&chip, |heap| {
            write_all(heap);
            change(heap, &mut All::new());
            let applied = number(&chip.bytes(), 160);
            chip.0.lock().unwrap().fails_after = Some(calls);
            done = heap.commit().is_ok();
            let bytes = chip.bytes();
            let newest = number(&bytes, 128).max(number(&bytes, 144));
            if newest > applied && number(&bytes, 160) == applied {
                images.push(bytes);
            }
        });
        if done {
            break;
        }
    }
    assert!(images.len() > 20, "{}", images.len());
    Image::of::<Snapshot>(images.swap_remove(images.len() / 2))
}

/// A heap that was used and not saved.
fn running() -> Image {
    let (image, chip) = clean::<JustInTime>();
    used::<JustInTime>(&chip, |heap| change(heap, &mut All::new()));
    Image {
        bytes: chip.bytes(),
        refused: true,
        ..image
    }
}

type Line<'h, P> = Heap<'h, Ring<'h>, Shared, P>;

#[derive(Persist)]
#[repr(C)]
struct Ring<'h> {
    fifo: Fifo<'h, [u32; 8]>,
    /// Between its elements and behind them.
    others: [Option<Own<'h, [u32; 8]>>; 2],
}

fn line<'h, P: Promise>(heap: &Heap<'h, Unrooted, Shared, P>) -> Result<Ring<'h>, Failure> {
    let mut fifo = Fifo::alloc(heap, 3)?;
    for i in 0..3 {
        fifo.push(heap, [i; 8])?;
    }
    let others = [Some(heap.alloc([8; 8])?), Some(heap.alloc([9; 8])?)];
    Ok(Ring { fifo, others })
}

/// The length of a queue's second element is damaged. The element is overwritten without a read,
/// and free space is allocated.
fn overwritten<P: Promise>(bit: u32, save: impl Fn(&mut Line<'_, P>)) {
    let (chip, mut ram) = (Shared::blank(SIZE), vec![0; RAM]);
    {
        brand!(b);
        let mut heap = Line::<P>::open(b, chip.clone(), &mut ram, CONFIG, line).unwrap();
        save(&mut heap);
    }
    {
        let mut chip = chip.0.lock().unwrap();
        // The root is object 1, the elements are 2 to 4.
        let head = [3, 0, 32, 0];
        let mut blocks = (168..SIZE).step_by(8);
        let at = blocks.find(|at| chip.bytes[*at..*at + 4] == head).unwrap();
        chip.bytes[at + 2] ^= 1 << bit;
    }
    let mut pushed = Vec::new();
    {
        brand!(b);
        let mut heap = Line::<P>::open(b, chip.clone(), &mut ram, CONFIG, line).unwrap();
        let mut root = heap.root_mut().unwrap();
        for i in 0..3 {
            let found = root.fifo.get(&heap, 0);
            assert!(
                found == Ok(Some([i; 8])) || i == 1 && found.is_err(),
                "{found:?}"
            );
            root.fifo.skip(&heap);
        }
        drop(root);
        // From the first room on that is free.
        let mine: Vec<_> = (0..5).map(|_| heap.alloc([7_u32; 4]).unwrap()).collect();
        let mut root = heap.root_mut().unwrap();
        for i in 10..13 {
            match root.fifo.push(&heap, [i; 8]) {
                Ok(()) => pushed.push(i),
                Err(r) => assert!(matches!(r.error, Error::Damaged { object: 3 }), "{r}"),
            }
        }
        drop(root);
        // All of it is read from the medium.
        heap.audit().unwrap();
        assert!(mine.iter().all(|own| heap.read(own) == Ok([7; 4])));
        save(&mut heap);
        assert!(!pushed.is_empty());
        // With snapshots it goes on: what the commit has freed becomes another's.
        if let Ok(own) = heap.alloc([5_u32; 4]) {
            let mut more = vec![own];
            // Large ones take what is left at the end.
            while heap.alloc([5_u32; 24]).is_ok() {}
            more.extend(core::iter::from_fn(|| heap.alloc([5_u32; 4]).ok()));
            heap.audit().unwrap();
            let root = heap.root().unwrap();
            for (i, other) in root.others.iter().flatten().enumerate() {
                assert_eq!(heap.read(other).unwrap(), [8 + i as u32; 8]);
            }
        }
    }
    brand!(b);
    let mut heap = Line::<P>::open(b, chip.clone(), &mut ram, CONFIG, line).unwrap();
    let mine: Vec<_> = core::iter::from_fn(|| heap.alloc([6_u32; 4]).ok()).collect();
    heap.audit().unwrap();
    let root = heap.root().unwrap();
    for (i, other) in root.others.iter().flatten().enumerate() {
        assert_eq!(heap.read(other).unwrap(), [8 + i as u32; 8]);
    }
    for (i, value) in pushed.iter().enumerate() {
        assert_eq!(root.fifo.get(&heap, i as u16), Ok(Some([*value; 8])));
    }
    assert!(mine.iter().all(|own| heap.read(own) == Ok([6; 4])));
}

#[test]
fn what_is_overwritten_has_its_size() {
    // Smaller, and larger.
    for bit in [5, 6] {
        overwritten::<JustInTime>(bit, |heap| heap.persist().unwrap());
        overwritten::<Snapshot>(bit, |heap| heap.commit().unwrap());
    }
}

#[derive(Persist)]
#[repr(C)]
struct Wide<'h> {
    tag: [u32; 12],
    leaf: Option<Own<'h, Leaf>>,
}

#[derive(Persist)]
#[repr(C)]
struct Shelf<'h> {
    wide: Option<Own<'h, Wide<'h>>>,
    others: [Option<Own<'h, [u32; 8]>>; 16],
}

/// The content of an object of several units is damaged. After a salvage the program allocates, and
/// then gives the object up: what was allocated is not overwritten.
fn salvaged<P: Promise>(save: impl Fn(&mut Heap<'_, Shelf<'_>, Shared, P>)) {
    type Top<'h> = Shelf<'h>;
    fn wide<'h, P: Promise>(heap: &Heap<'h, Unrooted, Shared, P>) -> Result<Top<'h>, Failure> {
        let leaf = Some(heap.alloc(leaf(7))?);
        let tag = [0x5EED_5EED; 12];
        let wide = Some(heap.alloc(Wide { tag, leaf })?);
        Ok(Shelf {
            wide,
            others: [const { None }; 16],
        })
    }
    let (chip, mut ram) = (Shared::blank(SIZE), vec![0; RAM]);
    {
        brand!(b);
        let mut heap =
            Heap::<Top<'_>, _, P>::open(b, chip.clone(), &mut ram, CONFIG, wide).unwrap();
        save(&mut heap);
    }
    {
        let bytes = &mut chip.0.lock().unwrap().bytes;
        let tag = 0x5EED_5EED_u32.to_le_bytes();
        let at = (0..SIZE).find(|at| bytes[*at..].starts_with(&tag)).unwrap();
        bytes[at] ^= 1;
    }
    brand!(b);
    let mut heap = Heap::<Top<'_>, _, P>::salvage(b, chip.clone(), &mut ram, CONFIG, wide).unwrap();
    assert_eq!(heap.damage(), 1);
    /// Allocates until the heap is full.
    fn fill<'h, P: Promise>(heap: &Heap<'h, Top<'h>, Shared, P>) -> usize {
        let mut root = heap.root_mut().unwrap();
        let used = root.others.iter().flatten().count();
        let free = root.others.iter_mut().enumerate().skip(used);
        free.map_while(|(i, place)| {
            *place = Some(heap.alloc([i as u32; 8]).ok()?);
            Some(())
        })
        .count()
    }
    assert!(fill(&heap) > 9);
    save(&mut heap);
    let wide = heap.root_mut().unwrap().wide.take().unwrap();
    heap.give_up(wide).unwrap();
    save(&mut heap);
    assert!(fill(&heap) > 0);
    save(&mut heap);
    let audit = heap.audit().unwrap();
    assert_eq!(audit.damaged, 0);
    let root = heap.root().unwrap();
    for (i, other) in root.others.iter().flatten().enumerate() {
        assert_eq!(heap.read(other), Ok([i as u32; 8]));
    }
}

#[test]
fn what_is_salvaged_keeps_its_units() {
    salvaged::<JustInTime>(|heap| {
        heap.persist().unwrap();
        heap.restore().unwrap();
    });
    salvaged::<Snapshot>(|heap| heap.commit().unwrap());
}

/// Elements of a queue that have no content yet keep their blocks while damage is known, also when
/// the bitmap is lost.
fn without_content<P: Promise>(salvages: bool, save: impl Fn(&mut Line<'_, P>)) {
    fn empty<'h, P: Promise>(heap: &Heap<'h, Unrooted, Shared, P>) -> Result<Ring<'h>, Failure> {
        Ok(Ring {
            fifo: Fifo::alloc(heap, 3)?,
            others: [None, Some(heap.alloc([9; 8])?)],
        })
    }
    let (chip, mut ram) = (Shared::blank(SIZE), vec![0; RAM]);
    {
        brand!(b);
        let mut heap = Line::<P>::open(b, chip.clone(), &mut ram, CONFIG, empty).unwrap();
        save(&mut heap);
    }
    let bytes = chip.bytes();
    let at = |i: usize| number(&bytes, 64 + 24 + 4 * i);
    let bitmap = (168 + 8 * at(2) + 4 * at(0)).next_multiple_of(8);
    chip.0.lock().unwrap().bytes[bitmap..bitmap + at(1) / 8].fill(0);
    brand!(b);
    let open = if salvages {
        Line::<P>::salvage
    } else {
        Line::<P>::open
    };
    let mut heap = open(b, chip.clone(), &mut ram, CONFIG, empty).unwrap();
    assert_eq!(heap.damage(), 0);
    let mut mine: Vec<_> = (0..8).map(|_| heap.alloc([7_u32; 4]).unwrap()).collect();
    let mut root = heap.root_mut().unwrap();
    for i in 10..13 {
        root.fifo.push(&heap, [i; 8]).unwrap();
    }
    drop(root);
    heap.audit().unwrap();
    save(&mut heap);
    // With snapshots, what the commit has freed becomes another's.
    mine.extend(core::iter::from_fn(|| heap.alloc([7_u32; 4]).ok()));
    heap.audit().unwrap();
    assert!(mine.iter().all(|own| heap.read(own) == Ok([7; 4])));
    let root = heap.root().unwrap();
    assert_eq!(heap.read(root.others[1].as_ref().unwrap()), Ok([9; 8]));
    for i in 0..3 {
        assert_eq!(root.fifo.get(&heap, i), Ok(Some([10 + u32::from(i); 8])));
    }
}

#[test]
fn what_has_no_content_keeps_its_block() {
    for salvages in [false, true] {
        without_content::<JustInTime>(salvages, |heap| {
            heap.persist().unwrap();
            heap.restore().unwrap();
        });
        without_content::<Snapshot>(salvages, |heap| heap.commit().unwrap());
    }
}

/// How many images, and how many of them show damage elsewhere.
#[derive(Default)]
struct Count {
    all: AtomicUsize,
    spread: AtomicUsize,
}

impl Count {
    fn take(&self, what: &str, judge: impl FnOnce() -> Result<(), String>) {
        self.all.fetch_add(1, Ordering::Relaxed);
        let judged = catch_unwind(AssertUnwindSafe(judge));
        let judged = judged.unwrap_or_else(|_| Err("a panic".into()));
        if let Err(how) = judged
            && self.spread.fetch_add(1, Ordering::Relaxed) < 10
        {
            eprintln!("{what}: {how}");
        }
    }

    /// As lines for a tool.
    fn tell(&self, name: &str) -> (usize, usize) {
        let (all, spread) = (
            self.all.load(Ordering::Relaxed),
            self.spread.load(Ordering::Relaxed),
        );
        println!("heap.{name} {all}\nheap.{name}_spread {spread}");
        (all, spread)
    }
}

/// Where bits are flipped: everywhere, or in the record that says *running*.
fn flips<P: Save>(name: &str, image: &Image, count: &Count) {
    let len = if image.refused {
        168
    } else {
        image.bytes.len()
    };
    for at in (0..len).step_by(if cfg!(miri) { 101 } else { 1 }) {
        for bit in 0..8 {
            let mut bytes = image.bytes.clone();
            bytes[at] ^= 1 << bit;
            count.take(&format!("{name}, bit {bit} of byte {at}"), || {
                image.judge::<P>(bytes, at..at + 1)
            });
        }
    }
}

/// Noise over each page of each of these sizes.
fn noise<P: Save>(name: &str, image: &Image, count: &Count) {
    let mut random = Rng::new(1);
    for size in [8, 32, 128] {
        for at in (0..image.bytes.len()).step_by(if cfg!(miri) { 512 } else { size }) {
            for _ in 0..if cfg!(miri) { 1 } else { 3 } {
                let mut bytes = image.bytes.clone();
                random.fill(&mut bytes[at..at + size]);
                count.take(&format!("{name}, {size} bytes from {at}"), || {
                    image.judge::<P>(bytes, at..at + size)
                });
            }
        }
    }
}

/// If the bitmap is damaged together with an object, the objects that it owns are still kept.
fn without_bitmap<P: Save>(image: &Image) {
    for (id, block) in &image.blocks {
        for at in [block.start, block.start + 2, block.start + 8] {
            let mut bytes = image.bytes.clone();
            bytes[image.bitmap.clone()].fill(0);
            bytes[at] ^= 1;
            let judged = image.judge::<P>(bytes, at..at + 1);
            judged.unwrap_or_else(|how| panic!("object {id}, byte {at}: {how}"));
        }
    }
}

/// A damaged entry that names a former block does not bring its content back, even if the blocks
/// are close together.
#[test]
fn former_blocks_do_not_come_back() {
    for rounds in 1..if cfg!(miri) { 2 } else { 8 } {
        let (_, chip) = clean::<Snapshot>();
        used::<Snapshot>(&chip, |heap| {
            for _ in 0..rounds {
                change(heap, &mut All::new());
                heap.commit().unwrap();
            }
        });
        let image = Image::of::<Snapshot>(chip.bytes());
        for at in image.table..image.table + 4 * image.all.len() {
            for bit in 0..8 {
                let mut bytes = image.bytes.clone();
                bytes[at] ^= 1 << bit;
                let judged = image.judge::<Snapshot>(bytes, at..at + 1);
                judged.unwrap_or_else(|how| panic!("{rounds}, bit {bit} of byte {at}: {how}"));
            }
        }
    }
}

/// An open that meets damage is cut at every call of the medium. The next ones find what an open
/// that was not cut finds.
fn cut_in_open<P: Save>(image: &Image) {
    let mut cuts = 0;
    let heads = image.blocks.values().map(|b| b.start..b.start + 9);
    let all = heads.chain([image.table..image.table + 64, image.bitmap.clone()]);
    for at in all.flatten().step_by(if cfg!(miri) { 97 } else { 1 }) {
        for mask in [0x01, 0x10, 0xFF] {
            let mut bytes = image.bytes.clone();
            bytes[at] ^= mask;
            let mut last = bytes.clone();
            for calls in 0.. {
                let (chip, mut ram) = (Shared::new(bytes.clone()), vec![0xEE; RAM]);
                chip.0.lock().unwrap().fails_after = Some(calls);
                brand!(b);
                let opened = TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, root);
                let failed = matches!(opened, Err(OpenError::Failed(Error::Medium(_))));
                drop(opened);
                if !failed {
                    break;
                }
                if chip.bytes() != last {
                    last = chip.bytes();
                    let judged = image.judge::<P>(last.clone(), at..at + 1);
                    judged
                        .unwrap_or_else(|how| panic!("byte {at}, {mask:#x}, call {calls}: {how}"));
                    cuts += 1;
                }
            }
        }
    }
    assert!(cfg!(miri) || cuts > 100, "{cuts}");
}

#[test]
fn an_open_is_cut_that_meets_damage() {
    cut_in_open::<JustInTime>(&clean::<JustInTime>().0);
    cut_in_open::<Snapshot>(&clean::<Snapshot>().0);
    cut_in_open::<Snapshot>(&cut());
}

#[test]
fn what_is_kept_is_claimed() {
    without_bitmap::<JustInTime>(&clean::<JustInTime>().0);
    without_bitmap::<Snapshot>(&clean::<Snapshot>().0);
}

#[test]
fn damage_does_not_spread() {
    let (flipped, noisy) = (Count::default(), Count::default());
    std::thread::scope(|s| {
        s.spawn(|| {
            let image = clean::<JustInTime>().0;
            flips::<JustInTime>("just in time", &image, &flipped);
            noise::<JustInTime>("just in time", &image, &noisy);
            flips::<JustInTime>("running", &running(), &flipped);
        });
        s.spawn(|| {
            for (name, image) in [
                ("snapshot", clean::<Snapshot>().0),
                ("cut", cut()),
                ("late", late()),
            ] {
                flips::<Snapshot>(name, &image, &flipped);
                noise::<Snapshot>(name, &image, &noisy);
            }
        });
    });
    let (all, spread) = flipped.tell("bit_flips");
    assert!(cfg!(miri) || all == 8 * (4 * SIZE + 168), "{all}");
    let (noisy, spread_of_pages) = noisy.tell("damaged_pages");
    assert!(
        cfg!(miri) || noisy == 3 * 4 * (SIZE / 8 + SIZE / 32 + SIZE / 128),
        "{noisy}"
    );
    assert_eq!((spread, spread_of_pages), (0, 0));
}
