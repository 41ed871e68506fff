//! The program `mq` on a host, through 500 power cuts.

use example_programs::cuts::{Mq, Program};

fn main() {
    let s = Mq::cut(500, 400);
    println!("{:?} at each end; {s}", Mq::reference());
}
