//! The program `em` on a host, through 500 power cuts.

use lab_programs::cuts::{Em, Program};

fn main() {
    let s = Em::cut(500, 400);
    println!("{:?} at each end; {s}", Em::reference());
}
