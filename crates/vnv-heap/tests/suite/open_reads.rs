//! What opening a heap reads: the bound that `Heap::open` states, for several shapes of a heap, and
//! for each size of the RAM from the smallest that opens.

use crate::support::shared::Shared;
use nvmem::Persist;
use nvmem::device::Misuse;
use vnv_heap::collections::Fifo;
use vnv_heap::{
    Config, Error, Heap, JustInTime, OpenError, Own, Promise, Snapshot, Unrooted, brand,
};

const SIZE: usize = 64 * 1024;
const CONFIG: Config = Config {
    dirty_limit: 8000,
    objects: 400,
    ..Config::DEFAULT
};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    list: Option<Own<'h, Node<'h>>>,
    tree: Option<Own<'h, Tree<'h>>>,
    queue: Fifo<'h, [u8; 20]>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    next: Option<Own<'h, Node<'h>>>,
    small: Option<Own<'h, u16>>,
    large: Option<Own<'h, [u8; 6000]>>,
    data: [u8; 24],
}

#[derive(Persist)]
#[repr(C)]
struct Tree<'h> {
    two: [Option<Own<'h, Tree<'h>>>; 2],
    data: [u8; 7],
}

/// Sizes of the types with handles. No other object has one of these.
const WITH_HANDLES: [usize; 3] = [
    size_of::<Root<'static>>(),
    size_of::<Node<'static>>(),
    size_of::<Tree<'static>>(),
];

type TestHeap<'h, P> = Heap<'h, Root<'h>, Shared, P>;
type Failure = Error<Misuse>;

fn empty<'h, P: Promise>(heap: &Heap<'h, Unrooted, Shared, P>) -> Result<Root<'h>, Failure> {
    Ok(Root {
        list: None,
        tree: None,
        queue: Fifo::alloc(heap, 1)?,
    })
}

trait Save: Promise + Sized {
    /// How often open reads the whole table.
    const TABLES: u64;
    fn save(heap: &mut TestHeap<'_, Self>);
}
impl Save for JustInTime {
    const TABLES: u64 = 1;
    fn save(heap: &mut TestHeap<'_, Self>) {
        heap.persist().unwrap();
    }
}
impl Save for Snapshot {
    const TABLES: u64 = 2;
    fn save(heap: &mut TestHeap<'_, Self>) {
        heap.commit().unwrap();
    }
}

fn list<P: Promise>(heap: &TestHeap<'_, P>, n: usize, small: bool, large: bool) {
    for i in 0..n {
        let small = small.then(|| heap.alloc(i as u16).unwrap());
        let large = large.then(|| heap.alloc([i as u8; 6000]).unwrap());
        let mut root = heap.root_mut().unwrap();
        let (next, data) = (root.list.take(), [i as u8; 24]);
        root.list = Some(
            heap.alloc(Node {
                next,
                small,
                large,
                data,
            })
            .unwrap(),
        );
    }
}

fn tree<'h, P: Promise>(heap: &TestHeap<'h, P>, depth: usize) -> Option<Own<'h, Tree<'h>>> {
    let two = (depth > 0).then(|| [tree(heap, depth - 1), tree(heap, depth - 1)])?;
    Some(heap.alloc(Tree { two, data: [1; 7] }).unwrap())
}

/// Fills a heap.
type Fill<P> = fn(&mut TestHeap<'_, P>);

fn shapes<P: Save>() -> [(&'static str, Fill<P>); 8] {
    [
        ("empty", |_| ()),
        ("list", |heap| list(heap, 350, false, false)),
        ("tree", |heap| heap.root_mut().unwrap().tree = tree(heap, 7)),
        ("queue", |heap| {
            let mut queue = Fifo::alloc(heap, 300).unwrap();
            (0..200).for_each(|i| queue.push(heap, [i; 20]).unwrap());
            let old = core::mem::replace(&mut heap.root_mut().unwrap().queue, queue);
            heap.discard(old).unwrap();
        }),
        ("many small", |heap| list(heap, 190, true, false)),
        ("few large", |heap| list(heap, 8, false, true)),
        ("fragmented", |heap| {
            // Others between them are freed again.
            let mut between = Vec::new();
            for i in 0..120 {
                list(heap, 1, i % 3 == 0, false);
                between.push(heap.alloc([2_u8; 50]).unwrap());
            }
            between.into_iter().for_each(|own| heap.free(own).unwrap());
        }),
        ("unreachable", |heap| {
            list(heap, 30, true, false);
            // Handles are dropped.
            (0..200).for_each(|i| _ = heap.alloc([i as u8; 40]).unwrap());
            heap.root_mut().unwrap().list = None;
            list(heap, 20, false, false);
        }),
    ]
}

fn image<P: Save>(fill: Fill<P>) -> Vec<u8> {
    let (chip, mut ram) = (Shared::blank(SIZE), vec![0; 16 * 1024]);
    brand!(b);
    let mut heap = TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, empty).unwrap();
    fill(&mut heap);
    P::save(&mut heap);
    drop(heap);
    chip.bytes()
}

/// The bytes that an open with so much RAM reads, and the image afterwards; `None` if it is too
/// little.
fn open<P: Save>(image: &[u8], ram: usize) -> Option<(u64, Vec<u8>)> {
    let (chip, mut ram) = (Shared::new(image.to_vec()), vec![0xEE; ram]);
    brand!(b);
    match TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, empty) {
        Ok(heap) => drop(heap),
        Err(OpenError::RamTooSmall { .. }) => return None,
        Err(e) => panic!("opens: {e}"),
    }
    let read = chip.0.lock().unwrap().read;
    Some((read, chip.bytes()))
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// What an open is to read at most, by its documentation; and what of it depends on bytes that
/// belong to no object.
struct Bound {
    most: u64,
    loose: u64,
}

/// `before` and `after`: the image before an open, and after one that found no damage.
fn bound<P: Save>(before: &[u8], after: &[u8], damaged: bool) -> Bound {
    let at = |i: usize| number(after, 64 + 24 + 4 * i);
    let (objects, units, pins) = (at(0), at(1), at(2));
    let table = 168 + 8 * pins;
    let bitmap = (table + 4 * objects).next_multiple_of(8);
    let first = (bitmap + units / 8).next_multiple_of(8);
    let set = |b: &[u8]| -> u64 {
        let bytes = b[bitmap..bitmap + units / 8].iter();
        bytes.map(|b| u64::from(b.count_ones())).sum()
    };
    let block = |b: &[u8], id: usize| {
        let unit = number(b, table + 4 * (id - 1));
        (unit != 0).then(|| number(b, first + 8 * (unit - 1) + 2))
    };
    let (mut all, mut walked, mut contents) = (0, 0, 0);
    for id in 1..=objects {
        if let Some(len) = block(after, id) {
            all += 1;
            if WITH_HANDLES.contains(&len) {
                walked += 12 + len as u64;
            }
        }
        if let Some(len) = block(before, id) {
            contents += 14 + len as u64 + len as u64 / 8;
        }
    }
    let others = set(before) - set(after);
    let entries = 4 * objects as u64;
    let blocks = (units / 8) as u64 + 8 * (all + others);
    let mut most = 160 + P::TABLES * entries + walked + blocks;
    if damaged {
        most += entries + contents + blocks;
    }
    Bound {
        most,
        loose: 4 * others + 8,
    }
}

fn sweep<P: Save>(name: &str, image: &[u8], of: &Bound, damaged: bool) {
    let mut sizes = (64..4096).step_by(8);
    let smallest = sizes.find(|ram| open::<P>(image, *ram).is_some()).unwrap();
    let (read, _) = open::<P>(image, smallest).unwrap();
    println!("{name}: {read} bytes are read with {smallest} of RAM");
    assert!(read <= of.most, "{name}: {read} bytes, {} said", of.most);
    assert!(
        damaged || read + of.loose >= of.most,
        "{name}: {read} bytes, {} said",
        of.most
    );
    for ram in sizes {
        assert_eq!(open::<P>(image, ram).unwrap().0, read, "{name}, {ram}");
    }
}

fn all<P: Save>() {
    for (name, fill) in shapes::<P>() {
        let image = image::<P>(fill);
        let after = open::<P>(&image, 16 * 1024).unwrap().1;
        sweep::<P>(name, &image, &bound::<P>(&image, &after, false), false);
        // A bit of the bitmap that belongs to the root; then everything is claimed anew.
        let of = bound::<P>(&image, &after, true);
        let at = |i: usize| number(&image, 64 + 24 + 4 * i);
        let table = 168 + 8 * at(2);
        let bitmap = (table + 4 * at(0)).next_multiple_of(8);
        let unit = number(&image, table) - 1;
        let mut damaged = image;
        damaged[bitmap + unit / 8] ^= 1 << (unit % 8);
        sweep::<P>(&format!("{name}, damaged"), &damaged, &of, true);
    }
}

#[test]
fn just_in_time() {
    all::<JustInTime>();
}

#[test]
fn snapshot() {
    all::<Snapshot>();
}

/// With the snapshot promise, what was written after the last commit belongs to nobody.
#[test]
fn what_a_cut_left_over() {
    let (chip, mut ram) = (Shared::blank(SIZE), vec![0; 4096]);
    brand!(b);
    let mut heap = TestHeap::<Snapshot>::open(b, chip.clone(), &mut ram, CONFIG, empty).unwrap();
    list(&heap, 60, true, false);
    heap.commit().unwrap();
    list(&heap, 100, true, false);
    let image = chip.bytes();
    drop(heap);
    let after = open::<Snapshot>(&image, 4096).unwrap().1;
    let of = bound::<Snapshot>(&image, &after, false);
    assert!(of.loose > 1000, "{}", of.loose);
    // Open also settles the entries of what was cut.
    let of = Bound {
        most: of.most + 40 * 2,
        loose: of.loose + 40 * 2,
    };
    sweep::<Snapshot>("cut", &image, &of, false);
    sweep::<Snapshot>(
        "again",
        &after,
        &bound::<Snapshot>(&after, &after, false),
        false,
    );
}
