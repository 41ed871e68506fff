//! What the campaigns have found, and what no test noticed before, each as its smallest program.

use super::boot::boot;
use super::judge::{Holds, Seen};
use super::media::{Bytes32, Fault::*, HalfPages, Part::*};
use super::program::{How::*, MANY, NONE, Op, Op::*, Program, REOPEN, SAVE, three};
use super::store::Raw;
use super::{chip, mapped, older, opens, rotten};
use nv_mirror::Durability::*;
use powerfail::{World, explore, explore_with};

/// A program that does not wait for its saves.
fn program(ops: Vec<Op>) -> Program {
    Program {
        waits: false,
        durability: BeforeOutput,
        ops,
    }
}

/// What is read may be in a write buffer only. A mirror that is opened again in the same power-on
/// period must not call it durable.
#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn a_save_that_failed_is_durable_after_a_reopen() {
    explore(mapped(2 * 1088), |nv, w: &World<'_, Seen>| {
        let fails = Save(Durable, Fails(1, Nothing));
        let ops = vec![three(0), SAVE, three(10), fails, REOPEN, SAVE];
        let program = program(ops);
        boot::<Raw, _>(nv, w, &opens(2, Holds::Nothing), &program)
    })
    .run();
}

/// A format that was cut must not read as blank as long as the old log can come back.
#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn a_log_that_was_given_up_does_not_come_back() {
    explore(older::<HalfPages>(1536), |nv, w: &World<'_, Seen>| {
        let ops = vec![three(0), SAVE, REOPEN];
        let program = program(ops);
        boot::<Raw, _>(nv, w, &opens(3, Holds::Refused), &program)
    })
    .depth(2)
    .run();
    explore(chip::<Bytes32>(3 * 1152), |nv, w: &World<'_, Seen>| {
        let first = [three(0), SAVE, REOPEN, three(10), SAVE];
        let ops = [&first[..], &[Format(Never), three(20), SAVE, REOPEN]].concat();
        let program = program(ops);
        boot::<Raw, _>(nv, w, &opens(3, Holds::Nothing), &program)
    })
    .run();
}

/// A format that was cut leaves the last save or no content, but not an older save.
#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn a_cut_format_leaves_no_older_state() {
    explore(mapped(2 * 1088), |nv, w: &World<'_, Seen>| {
        let ops = vec![three(0), SAVE, three(10), SAVE, Format(Never)];
        let program = program(ops);
        boot::<Raw, _>(nv, w, &opens(2, Holds::Nothing), &program)
    })
    .run();
}

/// More places have changed than a record has runs.
#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn more_places_than_runs() {
    explore(mapped(2 * 1088), |nv, w: &World<'_, Seen>| {
        let ops = vec![three(0), SAVE, MANY, SAVE];
        let program = Program {
            waits: true,
            durability: EachCommit,
            ops,
        };
        boot::<Raw, _>(nv, w, &opens(2, Holds::Nothing), &program)
    })
    .run();
}

/// A save has begun a segment, and fails at any operation. At one it has written the header, before
/// the last flush. The next save begins the same segment again: its header must be gone for sure
/// before its base image is written.
#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn a_segment_is_begun_twice_behind_a_buffer() {
    for n in 0..16 {
        explore_with(n, mapped(2 * 1088), |nv, w: &World<'_, Seen>, n| {
            let fails = Save(Durable, Fails(*n, All));
            let ops = vec![MANY, SAVE, MANY, SAVE, MANY, fails, NONE, SAVE];
            let program = program(ops);
            boot::<Raw, _>(nv, w, &opens(2, Holds::Nothing), &program)
        })
        .run();
    }
}

/// The range reads as never saved, because the only header has rotted. The program saves the same
/// again, and the record that followed then must not fit.
#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn records_without_a_header_do_not_come_back() {
    explore(rotten(), |nv, w: &World<'_, Seen>| {
        let program = program(vec![SAVE, REOPEN]);
        boot::<Raw, _>(nv, w, &opens(3, Holds::Nothing), &program)
    })
    .run();
}
