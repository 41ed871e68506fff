//! What says that a checkpoint is complete, and where its cells are.

use nvmem::crc::crc32;

pub(crate) const MAGIC: [u8; 4] = *b"RLL1";
/// In front of the places that a record tells itself.
pub(crate) const HEAD: usize = 48;

/// A record, but for the places behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Later records have higher numbers; wraps.
    pub number: u32,
    /// The number of the latest record that was known to be stable when this one was written.
    pub base: u32,
    /// That of the checkpoint; wraps.
    pub sequence: u32,
    pub program: u64,
    pub memory: u32,
    pub context: u32,
    pub heap_used: u32,
    pub stack_from: u32,
    /// Where the last manifest is, and how many there are.
    pub manifest: u16,
    pub manifests: u8,
    /// Written by a boot that goes on from it: a mark follows.
    pub copy: bool,
    /// Bytes of places.
    pub places: u16,
    /// Bytes of a cell.
    pub cell: u16,
}

impl Record {
    /// Where its checksum is: in a word of its own, where words have four bytes.
    fn end(&self) -> usize {
        (HEAD + usize::from(self.places)).next_multiple_of(4)
    }

    /// Writes head and checksum around the places, which are there: bytes in all.
    pub(crate) fn encode(&self, to: &mut [u8]) -> Option<usize> {
        let end = self.end();
        to.get_mut(HEAD + usize::from(self.places)..end)?.fill(0);
        let fields = [
            u32::from_le_bytes(MAGIC),
            self.number,
            self.base,
            self.sequence,
            self.program as u32,
            (self.program >> 32) as u32,
            self.memory,
            self.context,
            self.heap_used,
            self.stack_from,
            u32::from(self.manifest) | u32::from(self.manifests) << 16 | u32::from(self.copy) << 24,
            u32::from(self.places) | u32::from(self.cell) << 16,
        ];
        for (to, f) in to.chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&f.to_le_bytes());
        }
        let crc = crc32(to.get(..end)?);
        to.get_mut(end..end + 4)?
            .copy_from_slice(&crc.to_le_bytes());
        Some(end + 4)
    }

    /// The record, and its checksum.
    pub(crate) fn decode(b: &[u8]) -> Option<(Self, u32)> {
        let field = |i: usize| {
            let f = b.get(4 * i..4 * i + 4)?;
            f.first_chunk().map(|f| u32::from_le_bytes(*f))
        };
        let (m, p) = (field(10)?, field(11)?);
        let record = Record {
            number: field(1)?,
            base: field(2)?,
            sequence: field(3)?,
            program: u64::from(field(4)?) | u64::from(field(5)?) << 32,
            memory: field(6)?,
            context: field(7)?,
            heap_used: field(8)?,
            stack_from: field(9)?,
            manifest: m as u16,
            manifests: (m >> 16) as u8,
            copy: m >> 24 != 0,
            places: p as u16,
            cell: (p >> 16) as u16,
        };
        if !b.starts_with(&MAGIC) || m >> 24 > 1 {
            return None;
        }
        let end = record.end();
        let crc = u32::from_le_bytes(*b.get(end..end + 4)?.first_chunk()?);
        (crc32(b.get(..end)?) == crc).then_some((record, crc))
    }
}
