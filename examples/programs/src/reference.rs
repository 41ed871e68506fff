//! What the programs find, computed plainly: without threads, a kernel or a memory.

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
