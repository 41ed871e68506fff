//! The commit marker of a slot, block or image on NOR flash: two words that say how far its writing
//! got. A building block for formats; [`Record`](crate::Record) and
//! [`WearLevelled`](crate::WearLevelled) use it.
//!
//! ```text
//! slot   | content, ends with its checksum | marker word | confirmation word |
//!          1                                 2             3
//!
//! word   blank    every byte reads as erased                      FF FF FF FF
//!        written  4 bytes made of the checksum, repeated          xx xx xx xx
//!        killed   every bit is programmed                         00 00 00 00
//! ```
//!
//! A word has 4 bytes, rounded up to the medium's word. The marker is written when the content is
//! complete, and the confirmation when the marker is.
//!
//! # Why it is safe
//!
//! The word whose program was cut may read differently each time, so one word is not enough: a boot
//! could read it as written and act on the content, and the next boot could read it as blank.
//!
//! - If the marker was begun, the content is complete and stable.
//! - If the confirmation was begun, the marker is complete and stable. So a boot that reads both
//!   words may act on the content: each later boot reads at least the marker.
//! - A boot that reads the marker only writes the content again before it acts on it, or finds out
//!   by other means that the marker is complete.
//! - The 4 bytes depend on the checksum. A marker that an interrupted erase has left does not fit
//!   other content. They are never those of a blank or killed word.
//!
//! # Killing a slot
//!
//! On most NOR flash a word may be programmed again so that all its bits are programmed:
//! [`Contract::overwrites`]. There a slot in doubt can be [killed](kill) instead of erased. A
//! killed word is stable once [`kill`] has returned, whatever it was before. A kill that was cut
//! may read as the old word again, so the next boot repeats it before it relies on it. On a medium
//! without such an overwrite nothing is ever killed.
//!
//! A word that reads as blank may be one whose kill was cut. So nothing else is programmed there. A
//! word that is *only* ever killed, in front of a slot, solves this: a boot kills it again before
//! it uses the slot or the one after it, and it then says for good that the slot was begun.

use crate::blocking::marker as io;
use crate::device::{Contract, Medium};

pub use crate::blocking::marker::{all_bytes_are, is_blank, kill, order, read};
#[doc(hidden)]
pub use crate::blocking::marker::{read_progress, write_marker};

/// The most bytes that one call here reads or writes: the largest word of a medium.
pub const PIECE: usize = 256;

/// The unit of offsets and lengths: the least common multiple of the read size, the write size and
/// the atomic unit.
///
/// **Panics** if the contract is not [sound](Contract::is_sound), or the word has more than 256
/// bytes. In a constant this is a compile error.
pub const fn word_size(c: &Contract) -> u32 {
    let word = Contract { erase: None, ..*c }.alignment();
    assert!(
        c.is_sound() && word as usize <= PIECE,
        "a marker needs words of at most 256 bytes"
    );
    if let Some(e) = &c.erase {
        assert!(
            e.size.is_multiple_of(word),
            "a marker needs erase units of whole words"
        );
    }
    word
}

/// Bytes of the marker word, and of the confirmation: 4, rounded up to [`word_size`].
pub const fn marker_size(c: &Contract) -> u32 {
    4u32.next_multiple_of(word_size(c))
}

/// How far the writing of a slot got, as its two words read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The marker or the confirmation reads as killed: the slot does not count.
    Killed,
    /// The marker reads as blank. The content may be incomplete.
    Blank,
    /// The marker reads as neither blank nor written: torn, or of other content.
    Begun,
    /// The marker reads as written, so the content is complete. The marker may be unstable.
    Marked,
    /// Marker and confirmation read as written, so the marker is stable.
    Confirmed,
}

/// The marker at an offset of a medium, for content with a checksum.
#[derive(Debug, Clone, Copy)]
pub struct Marker {
    /// The offset of the marker word; the confirmation follows it.
    pub at: u32,
    /// The checksum of the content.
    pub checksum: u32,
}

impl Marker {
    /// The bytes that the marker word (`which` 0) or the confirmation (1) repeats. Neither all
    /// zeros nor all ones, and different for the two words.
    pub const fn word(self, which: u32) -> [u8; 4] {
        // The highest and the lowest bit differ, each way in one of the words.
        let (salt, set) = if which == 0 {
            (0x5A3C_96A5, 1)
        } else {
            (0x25C3_695A, 1 << 31)
        };
        ((self.checksum ^ salt) & 0x7FFF_FFFE | set).to_le_bytes()
    }

    /// Writes the marker word, then the confirmation, then flushes. All content must have been
    /// written.
    ///
    /// **Power loss**: the slot reads as any [`Progress`] but `Killed`, in this order. **Cost**:
    /// writes two words. **Errors**: the medium's.
    #[inline]
    pub fn write<D: Medium>(self, medium: &mut D) -> Result<(), D::Error> {
        io::write_marker(medium, self)
    }

    /// Writes the marker word (`which` 0) or the confirmation (1) only.
    ///
    /// **Power loss**: the word reads as blank, torn or written. **Errors**: the medium's.
    #[inline]
    pub fn write_word<D: Medium>(self, medium: &mut D, which: u32) -> Result<(), D::Error> {
        io::write_word(medium, self, which)
    }

    /// Reads how far the writing got.
    ///
    /// **Cost**: reads 4 bytes of each word; all of the first word if those 4 read as blank.
    /// **Errors**: the medium's.
    #[inline]
    pub fn progress<D: Medium>(self, medium: &mut D) -> Result<Progress, D::Error> {
        io::read_progress(medium, self)
    }

    /// Reads the marker word (`which` 0) or the confirmation (1) only; [`Progress::Marked`] if it
    /// reads as written.
    ///
    /// **Cost**, **Errors**: as for [`progress`](Self::progress).
    #[inline]
    pub fn word_progress<D: Medium>(
        self,
        medium: &mut D,
        which: u32,
    ) -> Result<Progress, D::Error> {
        io::word_progress(medium, self, which)
    }
}

/// The value of an erased byte; 0xFF on a medium without erase.
pub const fn erased(c: &Contract) -> u8 {
    match &c.erase {
        Some(e) => e.erased,
        None => 0xFF,
    }
}
