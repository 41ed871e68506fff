// A node pool with all kinds of content, and operations on one that opened. For one model `M`.
//
// A fuzz target includes this file in a module that defines `M`. It calls `image` once and `attack`
// for each input. The file uses only the public interface.

use core::mem::MaybeUninit;
use nvlist::NodePool;
use nvlist::nvmem::{Persist, Region};

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Item {
    n: u32,
    flag: bool,
}

pub type Words = Vec<MaybeUninit<u64>>;
pub type Pool<'m> = NodePool<'m, Item, 3, M>;

const CONTEXTS: usize = 2;
/// The resolver's answer: number 5 is committed, in both contexts.
const COMMITTED: u32 = 5;

fn open(words: &mut [MaybeUninit<u64>]) -> Option<Pool<'_>> {
    Pool::open_resolved(Region::new(words), CONTEXTS, |_| COMMITTED).ok()
}

/// A sound image of `words` words: lists of 0, 2 and 3 nodes, nodes that were released or lost, and
/// an unfinished operation.
///
/// `doubt`: 0 the record of a move that is finished, 1 and 2 a staged one that is committed, and
/// not, 3 a removal.
pub fn image(words: usize, doubt: u8) -> Words {
    let mut m = vec![MaybeUninit::new(0); words];
    let mut pool = open(&mut m).expect("a blank region");
    pool.with(|mut lists, [a, b, _]| {
        for n in 0..5 {
            let item = Item { n, flag: n % 2 == 0 };
            lists.push_back([a, b][n as usize % 2], item).expect("it fits");
        }
        let gone = Item { n: 9, flag: true };
        lists.push_front(a, gone).expect("it fits");
        let _lost = lists.unlink_front(a);
        lists.push_front(b, gone).expect("it fits");
        lists.pop_front(b);
        lists.cursor_front(a).shift_back(b);
        let _ = match doubt {
            1 | 2 => {
                let context = lists.context(doubt as usize - 1).expect("opened with two");
                let number = context.stage_seq(COMMITTED + u32::from(doubt) - 1).unwrap();
                core::mem::forget(lists.cursor_front(b).stage_shift_front(number, a));
                None
            }
            3 => lists.unlink_front(b),
            _ => None,
        };
    });
    m
}

/// The bits are those of a `bool`. Read as a byte: a `bool` of 2 would not show itself.
fn sound(b: &bool) -> bool {
    // SAFETY: a byte of a live reference.
    unsafe { core::ptr::from_ref(b).cast::<u8>().read_volatile() < 2 }
}

fn read(pool: &mut Pool<'_>) -> [Vec<Item>; 3] {
    pool.with(|lists, all| {
        all.map(|l| {
            let forth: Vec<Item> = lists.iter(l).inspect(|i| assert!(sound(&i.flag))).copied().collect();
            assert!(lists.iter(l).rev().eq(forth.iter().rev()));
            forth
        })
    })
}

/// The bytes before and behind each region that is attacked.
const GUARD: [u64; 64] = [0x6775_6172_6465_6421; 64];

/// Opens an image of any bytes. If that succeeds, everything in it must be sound, operations must
/// work, and it must open again. Returns whether it opened.
///
/// Works on a copy that has neighbours: nothing outside of the image may be written.
pub fn attack(words: &mut [MaybeUninit<u64>]) -> bool {
    let guard = GUARD.map(MaybeUninit::new);
    let mut memory = [&guard, &*words, &guard].concat();
    let end = GUARD.len() + words.len();
    let opened = attack_one(&mut memory[GUARD.len()..end]);
    for guard in [&memory[..GUARD.len()], &memory[end..]] {
        // SAFETY: written above; all writes are of whole units.
        let kept = guard.iter().zip(GUARD).all(|(w, g)| unsafe { w.assume_init() } == g);
        assert!(kept, "something was written outside of the region");
    }
    opened
}

fn attack_one(words: &mut [MaybeUninit<u64>]) -> bool {
    let Some(mut pool) = open(words) else {
        return false;
    };
    let before = read(&mut pool);
    let a = pool.audit().expect("open has checked everything");
    assert_eq!(a.held, 0);
    assert_eq!(a.linked, before.iter().map(Vec::len).sum::<usize>());
    assert_eq!(a.linked + a.free, pool.capacity());
    let mut pool = Pool::open_resolved(pool.close(), CONTEXTS, |_| COMMITTED).expect("what was opened opens again");
    assert_eq!(read(&mut pool), before, "opening changed the content");
    pool.with(|mut lists, [a, b, c]| {
        while !lists.is_empty(a) {
            lists.cursor_front(a).shift_front(c);
        }
        let first = lists.unlink_front(b);
        let _ = lists.push_back(a, Item { n: 7, flag: false });
        if let Some(node) = first {
            lists.link_front(a, node);
        }
        while lists.pop_back(b).is_some() {}
    });
    let after = read(&mut pool);
    assert!(after[1].is_empty());
    let mut pool = Pool::open_resolved(pool.close(), CONTEXTS, |_| COMMITTED).expect("opens after work");
    assert_eq!(read(&mut pool), after);
    pool.with(|mut lists, all| {
        for l in all {
            while lists.pop_front(l).is_some() {}
        }
    });
    let a = pool.audit().expect("still sound");
    assert_eq!((a.linked, a.free, a.held), (0, pool.capacity(), 0));
    true
}
