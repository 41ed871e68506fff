//! What is printed when a state is not survived.

use crate::engine::{self, Bad, Setup};
use crate::explore::Failure;
use crate::medium::Media;
use crate::world::Outside;
use std::fmt::Write;

pub(crate) fn failure<M: Media, T: Outside>(name: &str, setup: &Setup<M, T>, bad: &Bad) -> Failure {
    let mut s = String::new();
    let times = match bad.cuts.len() {
        0 => "without a power cut".to_owned(),
        1 => "power lost once".to_owned(),
        2 => "power lost twice".to_owned(),
        n => format!("power lost {n} times"),
    };
    let _ = writeln!(s, "{name}: {times}, and: {}", bad.what);
    let mut e = engine::engine(setup, 0);
    for (i, d) in e.describe(&bad.cuts).iter().enumerate() {
        let _ = writeln!(s, "  cut {}  {d}", i + 1);
    }
    Failure::new(s)
}
