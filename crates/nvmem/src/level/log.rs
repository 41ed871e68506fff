//! The log while it runs: appends slots to the newest block and cleans the oldest one. The drawing
//! is in [the parent module](super).

use super::geometry::{
    COPIES, CRC, DecodedHeader, Geometry, Header, NONE, SLOT_HEAD, SlotHead, SlotKind,
};
use super::table::Table;
use super::{LevelError, Result};
use crate::crc::Crc32;
use crate::device::Medium;
use crate::planted;

#[derive(Debug)]
pub(super) struct Log<'b, D> {
    pub medium: D,
    pub geometry: Geometry,
    pub table: Table<'b>,
    /// The newest block, its sequence number, and how many of its slots are valid.
    pub newest: u16,
    pub newest_sequence: u32,
    pub valid_slots: u16,
    /// This boot started the newest block, so it may append to it.
    pub open: bool,
    /// The oldest block with a live page.
    pub tail: u16,
    /// The oldest block that the newest header counts as part of the log. The blocks from here to
    /// `tail` hold no live page, but must stay readable until a newer header is written.
    pub oldest: u16,
    /// Number of blocks from `tail` to `newest`.
    pub used: u16,
    /// The highest sequence number seen on the flash.
    pub sequence: u32,
    /// A block outside the log that must not be erased, or `NONE`.
    pub must_not_erase: u16,
    /// The oldest block holds no page below this number.
    pub cursor: u16,
    /// A write failed: the fields above may be wrong until the flash is scanned again.
    pub stale: bool,
    /// Never write.
    pub read_only: bool,
}

/// The result of starting a block.
pub(super) enum BlockStart {
    Done,
    /// The page in doubt proved torn while it was copied.
    CarriedPageTorn,
}

impl<D: Medium> Log<'_, D> {
    fn slot(&self, block: u16, slot: u16) -> u16 {
        block * self.geometry.slots as u16 + slot
    }

    /// Whether cleaning keeps up if `extra` slots are used now and each later page write makes
    /// [`COPIES`] copies.
    ///
    /// Cleaning goes from the oldest block on. When the first `i` blocks are clean, their `n` live
    /// pages have been copied, and `n / COPIES` other pages written. Before that, `i - 1` blocks
    /// have become free. So the space that is free now plus `i - 1` blocks must hold those pages,
    /// for each `i`. A copy brings each of these sums one closer to being met; a page write takes
    /// `COPIES` away. So a condition that holds keeps holding. The sum over all blocks limits the
    /// number of pages.
    pub(super) fn has_room(&self, extra: u32) -> bool {
        if planted!("nvmem/level-no-reserve") {
            return true;
        }
        let s = &self.geometry;
        let slots = s.slots as i32;
        let rest = if self.open {
            slots - i32::from(self.valid_slots)
        } else {
            0
        };
        let free = s.blocks as i32 - i32::from(self.used);
        let extra = if planted!("nvmem/level-room-one-slot-short") {
            0
        } else {
            extra
        };
        let mut have = free * slots + rest - (s.reserve() + extra) as i32;
        let mut live = 0;
        let mut block = self.tail;
        loop {
            let last = block == self.newest;
            if last && self.open {
                return have >= 0;
            }
            live += i32::from(self.table.live(block));
            if COPIES as i32 * have < (COPIES as i32 + 1) * live {
                return false;
            }
            if last || block == NONE {
                return true;
            }
            have += slots;
            block = self.table.next(block);
        }
    }

    /// Advances the tail past blocks without live pages.
    pub(super) fn skip_empty_blocks(&mut self) {
        while self.tail != self.newest && self.table.live(self.tail) == 0 {
            self.tail = self.table.next(self.tail);
            self.used -= 1;
            self.cursor = 0;
        }
    }

    /// The block to erase next: the next free one in turn, so that all blocks wear equally.
    fn target(&self) -> Result<u16, D::Error> {
        let blocks = self.geometry.blocks;
        let start = if self.used > 0 && planted!("nvmem/level-lowest-block-first") {
            blocks - 1
        } else {
            u32::from(self.newest)
        };
        let must_not_erase = if planted!("nvmem/level-begun-block-erased") {
            NONE
        } else {
            self.must_not_erase
        };
        (1..=blocks)
            .map(|i| ((start + i) % blocks) as u16)
            .find(|b| *b != must_not_erase && self.table.is_free(*b))
            .ok_or(LevelError::Damaged)
    }

    /// Starts a block. `carry` is a page in doubt and its slot: copies it to the new block. With
    /// `fill`, also copies pages until cleaning has enough space.
    ///
    /// **Power loss**: until the commit marker is written, the block does not count and a boot
    /// starts it again.
    pub(super) fn begin(
        &mut self,
        carry: Option<(u16, u16)>,
        fill: bool,
    ) -> Result<BlockStart, D::Error> {
        let s = self.geometry;
        let block = self.target()?;
        let step = !planted!("nvmem/level-sequence-repeats");
        let last = if step {
            self.sequence
        } else {
            self.newest_sequence
        };
        let sequence = last.checked_add(1).ok_or(LevelError::WornOut)?;
        self.sequence = sequence;
        let first = self.used == 0;
        let header = Header {
            sequence,
            base: if first { NONE } else { self.newest },
            base_sequence: if first { 0 } else { self.newest_sequence },
            valid_slots: self.valid_slots,
            tail: if first { block } else { self.tail },
            carried: carry.is_some(),
        };
        let at = s.block_at(block);
        self.medium
            .erase(at, at + s.block)
            .map_err(LevelError::Medium)?;
        self.write_padded(at, &header.encode(&s), s.header)?;
        let mut n = 0;
        let early = planted!("nvmem/level-committed-before-carried");
        if early {
            self.write_commit_marker(at, &header)?;
        }
        if let Some((page, from)) = carry {
            let intact =
                self.write_slot(self.slot(block, 0), SlotKind::Initial, page, from, 0, &[])?;
            if !intact && !planted!("nvmem/level-carried-unchecked") {
                return Ok(BlockStart::CarriedPageTorn);
            }
            n = 1;
        }
        if !fill && !early {
            self.write_commit_marker(at, &header)?;
        }
        if first {
            (self.tail, self.oldest) = (block, block);
        } else {
            self.table.link(self.newest, block);
        }
        while self.oldest != self.tail {
            let next = self.table.next(self.oldest);
            self.table.unlink(self.oldest);
            self.oldest = next;
        }
        self.table.link(block, NONE);
        (self.newest, self.newest_sequence) = (block, sequence);
        (self.valid_slots, self.open) = (n, true);
        self.used += 1;
        self.cursor = 0;
        if let Some((page, _)) = carry {
            self.table.set(page, self.slot(block, 0));
        }
        self.skip_empty_blocks();
        if fill {
            while self.valid_slots < s.slots as u16 && !self.has_room(0) {
                self.copy_oldest_page(SlotKind::Initial)?;
            }
            if !early {
                self.write_commit_marker(at, &header)?;
            }
        }
        self.must_not_erase = NONE;
        Ok(BlockStart::Done)
    }

    fn write_commit_marker(&mut self, at: u32, header: &Header) -> Result<(), D::Error> {
        let s = self.geometry;
        for i in 0..2 {
            self.write_padded(
                at + s.header + i * s.marker,
                &s.commit_marker_of(header),
                s.marker,
            )?;
        }
        if planted!("nvmem/level-marker-not-flushed") {
            return Ok(());
        }
        self.medium.flush().map_err(LevelError::Medium)
    }

    fn write_padded(&mut self, at: u32, bytes: &[u8], len: u32) -> Result<(), D::Error> {
        let mut buf = [0; 256];
        buf[..bytes.len()].copy_from_slice(bytes);
        let piece = &buf[..len as usize];
        self.medium.write(at, piece).map_err(LevelError::Medium)
    }

    /// Copies the next live page of the oldest block to the next slot.
    fn copy_oldest_page(&mut self, kind: SlotKind) -> Result<(), D::Error> {
        self.skip_empty_blocks();
        if self.tail == self.newest {
            return Err(LevelError::Damaged);
        }
        let page = self.table.next_page_of_block(self.tail, self.cursor);
        let page = page.ok_or(LevelError::Damaged)?;
        self.append(kind, page, 0, &[])?;
        self.cursor = page + 1;
        self.skip_empty_blocks();
        Ok(())
    }

    /// Writes a page to the next slot: its old content with `bytes` at `off`.
    fn append(
        &mut self,
        kind: SlotKind,
        page: u16,
        off: u32,
        bytes: &[u8],
    ) -> Result<(), D::Error> {
        let to = self.slot(self.newest, self.valid_slots);
        self.write_slot(to, kind, page, self.table.slot(page), off, bytes)?;
        self.valid_slots += 1;
        self.table.set(page, to);
        Ok(())
    }

    /// Scans the flash again after a failed write, as after a power cut.
    pub(super) fn ready(&mut self) -> Result<(), D::Error> {
        if self.stale {
            self.open()?;
            self.stale = false;
        }
        Ok(())
    }

    /// Writes `bytes` at offset `off` of a page.
    pub(super) fn write(&mut self, page: u16, off: u32, bytes: &[u8]) -> Result<(), D::Error> {
        if self.read_only {
            return Err(LevelError::ReadOnly);
        }
        self.ready()?;
        self.stale = !planted!("nvmem/level-slot-reused-after-error");
        loop {
            if !self.open || self.valid_slots == self.geometry.slots as u16 {
                self.begin(None, false)?;
            }
            if self.has_room(1) {
                break;
            }
            self.copy_oldest_page(SlotKind::Appended)?;
        }
        self.append(SlotKind::Appended, page, off, bytes)?;
        self.skip_empty_blocks();
        self.stale = false;
        Ok(())
    }

    /// Writes slot `to`: the page in slot `from` (zeros if `NONE`) with `bytes` at `off`. Returns
    /// whether the old page was intact. If it was not, the new slot gets a wrong checksum too,
    /// unless `bytes` covers the whole page.
    fn write_slot(
        &mut self,
        to: u16,
        kind: SlotKind,
        page: u16,
        from: u16,
        off: u32,
        bytes: &[u8],
    ) -> Result<bool, D::Error> {
        if self.geometry.word <= 64 {
            self.write_slot_in::<64>(to, kind, page, from, off, bytes)
        } else {
            self.write_slot_in::<256>(to, kind, page, from, off, bytes)
        }
    }

    fn write_slot_in<const N: usize>(
        &mut self,
        to: u16,
        kind: SlotKind,
        page: u16,
        from: u16,
        patch: u32,
        bytes: &[u8],
    ) -> Result<bool, D::Error> {
        let s = self.geometry;
        let head = s.slot_head(kind, page);
        let old = (from != NONE && bytes.len() as u32 != s.page).then(|| s.slot_at(from));
        let (mut old_crc, mut new_crc) = (Crc32::new(), Crc32::new());
        let mut intact = true;
        let mut buf = [0; N];
        let most = N as u32 / s.word * s.word;
        let mut off = 0;
        while off < s.stride {
            // Write the first word by its own call: if it reads as erased, the rest was not
            // written.
            let n = if off == 0 && !planted!("nvmem/level-first-word-with-others") {
                s.first
            } else {
                most.min(s.stride - off)
            };
            let piece = &mut buf[..n as usize];
            match old {
                Some(from) => self
                    .medium
                    .read(from + off, piece)
                    .map_err(LevelError::Medium)?,
                None => piece.fill(0),
            }
            for (i, b) in piece.iter_mut().enumerate() {
                let at = off + i as u32;
                if let Some(k) = at.checked_sub(s.stride - CRC) {
                    let k = k as usize;
                    // Carry an error in the checksum over to the copy.
                    let wrong = match old {
                        Some(_) => *b ^ old_crc.finish().to_le_bytes()[k],
                        None => 0,
                    };
                    intact &= wrong == 0;
                    *b = new_crc.finish().to_le_bytes()[k] ^ wrong;
                    continue;
                }
                let before = *b;
                if let Some(h) = head.get(at as usize) {
                    *b = *h;
                } else if let Some(i) = at.checked_sub(SLOT_HEAD + patch)
                    && let Some(new) = bytes.get(i as usize)
                {
                    *b = *new;
                }
                // The checksum leaves out the first byte, the slot's kind: a copy may have another
                // kind.
                if at > 0 {
                    old_crc = old_crc.byte(before);
                    new_crc = new_crc.byte(*b);
                }
            }
            self.medium
                .write(s.slot_at(to) + off, piece)
                .map_err(LevelError::Medium)?;
            off += n;
        }
        if !planted!("nvmem/level-no-flush") {
            self.medium.flush().map_err(LevelError::Medium)?;
        }
        Ok(intact)
    }

    /// Whether the checksum of a slot is correct.
    pub(super) fn is_intact(&mut self, slot: u16) -> Result<bool, D::Error> {
        if planted!("nvmem/level-crc-unchecked") {
            return Ok(true);
        }
        let s = self.geometry;
        let mut buf = [0; 256];
        let most = 256 / s.word * s.word;
        let (mut crc, mut stored, mut off) = (Crc32::new(), [0; CRC as usize], 0);
        while off < s.stride {
            let piece = &mut buf[..most.min(s.stride - off) as usize];
            let at = s.slot_at(slot) + off;
            self.medium.read(at, piece).map_err(LevelError::Medium)?;
            for (i, b) in piece.iter().enumerate() {
                let at = off + i as u32;
                match at.checked_sub(s.stride - CRC) {
                    Some(k) => stored[k as usize] = *b,
                    None if at > 0 => crc = crc.byte(*b),
                    None => {}
                }
            }
            off += piece.len() as u32;
        }
        Ok(u32::from_le_bytes(stored) == crc.finish())
    }

    pub(super) fn header(&mut self, block: u16) -> Result<DecodedHeader, D::Error> {
        let s = self.geometry;
        let mut buf = [0; 256];
        let piece = &mut buf[..s.header as usize];
        let at = s.block_at(block);
        self.medium.read(at, piece).map_err(LevelError::Medium)?;
        Ok(Header::decode(piece, &s))
    }

    /// Whether a block with this header has its commit marker (`n` = 0), or its confirmation (`n` =
    /// 1).
    pub(super) fn has_commit_word(
        &mut self,
        block: u16,
        header: &Header,
        n: u32,
    ) -> Result<bool, D::Error> {
        let s = self.geometry;
        let mut buf = [0; 256];
        let piece = &mut buf[..s.marker as usize];
        let at = s.block_at(block) + s.header + n * s.marker;
        self.medium.read(at, piece).map_err(LevelError::Medium)?;
        Ok(piece.starts_with(&s.commit_marker_of(header)))
    }

    pub(super) fn slot_head(&mut self, slot: u16) -> Result<SlotHead, D::Error> {
        let s = self.geometry;
        let mut buf = [0; 256];
        let piece = &mut buf[..s.first as usize];
        self.medium
            .read(s.slot_at(slot), piece)
            .map_err(LevelError::Medium)?;
        Ok(s.decode_slot(piece))
    }
}
