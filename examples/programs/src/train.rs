//! Training: a producer makes two sets of 16 rows. One thread grows a decision tree from the first
//! set, another one fits a linear model to the second one. A fourth thread gets what they have
//! learnt.
//!
//! The sets are objects. They pass from the producer to the trainers under a mutex, and each trainer
//! frees its own.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::pmem_tx::PBox;
use super::nv_rtos::{self, Error, Thread, Until};
use crate::support::{Fram, Machine, SEQ_BITS, Unit, input, mix, run};

/// Rows of a set, and values of a row.
pub const ROWS: usize = 16;
/// Values of a row.
pub const VALUES: usize = 4;
/// The most nodes of a tree.
pub const NODES: usize = 10;
/// Steps of the gradient.
pub const STEPS: u32 = 15;

/// A set: rows with their labels.
#[derive(Persist)]
#[repr(C)]
pub struct Set {
    rows: [[i16; VALUES]; ROWS],
    labels: [i16; ROWS],
}
type SetBox<'p> = Option<PBox<'p, Set, Unit>>;

/// The sets on their way to the trainers.
#[derive(Persist)]
#[repr(C)]
pub struct Sets<'p> {
    tree: SetBox<'p>,
    line: SetBox<'p>,
}

nv_rtos::system! {
    /// A producer, two trainers, and who gets what they have learnt.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 6, journal_bytes: 96, seq_bits: SEQ_BITS }
    objects {
        MADE: Events;
        /// The trainer's number, a number and a hash.
        LEARNT: Queue<[u32; 3], 2>;
    }
    shared {
        SETS: Sets<'static> = Sets { tree: None, line: None };
    }
    threads {
        produce(u8 = 0): 1;
        grow(Tree<'static> = Tree::NEW): 2;
        fit(Line<'static> = Line { set: None, weights: [0; VALUES + 1] }): 2;
        consume([u32; 4] = [0; 4]): 3;
    }
}

/// A tree that grows from its set.
#[derive(Persist)]
#[repr(C)]
pub struct Tree<'p> {
    set: SetBox<'p>,
    len: u32,
    nodes: [Node; NODES],
}

/// A node: which rows of the set come to it, and which of them go to its second child.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Node {
    rows: u16,
    above: i16,
    value: u8,
    /// Its first child; 0: it is a leaf.
    child: u8,
    label: u16,
}

impl Tree<'_> {
    const NEW: Self = Tree {
        set: None,
        len: 1,
        nodes: [Node {
            rows: u16::MAX,
            above: 0,
            value: 0,
            child: 0,
            label: 0,
        }; NODES],
    };
}

/// A linear model: a weight for each value, and one for 1, in 256ths.
#[derive(Persist)]
#[repr(C)]
pub struct Line<'p> {
    set: SetBox<'p>,
    weights: [i32; VALUES + 1],
}

/// A row of a set.
fn row(set: u32, n: usize) -> [i16; VALUES] {
    let x = input(set * ROWS as u32 + n as u32);
    [x, x >> 7, x >> 14, x >> 21].map(|v| (v & 127) as i16 - 64)
}

fn produce(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    let mut sets = th.lock(&SETS)?;
    th.step(sets.data(), |sys, _, mut sets| {
        let made = |n| -> [[i16; VALUES]; ROWS] { core::array::from_fn(|i| row(n, i)) };
        let (tree, line) = (made(0), made(1));
        let class = tree.map(|[a, b, c, _]| i16::from(a + b > c));
        let value = line.map(|[a, b, c, d]| 3 * a - 2 * b + c / 2 + d + 10);
        let mut sets = sets.fields(sys);
        *sets.tree.get_mut()? = Some(PBox::new(
            sys,
            Set {
                rows: tree,
                labels: class,
            },
        )?);
        *sets.line.get_mut()? = Some(PBox::new(
            sys,
            Set {
                rows: line,
                labels: value,
            },
        )?);
        MADE.set(sys, 1 | 2)
    })?;
    Ok(())
}

/// Rows whose value is larger than the mean of those that a node has; that mean, and how many of
/// them would get a wrong label. `ones` are the rows with the label 1.
fn split(set: &Set, rows: u16, ones: u16, value: usize) -> (u32, i16, u16) {
    let of = |i: usize| i32::from(set.rows[i][value]);
    let has = |i: &usize| rows >> i & 1 != 0;
    let (sum, n) = (0..ROWS)
        .filter(has)
        .fold((0, 0), |(s, n), i| (s + of(i), n + 1));
    let above = sum / n;
    let larger = (0..ROWS)
        .filter(|i| has(i) && of(*i) > above)
        .fold(0, |m, i| m | 1 << i);
    let wrong = |m: u16| (m & ones).count_ones().min((m & !ones).count_ones());
    (wrong(larger) + wrong(rows & !larger), above as i16, larger)
}

/// Grows a node for each step, and then reports the tree.
fn grow(th: &mut Thread<Plan, Tree<'static>>) -> Result<(), Error> {
    th.step((), |sys, _, ()| MADE.wait(sys, 1, Until::All))?;
    let mut sets = th.lock(&SETS)?;
    th.step(sets.data(), |sys, tree, mut sets| {
        *tree.fields(sys).set.get_mut()? = sets.fields(sys).tree.get_mut()?.take();
        Ok(())
    })?;
    drop(sets);
    th.each_step(0..NODES as u32, (), |sys, tree, n, ()| {
        let n = n as usize;
        let mut tree = tree.fields(sys);
        let len = *tree.len.get() as usize;
        if n >= len {
            return Ok(());
        }
        let set = tree.set.follow().ok_or(sys.abort(1))?;
        let set = set.get();
        let ones = (0..ROWS).fold(0, |m, i| m | u16::from(set.labels[i] != 0) << i);
        let mut node = *tree.nodes.at(n)?;
        let (mine, all) = ((node.rows & ones).count_ones(), node.rows.count_ones());
        node.label = u16::from(2 * mine > all);
        let splits = (0..VALUES).map(|v| (v, split(set, node.rows, ones, v)));
        let splits = splits.filter(|(_, s)| s.2 != 0 && s.2 != node.rows);
        let best = splits.min_by_key(|(_, s)| s.0);
        if let Some((value, (_, above, larger))) = best.filter(|_| mine != 0 && mine != all)
            && len + 2 <= NODES
        {
            (node.value, node.above, node.child) = (value as u8, above, len as u8);
            for (i, rows) in [node.rows & !larger, larger].into_iter().enumerate() {
                tree.nodes.at_mut(len + i)?.rows = rows;
            }
            tree.len.set(len as u32 + 2)?;
        }
        *tree.nodes.at_mut(n)? = node;
        Ok(())
    })?;
    th.step((), |sys, tree, ()| {
        let tree = tree.get_mut(sys)?;
        tree.set.take().ok_or(sys.abort(1))?.free(sys)?;
        let nodes = tree.nodes.iter().take(tree.len as usize);
        let hash = nodes.fold(0, |h, n| {
            let node = u32::from(n.value) << 8 | u32::from(n.child) << 16 | u32::from(n.label);
            mix(mix(h, n.above as u32), node)
        });
        LEARNT.send(sys, [0, tree.len, hash])
    })?;
    Ok(())
}

/// Improves the weights by each step, and then reports them.
fn fit(th: &mut Thread<Plan, Line<'static>>) -> Result<(), Error> {
    th.step((), |sys, _, ()| MADE.wait(sys, 2, Until::All))?;
    let mut sets = th.lock(&SETS)?;
    th.step(sets.data(), |sys, line, mut sets| {
        *line.fields(sys).set.get_mut()? = sets.fields(sys).line.get_mut()?.take();
        Ok(())
    })?;
    drop(sets);
    th.each_step(0..STEPS, (), |sys, line, _, ()| {
        let mut line = line.fields(sys);
        let set = line.set.follow().ok_or(sys.abort(1))?;
        let (set, weights) = (set.get(), line.weights.get_mut()?);
        let mut gradient = [0; VALUES + 1];
        for (row, label) in set.rows.iter().zip(&set.labels) {
            let row = [row[0], row[1], row[2], row[3], 64].map(i32::from);
            let sum: i32 = row.iter().zip(&*weights).map(|(x, w)| x * w).sum();
            let error = (sum >> 8) - i32::from(*label);
            gradient
                .iter_mut()
                .zip(row)
                .for_each(|(g, x)| *g += error * x);
        }
        weights
            .iter_mut()
            .zip(gradient)
            .for_each(|(w, g)| *w -= g >> 9);
        Ok(())
    })?;
    th.step((), |sys, line, ()| {
        let line = line.get_mut(sys)?;
        line.set.take().ok_or(sys.abort(1))?.free(sys)?;
        let hash = line.weights.iter().fold(0, |h, w| mix(h, *w as u32));
        LEARNT.send(sys, [2, line.weights[0] as u32, hash])
    })?;
    Ok(())
}

/// Returns the nodes of the tree and a hash of them, the first weight and a hash of all.
fn consume(th: &mut Thread<Plan, [u32; 4]>) -> Result<[u32; 4], Error> {
    th.each_step(0..2, (), |sys, learnt, _, ()| {
        let [at, number, hash] = LEARNT.receive(sys)?;
        let mut learnt = learnt.slot(sys);
        *learnt.at_mut(at as usize)? = number;
        *learnt.at_mut(at as usize + 1)? = hash;
        Ok(())
    })?;
    Ok(th.step((), |sys, learnt, ()| Ok(*learnt.get(sys)))?)
}

/// One boot: runs the threads until all have ended. Returns what the trainers have learnt.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let (kernel, mut threads) = Plan::open(memory).ok()?;
    let (places, data) = Plan::share(&mut threads).ok()?;
    let found = core::cell::Cell::new(None);
    let consumed = |th: &mut Thread<Plan, [u32; 4]>| {
        found.set(Some(consume(th)?));
        Ok(())
    };
    run!(machine, kernel, 4 threads, |port| {
        Plan::spawn(&kernel, places, &data, port, produce, grow, fit, consumed)
    });
    (0..4)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())?
}
