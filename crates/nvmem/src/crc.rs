//! CRC-32 (ISO-HDLC, as in Ethernet, zlib and PNG) with a table of 16 words.

/// The remainders of the 16 nibbles for the reflected polynomial 0xEDB88320.
static NIBBLE: [u32; 16] = {
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
        Crc32(self.0 ^ w).nibbles::<8>()
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
