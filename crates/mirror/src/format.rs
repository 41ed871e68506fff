//! The bytes of the log. docs/spec/mirror.md has every byte.
//!
//! ```text
//! range    | segment 0 | segment 1 | ... |                  at most 8
//!
//! segment  | header | marker | confirmation | base image | record | record | free ... |
//!                     on flash only           a record
//!
//! header   | magic "RLI1" | number | image bytes | segment bytes | segments, word | CRC |
//!            4              4        4             4               2, 2             4
//!
//! record   | run | run | ... | 0 | check |  zeros up to the medium's word
//! run      | word offset u16 | n u16 | n words |
//! ```
//!
//! A header is padded with zeros to the medium's word. All numbers are little-endian. The check of
//! a record is the CRC-32 of the check before it, its runs and the zero. The check before the base
//! image is the CRC of the header. So bytes that an older segment has left are no record here.

use nvmem::crc::crc32;
use nvmem::device::Contract;
use nvmem::marker::{PIECE, marker_size, word_size};
use nvmem::{Layout, LayoutMismatch};

pub(crate) const MAGIC: [u8; 4] = *b"RLI1";
/// The format version, the last character of the magic.
const VERSION: u16 = 1;
/// The header without its padding.
pub(crate) const HEADER: u32 = 24;
/// The most segments.
pub(crate) const MAX_SEGMENTS: u8 = 8;
/// The most words of an image: offset and length of a run have 16 bits.
pub(crate) const MAX_WORDS: usize = u16::MAX as usize - 1;

/// The version that the last character of a magic says.
pub(crate) fn version_number(magic: u8) -> u16 {
    magic.wrapping_sub(b'0').into()
}

/// The sizes that the medium gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Records begin and end at multiples of this: 4 and the medium's word.
    pub unit: u32,
    /// The header, padded.
    pub header: u32,
    /// Where the base image begins.
    pub base: u32,
}

impl Sizes {
    pub(crate) const fn of(c: &Contract) -> Sizes {
        let word = word_size(c);
        let unit = lcm(word, 4);
        assert!(
            unit as usize <= PIECE,
            "the medium's word has more than 256 bytes"
        );
        let header = HEADER.next_multiple_of(unit);
        let markers = match c.erase {
            Some(_) => 2 * marker_size(c),
            None => 0,
        };
        Sizes {
            unit,
            header,
            base: (header + markers).next_multiple_of(unit),
        }
    }

    pub(crate) const fn padded(&self, bytes: u32) -> u32 {
        bytes.next_multiple_of(self.unit)
    }

    /// The smallest segment for an image: a base image and one record, each as long as possible.
    pub(crate) const fn least_segment(&self, image: u32) -> u32 {
        self.base + 2 * self.padded(record_bytes(image / 4))
    }
}

/// The least common multiple.
pub(crate) const fn lcm(a: u32, b: u32) -> u32 {
    let mut all = a;
    while !all.is_multiple_of(b) {
        all += a;
    }
    all
}

/// The most bytes of a record for this many words: each run has a word more, and two runs are at
/// least one word apart.
pub(crate) const fn record_bytes(words: u32) -> u32 {
    4 * (words + 1) + 8
}

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub number: u32,
    pub shape: Shape,
}

/// What must be the same at each open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub image: u32,
    pub segment: u32,
    pub segments: u16,
    pub word: u16,
}

/// What the first bytes of a segment are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    Nothing,
    /// A header of another version, with its magic's last character.
    Other(u8),
    Header(Header, u32),
}

impl Header {
    pub(crate) fn encode(&self) -> ([u8; HEADER as usize], u32) {
        let mut out = [0; HEADER as usize];
        let s = &self.shape;
        let words = [
            u32::from_le_bytes(MAGIC),
            self.number,
            s.image,
            s.segment,
            u32::from(s.segments) | u32::from(s.word) << 16,
        ];
        for (to, w) in out.chunks_mut(4).zip(words) {
            to.copy_from_slice(&w.to_le_bytes());
        }
        let crc = crc32(out.get(..20).unwrap_or_default());
        if let Some(to) = out.last_chunk_mut() {
            *to = crc.to_le_bytes();
        }
        (out, crc)
    }

    pub(crate) fn decode(bytes: &[u8; HEADER as usize]) -> Decoded {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |i: usize| words.get(i).map_or(0, |w| u32::from_le_bytes(*w));
        let crc = word(5);
        let [a, b, c, version] = word(0).to_le_bytes();
        if [a, b, c] != [MAGIC[0], MAGIC[1], MAGIC[2]]
            || crc != crc32(bytes.get(..20).unwrap_or_default())
        {
            return Decoded::Nothing;
        }
        if version != MAGIC[3] {
            return Decoded::Other(version);
        }
        let shape = Shape {
            image: word(2),
            segment: word(3),
            segments: word(4) as u16,
            word: (word(4) >> 16) as u16,
        };
        let number = word(1);
        Decoded::Header(Header { number, shape }, crc)
    }
}

impl Shape {
    /// Image and segment bytes as one number, and which other numbers differ.
    fn fingerprint(&self) -> u64 {
        let other = u64::from(self.segments) << 8 ^ u64::from(self.word);
        u64::from(self.image) << 32 ^ u64::from(self.segment) ^ other << 48
    }

    /// The error for a log that is not of this shape.
    pub(crate) fn mismatch(&self, version: u8, stored: Option<&Shape>) -> LayoutMismatch {
        let layout = |version, shape: Option<&Shape>| Layout {
            kind: *b"MIRR",
            version,
            fingerprint: shape.map_or(0, Shape::fingerprint),
        };
        LayoutMismatch {
            stored: layout(version_number(version), stored),
            expected: layout(VERSION, Some(self)),
        }
    }
}
