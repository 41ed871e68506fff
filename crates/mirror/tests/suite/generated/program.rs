//! Programs as data, and what makes them.

use super::media::{Fault, Part};
use super::store::{OBJECTS, WORDS};
use core::fmt;
use nv_mirror::Durability;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};

#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Changes `n` words, every `stride`-th, in one commit; or sets them to 0.
    Words {
        from: u8,
        n: u8,
        stride: u8,
        zero: bool,
    },
    /// Makes, changes or frees an object of a pool, in one commit.
    Object {
        slot: u8,
        free: bool,
    },
    Save(How, Fault),
    /// Makes the content durable, while another task changes two words: after so many polls.
    SaveWhile {
        from: u8,
        polls: u8,
    },
    /// Opens the mirror again, without a cut.
    Reopen(Fault),
    /// Gives all content up, without a cut.
    Format(Fault),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Durable,
    Committed,
    /// If a save is due without another commit.
    IfDue,
    MakeRoom,
}

/// What one device does in its life.
#[derive(Clone)]
pub struct Program {
    /// In the async form.
    pub waits: bool,
    pub durability: Durability,
    pub ops: Vec<Op>,
}

/// As it stands in a test.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program {
            waits,
            durability,
            ops,
        } = self;
        write!(
            f,
            "Program {{ waits: {waits}, durability: {durability:?}, ops: vec!{ops:?} }}"
        )
    }
}

fn faults() -> impl Strategy<Value = Fault> {
    let part = prop_oneof![Just(Part::Nothing), Just(Part::Half), Just(Part::All)];
    prop_oneof![
        4 => Just(Fault::Never),
        3 => (0..24_u8, part).prop_map(|(n, part)| Fault::Fails(n, part)),
        1 => (0..60_u8).prop_map(Fault::Dropped),
    ]
}

/// One operation.
fn ops() -> impl Strategy<Value = Op> {
    let how = prop_oneof![
        4 => Just(How::Durable),
        2 => Just(How::Committed),
        1 => Just(How::IfDue),
        1 => Just(How::MakeRoom),
    ];
    let places = (0..WORDS as u8, 0..=60_u8, 1..=3_u8);
    let words = (places, prop::bool::weighted(0.2));
    prop_oneof![
        20 => words.prop_map(|((from, n, stride), zero)| Op::Words { from, n, stride, zero }),
        8 => (0..OBJECTS as u8, any::<bool>()).prop_map(|(slot, free)| Op::Object { slot, free }),
        28 => (how, faults()).prop_map(|(how, fault)| Op::Save(how, fault)),
        4 => (0..WORDS as u8, 0..60_u8).prop_map(|(from, polls)| Op::SaveWhile { from, polls }),
        6 => faults().prop_map(Op::Reopen),
        2 => faults().prop_map(Op::Format),
    ]
}

fn durabilities() -> impl Strategy<Value = Durability> {
    prop_oneof![
        2 => Just(Durability::BeforeOutput),
        1 => Just(Durability::EachCommit),
        1 => (0..4_u32).prop_map(Durability::Every),
    ]
}

fn whole(ops: impl Strategy<Value = Vec<Op>>) -> impl Strategy<Value = Program> {
    let all = (any::<bool>(), durabilities(), ops);
    all.prop_map(|(waits, durability, ops)| Program {
        waits,
        durability,
        ops,
    })
}

/// Any operations.
pub fn any_ops(most: usize) -> impl Strategy<Value = Program> {
    whole(prop::collection::vec(ops(), 2..=most))
}

/// Commits that are counted until a save is due, and saves that fail then.
pub fn counted_commits() -> impl Strategy<Value = Program> {
    let commit = (0..WORDS as u8, faults())
        .prop_map(|(from, fault)| [three(from), Op::Save(How::Committed, fault)]);
    let commits = prop::collection::vec(commit, 3..10);
    (any::<bool>(), 2..4_u32, commits).prop_map(|(waits, every, commits)| Program {
        waits,
        durability: Durability::Every(every),
        ops: [&[SAVE], commits.concat().as_slice(), &[REOPEN]].concat(),
    })
}

/// Changes three words.
pub const fn three(from: u8) -> Op {
    Op::Words {
        from,
        n: 3,
        stride: 2,
        zero: false,
    }
}

pub const SAVE: Op = Op::Save(How::Durable, Fault::Never);
pub const REOPEN: Op = Op::Reopen(Fault::Never);

/// 60 places, so that the third save begins a segment.
pub const MANY: Op = Op::Words {
    from: 0,
    n: 60,
    stride: 2,
    zero: false,
};

/// All words are 0 again, so that a base image is short.
pub const NONE: Op = Op::Words {
    from: 0,
    n: 60,
    stride: 2,
    zero: true,
};

/// A save fails: the first one, one that appends a record, or one that begins a segment. Then the
/// program opens the mirror again, or goes on.
pub fn after_a_failure() -> impl Strategy<Value = Program> {
    after_a_failure_of(MANY)
}

/// The same of a program that changes this before each save.
pub fn after_a_failure_of(change: Op) -> impl Strategy<Value = Program> {
    let part = prop_oneof![Just(Part::Nothing), Just(Part::Half), Just(Part::All)];
    let fails =
        (0..16_u8, part).prop_map(|(n, part)| Op::Save(How::Durable, Fault::Fails(n, part)));
    let then = prop_oneof![2 => Just(REOPEN), 1 => Just(three(40)), 1 => Just(NONE)];
    whole(
        (0..5_usize, fails, then).prop_map(move |(before, fails, then)| {
            let saved = [change, SAVE].repeat(before);
            [&saved[..], &[change, fails, then, SAVE, change, SAVE]].concat()
        }),
    )
}

/// Two boots save; then the content is given up, and other content is saved.
pub fn given_up() -> impl Strategy<Value = Program> {
    whole(faults().prop_map(|fault| {
        let format = Op::Format(fault);
        vec![
            three(0),
            SAVE,
            REOPEN,
            three(10),
            SAVE,
            format,
            three(20),
            SAVE,
            REOPEN,
        ]
    }))
}

/// A program begins, or finds what it has to give up; and saves at each boot.
pub fn first_saves() -> impl Strategy<Value = Program> {
    whole(Just(vec![three(0), SAVE, SAVE, three(10), SAVE, REOPEN]))
}

/// The operation of this number in a life that does not end.
pub fn nth(seed: u64, at: u32) -> Op {
    drawn(&ops(), seed << 32 | u64::from(at))
}

/// How a boot of such a life saves, which begins at this operation.
pub fn nth_boot(seed: u64, at: u32) -> (bool, Durability) {
    drawn(
        &(any::<bool>(), durabilities()),
        !seed << 32 | u64::from(at),
    )
}

fn drawn<S: Strategy>(strategy: &S, seed: u64) -> S::Value {
    let config = Config {
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    };
    let tree = strategy.new_tree(&mut TestRunner::new(config));
    tree.expect("nothing is refused").current()
}
