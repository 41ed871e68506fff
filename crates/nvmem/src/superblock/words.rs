//! A copy in memory, for managers on a [`Medium`](crate::Medium), which read and write their copies themselves.

use super::copy::{self, FORMATTING, Image, READY, WORDS, intact, order, seal, state_of};
use super::{Stored, Superblock};
use core::mem::MaybeUninit;

/// The bytes of a copy, aligned, read and made in place: a [`Superblock`] by value is as long once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Words(Image);

impl Words {
    /// Zeros, written here.
    #[inline(always)]
    pub fn zeroed(place: &mut MaybeUninit<Words>) -> &mut Words {
        let to = place.as_mut_ptr().cast::<u32>();
        for i in 0..WORDS {
            // Volatile, or else this becomes a call of `memset`, which alone is larger than all that is here.
            // SAFETY: one of the 16.
            unsafe { to.add(i).write_volatile(0) };
        }
        // SAFETY: all of them were written.
        unsafe { place.assume_init_mut() }
    }

    /// As they lie on the medium.
    #[inline(always)]
    pub fn as_bytes(&self) -> &[u8; Superblock::COPY_BYTES] {
        // SAFETY: 16 words are 64 bytes.
        unsafe { &*(&raw const self.0).cast() }
    }

    /// As they lie on the medium, to be read from there.
    #[inline(always)]
    pub fn as_bytes_mut(&mut self) -> &mut [u8; Superblock::COPY_BYTES] {
        // SAFETY: as in `as_bytes`, and any bytes are words.
        unsafe { &mut *(&raw mut self.0).cast() }
    }

    /// Makes them the copy of this superblock, or the mark that a format of its kind is under way.
    pub fn fill(&mut self, sb: &Superblock, sequence: u16, formatting: bool) {
        let state = if formatting { FORMATTING } else { READY };
        // SAFETY: words that are initialised already.
        let place = unsafe { &mut *(&raw mut self.0).cast::<MaybeUninit<Image>>() };
        seal(copy::image(place, sb, state), order(sequence, state));
    }

    /// If they are an intact copy: its place in the order of writes, which wraps, and whether it says that a format is under way.
    pub fn order(&self) -> Option<(u16, bool)> {
        let second = u32::from_le(self.0[1]);
        // SAFETY: 16 words.
        let intact = unsafe { intact(self.0.as_ptr()) };
        intact.then_some((second as u16, state_of(second) == FORMATTING))
    }

    /// What an intact copy says.
    #[inline(always)]
    pub fn superblock(&self) -> Superblock {
        copy::content(|i| u32::from_le(self.0[i]))
    }

    /// All of what an intact copy says; nothing of another one.
    #[inline(always)]
    pub fn stored(&self) -> Option<Stored> {
        let (sequence, formatting) = self.order()?;
        Some(Stored {
            sequence,
            formatting,
            superblock: self.superblock(),
        })
    }
}
