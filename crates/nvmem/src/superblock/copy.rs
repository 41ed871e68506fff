//! Encodes, checks and decodes the 16 words of a copy.

use super::{Stored, Superblock};
use crate::crc::Crc32;
use crate::planted;
use core::mem::{MaybeUninit, offset_of};

pub(super) const WORDS: usize = 16;
/// Index of the last word, the checksum of the others.
pub(super) const CRC: usize = WORDS - 1;
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"RLM1");
pub(super) const FORMATTING: u16 = 1;
pub(super) const READY: u16 = 2;

// INVARIANT "A copy is 16 words": a superblock's copy is 16 initialised, aligned words, and only
// these words decide whether it is valid. `Image` keeps it; a region shorter than both copies is
// refused before.
// Noticed by: `a_short_region_is_foreign_and_untouched` in tests/suite/superblock.rs; Miri.

/// The words of a copy, each in the medium's byte order.
pub(super) type Image = [u32; WORDS];

/// The second word: sequence number and state.
pub(super) fn sequence_and_state(sequence: u16, state: u16) -> u32 {
    u32::from(sequence) | u32::from(state) << 16
}

/// The state in the second word.
pub(super) fn state_of(sequence_and_state: u32) -> u16 {
    (sequence_and_state >> 16) as u16
}

/// Reads a word of a copy on the medium or in RAM.
///
/// # Safety
/// `at` is the first of 16 aligned, initialised words, none of them being written.
#[inline(always)]
pub(super) unsafe fn word(at: *const u32, i: usize) -> u32 {
    debug_assert!(i < WORDS);
    // SAFETY: invariant "A copy is 16 words": one of them.
    u32::from_le(unsafe { at.add(i).read() })
}

/// The checksum of all words but the last.
///
/// # Safety
/// As for [`word`].
#[inline(never)]
pub(super) unsafe fn checksum(at: *const u32) -> u32 {
    let mut crc = Crc32::new();
    for i in 0..CRC {
        // SAFETY: invariant "A copy is 16 words", by the contract.
        crc = crc.word(unsafe { word(at, i) });
    }
    crc.finish()
}

/// Sets the second word and the checksum.
pub(super) fn set_state_and_checksum(image: &mut Image, sequence_and_state: u32) {
    image[1] = sequence_and_state.to_le();
    // SAFETY: invariant "A copy is 16 words".
    image[CRC] = unsafe { checksum(image.as_ptr()) }.to_le();
}

/// Builds a copy, except for the words that [`set_state_and_checksum`] sets.
///
/// A format marker contains only the kind, not the version, types or parameters. So a later build
/// of the program recognises a marker that an earlier build left torn.
#[inline(never)]
pub(super) fn image<'i>(
    into: &'i mut MaybeUninit<Image>,
    sb: &Superblock,
    state: u16,
) -> &'i mut Image {
    let keep = if state == READY { !0 } else { 0 };
    let to = into.as_mut_ptr().cast::<u32>();
    // Built in place: the compiler would write a separate array three times. SAFETY: invariant "A
    // copy is 16 words": each is written before it is read.
    unsafe {
        to.write(MAGIC.to_le());
        to.add(1).write(0);
        to.add(2).write(u32::from_ne_bytes(sb.kind));
        to.add(3).write((u32::from(sb.version) & keep).to_le());
        for (i, w) in sb.tail().iter().enumerate() {
            to.add(4 + i).write((*w & keep).to_le());
        }
        to.add(CRC - 1).write(0);
        to.add(CRC).write(0);
        into.assume_init_mut()
    }
}

/// Whether a copy is valid. Checked before any other word of it is used.
///
/// # Safety
/// As for [`word`].
#[inline(never)]
pub(super) unsafe fn intact(at: *const u32) -> bool {
    // SAFETY: invariant "A copy is 16 words", by the contract.
    unsafe {
        let plausible = word(at, 0) == MAGIC
            && matches!(state_of(word(at, 1)), FORMATTING | READY)
            && (word(at, 3) >> 16 | word(at, CRC - 1)) == 0;
        if plausible && planted!("nvmem/superblock-crc-unchecked") {
            return true;
        }
        plausible && word(at, CRC) == checksum(at)
    }
}

/// Decodes an intact copy.
pub(super) fn unpack(word: impl Fn(usize) -> u32) -> Stored {
    Stored {
        sequence: word(1) as u16,
        formatting: state_of(word(1)) == FORMATTING,
        superblock: content(word),
    }
}

pub(super) fn content(word: impl Fn(usize) -> u32) -> Superblock {
    Superblock {
        kind: word(2).to_le_bytes(),
        version: word(3) as u16,
        fingerprint: u64::from(word(4)) | u64::from(word(5)) << 32,
        params: core::array::from_fn(|i| word(6 + i)),
    }
}

impl Superblock {
    const TAIL: usize = {
        assert!(offset_of!(Superblock, params) == offset_of!(Superblock, fingerprint) + 8);
        offset_of!(Superblock, fingerprint)
    };

    /// The fingerprint and the parameters as words.
    pub(super) fn tail(&self) -> &[u32; 10] {
        // SAFETY: invariant "Parts are inside": two adjacent fields without padding, by `repr(C)`.
        unsafe { &*(&raw const *self).byte_add(Self::TAIL).cast() }
    }

    pub(super) fn tail_mut(&mut self) -> &mut [u32; 10] {
        // SAFETY: invariant "Parts are inside", as in `tail`.
        unsafe { &mut *(&raw mut *self).byte_add(Self::TAIL).cast() }
    }
}
