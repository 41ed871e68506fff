//! The bytes of a record's slots, and what a scan of them finds. [The record](super) has the
//! drawing.

use super::MAX_SLOTS;
use crate::crc::crc32;
use crate::device::Contract;
use crate::marker::{Progress, marker_size, word_size};
use crate::planted;
use crate::sequence::is_newer_16;

pub(crate) const RECORD: [u8; 4] = *b"RLR2";
/// The magic of version 1.
pub(crate) const OLD: [u8; 4] = *b"RLR1";
pub(crate) const FORMATTING: [u8; 4] = *b"RLF2";
pub(crate) const HEADER: u32 = 16;
pub(crate) const CRC: u32 = 4;
/// The most bytes that one call writes.
pub(crate) const PIECE: usize = 256;

/// The header of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub magic: [u8; 4],
    pub sequence: u16,
    pub len: u16,
    pub fingerprint: u64,
}

impl Header {
    /// The header of a format marker.
    pub(crate) const MARK: Header = Header {
        magic: FORMATTING,
        sequence: 0,
        len: 0,
        fingerprint: 0,
    };

    pub(crate) fn encode(&self) -> [u8; HEADER as usize] {
        let [a, b, c, d] = self.magic;
        let numbers = u32::from(self.sequence) | u32::from(self.len) << 16;
        let [e, f, g, h] = numbers.to_le_bytes();
        let [i, j, k, l, m, n, o, p] = self.fingerprint.to_le_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    pub(crate) fn decode(bytes: [u8; HEADER as usize]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Header {
            magic: [a, b, c, d],
            sequence: u16::from_le_bytes([e, f]),
            len: u16::from_le_bytes([g, h]),
            fingerprint: u64::from_le_bytes([i, j, k, l, m, n, o, p]),
        }
    }
}

/// The sizes of slots, which follow from the medium's contract.
pub(crate) struct Sizes {
    pub word: u32,
    /// Bytes of the begin word, the marker and its confirmation each; 0 without erase.
    pub mark: u32,
    /// Bytes of an erase unit; 0 without erase.
    erase: u32,
    pub banks: u32,
}

impl Sizes {
    pub(crate) const fn of(c: &Contract) -> Self {
        let word = word_size(c);
        match &c.erase {
            // Two banks do not suffice where torn words are unstable: see crates/nvmem/DESIGN.md.
            Some(e) => Sizes {
                word,
                mark: marker_size(c),
                erase: e.size,
                banks: 3,
            },
            None => Sizes {
                word,
                mark: 0,
                erase: 0,
                banks: 2,
            },
        }
    }

    /// Bytes of header, value, padding and checksum.
    pub(crate) const fn content(&self, len: u32) -> u32 {
        (HEADER + len + CRC).next_multiple_of(self.word)
    }

    /// Bytes of a slot.
    pub(crate) const fn stride(&self, len: u32) -> u32 {
        self.content(len) + 3 * self.mark
    }

    /// A bank's smallest multiple.
    pub(crate) const fn unit(&self) -> u32 {
        if self.erase > 0 {
            self.erase
        } else {
            self.word
        }
    }

    /// Bytes at the end of the range for the format marker. A cut may leave them in any state.
    pub(crate) const fn format_marker(&self) -> u32 {
        self.stride(0).next_multiple_of(self.unit())
    }

    /// Bytes of the smallest range whose banks hold `updates` updates each.
    pub(crate) const fn range(&self, len: u32, updates: u32) -> u32 {
        assert!(
            self.erase == 0 || updates <= MAX_SLOTS,
            "a bank takes 4096 updates at most between two erases"
        );
        let slots = if updates == 0 || self.erase == 0 {
            1
        } else {
            updates as u64
        };
        let bank = slots * self.stride(len) as u64;
        let marker = self.stride(0) as u64;
        let bank = if bank < marker { marker } else { bank };
        let all = self.banks as u64 * bank.next_multiple_of(self.unit() as u64);
        assert!(all <= u32::MAX as u64, "a record has less than 2^32 bytes");
        all as u32
    }
}

/// A slot as it reads.
pub(crate) enum Slot {
    /// The checksum is right. Without erase, the progress is always [`Progress::Confirmed`].
    Intact(Header, Progress),
    /// Written to the end, but the checksum is wrong. No power cut can cause this.
    Damaged(Header),
    Invalid,
}

/// The newest record of a range.
#[derive(Clone, Copy)]
pub(crate) struct Newest {
    pub header: Header,
    pub bank: u32,
    pub slot: u32,
    /// The last slot of the bank that was begun; the newest record's own, or a torn one after it.
    pub last: u32,
    pub confirmed: bool,
    /// A slot after it in its bank was confirmed, and its checksum is wrong.
    pub damaged: bool,
    /// The bank of the newest confirmed record. It counts if the newest record proves unstable.
    pub base: Option<u32>,
    /// A bit for each bank that holds no slot that counts.
    pub unreadable: u8,
}

/// What a range holds.
pub(crate) enum Content {
    Record(Newest),
    /// Blank, except perhaps for a torn format marker.
    Blank,
    /// A complete format marker: a format was begun and cut.
    Formatting,
    /// A record of version 1 with this fingerprint.
    Old(u64),
    Foreign,
    Damaged,
}

/// Whether sequence number `a` is newer than `b`; wraps.
pub(crate) fn newer(a: u16, b: u16) -> bool {
    if planted!("nvmem/record-sequence-does-not-wrap") {
        return a > b;
    }
    is_newer_16(a, b)
}

/// Decodes the slot at the start of `bytes`, from its header on. `word` is the medium's program
/// word. Returns the header, and the size of the content if its checksum is right.
pub(crate) fn inspect(bytes: &[u8], word: usize) -> Option<(Header, bool, Option<usize>)> {
    let header = Header::decode(*bytes.first_chunk()?);
    if ![RECORD, FORMATTING].contains(&header.magic) {
        return None;
    }
    let n = (HEADER as usize + usize::from(header.len) + CRC as usize).next_multiple_of(word);
    let intact = bytes
        .get(..n)
        .and_then(|b| b.split_last_chunk::<4>())
        .is_some_and(|(content, crc)| crc32(content) == u32::from_le_bytes(*crc));
    Some((header, header.magic == FORMATTING, intact.then_some(n)))
}
