//! A program with every kind of operation, and the lists that each boot must find.
//!
//! The pool does not count operations. A boot must find the lists after the acknowledged
//! operations, or after one more. From them the program sees where to continue; if both states are
//! equal it repeats the operation.

use nvlist::{ListPos, NodePool};
use nvmem::{Model, Persist, Region};

/// A value that fills two units, and has padding.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Job {
    pub key: u16,
    pub twice: u32,
    pub odd: bool,
}

pub fn job(key: u16) -> Job {
    Job {
        key,
        twice: u32::from(key) * 2,
        odd: key % 2 == 1,
    }
}

/// Field by field: a whole assignment would make the padding in the pool uninitialised. `powerfail`
/// reads lent ranges, and Miri reports that.
pub fn become_job(j: &mut Job, key: u16) {
    let Job { key: k, twice, odd } = job(key);
    (j.key, j.twice, j.odd) = (k, twice, odd);
}

pub const LISTS: usize = 2;
pub type Pool<'m, M> = NodePool<'m, Job, LISTS, M>;

/// The visible content of the lists.
pub type View = [Vec<u16>; LISTS];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    PushFront(usize, u16),
    PushBack(usize, u16),
    Sorted(usize, u16),
    /// Before, or behind, the element with this index; at the end where there is none.
    Before(usize, usize, u16),
    After(usize, usize, u16),
    PopFront(usize),
    PopBack(usize),
    Remove(usize, usize),
    Replace(usize, usize, u16),
    /// From a list's index before an index of a list; counted without the element that moves.
    Move(usize, usize, usize, usize),
    ShiftFront(usize, usize, usize),
    ShiftSorted(usize, usize, usize),
    /// Taken out, changed while it is in no list, and put to the end of a list.
    Edit(usize, usize, usize, u16),
    /// Taken out, and put into a list at once.
    Relink(usize, usize, usize),
    /// A node is allocated and dropped, and another one returned.
    Lose(u16),
}

impl Op {
    /// The operation as steps that a cut can come between: the views after each.
    pub fn apply(self, v: &View) -> Vec<View> {
        let mut w = v.clone();
        let mut all = Vec::new();
        match self {
            Op::PushFront(l, k) => w[l].insert(0, k),
            Op::PushBack(l, k) => w[l].push(k),
            Op::Sorted(l, k) => {
                let at = w[l].iter().position(|x| *x > k).unwrap_or(w[l].len());
                w[l].insert(at, k)
            }
            Op::Before(l, i, k) => {
                let at = i.min(w[l].len());
                w[l].insert(at, k)
            }
            Op::After(l, i, k) => {
                let at = if i < w[l].len() { i + 1 } else { 0 };
                w[l].insert(at, k)
            }
            Op::PopFront(l) => drop((!w[l].is_empty()).then(|| w[l].remove(0))),
            Op::PopBack(l) => drop(w[l].pop()),
            Op::Remove(l, i) => drop((i < w[l].len()).then(|| w[l].remove(i))),
            Op::Replace(l, i, k) => {
                if let Some(x) = w[l].get_mut(i) {
                    *x = k
                }
            }
            Op::Move(l, i, to, j) => {
                if i < w[l].len() {
                    let k = w[l].remove(i);
                    let at = j.min(w[to].len());
                    w[to].insert(at, k)
                }
            }
            Op::ShiftFront(l, i, to) => {
                if i < w[l].len() {
                    let k = w[l].remove(i);
                    w[to].insert(0, k)
                }
            }
            Op::ShiftSorted(l, i, to) => {
                if i < w[l].len() {
                    let k = w[l].remove(i);
                    let at = w[to].iter().position(|x| *x > k).unwrap_or(w[to].len());
                    w[to].insert(at, k)
                }
            }
            Op::Edit(l, i, to, k) => {
                if i < w[l].len() {
                    w[l].remove(i);
                    all.push(w.clone());
                    w[to].push(k);
                }
            }
            Op::Relink(l, i, to) => {
                if i < w[l].len() {
                    let k = w[l].remove(i);
                    all.push(w.clone());
                    w[to].push(k);
                }
            }
            Op::Lose(_) => {}
        }
        all.push(w);
        all
    }
}

pub fn model(ops: &[Op]) -> View {
    ops.iter().fold(View::default(), |v, o| {
        o.apply(&v).pop().expect("an operation has an end")
    })
}

pub fn view<M: Model>(pool: &mut Pool<'_, M>) -> View {
    pool.with(|lists, all| {
        all.map(|l| {
            let forth: Vec<u16> = lists.iter(l).map(|j| j.key).collect();
            let mut back: Vec<u16> = lists.iter(l).rev().map(|j| j.key).collect();
            back.reverse();
            assert_eq!(forth, back, "forwards and backwards");
            for j in lists.iter(l) {
                assert_eq!(*j, job(j.key), "a content is whole");
            }
            forth
        })
    })
}

pub fn run<M: Model>(pool: &mut Pool<'_, M>, op: Op) {
    pool.with(|mut lists, all| match op {
        Op::PushFront(l, k) => drop(lists.push_front(all[l], job(k)).unwrap()),
        Op::PushBack(l, k) => drop(lists.push_back(all[l], job(k)).unwrap()),
        Op::Sorted(l, k) => drop(lists.push_sorted(all[l], job(k), |j| j.key).unwrap()),
        Op::Before(l, i, k) => {
            let node = lists.alloc(job(k)).unwrap();
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            c.link_before(node)
        }
        Op::After(l, i, k) => {
            let node = lists.alloc(job(k)).unwrap();
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            c.link_after(node)
        }
        Op::PopFront(l) => drop(lists.pop_front(all[l])),
        Op::PopBack(l) => drop(lists.pop_back(all[l])),
        Op::Remove(l, i) => {
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            let (spot, key) = (c.position(), c.get().map(|j| j.key));
            c.remove();
            if let Some(spot) = spot {
                assert!(lists.seek(spot, |j| Some(j.key) == key).is_none());
            }
        }
        Op::Replace(l, i, k) => {
            let node = lists.alloc(job(k)).unwrap();
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            let (Ok(old) | Err(old)) = c.replace(node);
            lists.release(old);
        }
        Op::Move(l, i, to, j) => {
            // Another way to the same node.
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            let Some(spot) = c.position() else { return };
            let key = c.get().unwrap().key;
            let mut left = j;
            let mut c = lists.seek(spot, |j| j.key == key).unwrap();
            c.shift_before_first(all[to], |other| {
                if l == to && other.key == key {
                    return false;
                }
                left = left.wrapping_sub(1);
                left == usize::MAX
            })
        }
        Op::ShiftFront(l, i, to) => {
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            c.shift_front(all[to])
        }
        Op::ShiftSorted(l, i, to) => {
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            c.shift_sorted(all[to], |j| j.key)
        }
        Op::Edit(l, i, to, k) => {
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            if let Some(mut node) = c.unlink() {
                lists.edit(&mut node, |j| become_job(j, k));
                lists.link_back(all[to], node)
            }
        }
        Op::Relink(l, i, to) => {
            let mut c = lists.cursor_front(all[l]);
            (0..i).for_each(|_| {
                if c.is_at_node() {
                    c.move_next()
                }
            });
            if let Some(node) = c.unlink() {
                lists.link_back(all[to], node)
            }
        }
        Op::Lose(k) => {
            if let Ok(lost) = lists.alloc(job(k)) {
                let other = lists.alloc(job(k + 1));
                assert_eq!(lists.get(&lost).key, k);
                let _ = lists.position(&lost) != ListPos(0);
                if let Ok(n) = other {
                    lists.release(n);
                }
            }
        }
    });
    if let Op::Lose(_) = op {
        assert_eq!(pool.audit().unwrap().held, 1);
        assert_eq!(pool.reclaim(), 1);
    }
}

pub fn open<M: Model>(region: Region<'_, M>) -> Pool<'_, M> {
    Pool::<M>::open(region).unwrap_or_else(|r| panic!("open: {r}"))
}
