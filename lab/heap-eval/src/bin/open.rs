//! What opening a heap reads, over sizes of RAM: 512 KiB of medium, 2,000 objects, a queue of 1,000
//! elements. Lines `key value`.

use critical_section as _;
use heap_eval::medium::{Counts, Fram};
use heap_eval::on_heap::{bytes, ram, sure};
use vnv_heap::collections::Fifo;
use vnv_heap::nvmem::Persist;
use vnv_heap::{Config, Heap, OpenError, Own, Snapshot, brand};

const MEDIUM: usize = 512 * 1024;
/// Elements of the queue; as many objects again in a list.
const QUEUE: u16 = 1000;
const CONFIG: Config = Config {
    objects: 2 * QUEUE + 16,
    ..Config::DEFAULT
};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    queue: Fifo<'h, [u8; 16]>,
    list: Option<Own<'h, Node<'h>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    next: Option<Own<'h, Node<'h>>>,
    data: [u8; 30],
}

/// Formats a heap and fills it. Returns the image, and the bytes that formatting read.
fn filled() -> (Vec<u8>, u64) {
    let counts = Counts::default();
    let mut fram = Fram::new(MEDIUM, &counts);
    let mut buffer = ram(16 * 1024);
    brand!(b);
    let root = |heap: &_| {
        let queue = Fifo::alloc(heap, QUEUE)?;
        Ok(Root { queue, list: None })
    };
    let heap = Heap::<Root, _, Snapshot>::format(b, &mut fram, bytes(&mut buffer), CONFIG, root);
    let mut heap = sure(heap);
    let read = counts.read();
    for i in 0..QUEUE {
        let mut root = sure(heap.root_mut());
        sure(root.queue.push(&heap, [i as u8; 16]).map_err(|r| r.error));
        let next = root.list.take();
        let node = Node {
            next,
            data: [i as u8; 30],
        };
        root.list = Some(sure(heap.alloc(node).map_err(|r| r.error)));
        drop(root);
        if i % 100 == 99 {
            sure(heap.commit());
        }
    }
    (fram.bytes().to_vec(), read)
}

/// The bytes that an open with so much RAM reads; `None` if it is too little.
fn open(image: &[u8], bytes_of_ram: usize) -> Option<u64> {
    let counts = Counts::default();
    let mut fram = Fram::with(image.to_vec(), &counts);
    let mut buffer = ram(bytes_of_ram);
    brand!(b);
    let root = |_: &_| unreachable!("the heap exists");
    match Heap::<Root, _, Snapshot>::open(b, &mut fram, bytes(&mut buffer), CONFIG, root) {
        Ok(heap) => {
            assert_eq!(sure(heap.root()).queue.len(), QUEUE);
            Some(counts.read())
        }
        Err(OpenError::Failed(_) | OpenError::RamTooSmall { .. }) => None,
        Err(e) => panic!("opens: {e:?}"),
    }
}

fn sure_open(image: &[u8], bytes_of_ram: usize) -> u64 {
    open(image, bytes_of_ram).expect("it is enough")
}

fn main() {
    let (image, format_read) = filled();
    let (mut most, mut smallest) = (0, None);
    for size in (64..=4096).step_by(8) {
        let Some(read) = open(&image, size) else {
            assert_eq!(
                smallest, None,
                "opens with {smallest:?} bytes, but not with {size}"
            );
            continue;
        };
        smallest.get_or_insert(size);
        most = most.max(read);
    }
    let smallest = smallest.expect("4 KiB suffice");
    println!("heap.open_smallest_ram {smallest}");
    println!("heap.open_read_max {most}");
    println!("heap.open_read_smallest {}", sure_open(&image, smallest));
    for size in [2048, 4096, 16384] {
        println!("heap.open_read_{size} {}", sure_open(&image, size));
    }
    println!("heap.format_read {format_read}");
}
