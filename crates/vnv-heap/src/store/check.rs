//! The check of an object: 16 bits that detect every one- and two-bit error in up to 1,280 bytes.
//!
//! It is a weighted sum of 32-bit words modulo the prime 65,521. A flipped bit changes the sum by
//! plus or minus a power of two times the word's weight. The weights are chosen so that no two such
//! changes are equal, and none equals a power of two below 2^16 (a flipped bit of the check
//! itself). A CRC of 16 bits does that for 4 KiB, and costs three instructions a byte. This check
//! costs one: eight words are multiplied by small constants before each reduction.

/// Bytes that are summed between two reductions.
pub(super) const BLOCK: usize = 32;

const PRIME: u32 = 65_521;
/// 2^16 and 2^32 modulo the prime.
const R16: u32 = 15;
const R32: u64 = 225;

/// Weights of the words in a block. `STRIDE` is the factor between a block and the next.
///
/// Found by a search; the test `weights_are_apart` verifies the property above.
pub(super) const WEIGHTS: [u16; 8] = [9231, 62792, 16668, 41968, 23136, 51654, 42404, 13080];
pub(super) const STRIDE: u64 = 18806;

/// Congruent, and below 2^33 for any argument below 2^53.
const fn fold(c: u64) -> u64 {
    (c & 0xFFFF_FFFF) + (c >> 32) * R32
}

/// Adds `bytes`: a multiple of [`BLOCK`], except in the last call.
#[inline(never)]
pub(super) fn weigh(mut c: u64, bytes: &[u8]) -> u64 {
    for b in bytes.chunks(BLOCK) {
        c = block(c, b);
    }
    c
}

/// Adds one block. A short one counts as if filled with zeros.
fn block(c: u64, b: &[u8]) -> u64 {
    let (words, rest) = b.as_chunks::<4>();
    let mut t = 0;
    for (word, weight) in words.iter().zip(&WEIGHTS) {
        t += u64::from(u32::from_le_bytes(*word)) * u64::from(*weight);
    }
    if let Some(weight) = WEIGHTS.get(words.len())
        && !rest.is_empty()
    {
        let mut last = 0;
        for byte in rest.iter().rev() {
            last = last << 8 | u32::from(*byte);
        }
        t += u64::from(last) * u64::from(*weight);
    }
    fold(c) * STRIDE + t
}

/// A check being computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(u64);

impl Check {
    /// The check of nothing.
    pub(crate) const NONE: Check = Check(0);

    /// Starts with an object's number and length; its content follows.
    pub(crate) fn new(id: u16, len: u16) -> Self {
        Check(u64::from(id) | u64::from(len) << 16)
    }

    /// Adds a part of the content, in order; each but the last has a multiple of
    /// [`PIECE`](super::PIECE) bytes.
    ///
    /// **Cost**: about an instruction a byte.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0 = weigh(self.0, bytes);
    }

    /// The check: from 1 to 65,521, so that neither zeroed nor erased bytes are ever a valid one.
    pub(crate) fn finish(self) -> u16 {
        reduce(self.0)
    }
}

/// A function of its own, like `weigh`, so that profiles show its cost.
#[inline(never)]
fn reduce(c: u64) -> u16 {
    // Below 2^33, so that the next one fits.
    let c = fold(c);
    let mut c = (c as u32 & 0xFFFF) + (c >> 16) as u32 * R16;
    c = (c & 0xFFFF) + (c >> 16) * R16;
    c = (c & 0xFFFF) + (c >> 16) * R16;
    if c >= PRIME {
        c -= PRIME;
    }
    c as u16 + 1
}
