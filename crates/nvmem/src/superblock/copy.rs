//! The words of a copy: made, checked, read.

use super::{Stored, Superblock};
use crate::crc::Crc32;
use crate::planted;
use core::mem::{MaybeUninit, offset_of};

pub(super) const WORDS: usize = 16;
/// The last word: the checksum of the others.
pub(super) const CRC: usize = WORDS - 1;
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"RLM1");
pub(super) const FORMATTING: u16 = 1;
pub(super) const READY: u16 = 2;

/// The words of a copy.
pub(super) type Image = [u32; WORDS];

/// The second word.
pub(super) fn order(sequence: u16, state: u16) -> u32 {
    u32::from(sequence) | u32::from(state) << 16
}

/// The state in the second word.
pub(super) fn state_of(order: u32) -> u16 {
    (order >> 16) as u16
}

/// The checksum of all words but the last.
#[inline(never)]
pub(super) fn checksum(image: &Image) -> u32 {
    let words = image.iter().take(CRC);
    words.fold(Crc32::new(), |crc, w| crc.word(*w)).finish()
}

/// A copy that is to be written.
///
/// A region in which a format is under way is marked by its kind alone: the same whatever the version and the types, so
/// that a marker torn by one build is known to the next.
#[inline(never)]
pub(super) fn image<'i>(
    into: &'i mut MaybeUninit<Image>,
    sb: &Superblock,
    order: u32,
) -> &'i mut Image {
    let keep = if state_of(order) == READY { !0 } else { 0 };
    let to = into.as_mut_ptr().cast::<u32>();
    // In place: an array that is made first and filled then is written three times.
    // SAFETY: each of the 16 words is written before it is read.
    let image = unsafe {
        to.write(MAGIC);
        to.add(1).write(order);
        to.add(2).write(u32::from_le_bytes(sb.kind));
        to.add(3).write(u32::from(sb.version) & keep);
        for (i, w) in sb.tail().iter().enumerate() {
            to.add(4 + i).write(*w & keep);
        }
        to.add(CRC - 1).write(0);
        to.add(CRC).write(0);
        into.assume_init_mut()
    };
    image[CRC] = checksum(image);
    image
}

/// Checked before anything in it is believed.
pub(super) fn intact(image: &Image) -> bool {
    image[0] == MAGIC
        && matches!(state_of(image[1]), FORMATTING | READY)
        && (image[3] >> 16 | image[CRC - 1]) == 0
        && (image[CRC] == checksum(image) || planted!("nvmem/superblock-crc-unchecked"))
}

/// What an intact copy says.
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
    /// The fingerprint and the parameters, as they lie in memory.
    fn tail(&self) -> &[u32; 10] {
        const FROM: usize = offset_of!(Superblock, fingerprint);
        const { assert!(offset_of!(Superblock, params) == FROM + 8) };
        // SAFETY: two fields without padding that lie one behind the other, by `repr(C)`.
        unsafe { &*(&raw const *self).byte_add(FROM).cast() }
    }
}
