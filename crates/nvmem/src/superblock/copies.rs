//! Both copies in RAM, for managers on a [`Medium`](crate::Medium), which read and write the copies
//! themselves.

use super::Superblock;
use super::copy::{
    self, FORMATTING, Image, MAGIC, READY, WORDS, intact, sequence_and_state,
    set_state_and_checksum, state_of,
};
use crate::layout::Layout;
use crate::planted;
use core::mem::MaybeUninit;
use core::num::NonZeroU32;

/// Both copies in the medium's byte order, aligned. They are read, checked and filled in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Copies([Image; 2]);

/// The copy that counts, with its sequence number and state, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NewestCopy(NonZeroU32);

impl NewestCopy {
    /// The bit above the copy's second word: set for copy 1.
    const SECOND: u32 = 1 << 31;

    /// The index of the copy: 0 or 1.
    pub fn copy(self) -> usize {
        (self.0.get() >> 31) as usize
    }

    /// The sequence number; wraps.
    pub fn sequence(self) -> u16 {
        self.0.get() as u16
    }

    /// Whether the copy is a format marker.
    pub fn is_formatting(self) -> bool {
        state_of(self.0.get() & !Self::SECOND) == FORMATTING
    }
}

impl Copies {
    /// Fills `place` with zeros.
    #[inline(always)]
    pub fn zeroed(place: &mut MaybeUninit<Copies>) -> &mut Copies {
        let to = place.as_mut_ptr().cast::<u32>();
        for i in 0..2 * WORDS {
            // Volatile: otherwise this becomes a call of `memset`, which is larger than this whole
            // module. SAFETY: invariant "A copy is 16 words": one of two copies'.
            unsafe { to.add(i).write_volatile(0) };
        }
        // SAFETY: invariant "A copy is 16 words": all of both were written.
        unsafe { place.assume_init_mut() }
    }

    /// The bytes of a copy.
    #[inline(always)]
    pub fn copy(&self, copy: usize) -> &[u8; Superblock::COPY_BYTES] {
        // SAFETY: invariant "A copy is 16 words": as many bytes.
        unsafe { &*(&raw const self.0[copy & 1]).cast() }
    }

    /// The bytes of both copies, to be filled from the medium.
    #[inline(always)]
    pub fn as_bytes_mut(&mut self) -> &mut [u8; Superblock::BYTES] {
        // SAFETY: invariant "A copy is 16 words": as many bytes, and any bytes are words.
        unsafe { &mut *(&raw mut self.0).cast() }
    }

    /// Fills a copy with this superblock, or with the format marker of its kind.
    pub fn fill(&mut self, copy: usize, sb: &Superblock, sequence: u16, formatting: bool) {
        let state = if formatting { FORMATTING } else { READY };
        // SAFETY: invariant "A copy is 16 words": they are initialised already, and stay so.
        let place = unsafe { &mut *(&raw mut self.0[copy & 1]).cast::<MaybeUninit<Image>>() };
        set_state_and_checksum(
            copy::image(place, sb, state),
            sequence_and_state(sequence, state),
        );
    }

    /// The newer of the intact copies.
    #[inline(never)]
    pub fn newest(&self) -> Option<NewestCopy> {
        let mut best = None;
        let mut which = 0;
        for image in &self.0 {
            let second = u32::from_le(image[1]);
            let later = |b: NewestCopy| {
                if planted!("nvmem/copies-sequence-does-not-wrap") {
                    return second as u16 > b.sequence();
                }
                crate::sequence::is_newer_16(second as u16, b.sequence())
            };
            // SAFETY: invariant "A copy is 16 words".
            if best.is_none_or(later) && unsafe { intact(image.as_ptr()) } {
                // The state of an intact copy is neither 0 nor above 2^15, so the word is not 0 and
                // bit 31 is free.
                best = NonZeroU32::new(second | which).map(NewestCopy);
            }
            which = NewestCopy::SECOND;
        }
        best
    }

    /// Whether a copy begins with the magic.
    pub fn has_magic(&self) -> bool {
        self.0.iter().any(|i| i[0] == MAGIC.to_le())
    }

    /// Whether a copy is not intact although its first byte is not blank. If the manager zeroes
    /// that byte before it writes a copy, no power cut leaves this beside a format marker: the copy
    /// is damaged.
    pub fn is_damaged(&self, copy: usize) -> bool {
        let image = &self.0[copy & 1];
        // SAFETY: invariant "A copy is 16 words".
        !matches!(self.copy(copy)[0], 0 | 0xFF) && !unsafe { intact(image.as_ptr()) }
    }

    /// The kind in a copy.
    #[inline(always)]
    pub fn kind(&self, copy: usize) -> [u8; 4] {
        self.0[copy & 1][2].to_ne_bytes()
    }

    /// Whether a copy has this layout.
    #[inline(always)]
    pub fn has_layout(&self, copy: usize, layout: &Layout) -> bool {
        let image = &self.0[copy & 1];
        let (low, high) = (layout.fingerprint as u32, (layout.fingerprint >> 32) as u32);
        let kind = u32::from_le_bytes(layout.kind);
        let mine = [kind, u32::from(layout.version), low, high];
        image[2..6]
            .iter()
            .zip(mine)
            .all(|(w, m)| u32::from_le(*w) == m)
    }

    /// The parameters in a copy.
    #[inline(always)]
    pub fn params(&self, copy: usize) -> [u32; 8] {
        core::array::from_fn(|i| u32::from_le(self.0[copy & 1][6 + i]))
    }

    /// The superblock in a copy. Does not verify the checksum.
    #[inline(always)]
    pub fn superblock(&self, copy: usize) -> Superblock {
        copy::content(|i| u32::from_le(self.0[copy & 1][i]))
    }
}
