//! What the programs find, computed plainly: without threads, a kernel or a memory.

use crate::model::{HIDDEN, INPUTS, LAYER_1, LAYER_2, OUTPUTS, SIGNAL};
use crate::support::{input, mix};

/// The results of `mq`: the last average of ten samples, the hash of all averages; then those of
/// the maxima.
pub fn mq() -> [u32; 4] {
    const MESSAGES: u32 = 150;
    const WINDOW: u32 = 10;
    let mut results = [0; 4];
    for i in 0..MESSAGES {
        let (mut sum, mut max) = (0, 0);
        let first = (i + 1).saturating_sub(WINDOW);
        for n in first..=i {
            let sample = input(n) >> 16;
            sum += sample;
            max = sample.max(max);
        }
        let average = sum / (i + 1 - first);
        results = [average, mix(results[1], average), max, mix(results[3], max)];
    }
    results
}

/// The results of `em`: for each actor the hash of all rounds, and the sum of 48 words of the last
/// one.
pub fn em() -> [u32; 4] {
    const ROUNDS: u32 = 100;
    let mut results = [0; 4];
    for i in 0..ROUNDS {
        let [a, b] = [input(i) ^ 1, input(i) ^ 2];
        let sum = |word: u32| word.wrapping_mul(48);
        results = [mix(results[0], a), sum(a), mix(results[2], b), sum(b)];
    }
    results
}

/// The results of `bc`: the rounds, the ones of fifty integers counted six times, and a hash of all
/// counts.
pub fn bc() -> [u32; 4] {
    let ones: u32 = (0xABCD..0xABCD + 50u32).map(u32::count_ones).sum();
    let hash = (0..100 * 6).fold(0, |hash, _| mix(hash, ones));
    [100, 6 * ones, hash, 0]
}

/// The results of `mlp`: the rounds, how often the first output was the larger one, and a hash of
/// each output.
pub fn mlp() -> [u32; 4] {
    let mut results = [0; 4];
    for round in 0..100 {
        let mut hidden = [0; HIDDEN];
        for (neuron, weights) in hidden.iter_mut().zip(&LAYER_1) {
            for (k, weight) in weights.iter().enumerate() {
                *neuron += weight * SIGNAL[round % (64 - INPUTS) + k];
            }
            *neuron = (*neuron).max(0) >> 8;
        }
        let mut out = [0; OUTPUTS];
        for (neuron, weights) in out.iter_mut().zip(&LAYER_2) {
            for (k, weight) in weights.iter().enumerate() {
                *neuron += weight * hidden[k];
            }
            *neuron = (*neuron).max(0);
        }
        let larger = u32::from(out[0] > out[1]);
        let [rounds, before, a, b] = results;
        let hashes = [mix(a, out[0] as u32), mix(b, out[1] as u32)];
        results = [rounds + 1, before + larger, hashes[0], hashes[1]];
    }
    results
}

/// The results of `sen`: the rounds, a hash of the samples of the last one, and a hash of these.
pub fn sen() -> [u32; 4] {
    let mut results = [0; 4];
    for round in 0..5 {
        let samples = (100 * round..100 * round + 100).map(input);
        let hash = samples.fold(0, mix);
        results = [round + 1, hash, mix(results[2], hash), 0];
    }
    results
}

/// The results of `kv`: for each thread how many keys it has found, and a hash of their values: 20,
/// then those with an odd number.
pub fn kv() -> [u32; 4] {
    let of = |me: u32| {
        let value = |n: u32| input(20 * me + n);
        let all = (0..20).map(value).fold(0, mix);
        (0..20).filter(|n| n % 2 == 1).map(value).fold(all, mix)
    };
    [30, of(0), 30, of(1)]
}
