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
