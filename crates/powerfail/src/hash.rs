//! 128-bit hashing of states. Each word of the image contributes by XOR, so hashing it again
//! removes it.

use std::hash::{Hash, Hasher};

pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The hash of one item of a state. Items are combined by XOR.
pub(crate) fn item(kind: u32, at: u32, value: u64) -> u128 {
    let a = u64::from(kind) << 32 | u64::from(at);
    // Values of words have 32 bits, so neither factor is zero.
    let x = fold(value ^ 0xa076_1d64_78bd_642f, a ^ 0xe703_7ed1_a0b4_28db);
    let y = fold(value ^ 0x8ebc_6af0_9c88_c6e3, a ^ 0x5899_65cc_7537_4cc3);
    u128::from(x) << 64 | u128::from(y)
}

/// The XOR of both halves of the product.
fn fold(a: u64, b: u64) -> u64 {
    let p = u128::from(a) * u128::from(b);
    p as u64 ^ (p >> 64) as u64
}

/// A hasher of two independent lanes.
pub(crate) struct Wide(u64, u64);

impl Wide {
    pub(crate) fn new() -> Self {
        Wide(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344)
    }
    pub(crate) fn of<T: Hash + ?Sized>(v: &T) -> u128 {
        let mut h = Wide::new();
        v.hash(&mut h);
        h.wide()
    }
    pub(crate) fn word(&mut self, w: u64) {
        self.0 = mix(self.0 ^ w).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.1 = mix(self.1.rotate_left(23) ^ w.wrapping_mul(0xff51_afd7_ed55_8ccd));
    }
    pub(crate) fn wide(&self) -> u128 {
        u128::from(mix(self.0)) << 64 | u128::from(mix(self.1))
    }
}

impl Hasher for Wide {
    fn finish(&self) -> u64 {
        mix(self.0 ^ self.1)
    }
    fn write(&mut self, bytes: &[u8]) {
        for c in bytes.chunks(8) {
            let mut w = [0; 8];
            w[..c.len()].copy_from_slice(c);
            self.word(u64::from_le_bytes(w));
        }
        self.word(bytes.len() as u64);
    }
    fn write_u32(&mut self, v: u32) {
        self.word(v.into());
    }
    fn write_u64(&mut self, v: u64) {
        self.word(v);
    }
    fn write_usize(&mut self, v: usize) {
        self.word(v as u64);
    }
}

/// A hasher for keys that are already uniform.
#[derive(Default)]
pub(crate) struct Uniform(u64);
impl Hasher for Uniform {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*b);
        }
    }
    fn write_u128(&mut self, v: u128) {
        self.0 = v as u64;
    }
}
/// The keys of states, and the rank that claimed each.
pub(crate) type Claims =
    std::collections::HashMap<u128, u64, std::hash::BuildHasherDefault<Uniform>>;
