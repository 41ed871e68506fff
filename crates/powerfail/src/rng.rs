//! The pseudo-random generator of the kit, for tests too.

use crate::hash::mix;

/// Numbers that a seed determines, the same on every computer (SplitMix64). Neighbouring seeds give
/// sequences that have nothing in common.
///
/// For tests that want some arbitrary values, without a failure report: in a program under
/// [`random`](fn@crate::random) the values come from `proptest`, which finds the smallest ones that
/// fail.
///
/// ```
/// let mut dice = powerfail::Rng::new(1);
/// let mut again = dice.clone();
/// assert!(dice.below(6) < 6);
/// assert_eq!(again.below(6), powerfail::Rng::new(1).below(6));
/// ```
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number below `n`, and 0 for 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Fills a slice.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let next = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&next[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_sequence_is_splitmix64() {
        // The first numbers that the published algorithm gives for this seed.
        let mut rng = Rng::new(1_234_567);
        let wanted = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(wanted.map(|_| rng.next_u64()), wanted);
    }

    #[test]
    fn every_number_below_comes() {
        let mut rng = Rng::new(0);
        let mut seen = [false; 7];
        for _ in 0..200 {
            seen[rng.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(rng.below(0), 0);
        let mut bytes = [0; 11];
        rng.fill(&mut bytes);
        assert!(bytes[8..] != [0; 3]);
    }
}
