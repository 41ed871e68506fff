//! Failures that generated programs have found, as their scripts.

use super::judge::Outside;
use super::program::{Op, Opening, Script};
use super::threads::{self, BYTES, On, Round, Start, boot};
use super::{flash, mirrored, task};
use crate::faulty::{Fault, Part};
use nv_mirror::Durability::{BeforeOutput, EachCommit};
use powerfail::{Mapped, World, explore_with};

/// A step has committed, and a cut comes before its message has left. Then its place starts over:
/// the message was dropped, and arrived never.
#[test]
fn a_place_that_starts_over_keeps_its_messages() {
    let round = |start, ops| Round {
        starts: [Start::Resume, start, Start::Resume],
        ops,
        drains: false,
    };
    let script = threads::Script {
        bits: 3,
        rounds: vec![
            round(Start::Resume, vec![(1, threads::Op::Send)]),
            round(Start::Over, vec![]),
        ],
    };
    let s = explore_with(script, Mapped::<On>::new(BYTES), boot);
    println!("{}", s.run());
}

/// A save of an input and its step is cut. The next boot finds both, but a cut or an error takes
/// them back: on flash they must be saved again before the next input is read.
#[test]
fn what_an_open_finds_is_saved_before_it_is_seen() {
    let none = Opening {
        calls: 0,
        fault: Fault::None,
    };
    let fails = Opening {
        calls: 0,
        fault: Fault::Change(1, Part::Nothing),
    };
    let script = Script {
        bits: 3,
        ops: vec![Op::Loop(2, vec![Op::Input])],
        openings: vec![none, fails],
    };
    type W<'a, 'r> = &'a World<'r, Outside>;
    let waits = explore_with(script.clone(), flash(), |nv, w: W, s| {
        task(nv, w, s, EachCommit)
    });
    let calls = explore_with(script, flash(), |nv, w: W, s| {
        mirrored(nv, w, s, EachCommit)
    });
    println!("{}; {}", waits.run(), calls.run());
}

/// A save of an input is cut, and reads old at the next open. The program reads the sensor again,
/// and is given up before anybody has seen that. Then the save reads new.
#[test]
fn a_reading_that_nobody_has_seen_may_be_the_first_one() {
    let opening = |calls| Opening {
        calls,
        fault: Fault::None,
    };
    let script = Script {
        bits: 3,
        ops: vec![Op::Input, Op::Loop(0, vec![Op::Add(0)])],
        openings: vec![opening(0), opening(2)],
    };
    let s = explore_with(script, flash(), |nv, w: &World<'_, Outside>, s| {
        mirrored(nv, w, s, BeforeOutput)
    });
    println!("{}", s.depth(2).run());
}
