//! Training: a producer makes two sets of 16 rows. One thread grows a decision tree from the first
//! set, another one fits a linear model to the second one. A fourth thread gets what they have
//! learnt.
//!
//! The sets are objects. They pass from the producer to the trainers under a mutex, and each
//! trainer frees its own.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::pmem_tx::PBox;
use super::nv_rtos::{self, Error, Room, Thread, Until};
use crate::learn::{NODES, Node, Set, VALUES, improve};
use crate::support::{Fram, Machine, SEQ_BITS, Unit, mix, rounds, run};

/// Steps of the gradient.
pub const STEPS: u32 = 15;
/// Nodes that are looked at: all that there may be, unless the host asks for fewer.
fn turns() -> u32 {
    rounds(NODES as u32).min(NODES as u32)
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

impl Tree<'_> {
    const NEW: Self = Tree {
        set: None,
        len: 1,
        nodes: [Node::of(u16::MAX); NODES],
    };
}

/// A linear model: a weight for each value, and one for 64, in 256ths.
#[derive(Persist)]
#[repr(C)]
pub struct Line<'p> {
    set: SetBox<'p>,
    weights: [i32; VALUES + 1],
}

fn produce(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    let mut sets = th.lock(&SETS)?;
    th.step(sets.data(), |sys, _, mut sets| {
        let mut sets = sets.fields(sys);
        *sets.tree.get_mut()? = Some(PBox::new(sys, Set::of_classes())?);
        *sets.line.get_mut()? = Some(PBox::new(sys, Set::of_values())?);
        MADE.set(sys, 1 | 2)
    })?;
    Ok(())
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
    th.each_step(0..turns(), (), |sys, tree, n, ()| {
        let n = n as usize;
        let mut tree = tree.fields(sys);
        let len = *tree.len.get() as usize;
        if n >= len {
            return Ok(());
        }
        let set = tree.set.follow().ok_or(sys.abort(1))?;
        let mut node = *tree.nodes.at(n)?;
        let child = (len + 2 <= NODES).then_some(len as u8);
        if let Some(children) = node.grow(set.get(), child) {
            for (i, child) in children.into_iter().enumerate() {
                *tree.nodes.at_mut(len + i)? = child;
            }
            tree.len.set(len as u32 + 2)?;
        }
        *tree.nodes.at_mut(n)? = node;
        Ok(())
    })?;
    th.step((), |sys, tree, ()| {
        let mut tree = tree.fields(sys);
        let set = tree.set.get_mut()?.take();
        set.ok_or(sys.abort(1))?.free(sys)?;
        let len = *tree.len.get();
        let nodes = tree.nodes.get().iter().take(len as usize);
        let hash = nodes.fold(0, |hash, node| node.mix(hash));
        LEARNT.send(sys, [0, len, hash])
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
    th.each_step(0..rounds(STEPS), (), |sys, line, _, ()| {
        let mut line = line.fields(sys);
        let set = line.set.follow().ok_or(sys.abort(1))?;
        improve(line.weights.get_mut()?, set.get());
        Ok(())
    })?;
    th.step((), |sys, line, ()| {
        let mut line = line.fields(sys);
        let set = line.set.get_mut()?.take();
        set.ok_or(sys.abort(1))?.free(sys)?;
        let weights = *line.weights.get();
        let hash = weights.iter().fold(0, |hash, w| mix(hash, *w as u32));
        LEARNT.send(sys, [2, weights[0] as u32, hash])
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
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, data) = Plan::share(threads).ok()?;
    let found = core::cell::Cell::new(None);
    let consumed = |th: &mut Thread<Plan, [u32; 4]>| {
        found.set(Some(consume(th)?));
        Ok(())
    };
    run!(machine, kernel, 4 threads, |port| {
        Plan::spawn(kernel, places, &data, port, produce, grow, fit, consumed)
    });
    (0..4)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())?
}
