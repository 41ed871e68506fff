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
//! may read as the old word again, so the next boot repeats it, and nobody relies on it before. On
//! a medium without such an overwrite nothing is ever killed.
//!
//! A word that reads as blank may be one whose kill was cut. So nothing else is programmed there. A
//! word that is *only* ever killed, in front of a slot, solves this: a boot kills it again before
//! it uses the slot or the one after it, and it then says for good that the slot was begun.

use crate::device::{Contract, Medium, Torn};

/// The most bytes that one call here reads or writes: the largest word of a medium.
const PIECE: usize = 256;

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
    pub fn write<D: Medium>(self, medium: &mut D) -> Result<(), D::Error> {
        for which in 0..2 {
            order(medium)?;
            self.write_word(medium, which)?;
        }
        medium.flush()
    }

    /// Writes the marker word (`which` 0) or the confirmation (1) only.
    ///
    /// **Power loss**: the word reads as blank, torn or written. **Errors**: the medium's.
    pub fn write_word<D: Medium>(self, medium: &mut D, which: u32) -> Result<(), D::Error> {
        let size = const { marker_size(&D::CONTRACT) };
        repeat(medium, self.at + which * size, self.word(which))
    }

    /// Reads how far the writing got.
    ///
    /// **Cost**: reads 4 bytes of each word; all of the first word if those 4 read as blank.
    /// **Errors**: the medium's.
    pub fn progress<D: Medium>(self, medium: &mut D) -> Result<Progress, D::Error> {
        let marker = self.word_progress(medium, 0)?;
        if marker != Progress::Marked {
            return Ok(marker);
        }
        Ok(match self.word_progress(medium, 1)? {
            Progress::Marked => Progress::Confirmed,
            Progress::Killed => Progress::Killed,
            _ => Progress::Marked,
        })
    }

    /// Reads the marker word (`which` 0) or the confirmation (1) only; [`Progress::Marked`] if it
    /// reads as written.
    ///
    /// **Cost**, **Errors**: as for [`progress`](Self::progress).
    pub fn word_progress<D: Medium>(
        self,
        medium: &mut D,
        which: u32,
    ) -> Result<Progress, D::Error> {
        let at = self.at + which * const { marker_size(&D::CONTRACT) };
        let erased = const { erased(&D::CONTRACT) };
        let mut found = [0; 4];
        read(medium, at, &mut found)?;
        // If the first bytes read as written or killed, that program was begun.
        Ok(if found == self.word(which) {
            Progress::Marked
        } else if found == [!erased; 4] {
            Progress::Killed
        } else if found == [erased; 4] && is_blank(medium, at)? {
            Progress::Blank
        } else {
            Progress::Begun
        })
    }
}

/// Programs every bit of the word at `at`, so that it reads as killed. Use it only where
/// [`Contract::overwrites`] is true.
///
/// **Power loss**: the word reads as before, as killed, or torn, and may read differently each
/// time. Kill it again. **Cost**: writes one word. **Errors**: the medium's.
pub fn kill<D: Medium>(medium: &mut D, at: u32) -> Result<(), D::Error> {
    repeat(medium, at, [!const { erased(&D::CONTRACT) }; 4])?;
    medium.flush()
}

/// Whether the word at `at` reads as blank.
///
/// **Errors**: the medium's.
pub fn is_blank<D: Medium>(medium: &mut D, at: u32) -> Result<bool, D::Error> {
    let size = const { marker_size(&D::CONTRACT) };
    all_bytes_are(medium, at, at + size, const { erased(&D::CONTRACT) })
}

/// The value of an erased byte; 0xFF on a medium without erase.
pub const fn erased(c: &Contract) -> u8 {
    match &c.erase {
        Some(e) => e.erased,
        None => 0xFF,
    }
}

/// Makes all earlier writes durable before the later ones. Flushes only where the medium would
/// reorder them.
///
/// **Errors**: the medium's.
#[inline]
pub fn order<D: Medium>(medium: &mut D) -> Result<(), D::Error> {
    match D::CONTRACT.torn {
        Torn::Subset => medium.flush(),
        _ => Ok(()),
    }
}

/// Writes a word that repeats these bytes.
fn repeat<D: Medium>(medium: &mut D, at: u32, bytes: [u8; 4]) -> Result<(), D::Error> {
    let size = const { marker_size(&D::CONTRACT) as usize };
    if size == 4 {
        return medium.write(at, &bytes);
    }
    let mut buf = [0; PIECE];
    for (to, from) in buf.iter_mut().zip(bytes.iter().cycle()) {
        *to = *from;
    }
    medium.write(at, buf.get(..size).unwrap_or_default())
}

/// Reads any bytes: rounds offset and length to the medium's read size.
///
/// **Cost**: reads the bytes, and up to one read size more at each end. **Errors**: the medium's.
pub fn read<D: Medium>(medium: &mut D, at: u32, out: &mut [u8]) -> Result<(), D::Error> {
    let size = D::CONTRACT.read_size;
    if size == 1 {
        return medium.read(at, out);
    }
    let most = const { PIECE as u32 / D::CONTRACT.read_size * D::CONTRACT.read_size };
    let mut buf = [0; PIECE];
    let mut at = at;
    let mut out = out;
    while !out.is_empty() {
        let skip = at % size;
        let n = ((most - skip) as usize).min(out.len());
        let window = (skip + n as u32).next_multiple_of(size) as usize;
        let window = buf.get_mut(..window).unwrap_or_default();
        medium.read(at - skip, window)?;
        let Some((now, later)) = out.split_at_mut_checked(n) else {
            break;
        };
        for (to, from) in now.iter_mut().zip(window.iter().skip(skip as usize)) {
            *to = *from;
        }
        (at, out) = (at + n as u32, later);
    }
    Ok(())
}

/// Whether every byte of `from..to` reads as `byte`. Stops at the first that does not.
///
/// **Cost**: reads up to the whole range. **Errors**: the medium's.
pub fn all_bytes_are<D: Medium>(
    medium: &mut D,
    from: u32,
    to: u32,
    byte: u8,
) -> Result<bool, D::Error> {
    let most = const { PIECE as u32 / D::CONTRACT.read_size * D::CONTRACT.read_size };
    let mut buf = [0; PIECE];
    let mut at = from;
    while at < to {
        let n = (most - at % D::CONTRACT.read_size).min(to - at);
        let piece = buf.get_mut(..n as usize).unwrap_or_default();
        read(medium, at, piece)?;
        if piece.iter().any(|b| *b != byte) {
            return Ok(false);
        }
        at += n;
    }
    Ok(true)
}
