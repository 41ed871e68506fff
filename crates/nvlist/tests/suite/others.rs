//! Bugs of published list implementations, on the same programs. (IntOS: a recovery that follows
//! stale pointers, and a head pointer that does not match the list.)

use core::mem::MaybeUninit;
use nvlist::{Component, NodePool, OpenError};
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region, Unit};
use powerfail::{Mapped, World, explore};

type Pool<'m, M> = NodePool<'m, u32, 2, M>;

fn open<M: Model>(region: Region<'_, M>) -> Pool<'_, M> {
    Pool::open(region).unwrap_or_else(|r| panic!("open: {r}"))
}

fn depth() -> u32 {
    if cfg!(miri) { 1 } else { 2 }
}

macro_rules! all_models {
    ($program:ident: $world:ty) => {
        for s in [
            explore(Mapped::<InOrder32>::new(240), |nv, w: &World<$world>| {
                $program(nv, w)
            })
            .depth(depth())
            .run(),
            explore(Mapped::<InOrder16>::new(240), |nv, w: &World<$world>| {
                $program(nv, w)
            })
            .depth(depth())
            .run(),
            explore(Mapped::<Buffered32>::new(240), |nv, w: &World<$world>| {
                $program(nv, w)
            })
            .depth(depth())
            .run(),
        ] {
            println!("{s}");
            assert!(s.partial || s.boots > 20, "{s}");
        }
    };
}

/// The record of an operation stands until the next one. Meanwhile its node was released and linked
/// in another list. The links that the record meant are stale; following them would tear that list
/// apart.
#[test]
fn stale_pointers_after_a_crash() {
    fn program<M: Model>(region: Region<'_, M>, world: &World<'_, u32>) {
        let mut pool = open(region);
        pool.with(|mut lists, [a, b]| {
            if lists.is_empty(a) && lists.is_empty(b) && world.get() == 0 {
                lists.push_back(a, 1).unwrap();
            }
            world.set(1);
            // Unlinked, released, and used again at once with other neighbours.
            lists.pop_front(a);
            while lists.iter(b).count() < 3 {
                lists.push_front(b, 2).unwrap();
            }
            let all: Vec<u32> = lists.iter(b).rev().copied().collect();
            assert_eq!(all, [2, 2, 2]);
        });
        assert_eq!(pool.audit().map(|a| (a.linked, a.held)), Ok((3, 0)));
    }
    all_models!(program: u32);
}

/// A record whose node, or whose node's links, lead out of the pool: refused before anything is
/// loaded through them.
#[test]
fn a_recovery_does_not_follow_what_it_has_not_checked() {
    fn on<M: Model>() {
        let unit = M::Unit::BYTES;
        let scale = if unit == 4 { 4 } else { 1 };
        // The first node's links lie behind superblock, record and two heads.
        let first = 128 + 16 + 8 + 4;
        for (node, links) in [
            (first + 8, [152, 152]),
            (0xfff8, [152, 152]),
            (first, [0xfffc, 152]),
            (first, [152, 0xfffc]),
            (first, [first, first]),
            (first, [128, 132]),
        ] {
            let mut words = vec![MaybeUninit::new(0); 30];
            let region = open::<M>(Region::new(&mut words)).close();
            // SAFETY: units of the region; nothing is lent.
            unsafe {
                let link = |l: usize| (l / scale) as u32;
                if unit == 4 {
                    region.store(first, link(links[0]) | link(links[1]) << 16);
                    region.store(128, link(node) << 16 | 1);
                } else {
                    region.store(first, link(links[0]));
                    region.store(first + 2, link(links[1]));
                    region.store(128, (node as u32) & !7 | 1);
                }
            }
            let r = Pool::<M>::open(region).err().map(|r| r.error);
            // A record cannot name what is not aligned where a unit has two bytes.
            if unit == 2 && node == first + 8 {
                continue;
            }
            assert_eq!(
                r,
                Some(OpenError::Damaged(Component::Record)),
                "{node:#x} {links:#x?}"
            );
        }
    }
    on::<InOrder32>();
    on::<InOrder16>();
    on::<Buffered32>();
}

/// The head is part of the ring, not a separate pointer: after every cut the list begins with the
/// right node.
#[test]
fn the_head_is_right() {
    fn program<M: Model>(region: Region<'_, M>, world: &World<'_, u32>) {
        let mut pool = open(region);
        pool.with(|mut lists, [a, b]| {
            // Counts up at the front: the newest is always first, and at most one newer than the
            // acknowledged one.
            let n = lists.front(a).copied().unwrap_or(0);
            assert!(n == world.get() || n == world.get() + 1);
            world.set(n);
            let all: Vec<u32> = lists.iter(a).chain(lists.iter(b)).copied().collect();
            assert!(all.is_sorted_by(|x, y| x > y), "{all:?}");
            for n in n + 1..=4 {
                if lists.iter(a).count() == 2 {
                    lists.cursor_back(a).shift_front(b);
                }
                lists.push_front(a, n).unwrap();
                assert_eq!(lists.front(a), Some(&n));
                world.set(n);
            }
        });
    }
    all_models!(program: u32);
}
