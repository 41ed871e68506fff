//! Images that no heap has written: the result is an error or a working heap, never a panic, a hang
//! or undefined behaviour.

use crate::support::shared::Shared;
use nvmem::Persist;
use powerfail::Rng;
use vnv_heap::{Config, Error, Heap, JustInTime, Own, Promise, Snapshot, Unrooted, brand};

const SIZE: usize = 768;
const CONFIG: Config = Config {
    dirty_limit: 200,
    burst: 32,
    objects: 16,
    max_pins: 4,
    budget: None,
};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    list: Option<Own<'h, Node<'h>>>,
    letter: char,
    on: bool,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    next: Option<Own<'h, Node<'h>>>,
    leaf: Option<Own<'h, [bool; 12]>>,
}

type TestHeap<'h, P> = Heap<'h, Root<'h>, Shared, P>;

fn root<'h, P: Promise>(
    heap: &Heap<'h, Unrooted, Shared, P>,
) -> Result<Root<'h>, Error<nvmem::device::Misuse>> {
    let mut list = None;
    for i in 0..3 {
        let leaf = Some(heap.alloc([i > 0; 12])?);
        list = Some(heap.alloc(Node { next: list, leaf })?);
    }
    Ok(Root {
        list,
        letter: 'ß',
        on: true,
    })
}

fn image<P: Promise>() -> Vec<u8> {
    let (chip, mut ram) = (Shared::blank(SIZE), vec![0; 512]);
    brand!(b);
    TestHeap::<P>::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
    chip.bytes()
}

/// Opens the image and uses its objects. Returns whether it opened.
fn attack<P: Promise>(image: Vec<u8>) -> bool {
    let mut ram = vec![0xEE; 512];
    brand!(b);
    let opened = TestHeap::<P>::open(b, Shared::new(image), &mut ram, CONFIG, root);
    let Ok(mut heap) = opened else {
        return false;
    };
    if let Ok(root) = heap.root() {
        assert!(char::from_u32(root.letter as u32).is_some());
        let mut at = root.list.as_ref().and_then(|own| heap.get(own).ok());
        let mut steps = 0;
        while let Some(node) = at {
            steps += 1;
            assert!(steps <= 16, "more objects than there are");
            if let Some(leaf) = &node.leaf {
                let _ = heap.update(leaf, |l| l[0] = !l[0]);
            }
            at = node.next.as_ref().and_then(|own| heap.get(own).ok());
        }
    }
    let fresh = heap.alloc([true; 12]);
    if let Ok(fresh) = &fresh {
        assert_eq!(heap.read(fresh).unwrap(), [true; 12]);
    }
    let list = heap.root_mut().ok().and_then(|mut root| root.list.take());
    if let Some(list) = list {
        let _ = heap.free(list);
    }
    let _ = heap.audit();
    if let Ok(fresh) = fresh {
        assert_eq!(heap.read(&fresh).unwrap(), [true; 12]);
    }
    true
}

fn each_byte<P: Promise>() {
    let original = image::<P>();
    assert!(attack::<P>(original.clone()));
    let mut seen = [0; 2];
    let step = if cfg!(miri) { 97 } else { 1 };
    for i in (0..SIZE).step_by(step) {
        let was = original[i];
        for v in [0, 1, was ^ 1, was ^ 0x80, was.wrapping_add(1), 0x7F, 0xFF] {
            let mut m = original.clone();
            m[i] = v;
            seen[attack::<P>(m) as usize] += 1;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// Several bytes, and pieces from elsewhere.
fn mutated<P: Promise>(seed: u64) {
    let original = image::<P>();
    let mut random = Rng::new(seed);
    let mut below = |n: usize| random.below(n as u64) as usize;
    for _ in 0..if cfg!(miri) { 5 } else { 20_000 } {
        let mut m = original.clone();
        for _ in 0..1 + below(6) {
            let (from, to) = (below(SIZE), below(SIZE));
            let n = 1 + below(16.min(SIZE - from.max(to)));
            match below(3) {
                0 => m[from] = below(256) as u8,
                // What is valid somewhere else.
                1 => m.copy_within(from..from + n, to),
                _ => m[from..from + n].fill([0, 0xFF, 1][below(3)]),
            }
        }
        attack::<P>(m);
    }
}

/// The same layout as plain numbers, so that checks over forged handles are right: only the walk
/// can refuse them.
#[derive(Persist)]
#[repr(C)]
struct Forged {
    list: u16,
    letter: u32,
    on: u8,
}

fn forged<P: Promise>(random: &mut Rng, header: &[u8]) -> Vec<u8> {
    type Numbers<'h, P> = Heap<'h, Forged, Shared, P>;
    let (chip, mut ram) = (Shared::blank(SIZE), vec![0; 512]);
    let mut id = |n: u64| random.below(n) as u16;
    {
        brand!(b);
        let opened = Numbers::<P>::open(b, chip.clone(), &mut ram, CONFIG, |heap| {
            for i in 0..3 {
                // As in a sound image, unless chance will have it otherwise.
                let sound = id(4) > 0;
                let leaf = heap.alloc([if sound { 1u8 } else { id(4) as u8 }; 12])?;
                let next = if i > 0 { 1 + 2 * i } else { 0 };
                let sound = id(4) > 0;
                let of = |right: u16, wrong: u16| if sound { right } else { wrong };
                let (next, leaf) = (of(next, id(18)), of(Own::number(&leaf), id(18)));
                let _ = heap.alloc([next, leaf])?;
            }
            let sound = id(4) > 0;
            Ok(Forged {
                list: if sound { 7 } else { id(18) },
                letter: if id(8) > 0 { 65 } else { 0xD800 },
                on: if id(8) > 0 { 1 } else { 2 },
            })
        });
        opened.unwrap_or_else(|e| panic!("{e}"));
    }
    let mut image = chip.bytes();
    image[..header.len()].copy_from_slice(header);
    image
}

/// A handle leads into the content of another object, which the program then fills with what such
/// an object looks like.
#[test]
fn content_does_not_become_an_object() {
    const UNIT: usize = 8;
    /// The blocks of objects 2 and 3.
    fn made<'h, T: Persist<At<'h> = T> + vnv_heap::Marked<()>>(
        b: vnv_heap::Brand<'h>,
        ram: &'h mut [u8],
        make: impl FnOnce() -> T,
    ) -> (Vec<u8>, [usize; 2]) {
        let chip = Shared::blank(SIZE);
        Heap::<[u16; 2], _, JustInTime>::open(b, chip.clone(), ram, CONFIG, |heap| {
            let text = heap.alloc([0u8; 40])?;
            let node = heap.alloc(make())?;
            Ok([Own::number(&text), Own::number(&node)])
        })
        .unwrap();
        let bytes = chip.bytes();
        let at = |i: usize| u16::from_le_bytes([bytes[i], bytes[i + 1]]) as usize;
        // The table lies behind the superblock, the records and the pins.
        let table = nvmem::Superblock::BYTES + 40 + 8 * usize::from(CONFIG.max_pins);
        let units = (table + 4 * 16).next_multiple_of(8) + at(64 + 28).div_ceil(8);
        let first = units.next_multiple_of(UNIT) - UNIT;
        let block = |id: usize| first + UNIT * at(table + 4 * (id - 1));
        let blocks = [block(2), block(3)];
        assert_eq!(at(blocks[1]), 3, "its header has its number");
        (bytes, blocks)
    }
    #[derive(Persist)]
    #[repr(C)]
    struct Text<'h> {
        text: Own<'h, [u8; 40]>,
        node: Own<'h, Node<'h>>,
    }
    let (mut ram, mut ram2, mut ram3) = (vec![0; 512], vec![0; 512], vec![0; 512]);
    let forged = {
        brand!(b);
        // Its handles lead to the text, which has an owner.
        let (bytes, [_, node]) = made(b, &mut ram, || [2u16, 2]);
        bytes[node..node + 12].to_vec()
    };
    let (mut image, [text, node]) = {
        brand!(b);
        made(b, &mut ram2, || [0u16; 2])
    };
    // The layout is the same; only the fingerprint tells numbers from handles.
    let header = {
        let chip = Shared::blank(SIZE);
        brand!(b);
        let opened =
            Heap::<Text, _, JustInTime>::open(b, chip.clone(), &mut ram3, CONFIG, |heap| {
                let text = heap.alloc([0u8; 40])?;
                let (next, leaf) = (None, None);
                let node = heap.alloc(Node { next, leaf })?;
                Ok(Text { text, node })
            });
        drop(opened);
        chip.bytes()[..nvmem::Superblock::BYTES].to_vec()
    };
    image[..header.len()].copy_from_slice(&header);
    let entry = nvmem::Superblock::BYTES + 40 + 8 * usize::from(CONFIG.max_pins) + 4 * 2;
    let unit = u16::from_le_bytes([image[entry], image[entry + 1]]);
    let inside = unit - ((node - text) / UNIT) as u16 + 2;
    for half in [0, 2] {
        image[entry + half..][..2].copy_from_slice(&inside.to_le_bytes());
    }
    let mut ram = vec![0; 512];
    brand!(b);
    let chip = Shared::new(image);
    let mut heap =
        Heap::<Text, _, JustInTime>::open(b, chip, &mut ram, CONFIG, |_| panic!("not blank"))
            .unwrap();
    assert_eq!(heap.damage(), 1);
    let text = |text: &mut [u8; 40]| text[UNIT..UNIT + 12].copy_from_slice(&forged);
    heap.update(&heap.root().unwrap().text, text).unwrap();
    // From here on the text is on the medium only.
    heap.persist().unwrap();
    heap.restore().unwrap();
    let node = heap.get(&heap.root().unwrap().node).map(drop);
    assert_eq!(node, Err(Error::Damaged { object: 3 }));
}

fn forgeries<P: Promise>() {
    let header = image::<P>()[..nvmem::Superblock::BYTES].to_vec();
    let mut random = Rng::new(4711);
    let mut seen = [0; 2];
    for _ in 0..if cfg!(miri) { 10 } else { 5000 } {
        let m = forged::<P>(&mut random, &header);
        seen[attack::<P>(m) as usize] += 1;
    }
    assert!(cfg!(miri) || seen[0] > 100 && seen[1] > 100, "{seen:?}");
}

#[test]
fn forged_handles() {
    forgeries::<JustInTime>();
    forgeries::<Snapshot>();
}

#[test]
fn each_byte_just_in_time() {
    each_byte::<JustInTime>()
}

#[test]
fn each_byte_snapshot() {
    each_byte::<Snapshot>()
}

#[test]
fn mutated_just_in_time() {
    mutated::<JustInTime>(1)
}

#[test]
fn mutated_snapshot() {
    mutated::<Snapshot>(2)
}

#[test]
fn random_bytes() {
    let mut random = Rng::new(77);
    for _ in 0..if cfg!(miri) { 5 } else { 2000 } {
        let mut m = vec![0; SIZE];
        random.fill(&mut m);
        assert!(!attack::<JustInTime>(m.clone()) && !attack::<Snapshot>(m));
    }
}
