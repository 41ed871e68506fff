//! CRC-32 (ISO-HDLC, as in Ethernet, zlib and PNG) with a table of 16 words.

/// The remainders of the 16 nibbles for the reflected polynomial 0xEDB88320.
const NIBBLES: [u32; 16] = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        let mut v = i as u32;
        let mut bit = 0;
        while bit < 4 {
            v = (v >> 1) ^ (0xEDB8_8320 & (v & 1).wrapping_neg());
            bit += 1;
        }
        table[i] = v;
        i += 1;
    }
    table
};

const fn halves(table: [u32; 16]) -> [[u16; 2]; 16] {
    let mut halves = [[0; 2]; 16];
    let mut i = 0;
    while i < 16 {
        halves[i] = [table[i] as u16, (table[i] >> 16) as u16];
        i += 1;
    }
    halves
}

static NIBBLE: [u32; 16] = NIBBLES;

/// The remainders of the 16 bytes whose upper nibble is 0, and of those whose lower one is.
static BYTE: [[u16; 2]; 16] = {
    let mut table = NIBBLES;
    let mut i = 0;
    while i < 16 {
        table[i] = NIBBLES[(NIBBLES[i] & 15) as usize] ^ (NIBBLES[i] >> 4);
        i += 1;
    }
    halves(table)
};
static UPPER: [[u16; 2]; 16] = halves(NIBBLES);

/// An incremental CRC-32.
#[derive(Debug, Clone, Copy)]
pub struct Crc32(u32);

impl Crc32 {
    /// The CRC of no bytes.
    #[inline]
    pub const fn new() -> Self {
        Crc32(!0)
    }

    #[inline(always)]
    fn nibbles<const N: usize>(self) -> Self {
        let mut v = self.0;
        let mut i = 0;
        while i < N {
            v = NIBBLE[(v & 15) as usize] ^ (v >> 4);
            i += 1;
        }
        Crc32(v)
    }

    /// Adds four bytes, the least significant first. **Cost**: about 25 instructions.
    #[inline]
    #[must_use]
    pub fn word(self, w: u32) -> Self {
        if cfg!(target_pointer_width = "16") {
            return Crc32(self.0 ^ w).halves();
        }
        Crc32(self.0 ^ w).nibbles::<8>()
    }

    /// The same as eight nibbles, for processors of 16 bits, which shift by 8 bits at once and by
    /// fewer bit by bit.
    #[inline(always)]
    fn halves(self) -> Self {
        let (mut low, mut high) = (self.0 as u16, (self.0 >> 16) as u16);
        let mut i = 0;
        while i < 4 {
            let [a, b] = BYTE[usize::from(low & 15)];
            let [c, d] = UPPER[usize::from(low as u8 >> 4)];
            low = (low >> 8 | high << 8) ^ a ^ c;
            high = high >> 8 ^ b ^ d;
            i += 1;
        }
        Crc32(u32::from(low) | u32::from(high) << 16)
    }

    /// Adds one byte.
    #[inline]
    #[must_use]
    pub fn byte(self, b: u8) -> Self {
        Crc32(self.0 ^ u32::from(b)).nibbles::<2>()
    }

    /// Adds bytes in order.
    #[must_use]
    pub fn bytes(mut self, b: &[u8]) -> Self {
        let (words, rest) = b.as_chunks::<4>();
        for w in words {
            self = self.word(u32::from_le_bytes(*w));
        }
        for b in rest {
            self = self.byte(*b);
        }
        self
    }

    /// The checksum of all bytes added.
    #[inline]
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

/// The CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    Crc32::new().bytes(bytes).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_by_halves_are_nibbles() {
        for v in (0..=u32::MAX).step_by(0x1_0001) {
            let crc = Crc32(v.wrapping_mul(0x9E37_79B9));
            assert_eq!(crc.halves().0, crc.nibbles::<8>().0);
        }
    }
}
