//! Sizes and offsets on the flash; encoding of block headers and slot heads.

use crate::crc::crc32;
use crate::device::Contract;
use crate::marker::{marker_size, word_size};

/// No slot; no block.
pub(crate) const NONE: u16 = 0xFFFF;
/// The most page copies per page write.
pub(crate) const COPIES: u32 = 4;
/// The fewest slots of a block.
const MIN_SLOTS: u32 = 4;
const MAX_SLOTS: u32 = 4096;
/// Bytes of a slot before the page; the checksum after it.
pub(crate) const SLOT_HEAD: u32 = 4;
pub(crate) const CRC: u32 = 4;

const MAGIC: [u8; 4] = *b"RLW3";
/// The magic without the version, which is its last byte.
const ANY: [u8; 3] = *b"RLW";
/// The version in the magic.
pub(crate) const VERSION: u16 = 3;
pub(crate) const HEADER: usize = 32;

/// Sizes derived from the contract, the page size and the size of the flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Every offset and length is a multiple of this.
    pub word: u32,
    pub erased: u8,
    pub page: u32,
    /// The first bytes of a slot, written by their own call.
    pub first: u32,
    pub stride: u32,
    pub header: u32,
    pub marker: u32,
    pub block: u32,
    pub slots: u32,
    pub blocks: u32,
    /// Number of pages of the capacity.
    pub pages: u32,
}

impl Geometry {
    pub(crate) const fn of(c: &Contract, page: u32, bytes: u32) -> Self {
        let word = word_size(c);
        let Some(e) = &c.erase else {
            panic!("what needs no erase needs no wear levelling");
        };
        assert!(
            page >= 4 && page <= 4096 && page.is_multiple_of(4),
            "a page has 4 to 4096 bytes, a multiple of 4"
        );
        let first = SLOT_HEAD.next_multiple_of(word);
        let mut stride = (SLOT_HEAD + page + CRC).next_multiple_of(word);
        if stride < first + CRC {
            // The first word alone must never make a valid slot.
            stride += word;
        }
        let header = (HEADER as u32).next_multiple_of(word);
        let marker = marker_size(c);
        let head = header + 2 * marker;
        let least = head + MIN_SLOTS * stride;
        let Some(block) = least.checked_next_multiple_of(c.alignment()) else {
            panic!("a block has less than 2^32 bytes");
        };
        let mut slots = (block - head) / stride;
        if slots > MAX_SLOTS {
            slots = MAX_SLOTS;
        }
        let mut blocks = bytes / block;
        // Slot and block numbers have 16 bits, and two values are reserved.
        if blocks > 0xFFFD / slots {
            blocks = 0xFFFD / slots;
        }
        Geometry {
            word,
            erased: e.erased,
            page,
            first,
            stride,
            header,
            marker,
            block,
            slots,
            blocks,
            pages: pages(blocks, slots),
        }
    }

    /// Size of the smallest flash that offers `capacity` bytes; `None` if there is none.
    pub(crate) const fn bytes_for(&self, capacity: u32) -> Option<u32> {
        let pages = capacity.div_ceil(self.page) as u64;
        let pages = if pages == 0 { 1 } else { pages };
        let slots = (pages * (COPIES as u64 + 1)).div_ceil(COPIES as u64) + 6;
        let blocks = slots.div_ceil(self.slots as u64) + 4;
        let bytes = blocks * self.block as u64;
        if blocks > (0xFFFD / self.slots) as u64 || bytes > u32::MAX as u64 {
            return None;
        }
        Some(bytes as u32)
    }

    /// Free slots that cleaning never uses: two blocks for a boot to start, one that was just
    /// cleaned, and four slots that a cut may waste.
    pub(crate) const fn reserve(&self) -> u32 {
        3 * self.slots + 4
    }

    /// Offset of the first slot in a block.
    pub(crate) const fn slots_offset(&self) -> u32 {
        self.header + 2 * self.marker
    }

    pub(crate) const fn block_at(&self, block: u16) -> u32 {
        block as u32 * self.block
    }

    pub(crate) const fn slot_at(&self, slot: u16) -> u32 {
        let (block, slot) = (slot as u32 / self.slots, slot as u32 % self.slots);
        block * self.block + self.slots_offset() + slot * self.stride
    }

    /// Entries of the table.
    pub(crate) const fn entries(&self) -> u32 {
        self.pages + 2 * self.blocks
    }
}

/// The most pages with which cleaning keeps up under any writes: see `has_room`.
const fn pages(blocks: u32, slots: u32) -> u32 {
    (blocks.saturating_sub(4) * slots).saturating_sub(6) * COPIES / (COPIES + 1)
}

/// The header of a block: its place in the log, and where the log ended when it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub sequence: u32,
    /// The previous block in the log and its sequence number; `NONE` and 0 in the first block.
    pub base: u16,
    pub base_sequence: u32,
    /// How many slots of the previous block are valid.
    pub valid_slots: u16,
    /// The oldest block of the log when this one was started.
    pub tail: u16,
    /// The first slot holds a page that was in doubt; the block counts only if that slot is intact.
    pub carried: bool,
}

pub(crate) enum DecodedHeader {
    Nothing,
    /// A header of another version of the format or another geometry: the version, and page size,
    /// slots per block, blocks.
    Other(u16, [u16; 3]),
    Valid(Header),
}

impl Header {
    pub(crate) fn encode(&self, s: &Geometry) -> [u8; HEADER] {
        let mut b = [0; HEADER];
        let mut at = 0;
        let mut push = |bytes: &[u8]| {
            b[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        push(&MAGIC);
        push(&self.sequence.to_le_bytes());
        push(&self.base_sequence.to_le_bytes());
        for n in [self.base, self.valid_slots, self.tail, self.carried.into()] {
            push(&n.to_le_bytes());
        }
        for n in s.header_sizes() {
            push(&n.to_le_bytes());
        }
        push(&[0; 2]);
        let crc = crc32(&b[..HEADER - 4]);
        b[HEADER - 4..].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// The checksum of the header, which its commit marker repeats.
    pub(crate) fn checksum(&self, s: &Geometry) -> u32 {
        let [.., a, b, c, d] = self.encode(s);
        u32::from_le_bytes([a, b, c, d])
    }

    pub(crate) fn decode(b: &[u8; HEADER], s: &Geometry) -> DecodedHeader {
        let Some((b, crc)) = b.split_last_chunk::<4>() else {
            return DecodedHeader::Nothing;
        };
        // Versions 1 and 2 have the same header.
        let version = u16::from(b[3].wrapping_sub(b'0'));
        let known = b[..3] == ANY && (1..=VERSION).contains(&version);
        if !known || crc32(b) != u32::from_le_bytes(*crc) {
            return DecodedHeader::Nothing;
        }
        let u16_at = |at: usize| u16::from_le_bytes([b[at], b[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let geometry = [u16_at(20), u16_at(22), u16_at(24)];
        if version != VERSION || geometry != s.header_sizes() {
            return DecodedHeader::Other(version, geometry);
        }
        DecodedHeader::Valid(Header {
            sequence: u32_at(4),
            base_sequence: u32_at(8),
            base: u16_at(12),
            valid_slots: u16_at(14),
            tail: u16_at(16),
            carried: u16_at(18) != 0,
        })
    }
}

impl Geometry {
    pub(crate) fn header_sizes(&self) -> [u16; 3] {
        [self.page as u16, self.slots as u16, self.blocks as u16]
    }
}

/// Whether a slot was written before or after its block's commit marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// Written before the commit marker of its block.
    Initial,
    Appended,
}

/// The decoded first bytes of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotHead {
    Erased,
    /// Killed: the slot does not count. Only where words may be overwritten.
    Dead,
    Invalid,
    Holds(SlotKind, u16),
}

impl Geometry {
    pub(crate) fn slot_head(&self, kind: SlotKind, page: u16) -> [u8; 4] {
        let mark = match kind {
            SlotKind::Initial => 0x5A,
            SlotKind::Appended => 0xA6,
        };
        let [low, high] = page.to_le_bytes();
        [self.erased ^ mark, check(low, high), low, high]
    }

    /// Decodes the first bytes of a slot, which is not erased.
    pub(crate) fn decode_slot(&self, [mark, sum, low, high]: [u8; 4]) -> SlotHead {
        let kind = match mark ^ self.erased {
            0x5A => SlotKind::Initial,
            0xA6 => SlotKind::Appended,
            _ => return SlotHead::Invalid,
        };
        let page = u16::from_le_bytes([low, high]);
        if sum != check(low, high) || u32::from(page) >= self.pages {
            return SlotHead::Invalid;
        }
        SlotHead::Holds(kind, page)
    }
}

/// A check byte that detects every single flipped bit of a page number.
const fn check(low: u8, high: u8) -> u8 {
    low ^ high.rotate_left(3) ^ 0xC3
}
