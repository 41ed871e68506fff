//! Logs of exactly the size that they ask for, which fill many times over: there is always room.

use super::each;
use crate::log::room::{always_room, step};
use nvmem::ram::{RamFram, RamNor};
use proptest::prelude::*;

#[test]
fn log_room() {
    each(prop::collection::vec(step(), 1..20), 40, |steps| {
        always_room(RamNor::<60, 256, 32>::new(), &steps);
        always_room(RamNor::<12, 2048, 4>::new(), &steps);
        always_room(RamFram::<8000>::filled(0), &steps);
    });
}
