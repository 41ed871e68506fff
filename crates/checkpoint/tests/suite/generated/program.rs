//! What a program does with its checkpoints.

use crate::faulty::{Fault, Part};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};
use std::fmt;
use std::sync::LazyLock;

/// The memory of a program at its first build. Each update makes the statics longer.
pub const STATICS: usize = 200;
pub const HEAP: usize = 180;
pub const STACK: usize = 100;
/// How much longer.
pub const UPDATE: usize = 9;
/// The most updates of a script; further ones are boots.
pub const UPDATES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Fills bytes of memory, counted through all segments.
    Fill {
        at: u16,
        len: u16,
        byte: u8,
    },
    /// How much of heap and stack is in use.
    Use {
        heap: u16,
        stack: u16,
    },
    Save(Fault),
    Load(Fault),
    /// The program starts again without a power cut: it opens its checkpoints, and loads.
    Boot(Fault),
    /// Programs of other builds, and with other memory, look for a checkpoint.
    Other,
    /// Another program saves once, where it has as much room. It does not load.
    Foreign(Fault),
    /// The next boot is one of another build, with more memory.
    Update,
    /// Archives: makes the n-th checkpoint the newest, counted from the newest.
    RollBack(u8, Fault),
    /// Archives: deletes the n-th.
    Delete(u8, Fault),
}

#[derive(Clone, PartialEq)]
pub struct Script {
    /// The log compares only where that pays. An archive keeps landmarks, not the last ones.
    pub adaptive: bool,
    pub ops: Vec<Op>,
}

/// As a test for found.rs.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "#[test]\nfn found() {{\n    use Fault::*;\n    use Op::*;"
        )?;
        writeln!(f, "    on_the_campaign_s_medium(Script {{")?;
        writeln!(
            f,
            "        adaptive: {},\n        ops: vec![",
            self.adaptive
        )?;
        for op in &self.ops {
            writeln!(f, "            {op:?},")?;
        }
        write!(f, "        ],\n    }});\n}}")
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    let part = prop_oneof![Just(Part::Nothing), Just(Part::Half), Just(Part::All)];
    // At once, soon, or later.
    let nth = prop_oneof![1 => Just(0), 2 => 0..8_u8, 1 => 0..50_u8];
    let change = (nth, part);
    prop_oneof![
        4 => Just(Fault::None),
        3 => change.prop_map(|(n, part)| Fault::Change(n, part)),
        1 => prop_oneof![0..8_u8, 0..80_u8].prop_map(Fault::Read),
    ]
}

/// One operation of a program; with those of archives, too. A `still` program hardly changes its
/// memory, so its checkpoints are the same ones again and again.
pub fn operation(archives: bool, still: bool) -> impl Strategy<Value = Op> {
    let all = STATICS + HEAP + STACK;
    let len = prop_oneof![2 => 1..40_u16, 1 => 1..all as u16];
    let byte = prop_oneof![1 => Just(0), 3 => any::<u8>()];
    let fill = (0..all as u16, len, byte).prop_map(|(at, len, byte)| Op::Fill { at, len, byte });
    let in_use = (0..=HEAP as u16, 0..=STACK as u16);
    let of_archives = u32::from(archives);
    prop_oneof![
        if still { 1 } else { 10 } => fill,
        if still { 1 } else { 2 } => in_use.prop_map(|(heap, stack)| Op::Use { heap, stack }),
        14 => fault().prop_map(Op::Save),
        2 => prop_oneof![fault(), (0..20_u8).prop_map(Fault::Read)].prop_map(Op::Load),
        3 => fault().prop_map(Op::Boot),
        1 => Just(Op::Other),
        3 => fault().prop_map(Op::Foreign),
        1 => Just(Op::Update),
        3 * of_archives => (0..5_u8, fault()).prop_map(|(n, fault)| Op::RollBack(n, fault)),
        2 * of_archives => (0..5_u8, fault()).prop_map(|(n, fault)| Op::Delete(n, fault)),
    ]
}

pub fn scripts(archives: bool, most: usize) -> impl Strategy<Value = Script> {
    let ops = move |still| prop::collection::vec(operation(archives, still), 2..=most);
    let ops = prop_oneof![3 => ops(false), 1 => ops(true)];
    (any::<bool>(), ops).prop_map(|(adaptive, ops)| Script { adaptive, ops })
}

/// A save, a few that fail in their first operation or near their end, and a last one. Another
/// program may save meanwhile. Memory stays as it is.
pub fn failing() -> impl Strategy<Value = Script> {
    let late = || (6..12_u8, prop_oneof![Just(Part::Nothing), Just(Part::All)]);
    let late = || late().prop_map(|(n, part)| Op::Save(Fault::Change(n, part)));
    let first = prop_oneof![Just(Op::Save(Fault::None)), late()];
    let next = prop_oneof![
        3 => Just(Op::Save(Fault::Change(0, Part::Nothing))),
        1 => Just(Op::Foreign(Fault::None)),
        1 => late(),
    ];
    let ops = (first, prop::collection::vec(next, 1..4));
    let adaptive = false;
    ops.prop_map(move |(first, mut ops)| {
        ops.insert(0, first);
        ops.push(Op::Save(Fault::None));
        Script { adaptive, ops }
    })
}

/// A program without an end.
pub trait Endless: 'static {
    /// Its n-th operation.
    fn operation(seed: u64, n: u32) -> Op;
}

/// It changes a byte, saves, and so on: most cuts come in a save, or in the load before.
pub enum Saves {}

impl Endless for Saves {
    fn operation(_: u64, n: u32) -> Op {
        let (at, len, byte) = (0, 1, (n / 2) as u8);
        match n % 2 {
            0 => Op::Fill { at, len, byte },
            _ => Op::Save(Fault::None),
        }
    }
}

/// It does anything, and in every other stretch of its life it is still.
pub enum Mixed {}

impl Endless for Mixed {
    fn operation(seed: u64, n: u32) -> Op {
        // `Config::default` reads the environment, which takes longer than the operation.
        static CONFIG: LazyLock<Config> = LazyLock::new(Config::default);
        let mut runner = TestRunner::new(Config {
            rng_algorithm: RngAlgorithm::XorShift,
            rng_seed: RngSeed::Fixed(seed << 32 ^ u64::from(n)),
            ..CONFIG.clone()
        });
        let still = n / 40 % 2 == 1;
        let op = operation(false, still).new_tree(&mut runner);
        match op.expect("no filter").current() {
            // It would soon have more memory than there is.
            Op::Update => Op::Boot(Fault::None),
            op => op,
        }
    }
}
