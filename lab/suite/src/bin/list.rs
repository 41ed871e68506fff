//! Prints the lab's scenarios and what programs must find, for the rig, which does not link them:
//! `scenario GROUP NAME NUMBER bytes=N sample=N FLAGS` and `wanted GROUP WORD WORD WORD WORD`.

use lab_suite::{groups, programs::wanted};
use relume_suite::HostModel;

fn main() {
    for g in groups::<HostModel>() {
        for (number, s) in g.scenarios.iter().enumerate() {
            print!("scenario {} {} {number}", g.name, s.name);
            print!(" bytes={} sample={}", s.bytes, s.sample);
            for (flag, name) in [
                (s.measures, "measures"),
                (s.interrupts, "interrupts"),
                (s.preempts, "preempts"),
                (s.torn, "torn"),
                (s.whole, "whole"),
                (s.periods, "periods"),
            ] {
                if flag {
                    print!(" {name}");
                }
            }
            println!();
        }
        if let Some([a, b, c, d]) = wanted(g.name) {
            println!("wanted {} {a} {b} {c} {d}", g.name);
        }
    }
}
