//! The key-value workload: 256 values of four sizes are inserted and flushed, then whole values are
//! updated, in four patterns.

use crate::medium::Counts;
use crate::rng::Rng;

/// How many keys there are.
pub const KEYS: usize = 256;

/// Bytes of all values.
pub const DATA: usize = 64 * 32 + 128 * 128 + 32 * 256 + 32 * 1024;

/// How many bytes may be modified and not written yet: a fifth of the data.
pub const LIMIT: usize = DATA / 5;

/// How many updates a run makes.
pub const UPDATES: usize = 10_000;

/// The sizes of the values: one fixed assignment for all runs, spread evenly over the keys.
pub const fn size(key: usize) -> usize {
    const OF_EIGHT: [usize; 8] = [32, 128, 256, 128, 32, 128, 1024, 128];
    OF_EIGHT[key % 8]
}

/// Which key is updated next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Each key as often as any other.
    Uniform,
    /// One after the other, from the first again after the last.
    Sequential,
    /// With the weight sin⁴(40·key/256) + 0.1.
    Unequal,
    /// For 100 updates one of the 16 keys of a group, then of another group.
    Partitioned,
}

impl Pattern {
    /// All four.
    pub const ALL: [Pattern; 4] = [
        Pattern::Uniform,
        Pattern::Sequential,
        Pattern::Unequal,
        Pattern::Partitioned,
    ];

    /// As in the names of figures.
    pub const fn name(self) -> &'static str {
        match self {
            Pattern::Uniform => "uniform",
            Pattern::Sequential => "sequential",
            Pattern::Unequal => "unequal",
            Pattern::Partitioned => "partitioned",
        }
    }

    /// The keys of a run.
    pub fn keys(self, updates: usize, seed: u64) -> Vec<usize> {
        let mut rng = Rng::new(seed);
        let mut sums = Vec::with_capacity(KEYS);
        let mut sum = 0.0;
        for key in 0..KEYS {
            sum += (40.0 * key as f64 / KEYS as f64).sin().powi(4) + 0.1;
            sums.push(sum);
        }
        let mut group = 0;
        let mut next = |i: usize| match self {
            Pattern::Uniform => rng.below(KEYS),
            Pattern::Sequential => i % KEYS,
            Pattern::Unequal => {
                let at = rng.unit() * sum;
                sums.partition_point(|s| *s <= at).min(KEYS - 1)
            }
            Pattern::Partitioned => {
                if i.is_multiple_of(100) {
                    group = rng.below(KEYS / 16);
                }
                group * 16 + rng.below(16)
            }
        };
        (0..updates).map(&mut next).collect()
    }
}

/// What keeps the values.
pub trait Values {
    /// Writes the whole value of `key`: each byte is `fill`.
    fn update(&mut self, key: usize, fill: u8);
    /// Whether each byte of the value is `fill`.
    fn holds(&mut self, key: usize, fill: u8) -> bool;
    /// What went over the bus since everything was inserted and flushed.
    fn counts(&self) -> &Counts;
}

/// What update number `i` writes.
pub const fn fill(i: usize) -> u8 {
    i as u8 | 1
}

/// Makes the updates. Nothing else is counted in instructions.
#[inline(always)]
pub fn updates<V: Values>(values: &mut V, keys: &[usize]) {
    for (i, key) in keys.iter().enumerate() {
        values.update(*key, fill(i));
    }
}

/// Whether all values are what the updates have left.
pub fn all_hold<V: Values>(values: &mut V, keys: &[usize]) -> bool {
    let mut last = [None; KEYS];
    for (i, key) in keys.iter().enumerate() {
        last[*key] = Some(fill(i));
    }
    (0..KEYS).all(|key| last[key].is_none_or(|f| values.holds(key, f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_workload() {
        let count = |s| (0..KEYS).filter(|k| size(*k) == s).count();
        assert_eq!([32, 128, 256, 1024].map(count), [64, 128, 32, 32]);
        assert_eq!((0..KEYS).map(size).sum::<usize>(), DATA);
    }

    #[test]
    fn patterns_are_what_they_are_called() {
        let uniform = Pattern::Uniform.keys(100_000, 1);
        let unequal = Pattern::Unequal.keys(100_000, 1);
        let of = |keys: &[usize], k| keys.iter().filter(|x| **x == k).count();
        assert!((300..500).contains(&of(&uniform, 10)));
        // sin⁴ is 0 at key 0 and nearly 1 at key 10.
        assert!(of(&unequal, 10) > 8 * of(&unequal, 0));
        let parts = Pattern::Partitioned.keys(1_000, 1);
        assert!(
            parts
                .chunks(100)
                .all(|c| c.iter().all(|k| k / 16 == c[0] / 16))
        );
        assert_ne!(uniform, Pattern::Uniform.keys(100_000, 2));
    }
}
