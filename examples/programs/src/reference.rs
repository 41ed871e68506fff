//! What the programs find, computed plainly: without threads, a kernel or a memory.

use crate::support::{input, mix, reading, rounds};

/// The results of `mq`: the last average of ten samples, the hash of all averages; then those of
/// the maxima.
pub fn mq() -> [u32; 4] {
    const WINDOW: u32 = 10;
    let mut results = [0; 4];
    for i in 0..rounds(150) {
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

/// The results of `etl`: how many records there are, their sum, a hash of the sums in the order of
/// the table, and the sum of all readings.
pub fn etl() -> [u32; 4] {
    let mut records = [0; 50];
    let (mut seen, mut last, mut sum) = ([0u64; 3], [[0; 4]; 2], 0u32);
    // Two bits of the lower and the upper half.
    let mut is_new = |filter: usize, value: u32| {
        let hash = value.wrapping_mul(0x9E37_79B1);
        let bits = 1u64 << (hash >> 27) | 1 << (32 + (hash >> 22) % 32);
        let new = seen[filter] & bits != bits;
        seen[filter] |= bits;
        u32::from(new)
    };
    let all = rounds(50);
    for (round, record) in records.iter_mut().enumerate().take(all as usize) {
        let (mut new, mut out, mut values) = (0, 0, [0; 2]);
        for sensor in 0..2 {
            let mut value = reading(round as u32, sensor as u32);
            new += is_new(sensor, value) + is_new(2, value) + is_new(2, value ^ sum);
            sum = sum.wrapping_add(value);
            let [a, b, c, d] = last[sensor];
            if value > 120 {
                out += 1;
                value = (a + b + c + d) / 4;
            }
            last[sensor] = [b, c, d, value];
            values[sensor] = value;
        }
        let note = if values[0] > values[1] { 0x54 } else { 0x21 };
        *record = values[0] + (values[1] << 8) + (new << 16) + (out << 20) + (note << 24);
    }
    let (mut n, mut total, mut hash) = (0, 0u32, 0);
    // Sixteen buckets, each with the newest record first.
    for bucket in 0..16 {
        for round in (0..all).rev().filter(|r| (r ^ r >> 4) % 16 == bucket) {
            n += 1;
            total = total.wrapping_add(round ^ records[round as usize]);
            hash = mix(hash, total);
        }
    }
    [n, total, hash, sum]
}
