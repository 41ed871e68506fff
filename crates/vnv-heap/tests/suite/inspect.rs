//! `inspect` says of an image what is true: nothing of a sound one is damaged, and of a damaged one
//! exactly the objects that are.

use crate::support::shared::Shared;
use nvmem::Persist;
use nvmem::device::Misuse;
use powerfail::Rng;
use std::collections::BTreeSet;
use vnv_heap::collections::{Chunked, Fifo, Map, Vector};
use vnv_heap::{Config, Error, Heap, JustInTime, Own, Promise, Snapshot, Unrooted, brand};

const SIZE: usize = 16 * 1024;
const CONFIG: Config = Config {
    objects: 150,
    ..Config::DEFAULT
};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    queue: Fifo<'h, [u8; 40]>,
    owning: Fifo<'h, Own<'h, [u8; 30]>>,
    vector: Vector<'h, u32, 8>,
    map: Map<'h, u16, u32, 4>,
    array: Chunked<'h, u16, 16>,
    list: Option<Own<'h, Node<'h>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    next: Option<Own<'h, Node<'h>>>,
    data: [u8; 20],
}

type TestHeap<'h, P> = Heap<'h, Root<'h>, Shared, P>;

fn root<'h, P: Promise>(heap: &Heap<'h, Unrooted, Shared, P>) -> Result<Root<'h>, Error<Misuse>> {
    Ok(Root {
        queue: Fifo::alloc(heap, 20)?,
        owning: Fifo::alloc(heap, 4)?,
        vector: Vector::new(),
        map: Map::new(),
        array: Chunked::alloc(heap, 3, |_| Ok([7; 16]))?,
        list: None,
    })
}

trait Save: Promise + Sized {
    /// Whether the power may go at any time.
    const MAY_END: bool;
    fn save(heap: &mut TestHeap<'_, Self>);
}
impl Save for JustInTime {
    const MAY_END: bool = false;
    fn save(heap: &mut TestHeap<'_, Self>) {
        heap.persist().unwrap();
        heap.restore().unwrap();
    }
}
impl Save for Snapshot {
    const MAY_END: bool = true;
    fn save(heap: &mut TestHeap<'_, Self>) {
        heap.commit().unwrap();
    }
}

fn text(bytes: &[u8]) -> String {
    let mut said = String::new();
    vnv_heap::inspect::heap(bytes, &mut said).unwrap();
    said
}

/// Whether some object has no content yet.
fn is_sound(chip: &Shared, what: &str) -> bool {
    let said = text(&chip.bytes());
    for wrong in ["NOT intact", "DAMAGED", "ends within"] {
        let line = said.lines().find(|l| l.contains(wrong));
        assert_eq!(line, None, "{what}\n{said}");
    }
    said.contains("no content yet")
}

/// One operation. An error is one of space or of limits.
fn operate<P: Promise>(heap: &TestHeap<'_, P>, what: usize, i: u32) {
    let Ok(mut root) = heap.root_mut() else {
        return;
    };
    match what {
        0 | 1 => _ = root.queue.push(heap, [i as u8; 40]),
        2 => _ = root.queue.pop(heap),
        3 => root.queue.skip(heap),
        4 => {
            if let Ok(own) = heap.alloc([i as u8; 30]) {
                _ = root.owning.push(heap, own);
            }
        }
        5 => {
            if let Ok(Some(own)) = root.owning.pop(heap) {
                heap.free(own).unwrap();
            }
        }
        6 | 7 => _ = root.vector.push(heap, i),
        8 => _ = root.vector.pop(heap),
        9 => _ = root.vector.set(heap, i % 5, i),
        10 => _ = root.map.insert(heap, (i % 30) as u16, i),
        11 => _ = root.map.remove(heap, &((i % 30) as u16)),
        12 => _ = root.array.set(heap, i % 40, i as u16),
        13 => {
            let next = root.list.take();
            let data = [i as u8; 20];
            match heap.alloc(Node { next, data }) {
                Ok(own) => root.list = Some(own),
                Err(r) => root.list = r.value.next,
            }
        }
        14 => {
            if let Some(own) = root.list.take()
                && let Ok(node) = heap.take(own)
            {
                root.list = node.next;
            }
        }
        // A handle that is dropped.
        15 => _ = heap.alloc([i as u8; 33]),
        16 => _ = root.queue.clear(heap),
        _ => _ = root.vector.clear(heap),
    }
}

fn any_operations<P: Save>() {
    let mut random = Rng::new(1);
    // From the second round on, old content lies everywhere.
    let mut empty = false;
    let chip = Shared::blank(SIZE);
    for round in 0..if cfg!(miri) { 2 } else { 30 } {
        let mut ram = vec![0; 1024];
        brand!(b);
        let mut heap = TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
        for i in 0..if cfg!(miri) { 40 } else { 400 } {
            operate(&heap, random.below(18) as usize, i);
            is_sound(&chip, "between saves");
            if random.below(10) == 0 {
                P::save(&mut heap);
                empty |= is_sound(&chip, &format!("round {round}, after operation {i}"));
            }
        }
        // With snapshots, some rounds end without a commit.
        if round % 3 != 0 || !P::MAY_END {
            P::save(&mut heap);
        }
    }
    assert!(empty);
}

#[test]
fn a_sound_heap_is_intact() {
    any_operations::<JustInTime>();
    any_operations::<Snapshot>();
}

/// Numbers of the objects that are called damaged.
fn damaged(said: &str) -> BTreeSet<u16> {
    let wrong = |l: &&str| l.contains("NOT intact") || l.contains("DAMAGED");
    let number = |l: &str| l.strip_prefix("object ")?.split(':').next()?.parse().ok();
    said.lines().filter(wrong).filter_map(number).collect()
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// Each bit of blocks and entries is flipped.
fn flips<P: Save>() {
    let (chip, mut ram) = (Shared::blank(SIZE), vec![0; 1024]);
    brand!(b);
    let mut heap = TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
    (0..60).for_each(|i| operate(&heap, (i % 15) as usize, i));
    P::save(&mut heap);
    drop(heap);
    let image = chip.bytes();
    let sound = text(&image);
    assert_eq!(damaged(&sound), BTreeSet::new(), "{sound}");
    let at = |i: usize| number(&image, 64 + 24 + 4 * i);
    let table = 168 + 8 * at(2);
    let first = ((table + 4 * at(0)).next_multiple_of(8) + at(1) / 8).next_multiple_of(8);
    let mut seen = 0;
    for id in 1..=at(0) {
        let unit = number(&image, table + 4 * (id - 1));
        if unit == 0 {
            continue;
        }
        seen += 1;
        let block = first + 8 * (unit - 1);
        let len = number(&image, block + 2);
        let empty = sound
            .lines()
            .any(|l| l.starts_with(&format!("object {id}:")) && l.ends_with("no content yet"));
        // The chain means nothing, nor do bytes of no content.
        let mut bytes: Vec<_> = (block..block + 4).chain(block + 6..block + 8).collect();
        if !empty {
            bytes.extend(block + 8..block + 8 + len);
        }
        for at in bytes.into_iter().step_by(if cfg!(miri) { 20 } else { 1 }) {
            for bit in 0..8 {
                let mut image = image.clone();
                image[at] ^= 1 << bit;
                let said = damaged(&text(&image));
                assert_eq!(said, BTreeSet::from([id as u16]), "byte {at}, bit {bit}");
            }
        }
    }
    assert!(seen > 25, "{seen}");
}

#[test]
fn damaged_objects_are_named() {
    flips::<JustInTime>();
    flips::<Snapshot>();
}
