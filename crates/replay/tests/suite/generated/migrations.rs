//! Migrations to roots of other types: how many numbers the old program has used, how narrow they
//! are, whether its messages wait, and whether a second version comes before the first is done.
//! The fixture, with its judge, is `crate::migrate`.

use crate::migrate::{BYTES, Case, Seen, program, twice};
use crate::runs::{programs, seed};
use nv_replay::nvmem::{InOrder32, Region};
use powerfail::{Mapped, World, random};
use proptest::prelude::*;

fn cases() -> impl Strategy<Value = (Case, bool)> {
    let case = (3..8_u8, 0..20_u32, any::<bool>()).prop_map(|(seq_bits, turns, busy)| Case {
        seq_bits,
        turns,
        busy,
    });
    (case, any::<bool>())
}

fn boot(nv: Region<'_, InOrder32>, world: &World<'_, Seen>, (case, again): &(Case, bool)) {
    match again {
        false => program(nv, world, case),
        true => twice(nv, world, case),
    }
}

#[test]
fn migrations() {
    let s = random(cases(), || Mapped::<InOrder32>::new(BYTES), boot);
    let s = s.cases(programs(3)).seed(seed()).run();
    println!("{s}");
}
