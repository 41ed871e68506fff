//! What the programs know when they are built: weights, trees and coefficients.

/// A pseudo-random number between -128 and 127.
const fn small(n: u32) -> i32 {
    (n.wrapping_mul(2_654_435_761) >> 24) as i32 - 128
}

/// Inputs of `mlp`'s network.
pub const INPUTS: usize = 50;
/// Neurons of its first layer.
pub const HIDDEN: usize = 10;
/// Neurons of its second layer.
pub const OUTPUTS: usize = 2;

const fn layer<const N: usize, const M: usize>(seed: u32) -> [[i32; N]; M] {
    let mut all = [[0; N]; M];
    let mut i = 0;
    while i < N * M {
        all[i / N][i % N] = small(seed + i as u32);
        i += 1;
    }
    all
}

/// The weights of its first layer.
pub static LAYER_1: [[i32; INPUTS]; HIDDEN] = layer(1);
/// The weights of its second layer.
pub static LAYER_2: [[i32; HIDDEN]; OUTPUTS] = layer(1001);
/// What it is applied to.
pub static SIGNAL: [i32; 64] = layer::<64, 1>(2001)[0];

/// A node of `pred`'s decision tree: a value of the reading to compare, or a leaf. The left child
/// of node `n` is `2 n + 1`, the right one, for larger values, the next.
#[derive(Clone, Copy)]
pub enum Split {
    /// Compare.
    At {
        /// Which value.
        value: u8,
        /// The right child is for larger ones.
        above: u32,
    },
    /// A class.
    Leaf,
}

const fn at(value: u8, above: u32) -> Split {
    Split::At { value, above }
}
const LEAF: Split = Split::Leaf;

/// The tree: seven nodes that compare, and eight leaves.
pub static TREE: [Split; 15] = [
    at(0, 64),
    at(1, 40),
    at(1, 80),
    at(2, 30),
    at(2, 90),
    at(0, 90),
    at(2, 64),
    LEAF,
    LEAF,
    LEAF,
    LEAF,
    LEAF,
    LEAF,
    LEAF,
    LEAF,
];

/// The coefficients of `pred`'s linear model, in 16ths.
pub static COEFFICIENTS: [u32; 4] = [80, 9, 4, 3];

#[path = "../../../examples/programs/src/model.rs"]
mod pipeline;
pub use pipeline::{NOTES, OLD};
