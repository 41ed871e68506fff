//! A program as data: calls of the runtime, and what its openings meet.

use crate::faulty::{Fault, Part};
use proptest::prelude::*;
use std::fmt;

/// Each operation but a loop has one step at least, which counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A step with a result.
    Add(u8),
    /// A step that aborts, after it has changed everything; then one that counts.
    Fail(u16),
    /// Reads the sensor, and adds what it shows.
    Input,
    /// Records a value of the program, and adds it.
    Record(u8),
    /// Makes an object, changes it, and takes it apart: three steps.
    Object(u8),
    /// Sends what the objects hold.
    Send,
    /// Makes durable what is committed, and shows it.
    Show,
    /// Waits so long by a clock that survives a cut, or does not. Only tasks do.
    Sleep(u8, bool),
    Loop(u8, Vec<Op>),
    /// A loop of one step; every other one sends, or none.
    Turns(u8, bool),
}

/// What one opening of the runtime meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opening {
    /// The program is given up before this call; 0: it is not.
    pub calls: u8,
    pub fault: Fault,
}

#[derive(Clone, PartialEq)]
pub struct Script {
    /// Bits of the sequence numbers.
    pub bits: u8,
    pub ops: Vec<Op>,
    /// The first openings; later ones meet nothing.
    pub openings: Vec<Opening>,
}

/// As a test for found.rs.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Script {
            bits,
            ops,
            openings,
        } = self;
        let ops = format!("{ops:?}").replace('[', "vec![");
        write!(f, "Script {{\n    bits: {bits},\n    ops: {ops},\n")?;
        write!(f, "    openings: vec!{openings:?},\n}}")
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let leaf = prop_oneof![
        3 => any::<u8>().prop_map(Op::Add),
        1 => (0..9_u16).prop_map(Op::Fail),
        3 => Just(Op::Input),
        1 => any::<u8>().prop_map(Op::Record),
        1 => any::<u8>().prop_map(Op::Object),
        3 => Just(Op::Send),
        1 => Just(Op::Show),
        1 => (0..4_u8, any::<bool>()).prop_map(|(n, survives)| Op::Sleep(n, survives)),
        1 => (0..5_u8, any::<bool>()).prop_map(|(n, sends)| Op::Turns(n, sends)),
    ];
    let op = leaf.prop_recursive(2, 12, 3, |op| {
        (0..4_u8, prop::collection::vec(op, 1..4)).prop_map(|(n, body)| Op::Loop(n, body))
    });
    prop::collection::vec(op, 1..6)
}

fn openings() -> impl Strategy<Value = Vec<Opening>> {
    let part = prop_oneof![Just(Part::Nothing), Just(Part::Half), Just(Part::All)];
    let fault = prop_oneof![
        2 => Just(Fault::None),
        3 => (0..40_u8, part).prop_map(|(n, part)| Fault::Change(n, part)),
        1 => (0..40_u8).prop_map(Fault::Read),
        3 => (1..120_u8).prop_map(Fault::Dropped),
    ];
    let calls = prop_oneof![2 => Just(0), 1 => 1..12_u8];
    let opening = (calls, fault).prop_map(|(calls, fault)| Opening { calls, fault });
    prop::collection::vec(opening, 0..5)
}

pub fn scripts() -> impl Strategy<Value = Script> {
    let bits = prop_oneof![2 => Just(3_u8), 1 => 4..8_u8];
    (bits, ops(), openings()).prop_map(|(bits, ops, openings)| Script {
        bits,
        ops,
        openings,
    })
}

/// Programs that count and send. They have no inputs: words that were cut may read old first and
/// new later, so which input is recorded may change until somebody has seen it.
pub fn short_scripts() -> impl Strategy<Value = Script> {
    let op = prop_oneof![
        any::<u8>().prop_map(Op::Add),
        Just(Op::Send),
        Just(Op::Show),
    ];
    prop::collection::vec(op, 1..4).prop_map(|ops| Script {
        bits: 3,
        ops,
        openings: vec![],
    })
}
