//! Prints the scenarios, as `scenario GROUP NAME NUMBER`, and the planted bugs, as
//! `bug GROUP SCENARIO NUMBER WHAT`. For programs on the host that do not link the scenarios.

use relume_suite::{HostModel, groups, planted};

fn main() {
    for g in groups::<HostModel>() {
        for (number, s) in g.scenarios.iter().enumerate() {
            println!("scenario {} {} {number}", g.name, s.name);
        }
    }
    for b in &planted::BUGS {
        println!("bug {} {} {} {}", b.group, b.scenario, b.number, b.what);
    }
}
