//! What tells one call from another: a hash of its place in the source, and of what it was given.

use core::panic::Location;
use nvmem::cross::{Arg, Share};

/// A hash that is fed words; good enough to tell call sites apart, and cheap where multiplication is not.
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
        let (words, rest) = b.as_chunks::<4>();
        for w in words {
            self = self.word(u32::from_le_bytes(*w));
        }
        for b in rest {
            self = self.word(u32::from(*b));
        }
        self
    }
    /// The bits that vary most are the upper ones.
    #[inline(always)]
    pub const fn finish(self) -> u32 {
        self.0 ^ self.0 >> 15
    }
}

/// The place of a call: file, line and column, which are the same in every build of the same source. The address of a
/// function would not be.
#[inline]
pub(crate) fn site(at: &Location<'_>) -> u32 {
    Hash::new()
        .bytes(at.file().as_bytes())
        .word(at.line())
        .word(at.column())
        .finish()
}

/// 0 for no arguments.
pub(crate) fn args<A: Arg>(a: &A) -> u32 {
    let mut h = Hash::new();
    a.handles(&mut |o| h = h.word(o));
    a.bytes(&mut |b| h = h.bytes(b));
    h.finish()
}

/// The same for a loop.
pub(crate) fn shared<S: Share>(a: &S, from: u32, to: u32) -> u32 {
    let mut h = Hash::new().word(from).word(to);
    a.handles(&mut |o| h = h.word(o));
    a.bytes(&mut |b| h = h.bytes(b));
    h.finish()
}
