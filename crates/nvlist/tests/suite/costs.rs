//! The documented cost of operations, counted store by store.

use core::cell::Cell;
use core::mem::MaybeUninit;
use nvlist::{ListPos, Lists, NodePool};
use nvmem::instrument::{Observer, observe};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region, Unit};

/// Stores that the library makes, and fences; a content is lent and not counted.
#[derive(Default)]
struct Count {
    stores: Cell<usize>,
    bytes: Cell<usize>,
    fences: Cell<usize>,
}
impl Observer for Count {
    fn store(&self, _: *mut u8, new: &[u8]) {
        self.stores.set(self.stores.get() + 1);
        self.bytes.set(self.bytes.get() + new.len());
    }
    fn fence(&self, _: &'static str) {
        self.fences.set(self.fences.get() + 1)
    }
}

/// Stores and fences of `f`.
fn cost<M: Model, R>(f: impl FnOnce() -> R) -> (usize, usize, R) {
    let count = Count::default();
    let mut r = None;
    observe(&count, || r = Some(f()));
    let stores = count.stores.get();
    assert_eq!(
        count.bytes.get(),
        stores * M::Unit::BYTES,
        "stores are of one unit"
    );
    (stores, count.fences.get(), r.expect("it ran"))
}

fn stores<M: Model, R>(f: impl FnOnce() -> R) -> usize {
    cost::<M, R>(f).0
}

fn all<M: Model>() {
    let narrow = M::Unit::BYTES == 2;
    let (insert, shift) = if narrow { (5, 9) } else { (4, 7) };
    let mut b = vec![MaybeUninit::new(0); 64];
    let mut pool = NodePool::<u64, 2, M>::open_resolved(Region::new(&mut b), 1, |_| 0u32).unwrap();
    pool.with(|mut lists, [a, z]| {
        let l = &mut lists;
        for k in 0..3 {
            assert_eq!(stores::<M, _>(|| l.push_back(a, k)), insert, "push");
        }
        let mut node = Some(l.alloc(9).unwrap());
        assert_eq!(stores::<M, _>(|| l.push_front(a, 4)), insert);
        assert_eq!(stores::<M, _>(|| l.push_sorted(z, 5, |k| *k)), insert);
        let (n, fences, ()) = cost::<M, _>(|| {
            let mut c = l.cursor_front(a);
            c.move_next();
            c.link_after(node.take().unwrap())
        });
        assert_eq!(
            (n, fences),
            (insert, 3),
            "an allocated node between two others"
        );
        let (n, fences, out) = cost::<M, _>(|| l.cursor_front(a).unlink().unwrap());
        assert_eq!((n, fences), (3, 2), "remove");
        let again = insert + usize::from(narrow);
        assert_eq!(
            stores::<M, _>(|| l.link_back(a, out)),
            again,
            "unlinked and linked again at once"
        );
        let (n, fences, ()) = cost::<M, _>(|| l.cursor_front(a).shift_back(z));
        assert_eq!((n, fences), (shift, 4), "move to another list");
        assert_eq!(
            stores::<M, _>(|| l.cursor_front(a).shift_back(a)),
            shift,
            "move within a list"
        );
        assert_eq!(
            stores::<M, _>(|| l.cursor_back(a).shift_back(a)),
            0,
            "already there"
        );
        assert_eq!(stores::<M, _>(|| l.pop_front(a)), 3 + 1, "pop and return");
        let (n, _, node) = cost::<M, _>(|| l.alloc(8).unwrap());
        assert_eq!(n, 1, "alloc");
        let (n, _, old) = cost::<M, _>(|| l.cursor_front(a).replace(node).ok().unwrap());
        assert_eq!(n, insert + 1, "replace by a node that was just unlinked");
        assert_eq!(stores::<M, _>(|| l.release(old)), 1, "release");
        let node = l.alloc(7).unwrap();
        let (n, _, old) = cost::<M, _>(|| l.cursor_front(a).replace(node).ok().unwrap());
        assert_eq!(n, insert, "replace");
        l.release(old);
        assert_eq!(
            stores::<M, _>(|| l.pop_back(a).map(|v| l.push_back(a, v))),
            4 + insert,
            "a released node is used again"
        );
        let looks = stores::<M, _>(|| {
            let _ = (
                l.front(a),
                l.back(a),
                l.iter(a).rev().count(),
                l.is_empty(z),
            );
            let _ = l.find(a, |k| *k == 1).map(|c| c.position());
            l.seek(ListPos(0), |_| true).is_some()
        });
        assert_eq!(looks, 0, "looking");
        staged(l, insert, shift, a, z);
    });
    assert_eq!(stores::<M, _>(|| pool.audit()), 0, "audit");
    let mut region = Some(pool.close());
    let open = |region| NodePool::<u64, 2, M>::open_resolved(region, 1, |_| 0u32).unwrap();
    assert_eq!(
        stores::<M, _>(|| region = Some(open(region.take().unwrap()).close())),
        0
    );
}

/// Staged: one unit for the number, one to clear the last record, one to clear its own.
fn staged<'b, M: Model>(
    l: &mut Lists<'b, u64, M>,
    insert: usize,
    shift: usize,
    a: nvlist::List<'b>,
    z: nvlist::List<'b>,
) {
    let number = l.context(0).unwrap().stage_seq(1u32).unwrap();
    let node = l.alloc(1).unwrap();
    let first = stores::<M, _>(|| l.stage_back(number, a, node).committed());
    assert_eq!(first, insert + 3, "staged insert");
    let node = l.alloc(1).unwrap();
    let next = stores::<M, _>(|| l.stage_back(number, a, node).committed());
    assert_eq!(next, insert + 2, "no record to be cleared");
    l.push_back(a, 7).unwrap();
    let (n, _, node) = cost::<M, _>(|| {
        let s = l.cursor_front(a).stage_unlink(number);
        s.unwrap().committed()
    });
    assert_eq!(n, 6, "staged remove");
    l.link_back(a, node);
    let n = stores::<M, _>(|| {
        let s = l.cursor_front(a).stage_shift_front(number, z);
        s.unwrap().committed()
    });
    assert_eq!(n, shift + 3, "staged move");
}

#[test]
fn costs() {
    all::<InOrder32>();
    all::<InOrder16>();
    all::<Buffered32>();
}
