//! What the campaigns have found, each as its smallest program.

use super::boot::boot;
use super::judge::{Holds, Seen};
use super::media::{Bytes32, Fault::*, HalfPages, Part::*};
use super::program::{How::*, Op::*, Program, REOPEN, SAVE, three};
use super::store::Raw;
use super::{chip, mapped, older, setting};
use nv_mirror::Durability::*;
use powerfail::{World, explore};

/// What is read may be in a write buffer only. A mirror that is opened again in the same power-on
/// period must not call it durable.
#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn a_save_that_failed_is_durable_after_a_reopen() {
    explore(mapped(2 * 1088), |nv, w: &World<'_, Seen>| {
        let fails = Save(Durable, Fails(1, Nothing));
        let ops = vec![three(0), SAVE, three(10), fails, REOPEN, SAVE];
        let program = Program {
            waits: false,
            durability: BeforeOutput,
            ops,
        };
        boot::<Raw, _>(nv, w, &setting(2, Holds::Nothing), &program)
    })
    .run();
}

/// A format that was cut must not read as blank as long as the old log can come back.
#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn a_log_that_was_given_up_does_not_come_back() {
    explore(older::<HalfPages>(1536), |nv, w: &World<'_, Seen>| {
        let ops = vec![three(0), SAVE, REOPEN];
        let program = Program {
            waits: false,
            durability: BeforeOutput,
            ops,
        };
        boot::<Raw, _>(nv, w, &setting(3, Holds::OtherLog), &program)
    })
    .depth(2)
    .run();
    explore(chip::<Bytes32>(3 * 1152), |nv, w: &World<'_, Seen>| {
        let first = [three(0), SAVE, REOPEN, three(10), SAVE];
        let ops = [&first[..], &[Format(Never), three(20), SAVE, REOPEN]].concat();
        let program = Program {
            waits: false,
            durability: BeforeOutput,
            ops,
        };
        boot::<Raw, _>(nv, w, &setting(3, Holds::Nothing), &program)
    })
    .run();
}

/// A format that was cut leaves the last save or no content, but not an older save.
#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn a_cut_format_leaves_no_older_state() {
    explore(mapped(2 * 1088), |nv, w: &World<'_, Seen>| {
        let ops = vec![three(0), SAVE, three(10), SAVE, Format(Never)];
        let program = Program {
            waits: false,
            durability: BeforeOutput,
            ops,
        };
        boot::<Raw, _>(nv, w, &setting(2, Holds::Nothing), &program)
    })
    .run();
}
