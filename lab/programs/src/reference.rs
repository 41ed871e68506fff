//! What the programs find, computed plainly: without threads, a kernel or a memory.

use crate::model::{HIDDEN, INPUTS, LAYER_1, LAYER_2, OUTPUTS, SIGNAL};
use crate::support::{input, mix, rounds};
#[path = "../../../examples/programs/src/reference.rs"]
mod examples;
pub use examples::{etl, mq};

/// The results of `em`: for each actor the hash of all rounds, and the sum of 48 words of the last
/// one.
pub fn em() -> [u32; 4] {
    const ROUNDS: u32 = 100;
    let mut results = [0; 4];
    for i in 0..rounds(ROUNDS) {
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
    let rounds = rounds(100);
    let hash = (0..rounds * 6).fold(0, |hash, _| mix(hash, ones));
    [rounds, 6 * ones, hash, 0]
}

/// The results of `mlp`: the rounds, how often the first output was the larger one, and a hash of
/// each output.
pub fn mlp() -> [u32; 4] {
    let mut results = [0; 4];
    for round in 0..rounds(100) as usize {
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
    for round in 0..rounds(5) {
        let samples = (100 * round..100 * round + 100).map(input);
        let hash = samples.fold(0, mix);
        results = [round + 1, hash, mix(results[2], hash), 0];
    }
    results
}

/// The results of `kv`: for each thread how many keys it has found, and a hash of their values:
/// all, then those with an odd number.
pub fn kv() -> [u32; 4] {
    let keys = 4 * rounds(5);
    let of = |me: u32| {
        let value = |n: u32| input(keys * me + n);
        let all = (0..keys).map(value).fold(0, mix);
        (0..keys).filter(|n| n % 2 == 1).map(value).fold(all, mix)
    };
    let found = keys + keys / 2;
    [found, of(0), found, of(1)]
}

/// The results of `pred`: how many classes and errors there were, each with a hash of them.
pub fn pred() -> [u32; 4] {
    let (mut results, mut sum, mut average) = ([0; 4], 0, 0);
    for i in 0..2 * rounds(50) {
        let x = input(i);
        let [a, b, c] = [x & 127, x >> 7 & 127, x >> 14 & 127];
        // The tree of `model::TREE`.
        let class = match (a > 64, b) {
            (false, ..=40) => 7 + u32::from(c > 30),
            (false, _) => 9 + u32::from(c > 90),
            (true, ..=80) => 11 + u32::from(a > 90),
            (true, _) => 13 + u32::from(c > 64),
        };
        let predicted = (80 + 9 * a + 4 * b + 3 * c) / 16;
        sum += a;
        if i % 5 == 4 {
            average = sum / 5;
            sum = 0;
        }
        let error = predicted.abs_diff(average);
        results = [i + 1, mix(results[1], class), i + 1, mix(results[3], error)];
    }
    results
}

/// The results of `stats`: how many there were, and hashes of the estimated numbers of different
/// readings, of the smoothed ones with their trend, and of the averages.
pub fn stats() -> [u32; 4] {
    let mut results = [0; 4];
    let (mut map, mut estimate) = (0u64, 0);
    let (mut value, mut variance, mut last) = (0i32, 256 * 64, [0; 5]);
    let (mut sum, mut average) = (0, 0);
    for i in 0..2 * rounds(50) {
        let x = input(i) >> 23;
        let bit = 1 << (x.wrapping_mul(0x9E37_79B1) >> 26);
        if map & bit == 0 {
            estimate += 64 * 256 / map.count_zeros();
            map |= bit;
        }
        variance += 16;
        let gain = 256 * variance / (variance + 1024);
        value += (gain * (256 * x as i32 - value)) >> 8;
        variance -= (gain * variance) >> 8;
        last = [last[1], last[2], last[3], last[4], value];
        let slope = (-2 * last[0] - last[1] + last[3] + 2 * last[4]) / 10;
        sum += x;
        if i % 5 == 4 {
            average = sum / 5;
            sum = 0;
        }
        let [n, a, b, c] = results;
        let smoothed = (value + slope) as u32;
        results = [n + 3, mix(a, estimate), mix(b, smoothed), mix(c, average)];
    }
    results
}

/// The results of `ar`: the rounds, the windows in motion that were recognised, how many windows
/// were right, and a hash of these by rounds.
pub fn ar() -> [u32; 4] {
    let features = |window: u32, moving: bool| {
        let (mut means, mut deviations) = (0, 0);
        for axis in [0, 8, 16] {
            let value = |i: u32| {
                let v = (input(3 * window + i) >> axis) as u8 as i32 - 128;
                let v = if moving { v } else { v >> 3 };
                if (-4..=4).contains(&v) { 0 } else { v }
            };
            let all = [value(0), value(1), value(2)];
            let mean = (all[0] + all[1] + all[2]) / 3;
            let [a, b, c] = all.map(|v| v.abs_diff(mean));
            means += mean.pow(2) as u32;
            deviations += ((a + b + c) / 3).pow(2);
        }
        (means, deviations)
    };
    let mut results = [0; 4];
    for round in 0..rounds(100) {
        let first = round * 96;
        let (mut moving, mut right) = (0, 0);
        let mut learnt = [(0, 0); 32];
        for (n, l) in (0..).zip(&mut learnt) {
            *l = features(first + n, n >= 16);
        }
        for n in 0..64 {
            let moves = n % 2 == 1;
            let (mean, deviation) = features(first + 32 + n, moves);
            let far = |l: &(u32, u32)| l.0.abs_diff(mean) + l.1.abs_diff(deviation);
            let [still, moved] = [&learnt[..16], &learnt[16..]].map(|l| l.iter().map(far).min());
            let recognised = moved < still;
            moving += u32::from(recognised);
            right += u32::from(recognised == moves);
        }
        let [n, m, r, hash] = results;
        results = [
            n + 1,
            m + moving,
            r + right,
            mix(hash, right * 256 + moving),
        ];
    }
    results
}

/// The results of `train`: the nodes of the tree and a hash of them, the first weight of the linear
/// model and a hash of all.
pub fn train() -> [u32; 4] {
    let row = |n: u32| [0, 7, 14, 21].map(|by| (input(n) >> by) as i32 % 128 - 64);
    // The tree, breadth first: for each node its rows, and then what it does.
    let class = |[a, b, c, _]: [i32; 4]| a + b > c;
    let (mut rows, mut len, mut hash) = ([[false; 16]; 10], 1, 0);
    rows[0] = [true; 16];
    let mut n = 0;
    while n < len && n < rounds(10) as usize {
        let mine = rows[n];
        let count = |f: &dyn Fn([i32; 4]) -> bool| {
            (0..16u32)
                .filter(|i| mine[*i as usize] && f(row(*i)))
                .count()
        };
        let (all, ones) = (count(&|_| true), count(&class));
        let (mut best, mut least) = (None, usize::MAX);
        for v in 0..4 {
            let has = |i: &u32| mine[*i as usize];
            let sum: i32 = (0..16u32).filter(has).map(|i| row(i)[v]).sum();
            let mean = sum / all as i32;
            let large = count(&|r| r[v] > mean);
            let large_ones = count(&|r| r[v] > mean && class(r));
            let wrong = large_ones.min(large - large_ones)
                + (ones - large_ones).min(all - large - (ones - large_ones));
            if large != 0 && large != all && wrong < least {
                (best, least) = (Some((v, mean)), wrong);
            }
        }
        let mut node = u32::from(2 * ones > all);
        let mut above = 0;
        if let Some((v, mean)) = best
            && ones != 0
            && ones != all
            && len + 2 <= 10
        {
            for (i, has) in mine.iter().enumerate() {
                let large = row(i as u32)[v] > mean;
                rows[len][i] = *has && !large;
                rows[len + 1][i] = *has && large;
            }
            node |= (v as u32) << 8 | (len as u32) << 16;
            above = mean;
            len += 2;
        }
        hash = mix(mix(hash, above as u32), node);
        n += 1;
    }
    // Nobody has looked at the others.
    hash = (n..len).fold(hash, |hash, _| mix(mix(hash, 0), 0));
    // The linear model.
    let mut weights = [0i32; 5];
    for _ in 0..rounds(15) {
        let mut gradient = [0; 5];
        for n in 16..32 {
            let [a, b, c, d] = row(n);
            let wanted = 3 * a - 2 * b + c / 2 + d + 10;
            let inputs = [a, b, c, d, 64];
            let mut sum = 0;
            for i in 0..5 {
                sum += inputs[i] * weights[i];
            }
            for i in 0..5 {
                gradient[i] += (sum.div_euclid(256) - wanted) * inputs[i];
            }
        }
        for i in 0..5 {
            weights[i] -= gradient[i].div_euclid(512);
        }
    }
    let line = weights.iter().fold(0, |h, w| mix(h, *w as u32));
    [len as u32, hash, weights[0] as u32, line]
}

/// What the program of this name must find.
pub fn of(name: &str) -> Option<[u32; 4]> {
    Some(match name {
        "ar" => ar(),
        "bc" => bc(),
        "em" => em(),
        "etl" => etl(),
        "kv" => kv(),
        "mlp" => mlp(),
        "mq" => mq(),
        "pred" => pred(),
        "sen" => sen(),
        "stats" => stats(),
        "train" => train(),
        _ => return None,
    })
}
