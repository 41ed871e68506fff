//! Figures 7 to 14 of *Efficient State Retention for Transiently-powered Embedded Sensing* (EWSN
//! 2016), on the crate itself and on the paper's layout, and two real programs. What simulated
//! flash is told to do is counted; energy and time are counts times a named model. Lines
//! `key value`.

mod flash;
mod fragmented;
mod grids;
mod paper;
mod phases;
mod program;
mod real;
mod run;
mod say;

use checkpoint::TrackedHeap;
use say::Figures;

fn main() {
    let mut f = Figures::default();
    grids::contiguous(&mut f);
    grids::modified(&mut f);
    grids::apart(&mut f);
    fragmented::all(&mut f);
    phases::all(&mut f);
    real::all(&mut f);
    f.say("boots_per_checkpoint", 1.0 / f64::from(run::BOOT));
    let table = size_of::<TrackedHeap<(), 1280>>() - size_of::<TrackedHeap<(), 640>>();
    f.say("heap_table_bytes_per_block", table as f64 / 640.0);
    for (key, value) in &f.0 {
        println!("{key} {value}");
    }
}
