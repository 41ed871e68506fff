//! The record: it makes a checkpoint complete, and says where the cells are.
//!
//! ```text
//!  word  0     1       2     3         4-5      6       7        8      9       10        11
//!       +------+-------+-----+---------+--------+-------+--------+------+-------+---------+-------+
//!       | RLL1 | number| base| sequence| program| memory| context| heap | stack | manif., | places|
//!       |      |       |     |         |        |       |        | used | from  | n, copy | , cell|
//!       +------+-------+-----+---------+--------+-------+--------+------+-------+---------+-------+
//!       | places (runs)                          | CRC of all before it |
//!       +----------------------------------------+----------------------+
//! ```
//!
//! The record is valid when the CRC matches. It is written last, in one write or after a flush.

use super::shape::LARGEST;
use crate::layout::zero;
use nvmem::crc::crc32;

pub(crate) const MAGIC: [u8; 4] = *b"RLL1";
/// Bytes in front of the record's own places.
pub(crate) const HEAD: usize = 48;
const WORDS: usize = HEAD / 4;

/// A record without its places: twelve words, least significant byte first, and its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record([u32; WORDS + 1]);

/// The content of a record.
pub(crate) struct Fields {
    /// The checkpoint's sequence number; wraps.
    pub sequence: u32,
    pub program: [u32; 2],
    pub memory: u32,
    pub context: u32,
    pub heap_used: u32,
    pub stack_from: u32,
    /// The place of the newest manifest, and the number of manifests.
    pub manifest: u16,
    pub manifests: u8,
    /// Bytes of places.
    pub places: u16,
    /// Bytes of a cell.
    pub cell: u16,
}

impl Record {
    /// A record whose number and base are not set yet.
    pub(crate) fn new(f: &Fields) -> Self {
        Record([
            u32::from_le_bytes(MAGIC),
            0,
            0,
            f.sequence,
            f.program[0],
            f.program[1],
            f.memory,
            f.context,
            f.heap_used,
            f.stack_from,
            u32::from(f.manifest) | u32::from(f.manifests) << 16,
            u32::from(f.places) | u32::from(f.cell) << 16,
            0,
        ])
    }

    /// The record number: later records have higher ones; wraps.
    pub(crate) fn number(&self) -> u32 {
        self.0[1]
    }

    /// The number of the latest record that was known to be stable when this one was written.
    pub(crate) fn base(&self) -> u32 {
        self.0[2]
    }

    pub(crate) fn set_numbers(&mut self, number: u32, base: u32) {
        (self.0[1], self.0[2]) = (number, base);
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.0[3]
    }

    /// The program number's lower and upper half.
    pub(crate) fn program(&self) -> [u32; 2] {
        [self.0[4], self.0[5]]
    }

    pub(crate) fn memory(&self) -> u32 {
        self.0[6]
    }

    pub(crate) fn context(&self) -> u32 {
        self.0[7]
    }

    pub(crate) fn heap_used(&self) -> u32 {
        self.0[8]
    }

    pub(crate) fn stack_from(&self) -> u32 {
        self.0[9]
    }

    pub(crate) fn manifest(&self) -> u16 {
        self.0[10] as u16
    }

    pub(crate) fn manifests(&self) -> usize {
        usize::from((self.0[10] >> 16) as u8)
    }

    /// Whether it is a boot record: a copy that a boot continues from, followed by a marker.
    pub(crate) fn is_copy(&self) -> bool {
        self.0[10] >> 24 != 0
    }

    pub(crate) fn as_copy(mut self) -> Self {
        self.0[10] |= 1 << 24;
        self
    }

    pub(crate) fn places(&self) -> usize {
        usize::from(self.0[11] as u16)
    }

    pub(crate) fn cell(&self) -> u32 {
        self.0[11] >> 16
    }

    pub(crate) fn crc(&self) -> u32 {
        self.0[WORDS]
    }

    /// The offset of its checksum, aligned to four bytes.
    fn end(&self) -> usize {
        (HEAD + self.places()).next_multiple_of(4)
    }

    /// Writes head and checksum around the places that are in `to`, and zeros up to a multiple of
    /// the word. Returns the bytes in all.
    pub(crate) fn encode(&mut self, to: &mut [u8; LARGEST], word: usize) -> usize {
        for (to, w) in to.as_chunks_mut::<4>().0.iter_mut().zip(&self.0[..WORDS]) {
            *to = w.to_le_bytes();
        }
        let end = self.end();
        let whole = (end + 4).next_multiple_of(word);
        zero(to.get_mut(HEAD + self.places()..whole).unwrap_or_default());
        let crc = crc32(to.get(..end).unwrap_or_default());
        self.0[WORDS] = crc;
        if let Some(to) = to.get_mut(end..end + 4) {
            to.copy_from_slice(&crc.to_le_bytes());
        }
        whole
    }

    pub(crate) fn decode(b: &[u8]) -> Option<Self> {
        let mut r = Record([0; WORDS + 1]);
        for (w, b) in r.0.iter_mut().zip(b.as_chunks::<4>().0) {
            *w = u32::from_le_bytes(*b);
        }
        if r.0[0] != u32::from_le_bytes(MAGIC) || r.0[10] >> 24 > 1 {
            return None;
        }
        let end = r.end();
        r.0[WORDS] = u32::from_le_bytes(*b.get(end..end + 4)?.first_chunk()?);
        (crc32(b.get(..end)?) == r.crc()).then_some(r)
    }
}
