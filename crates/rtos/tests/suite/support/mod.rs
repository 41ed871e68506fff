//! What the programs of the tests share.

#![allow(dead_code)]

use nv_rtos::nvmem::{InOrder32, Model};
use nv_rtos::pmem_tx::Preempted;

pub use nv_rtos::host::{Machine, Masked};

/// A 16-bit core behind a write buffer.
pub enum Buffered16 {}
// SAFETY: the fence is the kit's, and nothing else.
unsafe impl Model for Buffered16 {
    type Unit = u16;
    const BUFFERED: bool = true;
    const NAME: &'static str = "buffered-16";
}

pub type On<M> = Preempted<M, Masked>;
pub type Plain = On<InOrder32>;

/// What the world has seen. It survives every cut.
#[derive(Clone, Hash, Debug, Default)]
pub struct Seen {
    /// Results, each with the thread and the step that got it.
    pub results: Vec<(u32, u32, u32)>,
    /// Who is in a critical section, and how many sections each thread has left.
    pub inside: Option<u32>,
    pub left: [u32; 4],
    /// The latest time that each thread knows.
    pub time: [u64; 4],
    /// How many an interrupt gave.
    pub given: u32,
    /// Lives, and of those without progress how many were long, and how many of these have ended.
    pub lives: usize,
    pub long: u32,
    pub ended: u32,
    pub progress: u32,
    pub maybe: u32,
    pub parked: u32,
    pub early: bool,
}

/// Thread `me` tells the world the result of its step `i`. It must be the same in each life, and no
/// other step may have it.
pub fn result(w: &powerfail::World<'_, Seen>, me: u32, i: u32, value: u32) {
    let before = w.with(|s| s.results.iter().find(|r| (r.0, r.1) == (me, i)).copied());
    match before {
        Some(r) => assert_eq!(r.2, value, "step {i} of thread {me} has another result"),
        None => {
            let doubled = w.with(|s| s.results.iter().any(|r| r.2 == value));
            assert!(
                !doubled,
                "{value} came twice, to step {i} of thread {me}, too"
            );
            w.update(|s| s.results.push((me, i, value)));
        }
    }
}

/// All results that the world has seen, in order.
pub fn results(w: &powerfail::World<'_, Seen>) -> Vec<u32> {
    let mut all: Vec<u32> = w.with(|s| s.results.iter().map(|r| r.2).collect());
    all.sort_unstable();
    all
}

/// Thread `me` has a lock, for its section of this number, and has committed something under it. No
/// other thread has it, not across a cut either.
pub fn enters(w: &powerfail::World<'_, Seen>, me: u32, section: u32) {
    if w.with(|s| s.left[me as usize] == section) {
        let inside = w.with(|s| s.inside);
        assert!(
            inside.is_none_or(|t| t == me),
            "{me} enters, and {inside:?} is inside"
        );
        w.update(|s| s.inside = Some(me));
    }
}

/// Thread `me` is inside of its section, or was in an earlier life.
pub fn is_inside(w: &powerfail::World<'_, Seen>, me: u32, section: u32) {
    if w.with(|s| s.left[me as usize] == section) {
        assert_eq!(w.with(|s| s.inside), Some(me));
    }
}

/// Thread `me` is about to give the lock back.
pub fn leaves(w: &powerfail::World<'_, Seen>, me: u32, section: u32) {
    is_inside(w, me, section);
    if w.with(|s| s.left[me as usize] == section) {
        w.update(|s| (s.inside, s.left[me as usize]) = (None, section + 1));
    }
}

/// Thread `me` knows this time.
pub fn knows(w: &powerfail::World<'_, Seen>, me: usize, time: u64) {
    w.update(|s| s.time[me] = s.time[me].max(time));
}

/// Thread `me` reads a time that was not recorded before: it is not before one that it knew.
pub fn reads(w: &powerfail::World<'_, Seen>, me: usize, time: u64) {
    let latest = w.with(|s| s.time[me]);
    assert!(time >= latest, "the time is {time}, and was {latest}");
}
