//! Random numbers that are the same everywhere.

/// SplitMix64: neighbouring seeds have nothing in common.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let v = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let v = (v ^ v >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        v ^ v >> 31
    }

    /// A number below `n`; 0 for 0.
    pub const fn below(&mut self, n: usize) -> usize {
        ((self.next() as u128 * n as u128) >> 64) as usize
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
