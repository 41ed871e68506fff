//! Any bytes as the medium of a heap: `open` gives an error value, or a working heap with
//! collections.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvmem::Persist;
use nvmem::crc::crc32;
use nvmem::ram::RamFram;
use relume_fuzz::{edit, overwrite, seeds};
use vnv_heap::collections::{Blob, Chunked, Fifo, Map, Vector};
use vnv_heap::{Config, Error, Heap, JustInTime, Own, Promise, Snapshot, Unrooted, brand};

const SIZE: usize = 1536;
type Fram = RamFram<SIZE>;

const CONFIG: Config = Config {
    dirty_limit: 400,
    burst: 32,
    objects: 32,
    max_pins: 4,
    ..Config::DEFAULT
};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    list: Option<Own<'h, Node<'h>>>,
    queue: Fifo<'h, [bool; 12]>,
    series: Vector<'h, u16, 4>,
    map: Map<'h, u8, char, 2>,
    tables: Chunked<'h, Option<Own<'h, [bool; 3]>>, 2>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    next: Option<Own<'h, Node<'h>>>,
    text: Blob<'h>,
}

fn root<'h, P: Promise>(
    heap: &Heap<'h, Unrooted, &mut Fram, P>,
) -> Result<Root<'h>, Error<nvmem::device::Misuse>> {
    let mut r = Root {
        list: None,
        queue: Fifo::alloc(heap, 2)?,
        series: Vector::new(),
        map: Map::new(),
        tables: Chunked::alloc(heap, 2, |_| Ok([Some(heap.alloc([true; 3])?), None]))?,
    };
    for i in 0..2 {
        let text = Blob::alloc(heap, b"some text")?;
        let next = r.list.take();
        r.list = Some(heap.alloc(Node { next, text })?);
        r.queue.push(heap, [i == 0; 12])?;
    }
    for i in 0..5 {
        r.series.push(heap, i)?;
        r.map.insert(heap, i as u8, 'x')?;
    }
    Ok(r)
}

fn image<P: Promise>() -> Fram {
    let (mut fram, mut ram) = (Fram::filled(0), [0; 1024]);
    brand!(b);
    Heap::<Root, _, P>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
    fram
}

fn number(bytes: &[u8], at: usize) -> usize {
    bytes
        .get(at..at + 2)
        .map_or(0, |b| usize::from(b[0]) | usize::from(b[1]) << 8)
}

/// The checksum over a block's number, length and content, as defined in docs/SPEC.md.
fn check(id: usize, content: &[u8]) -> u16 {
    const WEIGHTS: [u64; 8] = [9231, 62792, 16668, 41968, 23136, 51654, 42404, 13080];
    let mut c = (id + (content.len() << 16)) as u64 % 65521;
    for piece in content.chunks(32) {
        let mut block = [0; 32];
        block[..piece.len()].copy_from_slice(piece);
        c *= 18806;
        for (w, weight) in block.as_chunks::<4>().0.iter().zip(WEIGHTS) {
            c += u64::from(u32::from_le_bytes(*w)) * weight;
        }
        c %= 65521;
    }
    c as u16 + 1
}

/// Repairs the checksums, so that the fuzzer attacks the data behind them.
fn seal(b: &mut [u8]) {
    for (at, len, crc) in [(0, 60, 60), (64, 60, 124), (128, 8, 136), (144, 8, 152)] {
        let sum = crc32(&b[at..at + len]).to_le_bytes();
        b[crc..crc + 4].copy_from_slice(&sum);
    }
    let (objects, units) = (32, number(b, 64 + 28));
    let table = 168 + 4 * 8;
    let blocks = (table + objects * 4 + units / 8).next_multiple_of(8);
    for id in 1..=objects {
        let unit = number(b, table + (id - 1) * 4 + 2);
        let at = (blocks + unit * 8).saturating_sub(8);
        let len = number(b, at + 2);
        if let Some(content) = b.get(at + 8..at + 8 + len) {
            let sum = check(id, content).to_le_bytes();
            b[at + 6..at + 8].copy_from_slice(&sum);
        }
    }
}

trait Save {
    fn save(&mut self);
}
impl Save for Heap<'_, Root<'_>, &mut Fram, JustInTime> {
    fn save(&mut self) {
        let _ = self.persist();
    }
}
impl Save for Heap<'_, Root<'_>, &mut Fram, Snapshot> {
    fn save(&mut self) {
        let _ = self.commit();
    }
}

fn attack<P: Promise>(fram: &mut Fram)
where
    for<'a, 'h> Heap<'h, Root<'h>, &'a mut Fram, P>: Save,
{
    let mut ram = [0xEE; 1024];
    brand!(b);
    let Ok(mut heap) = Heap::<Root, _, P>::open(b, fram, &mut ram, CONFIG, root) else {
        return;
    };
    // Values that were checked at open or paged in are valid: `bool`s, `char`s, handles.
    let fresh = heap.alloc([0xA5; 12]).ok();
    if let Ok(mut r) = heap.root_mut() {
        let _ = r.queue.pop(&heap);
        let _ = r.queue.push(&heap, [true; 12]);
        let _ = r.series.push(&heap, 7);
        let _ = r.series.set(&heap, 1, 3);
        let _ = r.series.pop(&heap);
        let _ = r.map.insert(&heap, 9, 'y');
        let _ = r.map.remove(&heap, &1);
        let _ = r
            .map
            .for_each(&heap, |_, c| assert!(char::from_u32(*c as u32).is_some()));
        for i in 0..4 {
            let taken = r.tables.update(&heap, i, Option::take);
            if let Ok(Some(Some(own))) = taken {
                if let Ok(v) = heap.get(&own) {
                    assert!(v.iter().all(|b| u8::from(*b) < 2));
                }
                let _ = heap.free(own);
            }
        }
        let mut list = r.list.take();
        let mut steps = 0;
        while let Some(own) = list {
            steps += 1;
            assert!(steps <= 32, "more objects than there are");
            let Ok(node) = heap.take(own) else { break };
            let _ = node.text.with(&heap, |b| b.len());
            let _ = heap.discard(node.text);
            list = node.next;
        }
    }
    if let Some(fresh) = &fresh {
        assert_eq!(
            heap.read(fresh).ok(),
            Some([0xA5; 12]),
            "it was overwritten"
        );
    }
    let _ = heap.audit();
    heap.save();
}

fuzz_target!(
    init: {
        let whole = |mode: u8, fram: &Fram| [&[mode], &fram.bytes()[..]].concat();
        seeds(&[
            ("edit-just-in-time", vec![4]),
            ("edit-snapshot", vec![5]),
            ("whole-just-in-time", whole(2, &image::<JustInTime>())),
            ("whole-snapshot", whole(3, &image::<Snapshot>())),
        ]);
    },
    |data: &[u8]| {
        let Some((mode, rest)) = data.split_first() else {
            return;
        };
        let change = |fram: &mut Fram| {
            let bytes = fram.bytes_mut();
            match mode & 2 {
                0 => edit(bytes, rest),
                _ => overwrite(bytes, rest),
            }
            if mode & 4 != 0 {
                seal(bytes);
            }
        };
        if mode & 1 == 0 {
            let mut fram = image::<JustInTime>();
            change(&mut fram);
            attack::<JustInTime>(&mut fram);
        } else {
            let mut fram = image::<Snapshot>();
            change(&mut fram);
            attack::<Snapshot>(&mut fram);
        }
    }
);
