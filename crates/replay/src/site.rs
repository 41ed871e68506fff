//! Identifies calls: a hash of the call site in the source, and one of the arguments.

use core::panic::Location;
use nvmem::cross::{Arg, Share};

/// A hash over words. Good enough to tell call sites apart, and cheap on cores without a
/// multiplier.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u32);

impl Hash {
    pub const fn new() -> Self {
        Hash(0)
    }
    #[inline(always)]
    pub const fn word(self, w: u32) -> Self {
        Hash((self.0.rotate_left(5) ^ w).wrapping_mul(0x9e37_79b1))
    }
    #[inline]
    pub fn bytes(mut self, b: &[u8]) -> Self {
        let (words, remaining) = b.as_chunks::<4>();
        for w in words {
            self = self.word(u32::from_le_bytes(*w));
        }
        for b in remaining {
            self = self.word(u32::from(*b));
        }
        self
    }
    /// Mixes the upper bits, which vary most, into the lower ones.
    #[inline(always)]
    pub const fn finish(self) -> u32 {
        self.0 ^ self.0 >> 15
    }
}

/// The number of bytes at the end of a path that are hashed.
const TAIL: usize = 32;

/// The hash of a call site: the end of its file's path, line and column. They are equal in every
/// build of the same source, even in another folder; the address of a function or of the path
/// string is not.
///
/// Without a loop: where the call is inlined, the compiler evaluates the hash to a constant.
#[inline(always)]
pub(crate) fn site(at: &Location<'_>) -> u32 {
    hash_location(at.file().as_bytes(), at.line(), at.column())
}

#[inline(always)]
fn hash_location(path: &[u8], line: u32, column: u32) -> u32 {
    macro_rules! feed {
        ($h:ident, $b:ident: $($i:literal)*) => {
            $($h = $h.word(u32::from_le_bytes([$b[$i], $b[$i + 1], $b[$i + 2], $b[$i + 3]]));)*
        };
    }
    let mut h = Hash::new().word(line).word(column);
    let mut remaining = path;
    if let Some(b) = remaining.last_chunk::<TAIL>() {
        feed!(h, b: 0 4 8 12 16 20 24 28);
        return h.finish();
    }
    if let Some((before, b)) = remaining.split_last_chunk::<16>() {
        feed!(h, b: 0 4 8 12);
        remaining = before;
    }
    if let Some((before, b)) = remaining.split_last_chunk::<8>() {
        feed!(h, b: 0 4);
        remaining = before;
    }
    if let Some((before, b)) = remaining.split_last_chunk::<4>() {
        feed!(h, b: 0);
        remaining = before;
    }
    if let Some((before, b)) = remaining.split_last_chunk::<2>() {
        h = h.word(u16::from_le_bytes(*b).into());
        remaining = before;
    }
    if let [b] = remaining {
        h = h.word((*b).into());
    }
    h.finish()
}

/// The hash of a call's arguments; 0 for none.
#[inline]
pub(crate) fn args_hash<A: Arg>(a: &A) -> u32 {
    let mut h = Hash::new();
    a.handles(&mut |o| h = h.word(o));
    a.bytes(&mut |b| h = h.bytes(b));
    h.finish()
}

/// The hash of a loop's range and arguments.
#[inline]
pub(crate) fn loop_args_hash<S: Share>(a: &S, from: u32, to: u32) -> u32 {
    let mut h = Hash::new().word(from).word(to);
    a.handles(&mut |o| h = h.word(o));
    a.bytes(&mut |b| h = h.bytes(b));
    h.finish()
}

#[cfg(test)]
mod tests {
    use super::hash_location;

    /// The 17 bits of a call site that a 32-bit header holds.
    fn bits(path: &[u8], line: u32, column: u32) -> u32 {
        hash_location(path, line, column) & 0x1_ffff
    }

    #[test]
    fn every_byte_that_counts_counts() {
        let path = *b"/home/somebody/src/valves/src/steps.rs";
        for from in 0..path.len() {
            let path = &path[from..];
            for i in 0..path.len() {
                let mut other = path.to_vec();
                other[i] ^= 1;
                let counts = path.len() - i <= super::TAIL;
                assert_eq!(bits(path, 7, 9) != bits(&other, 7, 9), counts, "{from} {i}");
            }
            assert_ne!(bits(path, 7, 9), bits(path, 8, 9));
            assert_ne!(bits(path, 7, 9), bits(path, 7, 10));
        }
    }

    /// The call sites of a long file collide no more often than chance has it.
    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and much of it")]
    fn places_spread() {
        let mut seen = std::collections::BTreeMap::new();
        for line in 1..500 {
            for column in [5, 8, 9, 13, 17, 20] {
                *seen.entry(bits(b"src/main.rs", line, column)).or_insert(0) += 1;
            }
        }
        // 2,994 sites and 131,072 values: chance gives 34 pairs.
        let pairs: i32 = seen.values().map(|n| n * (n - 1) / 2).sum();
        assert!(pairs < 68, "{pairs}");
    }

    /// The hash is part of the format: devices hold these values.
    #[test]
    fn the_hash_is_part_of_the_format() {
        assert_eq!(hash_location(b"src/main.rs", 12, 5), 0xe6d0_0d4f);
        assert_eq!(
            hash_location(b"/elsewhere/crates/valves/src/steps.rs", 12, 5),
            0x4239_4119
        );
    }
}
