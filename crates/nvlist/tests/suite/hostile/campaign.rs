// Changes that are made to a sound image before it is opened.

use nvlist::{OpenError, Component};
use nvlist::nvmem::{Model, Superblock, Unit};

const UNIT: usize = <<M as Model>::Unit as Unit>::BYTES;
const WORDS: usize = 48;
/// Behind the superblock: the record, two targets, three heads, two contexts; nodes at 8k + 4.
const RECORD: usize = Superblock::BYTES;
const HEADS: usize = RECORD + 12;
const STAGED: usize = HEADS + 3 * 4;
const FIRST: usize = (STAGED + 2 * 2 * UNIT + 3) / 8 * 8 + 4;

fn bytes(m: &mut Words) -> &mut [u8] {
    // SAFETY: initialised when made, and media are stored to in whole units with padding cleared.
    unsafe { core::slice::from_raw_parts_mut(m.as_mut_ptr().cast(), m.len() * 8) }
}

/// Runs `change` on copies of all images until it returns that it is done; returns how many did not
/// open and how many did.
fn campaign(step: usize, mut change: impl FnMut(usize, &mut [u8]) -> bool) -> [usize; 2] {
    let mut seen = [0; 2];
    for doubt in 0..4 {
        let original = image(WORDS, doubt);
        assert!(attack(&mut original.clone()), "the image is sound");
        for i in (0..).step_by(if cfg!(miri) { step } else { 1 }) {
            let mut m = original.clone();
            let enough = cfg!(miri) && seen[0] + seen[1] >= 2 * (doubt as usize + 1);
            if enough || !change(i, bytes(&mut m)) {
                break;
            }
            seen[attack(&mut m) as usize] += 1;
        }
    }
    seen
}

fn both(seen: [usize; 2]) {
    assert!(
        cfg!(miri) || seen[0] > 0 && seen[1] > 0,
        "refused {}, opened {}",
        seen[0],
        seen[1]
    );
}

fn half(at: usize, v: usize, b: &mut [u8]) -> bool {
    let at = RECORD + at * 2;
    if at + 2 > b.len() {
        return false;
    }
    b[at..at + 2].copy_from_slice(&(v as u16).to_le_bytes());
    true
}

/// Replaces every link and every half of a record by every link that exists, and by some that do
/// not.
#[test]
fn every_link_leads_everywhere() {
    let step = if UNIT == 4 { 1 } else { 4 };
    let values: Vec<usize> = (0..WORDS * 8 / 4 + 2).map(|i| i * step).chain([0xffff, 0x8000, 1, 2, 3, 5, 6]).collect();
    both(campaign(911, |i, b| half(i / values.len(), values[i % values.len()], b)))
}

/// A record with any node and kind, alone or with the number that is committed; two, where the
/// image has one already.
#[test]
fn every_record() {
    both(campaign(613, |i, b| {
        let (slot, node, kind) = (i % 3, i / 3 % 40, i / 120);
        if kind >= 9 {
            return false;
        }
        let off = FIRST - 8 + node * 8;
        let (at, number) = match slot {
            0 => (RECORD, None),
            c => (
                STAGED + (c - 1) * 2 * UNIT + UNIT,
                Some(STAGED + (c - 1) * 2 * UNIT),
            ),
        };
        let word = match UNIT {
            4 => (off / 4) << 16 | kind,
            _ => off & !7 | kind,
        } as u32;
        b[at..at + UNIT].copy_from_slice(&word.to_le_bytes()[..UNIT]);
        if let Some(n) = number {
            b[n..n + UNIT].copy_from_slice(&COMMITTED.to_le_bytes()[..UNIT]);
        }
        true
    }));
}

#[test]
fn several_halves_at_once() {
    let mut rng = powerfail::Rng::new(1);
    let mut random = move |n: usize| rng.below(n as u64) as usize;
    both(campaign(400, |i, b| {
        for _ in 0..2 + random(3) {
            let n = (b.len() - RECORD) / 2;
            let (to, from) = (random(n), random(n));
            let v = u16::from_le_bytes([b[RECORD + from * 2], b[RECORD + 1 + from * 2]]);
            half(to, v.into(), b);
        }
        i < 4000
    }))
}

/// The result of `open` for an image after a change.
fn refused(doubt: u8, change: impl FnOnce(&mut [u8])) -> Option<OpenError> {
    let mut m = image(WORDS, doubt);
    change(bytes(&mut m));
    let r = Pool::open_resolved(Region::new(&mut m), CONTEXTS, |_| COMMITTED);
    r.err().map(|r| r.error)
}

fn put(b: &mut [u8], off: usize, v: usize) {
    b[off..off + 2].copy_from_slice(&(v as u16).to_le_bytes())
}

fn get(b: &[u8], off: usize) -> usize {
    usize::from(u16::from_le_bytes([b[off], b[off + 1]]))
}

const SCALE: usize = if UNIT == 4 { 4 } else { 1 };

/// The second node of list 1 leads back to the first: forwards there is no end.
#[test]
fn a_cycle() {
    for answered in [false, true] {
        let r = refused(0, |b| {
            // Without this, the links would contradict the last record.
            b[RECORD..RECORD + 4].fill(0);
            let first = get(b, HEADS + 4 + 2) * SCALE;
            let second = get(b, first + 2) * SCALE;
            put(b, second + 2, first / SCALE);
            if answered {
                // Then the link back to the node before the first is lost.
                put(b, first, second / SCALE);
            }
        });
        assert_eq!(r, Some(OpenError::Damaged(Component::Links)));
    }
}

/// A ring of two nodes that no list leads to, each answered.
#[test]
fn a_ring_outside_of_all_lists() {
    let r = refused(0, |b| {
        let free: Vec<usize> = (0..).map(|i| FIRST + i * 16).take_while(|o| o + 16 <= b.len()).filter(|o| get(b, *o) == 0).collect();
        let (x, y) = (free[0], free[1]);
        for (from, to) in [(x, y), (y, x)] {
            put(b, from, to / SCALE);
            put(b, from + 2, to / SCALE);
        }
    });
    assert_eq!(r, Some(OpenError::Damaged(Component::Links)));
}

/// Two lists that share their nodes.
#[test]
fn a_node_in_two_lists() {
    let r = refused(0, |b| {
        let (prev, next) = (get(b, HEADS + 4), get(b, HEADS + 6));
        put(b, HEADS + 8, prev);
        put(b, HEADS + 10, next);
    });
    assert_eq!(r, Some(OpenError::Damaged(Component::Links)));
}

/// Pointers out of the pool, into the superblock, into the middle of a node.
#[test]
fn a_foreign_pointer() {
    for to in [0, 4, RECORD, FIRST - 4, FIRST + 4, FIRST + 8, WORDS * 8, 65_528] {
        let r = refused(0, |b| put(b, HEADS + 6, to / SCALE));
        assert_eq!(r, Some(OpenError::Damaged(Component::Links)), "{to:#x}");
    }
}

#[test]
fn two_records() {
    // The removal's, and one of context 1.
    let r = refused(3, |b| {
        let word = b[RECORD..RECORD + UNIT].to_vec();
        let at = STAGED + 2 * UNIT + UNIT;
        b[at..at + UNIT].copy_from_slice(&word);
    });
    assert_eq!(r, Some(OpenError::Damaged(Component::Record)));
}

#[test]
fn an_invalid_content() {
    let r = refused(0, |b| {
        let first = get(b, HEADS + 6) * SCALE;
        b[first + 4 + 4] = 2;
    });
    assert!(matches!(r, Some(OpenError::Invalid(_))), "{r:?}");
}

#[test]
fn another_program() {
    let mut m = image(WORDS, 0);
    let r = NodePool::<Item, 2, M>::open_resolved(Region::new(&mut m), CONTEXTS, |_| 0u32);
    assert_eq!(r.err().map(|r| r.error), Some(OpenError::ConfigMismatch));
    let r = NodePool::<Item, 3, M>::open(Region::new(&mut m));
    assert_eq!(r.err().map(|r| r.error), Some(OpenError::ConfigMismatch));
    let r = NodePool::<[u32; 2], 3, M>::open_resolved(Region::new(&mut m), CONTEXTS, |_| 0u32);
    assert!(matches!(r.err().map(|r| r.error), Some(OpenError::LayoutMismatch(_))));
    let mut small = vec![MaybeUninit::new(0); 20];
    let r = NodePool::<Item, 3, M>::open(Region::new(&mut small));
    let Some(OpenError::TooSmall { needed }) = r.err().map(|r| r.error) else {
        panic!("too small")
    };
    assert_eq!(needed, NodePool::<Item, 3, M>::bytes_for(1, 0));
    let mut exact = vec![MaybeUninit::new(0); needed / 8];
    let pool = NodePool::<Item, 3, M>::open(Region::new(&mut exact)).ok().unwrap();
    assert_eq!(pool.capacity(), 1);
    let mut foreign = vec![MaybeUninit::new(7); 40];
    let r = NodePool::<Item, 3, M>::open(Region::new(&mut foreign));
    assert_eq!(r.err().map(|r| r.error), Some(OpenError::Foreign));
}
