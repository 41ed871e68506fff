//! A pool in a mirror under power cuts, on each kind of medium.
//!
//! The program counts, and keeps the last two numbers in a queue of objects. At each boot it checks
//! the queue, makes what it found durable, and tells the world. What the world has seen must never
//! revert.

mod program;

use nv_mirror::Config;
use powerfail::{Mram16, Simulated, SpiFram, Stm32f0, World, explore};
use program::{Promise, run};

const TWO: Config = Config {
    segments: 2,
    ..Config::DEFAULT
};
const THREE: Config = Config {
    segments: 3,
    ..Config::DEFAULT
};

macro_rules! campaign {
    ($chip:ty, $config:expr, $size:expr, $steps:expr, $every:expr, $depth:expr, $least:expr) => {{
        let s = explore(Simulated::<$chip>::new($size).refusal_fails(), |nv, w: &World<'_, Promise>| {
            run(nv, w, $config, $steps, $every)
        })
        .depth($depth)
        .max_depth($depth)
        .run();
        println!("{}: {s}", stringify!($chip));
        assert!(s.partial || s.cuts > $least, "{s}");
    }};
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn serial_fram() {
    campaign!(SpiFram, TWO, 2 * 1536, 3, 1, 2, 1000);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn mram_by_16_bytes() {
    campaign!(Mram16, TWO, 2 * 1536, 3, 1, 2, 1000);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn flash_of_an_stm32f0() {
    campaign!(Stm32f0, THREE, 3 * 2048, 2, 1, 2, 1000);
}
