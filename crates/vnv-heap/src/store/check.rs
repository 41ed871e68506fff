//! The check over an object: 16 bits that notice every one- and two-bit error of up to 1,280 bytes.
//!
//! A sum of 32-bit words, each with a weight of its own, modulo the prime 65,521. A flipped bit changes it by plus or minus a power of two
//! times the weight; the weights are such that no two of these, nor one and a power of two below 2^16 (a flipped bit of the
//! check itself), are the same. Sixteen bits of CRC do that for 4 KiB, and cost three instructions a byte; this costs one,
//! because eight words are multiplied by small constants before anything is reduced.

/// Words of the content that are taken together.
pub(super) const BLOCK: usize = 32;

const PRIME: u32 = 65_521;
/// 2^16 and 2^32 modulo the prime.
const R16: u32 = 15;
const R32: u64 = 225;

/// The weights of the words in a block, and what a block weighs more than the next one.
///
/// Found by a search: `weights_are_apart` in the tests says what is asked of them.
pub(super) const WEIGHTS: [u16; 8] = [9231, 62792, 16668, 41968, 23136, 51654, 42404, 13080];
pub(super) const STRIDE: u64 = 18806;

/// Congruent, and below 2^33 for any argument below 2^53.
#[inline(always)]
const fn fold(c: u64) -> u64 {
    (c & 0xFFFF_FFFF) + (c >> 32) * R32
}

/// Takes `bytes`; but for the last ones, a multiple of [`BLOCK`] at a time.
#[inline(never)]
pub(super) fn weigh(mut c: u64, bytes: &[u8]) -> u64 {
    for b in bytes.chunks(BLOCK) {
        c = block(c, b);
    }
    c
}

/// Takes one block; a short one counts as if zeros followed.
#[inline(always)]
fn block(c: u64, b: &[u8]) -> u64 {
    let (words, rest) = b.as_chunks::<4>();
    let mut last = 0;
    for byte in rest.iter().rev() {
        last = last << 8 | u32::from(*byte);
    }
    let mut weights = WEIGHTS.iter();
    let mut next = || weights.next().map_or(0, |w| u64::from(*w));
    let mut t = 0;
    for w in words {
        t += u64::from(u32::from_le_bytes(*w)) * next();
    }
    t += u64::from(last) * next();
    fold(c) * STRIDE + t
}

/// A check under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(u64);

impl Check {
    /// Of nothing.
    pub(crate) const NONE: Check = Check(0);

    /// Of an object's number and length; its content follows.
    pub(crate) fn new(id: u16, len: u16) -> Self {
        Check(u64::from(id) | u64::from(len) << 16)
    }

    /// Takes a part of the content, in order; each but the last has a multiple of [`PIECE`](super::PIECE) bytes.
    ///
    /// **Cost**: about an instruction a byte.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0 = weigh(self.0, bytes);
    }

    /// The check: from 1 to 65,521, so that neither a zeroed nor an erased one is ever right.
    pub(crate) fn finish(self) -> u16 {
        reduce(self.0)
    }
}

/// Apart, as the rest of the check is, so that what it costs can be told.
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
