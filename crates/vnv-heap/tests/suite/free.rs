//! Freeing trees of any size and shape, with pinned objects in them, under power cuts and persists.

use crate::support::shared::Shared;
use nvmem::{Faithful, Medium, Persist};
use powerfail::{Rng, Simulated, SpiFram, World, explore_with};
use std::cell::Cell;
use vnv_heap::{
    Config, Error, Heap, JustInTime, OpenError, Own, Promise, Saver, Snapshot, Unrooted,
};
use vnv_heap::{brand, instrument};

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    left: Option<Own<'h, Node<'h>>>,
    right: Option<Own<'h, Node<'h>>>,
    data: Option<Own<'h, u32>>,
    wide: Option<Own<'h, Many<'h>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Many<'h>([Option<Own<'h, Node<'h>>>; 300]);

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    tree: Option<Own<'h, Node<'h>>>,
    done: u32,
}

type TestHeap<'h, S, P> = Heap<'h, Root<'h>, S, P>;
type Tree<'h> = Option<Own<'h, Node<'h>>>;

fn root<'h, S: Medium, P: Promise>(
    _: &Heap<'h, Unrooted, S, P>,
) -> Result<Root<'h>, Error<S::Error>> {
    Ok(Root {
        tree: None,
        done: 0,
    })
}

/// The shape of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Each node owns the next one and nothing else.
    List,
    /// Each owns a small node and then the next one.
    Right,
    /// Each owns the next one and then a small node, which is freed after the longest path.
    Left,
    /// One and then the other.
    Zigzag,
    /// Each next node follows a left sibling: owners are freed before their last children,
    /// repeatedly.
    Hooks,
    /// Random.
    Random,
    /// Each owns hundreds of nodes; one of them is the next owner.
    Wide,
}
use Shape::*;

fn node<'h, S: Medium, P: Promise>(
    heap: &TestHeap<'h, S, P>,
    left: Tree<'h>,
    right: Tree<'h>,
) -> Result<Tree<'h>, Error<S::Error>> {
    let data = match (&left, &right) {
        (None, None) => None,
        _ => Some(heap.alloc(7)?),
    };
    let wide = None;
    Ok(Some(heap.alloc(Node {
        left,
        right,
        data,
        wide,
    })?))
}

/// Makes a tree of this depth, and returns its number of objects.
fn build<'h, S: Medium, P: Promise>(
    heap: &TestHeap<'h, S, P>,
    shape: Shape,
    depth: u32,
) -> Result<Tree<'h>, Error<S::Error>> {
    let (mut random, mut tree) = (Rng::new(1), None);
    for i in 0..depth {
        let small = || {
            // Objects with numbers in a row are freed from the last one on.
            let between = heap.alloc(0u8)?;
            let small = node(heap, None, None);
            heap.free(between)?;
            small
        };
        tree = match shape {
            List => node(heap, tree, None)?,
            Right => node(heap, small()?, tree)?,
            Left => node(heap, tree, small()?)?,
            Zigzag if i.is_multiple_of(2) => node(heap, tree, small()?)?,
            Zigzag => node(heap, small()?, tree)?,
            Hooks => node(heap, node(heap, None, tree)?, small()?)?,
            Random => {
                let mut side = None;
                for _ in 0..random.below(4) {
                    side = node(heap, side, small()?)?;
                }
                if random.below(2) == 0 {
                    node(heap, tree, side)?
                } else {
                    node(heap, side, tree)?
                }
            }
            Wide => {
                let mut all = Many([const { None }; 300]);
                for (place, i) in all.0.iter_mut().zip(0..) {
                    *place = if i == 150 { tree.take() } else { small()? };
                }
                let wide = Some(heap.alloc(all)?);
                let (left, right, data) = (None, small()?, None);
                Some(heap.alloc(Node {
                    left,
                    right,
                    data,
                    wide,
                })?)
            }
        };
    }
    Ok(tree)
}

const OBJECTS: u16 = if cfg!(miri) { 700 } else { 32_000 };
const LARGE: Config = Config {
    dirty_limit: 4096,
    objects: OBJECTS,
    ..Config::DEFAULT
};

/// Frees trees of all shapes completely, reading each object a few times at most.
fn large<P: Promise>(save: fn(&mut TestHeap<'_, Shared, P>)) {
    for (shape, depth) in [
        (List, 10_000),
        (Right, 10_000),
        (Left, 10_000),
        (Zigzag, 10_000),
        (Hooks, 5_000),
        (Random, 4_000),
        (Wide, 12),
    ] {
        let depth = match shape {
            Wide if cfg!(miri) => 1,
            // Just longer than the path that is remembered.
            _ if cfg!(miri) => 18,
            // What is freed while it is built has its room until a commit.
            List => depth,
            _ if P::SNAPSHOT => depth / 2,
            _ => depth,
        };
        let size = if cfg!(miri) { 1 << 15 } else { 1 << 20 };
        let (mut ram, chip) = (vec![0; 40_000], Shared::blank(size));
        brand!(b);
        let mut heap = TestHeap::<_, P>::open(b, chip, &mut ram, LARGE, root).unwrap();
        let tree = build(&heap, shape, depth).unwrap();
        save(&mut heap);
        let taken = u32::from(OBJECTS) - u32::from(heap.free_objects().unwrap()) - 1;
        let before = heap.stats();
        heap.free(tree.unwrap()).unwrap();
        let after = heap.stats();
        let read = after.page_ins - before.page_ins;
        println!("{shape:?}: {taken} objects, {read} page_ins");
        assert!(
            taken >= depth && read <= 3 * taken,
            "{shape:?}: {read} page_ins"
        );
        save(&mut heap);
        let audit = heap.audit().unwrap();
        assert_eq!((audit.reachable, audit.allocated), (1, 1), "{shape:?}");
    }
}

#[test]
fn large_trees_just_in_time() {
    large::<JustInTime>(|heap| {
        heap.persist().unwrap();
        heap.restore().unwrap();
    });
}

#[test]
fn large_trees_of_snapshots() {
    large::<Snapshot>(|heap| heap.commit().unwrap());
}

const SMALL: Config = Config {
    dirty_limit: 128,
    burst: 32,
    objects: 160,
    ..Config::DEFAULT
};

/// Deeper than the levels that are remembered.
const DEPTH: u32 = 40;

/// A pinned object stays, with the objects that it owns, until it is released.
#[test]
fn what_is_held_is_freed_later() {
    for shape in [List, Right, Left, Zigzag, Hooks] {
        for at in [0, 1, 12, 13, 25, DEPTH / 2 - 1] {
            let (mut ram, chip) = (vec![0; 512], Shared::blank(8192));
            brand!(b);
            let heap = TestHeap::<_, JustInTime>::open(b, chip, &mut ram, SMALL, root).unwrap();
            let tree = build(&heap, shape, DEPTH / 2).unwrap().unwrap();
            let mut held = heap.get(&tree).unwrap();
            for _ in 0..at {
                let next = match (&held.left, &held.right) {
                    (Some(own), _) | (None, Some(own)) => heap.get(own).unwrap(),
                    _ => break,
                };
                held = next;
            }
            let freed = heap.free(tree);
            if at == 0 {
                let r = freed.unwrap_err();
                assert_eq!(r.error, Error::Busy);
                drop(held);
                heap.free(r.value.unwrap()).unwrap();
            } else {
                freed.unwrap();
                assert!(heap.free_objects().unwrap() < 159);
                if let Some(data) = &held.data {
                    assert_eq!(heap.read(data).unwrap(), 7);
                }
                drop(held);
            }
            assert_eq!(heap.free_objects().unwrap(), 159, "{shape:?}, {at} held");
        }
    }
}

/// The medium fails at each of its operations. The next open frees the rest. The handle comes back
/// if nothing was freed.
#[test]
fn the_medium_fails() {
    for n in (0..).step_by(if cfg!(miri) { 97 } else { 1 }) {
        let (mut ram, chip) = (vec![0; 512], Shared::blank(8192));
        let done = {
            brand!(b);
            let open = TestHeap::<_, JustInTime>::open;
            let mut heap = open(b, chip.clone(), &mut ram, SMALL, root).unwrap();
            let tree = build(&heap, Left, DEPTH / 2).unwrap().unwrap();
            // In RAM alone.
            let changed = heap.with(&tree, |t| heap.write(t.data.as_ref().unwrap(), 9));
            changed.unwrap().unwrap();
            chip.0.lock().unwrap().fails_after = Some(n);
            let freed = heap.free(tree);
            chip.0.lock().unwrap().fails_after = None;
            let done = freed.is_ok();
            if let Err(r) = freed {
                assert!(matches!(r.error, Error::Medium(_)));
                if let Some(tree) = r.value {
                    let data = heap.with(&tree, |t| heap.read(t.data.as_ref().unwrap()));
                    assert_eq!(data.unwrap().unwrap(), 9);
                    heap.root_mut().unwrap().tree = Some(tree);
                    let audit = heap.audit().unwrap();
                    assert_eq!(audit.reachable, audit.allocated);
                    assert_eq!(u32::from(audit.reachable), 1 + 3 * (DEPTH / 2));
                }
            }
            heap.persist().unwrap();
            done
        };
        brand!(b);
        let mut heap = TestHeap::<_, JustInTime>::open(b, chip, &mut ram, SMALL, root).unwrap();
        let audit = heap.audit().unwrap();
        assert_eq!(audit.reachable, audit.allocated);
        if done {
            assert!(n > 100);
            break;
        }
    }
}

/// After each section: a persist, and loss of the RAM buffer.
#[test]
fn persists_while_it_is_freed() {
    let freed = |k: u32| {
        let (chip, saver, sections) = (Shared::blank(8192), Saver::new(), Cell::new(0));
        let mut ram = vec![0; 512];
        let base = ram.as_mut_ptr();
        brand!(b);
        let open = TestHeap::<_, JustInTime>::open;
        let mut heap = open(b, chip, &mut ram, SMALL, root).unwrap();
        let mut tree = build(&heap, Left, DEPTH / 2).unwrap();
        let blackout = || {
            sections.set(sections.get() + 1);
            if sections.get() == k {
                // SAFETY: no reference out of a guard is used across a section; the buffer lives as
                // long as the heap, which does not use it between the two.
                unsafe {
                    saver.persist().unwrap();
                    if !cfg!(miri) {
                        base.write_bytes(0xDB, 512);
                    }
                    saver.restore().unwrap();
                }
            }
        };
        heap.attach(&saver, || {
            let free = || heap.free(tree.take().unwrap()).unwrap();
            // SAFETY: the hook only persists and restores.
            unsafe { instrument::interrupted(blackout, free) }
        })
        .unwrap();
        let audit = heap.audit().unwrap();
        assert_eq!(
            (audit.reachable, audit.allocated),
            (1, 1),
            "after section {k}"
        );
        sections.get()
    };
    let all = freed(0);
    assert!(all > 200, "{all}");
    for k in (1..=all).step_by(if cfg!(miri) { 97 } else { 1 }) {
        freed(k);
    }
}

/// How a program saves.
trait Save: Promise + Sized {
    fn save<S: Medium>(heap: &mut TestHeap<'_, S, Self>) -> Result<(), Error<S::Error>>;
}
impl Save for JustInTime {
    fn save<S: Medium>(heap: &mut TestHeap<'_, S, Self>) -> Result<(), Error<S::Error>> {
        heap.persist()?;
        heap.restore()
    }
}
impl Save for Snapshot {
    fn save<S: Medium>(heap: &mut TestHeap<'_, S, Self>) -> Result<(), Error<S::Error>> {
        heap.commit()
    }
}

/// Makes a tree, frees it, and saves after each; nothing is ever lost or left over.
fn life<P: Save, S: Faithful>(mut nv: S, world: &World<'_, bool>, shape: Shape) {
    let mut ram = [0xA5; 512];
    let interrupted = {
        brand!(b);
        let heap = TestHeap::<_, P>::open(b, &mut nv, &mut ram, SMALL, root);
        matches!(heap, Err(OpenError::Interrupted))
    };
    brand!(b);
    let mut heap = if interrupted {
        assert!(!P::SNAPSHOT && world.get());
        TestHeap::<_, P>::format(b, nv, &mut ram, SMALL, root).unwrap()
    } else {
        TestHeap::<_, P>::open(b, nv, &mut ram, SMALL, root).unwrap()
    };
    let audit = heap.audit().unwrap();
    assert_eq!(audit.reachable, audit.allocated);
    loop {
        let done = heap.root().unwrap().done;
        assert_eq!(heap.root().unwrap().tree.is_some(), done == 1);
        world.set(true);
        match done {
            0 => {
                let depth = if cfg!(miri) { 4 } else { DEPTH / 2 };
                let tree = build(&heap, shape, depth).unwrap();
                heap.root_mut().unwrap().tree = tree;
            }
            1 => {
                let tree = heap.root_mut().unwrap().tree.take();
                heap.free(tree.unwrap()).unwrap();
            }
            _ => return,
        }
        heap.root_mut().unwrap().done += 1;
        P::save(&mut heap).unwrap();
        world.set(false);
        let audit = heap.audit().unwrap();
        assert_eq!(audit.reachable, audit.allocated);
    }
}

#[test]
fn cuts() {
    for shape in [List, Left, Hooks] {
        let medium = || Simulated::<SpiFram>::new(4096);
        let s = explore_with(shape, medium(), |nv, w, s| life::<Snapshot, _>(nv, w, *s));
        println!(
            "{shape:?}: {}",
            s.name(&format!("snapshot_{shape:?}")).run()
        );
        let s = explore_with(shape, medium(), |nv, w, s| life::<JustInTime, _>(nv, w, *s));
        println!(
            "{shape:?}: {}",
            s.name(&format!("just_in_time_{shape:?}")).run()
        );
    }
}
