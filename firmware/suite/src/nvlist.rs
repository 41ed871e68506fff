//! Scenarios of `nvlist`: each operation on lists of 0 to 5 nodes, alone and with a number; and
//! what insertions cost, with its record and with an undo log.

use crate::abi::section;
use crate::{Group, Mapped, Scenario, Scene, check, ok};
use core::hint::black_box;
use nvlist::NodePool;
use nvmem::{Persist, Plain, Region};
use pmem_tx::{Config, Pool};

/// The scenarios of the image `nvlist`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "nvlist",
            primitive: "nvlist",
            scenarios: &[
                Scenario::new("push_front", BYTES, |s| play(s, |_, v| Op::PushFront(v))),
                Scenario::new("push_sorted", BYTES, |s| play(s, |_, v| Op::Sorted(v))),
                Scenario::new("insert_before", BYTES, |s| play(s, Op::Before)),
                Scenario::new("insert_after", BYTES, |s| play(s, Op::After)),
                Scenario::new("pop_front", BYTES, |s| play(s, |_, _| Op::PopFront)),
                Scenario::new("remove", BYTES, |s| play(s, |i, _| Op::Remove(i))),
                Scenario::new("replace", BYTES, |s| play(s, Op::Replace)),
                Scenario::new("move", BYTES, |s| play(s, |i, _| Op::MoveTo(i))),
                Scenario::new("move_within", BYTES, |s| play(s, |i, _| Op::MoveWithin(i))),
                Scenario::new("move_sorted", BYTES, |s| play(s, |i, _| Op::MoveSorted(i))),
                Scenario::new("with_number", BYTES + 8, with_number),
            ],
        }
    }
}

/// What insertions, removals and moves cost.
pub const fn costs_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "nvlist-costs",
            primitive: "nvlist",
            scenarios: &[Scenario::measuring("measure", 1024, measure)],
        }
    }
}

const NODES: usize = 8;
/// Superblock, records, two heads, nodes.
const BYTES: usize = 128 + 16 + 8 + 8 + 8 + NODES * 8;

type Lists<'m, M> = NodePool<'m, u16, 2, M>;

/// An operation on the first list. An index past its end is the end; the second list receives what
/// moves.
#[derive(Clone, Copy)]
enum Op {
    PushBack(u16),
    PopBack,
    /// The second list loses its first one.
    Drain,
    PushFront(u16),
    Sorted(u16),
    Before(u8, u16),
    After(u8, u16),
    PopFront,
    Remove(u8),
    Replace(u8, u16),
    MoveTo(u8),
    MoveWithin(u8),
    MoveSorted(u8),
}

/// A list as it should be.
#[derive(Clone, Copy, PartialEq)]
struct Row {
    len: u8,
    items: [u16; NODES],
}

impl Row {
    fn all(&self) -> impl Iterator<Item = &u16> {
        self.items.iter().take(self.len.into())
    }
    fn insert(&mut self, at: u8, v: u16) {
        let (mut i, mut v) = (at.min(self.len), v);
        self.len += 1;
        while i < self.len {
            if let Some(slot) = self.items.get_mut(usize::from(i)) {
                core::mem::swap(slot, &mut v);
            }
            i += 1;
        }
    }
    fn remove(&mut self, at: u8) -> Option<u16> {
        if at >= self.len {
            return None;
        }
        let v = self.items.get(usize::from(at)).copied();
        for i in usize::from(at)..NODES - 1 {
            self.items[i] = self.items[i + 1];
        }
        self.len -= 1;
        v
    }
    fn place(&self, v: u16) -> u8 {
        self.all().take_while(|x| **x <= v).count() as u8
    }
}

/// Where a program stands: both lists, and the length at which the operation is done next.
#[derive(Clone, Copy)]
struct Model {
    rows: [Row; 2],
    length: u8,
    /// The operation itself comes next, not what makes the list as long.
    due: bool,
    count: u16,
}

impl Model {
    const START: Model = Model {
        rows: [Row {
            len: 0,
            items: [0; NODES],
        }; 2],
        length: 0,
        due: false,
        count: 0,
    };

    /// What comes next: the list is made `length` long, then the operation, then the same for the
    /// next length.
    fn next(&self, op: fn(u8, u16) -> Op) -> Op {
        let (a, b) = (self.rows[0].len, self.rows[1].len);
        match a {
            _ if b > 2 => Op::Drain,
            _ if self.due => op(self.length / 2, self.count % 7 * 3),
            a if a > self.length => Op::PopBack,
            _ => Op::PushBack(self.count % 5 * 4),
        }
    }

    fn apply(&mut self, op: Op) {
        let [a, b] = &mut self.rows;
        match op {
            Op::PushBack(v) => a.insert(a.len, v),
            Op::PopBack => drop(a.remove(a.len.wrapping_sub(1))),
            Op::Drain => drop(b.remove(0)),
            Op::PushFront(v) => a.insert(0, v),
            Op::Sorted(v) => a.insert(a.place(v), v),
            Op::Before(i, v) => a.insert(i, v),
            Op::After(i, v) => a.insert(if i < a.len { i + 1 } else { 0 }, v),
            Op::PopFront => drop(a.remove(0)),
            Op::Remove(i) => drop(a.remove(i)),
            Op::Replace(i, v) => {
                if a.remove(i).is_some() {
                    a.insert(i, v)
                }
            }
            Op::MoveTo(i) => {
                if let Some(v) = a.remove(i) {
                    b.insert(b.len, v)
                }
            }
            Op::MoveWithin(i) => {
                if let Some(v) = a.remove(i) {
                    a.insert(0, v)
                }
            }
            Op::MoveSorted(i) => {
                if let Some(v) = a.remove(i) {
                    b.insert(b.place(v), v)
                }
            }
        }
        if self.due && !matches!(op, Op::Drain) {
            self.length = if self.length == 5 { 0 } else { self.length + 1 };
            self.due = false;
        }
        self.due |= self.rows[0].len == self.length && self.rows[1].len <= 2;
        self.count += 1;
    }

    /// After so many operations of the program.
    fn after(n: u16, op: fn(u8, u16) -> Op) -> Model {
        let mut m = Model::START;
        m.due = true;
        for _ in 0..n {
            m.apply(m.next(op));
        }
        m
    }
}

/// Whether the lists are as they should be, forwards and backwards, and every other node is free.
fn agree<M: Mapped>(pool: &mut Lists<'_, M>, rows: &[Row; 2]) -> bool {
    let same = pool.with(|lists, [a, b]| {
        let same = |l, row: &Row| {
            lists.iter(l).eq(row.all()) && lists.iter(l).rev().count() == usize::from(row.len)
        };
        same(a, &rows[0]) && same(b, &rows[1])
    });
    let linked = usize::from(rows[0].len + rows[1].len);
    same && matches!(pool.audit(), Ok(a) if a.linked == linked && a.held == 0)
}

/// A cursor at an index, or at the end.
fn at<'a, 'b, M: Mapped>(
    lists: &'a mut nvlist::Lists<'b, u16, M>,
    list: nvlist::List<'b>,
    i: u8,
) -> nvlist::Cursor<'a, 'b, u16, M> {
    let mut c = lists.cursor_front(list);
    for _ in 0..i {
        if c.is_at_node() {
            c.move_next();
        }
    }
    c
}

fn run<M: Mapped>(pool: &mut Lists<'_, M>, op: Op) -> bool {
    pool.with(|mut lists, [a, b]| {
        match op {
            Op::PushBack(v) => return lists.push_back(a, v).is_ok(),
            Op::PushFront(v) => return lists.push_front(a, v).is_ok(),
            Op::Sorted(v) => return lists.push_sorted(a, v, |v| *v).is_ok(),
            Op::Before(i, v) => return at(&mut lists, a, i).insert_before(v).is_ok(),
            Op::After(i, v) => return at(&mut lists, a, i).insert_after(v).is_ok(),
            Op::PopBack => drop(lists.pop_back(a)),
            Op::PopFront => drop(lists.pop_front(a)),
            Op::Drain => drop(lists.pop_front(b)),
            Op::Remove(i) => drop(at(&mut lists, a, i).remove()),
            Op::Replace(i, v) => {
                let Ok(node) = lists.alloc(v) else {
                    return false;
                };
                let (Ok(old) | Err(old)) = at(&mut lists, a, i).replace(node);
                lists.release(old);
            }
            Op::MoveTo(i) => at(&mut lists, a, i).shift_back(b),
            Op::MoveWithin(i) => at(&mut lists, a, i).shift_front(a),
            Op::MoveSorted(i) => at(&mut lists, a, i).shift_sorted(b, |v| *v),
        }
        true
    })
}

/// The operation on lists of 0 to 5 nodes, one after the other.
fn play<M: Mapped>(scene: &mut Scene<'_, M>, op: fn(u8, u16) -> Op) {
    let mut pool = ok!(scene, Lists::<M>::open(scene.region()));
    let mut n = scene.read_cell(0);
    let mut model = Model::after(n, op);
    if !agree(&mut pool, &model.rows) {
        // What was done last was not told any more.
        model.apply(model.next(op));
        check!(scene, agree(&mut pool, &model.rows));
        n += 1;
        scene.write_cell(0, n);
    }
    let all = scene.rounds(24);
    while n < all {
        let next = model.next(op);
        check!(scene, run(&mut pool, next));
        model.apply(next);
        n += 1;
        scene.write_cell(0, n);
    }
    check!(scene, agree(&mut pool, &model.rows));
}

/// Operations that take effect with a word that somebody else commits: a node comes, moves, and
/// goes.
fn with_number<M: Mapped>(scene: &mut Scene<'_, M>) {
    let Ok((words, region)) = scene.region().split_at(8) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    // SAFETY: a unit of the region, of which nothing is lent.
    let last = |words: &Region<'_, M>| unsafe { words.load(0) };
    let commit = |words: &Region<'_, M>, n: u16| {
        // SAFETY: as above.
        unsafe { words.store(0, n.into()) }
        nvmem::mapped::fence::<M>();
    };
    let opened = Lists::<M>::open_resolved(region, 1, |_| last(&words));
    let mut pool = ok!(scene, opened);
    let done = last(&words) as u16;
    crate::progress!(scene, done);
    let lengths = |pool: &mut Lists<'_, M>| {
        pool.with(|lists, [a, b]| [lists.iter(a).count(), lists.iter(b).count()])
    };
    let expected = |n: u16| match n % 3 {
        0 => [0, 0],
        1 => [1, 0],
        _ => [0, 1],
    };
    check!(scene, lengths(&mut pool) == expected(done));
    for n in done..scene.rounds(7) {
        let worked = pool.with(|mut lists, [a, b]| {
            let number = lists.context(0)?.stage_seq(u32::from(n) + 1).unwrap();
            match n % 3 {
                0 => {
                    let node = lists.alloc(n).ok()?;
                    let staged = lists.stage_back(number, a, node);
                    commit(&words, n + 1);
                    staged.committed();
                }
                1 => {
                    let staged = lists.cursor_front(a).stage_shift_front(number, b)?;
                    commit(&words, n + 1);
                    staged.committed();
                }
                _ => {
                    let staged = lists.cursor_front(b).stage_unlink(number)?;
                    commit(&words, n + 1);
                    let node = staged.committed();
                    lists.release(node);
                }
            }
            Some(())
        });
        check!(scene, worked.is_some());
        scene.write_cell(0, n + 1);
        check!(scene, lengths(&mut pool) == expected(n + 1));
    }
}

/// The links of nodes that a transaction changes, field by field: of the same size as those of an
/// `nvlist`, or of 32 bits. Previous and next of node `i` have the indices `2 i` and `2 i + 1`;
/// content is left out.
#[derive(Persist)]
#[repr(C)]
struct Links<T> {
    links: [T; 2 * NODES],
}

fn measure<M: Mapped>(scene: &mut Scene<'_, M>) {
    let Ok((list, rest)) = scene.region().split_at(256) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    let mut pool = ok!(scene, NodePool::<u32, 2, M>::open(list));
    let v = black_box(7u32);
    pool.with(|mut lists, [a, b]| {
        // What an interrupted run has left.
        while lists.pop_front(a).is_some() || lists.pop_front(b).is_some() {}
        for k in 0..2 {
            ok!(scene, lists.push_back(a, k));
        }
        for _ in 0..2 {
            scene.measure(section::EMPTY, || ());
            let node = ok!(scene, lists.alloc(v));
            let mut at = lists.cursor_front(a);
            scene.measure(section::LIST_INSERT, || at.link_after(node));
            at.move_next();
            check!(scene, at.get() == Some(&v));
            scene.measure(section::LIST_MOVE, || at.shift_front(b));
            let mut at = lists.cursor_front(b);
            let node = scene.measure(section::LIST_REMOVE, || at.unlink());
            if let Some(node) = node {
                lists.release(node);
            }
        }
    });
    check!(
        scene,
        matches!(pool.audit(), Ok(a) if a.linked == 2 && a.held == 0)
    );

    let Ok((same, wide)) = rest.split_at(384) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    undo::<M, u16>(scene, same, section::UNDO_LIST_INSERT);
    undo::<M, u32>(scene, wide, section::UNDO_WIDE_INSERT);
}

/// Node 2 is put between nodes 0 and 1 by a transaction that logs the four links.
fn undo<M: Mapped, T: Plain + Copy + PartialEq + From<u8>>(
    scene: &Scene<'_, M>,
    region: Region<'_, M>,
    section: u16,
) {
    const CONFIG: Config = Config {
        journal_entries: 8,
        journal_bytes: 64,
        seq_bits: 16,
    };
    let start = || Links {
        links: [T::from(0); 2 * NODES],
    };
    let mut pool = ok!(
        scene,
        Pool::<Links<T>, M>::open_with(region, &CONFIG, |_| Ok(start()))
    );
    for _ in 0..2 {
        let [p, x, n] = black_box([0u8, 2, 1]);
        let done = scene.measure(section, || {
            pool.tx(|tx, root| {
                let mut f = root.fields(tx);
                let [at_p, at_x, at_n] = [p, x, n].map(|i| usize::from(i) * 2);
                *f.links.at_mut(at_x)? = T::from(p);
                *f.links.at_mut(at_x + 1)? = T::from(n);
                *f.links.at_mut(at_p + 1)? = T::from(x);
                *f.links.at_mut(at_n)? = T::from(x);
                Ok(())
            })
        });
        ok!(scene, done);
    }
    let links = ok!(scene, pool.tx(|tx, root| Ok(root.get(tx).links)));
    let expected = [0, 2, 2, 0, 0, 1].map(T::from);
    check!(scene, links.iter().take(6).eq(&expected));
}
