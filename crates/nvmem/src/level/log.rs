//! The log while it runs: appends slots to the newest block and cleans the oldest one. The drawing
//! is in [the module](crate::level).

use super::Medium;
use super::marker::{all_bytes_are, kill, read, read_progress, write_marker, write_word};
use crate::crc::Crc32;
use crate::level::fault::{Fault, Result};
use crate::level::geometry::{
    COPIES, CRC, DecodedHeader, Geometry, HEADER, Header, NONE, SLOT_HEAD, SlotHead, SlotKind,
};
use crate::level::table::Table;
use crate::marker::{Marker, Progress};
use crate::planted;
use core::ops::Range;

/// The most bytes that one call writes.
const PIECE: usize = 256;

#[derive(Debug)]
pub struct Log<'b, D, const PAGE: usize> {
    pub medium: D,
    /// The number of blocks of the flash, and of pages of the capacity: what [`Geometry`] derives
    /// from the size of the flash.
    pub blocks: u32,
    pub pages: u32,
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
    /// The highest sequence number seen on the flash, whether its block counts or not. The next
    /// block continues from it.
    pub sequence: u32,
    /// A block outside the log that must not be erased, or `NONE`.
    pub must_not_erase: u16,
    /// The oldest block holds no page below this number.
    pub cursor: u16,
    /// A write failed: the fields above may be wrong until the flash is scanned again.
    pub stale: bool,
    /// Never write.
    pub read_only: bool,
    /// Version and geometry of a block that is not of this log.
    pub other: (u16, [u16; 3]),
}

/// The result of starting a block.
pub enum BlockStart {
    Done,
    /// The page in doubt proved torn while it was copied.
    CarriedPageTorn,
}

impl<D: Medium, const PAGE: usize> Log<'_, D, PAGE> {
    /// All sizes; constants, except for two.
    #[inline(always)]
    pub fn geometry(&self) -> Geometry {
        Geometry {
            blocks: self.blocks,
            pages: self.pages,
            ..const { Geometry::of(&D::CONTRACT, PAGE as u32, u32::MAX) }
        }
    }

    fn slot(&self, block: u16, slot: u16) -> u16 {
        block * self.geometry().slots as u16 + slot
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
    pub fn has_room(&self, extra: u32) -> bool {
        if planted!("nvmem/level-no-reserve") {
            return true;
        }
        let s = &self.geometry();
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
    pub fn skip_empty_blocks(&mut self) {
        while self.tail != self.newest && self.table.live(self.tail) == 0 {
            self.tail = self.table.next(self.tail);
            self.used -= 1;
            self.cursor = 0;
        }
    }

    /// The block to erase next: the next free one in turn, so that all blocks wear equally.
    fn target(&self) -> Result<u16, D::Error> {
        let blocks = self.geometry().blocks;
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
            .ok_or(Fault::Damaged)
    }

    /// Starts a block. `carry` is a page in doubt and its slot: copies it to the new block. With
    /// `fill`, also copies pages until cleaning has enough space.
    ///
    /// **Power loss**: until the commit marker is written, the block does not count and a boot
    /// starts it again.
    pub fn begin(
        &mut self,
        carry: Option<(u16, u16)>,
        fill: bool,
    ) -> output!(Result<BlockStart, D::Error>) {
        steps!({
            let s = self.geometry();
            let block = self.target()?;
            let step = !planted!("nvmem/level-sequence-repeats");
            let last = if step {
                self.sequence
            } else {
                self.newest_sequence
            };
            let sequence = last.checked_add(1).ok_or(Fault::WornOut)?;
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
            wait!(self.erase_block(block))?;
            wait!(self.write_header(at, &header))?;
            let mut n = 0;
            let early = planted!("nvmem/level-committed-before-carried");
            if early {
                wait!(self.write_commit_marker(block, &header))?;
            }
            if let Some((page, from)) = carry {
                let intact = wait!(self.write_slot(
                    self.slot(block, 0),
                    SlotKind::Initial,
                    page,
                    from,
                    0,
                    &[]
                ))?;
                if !intact && !planted!("nvmem/level-carried-unchecked") {
                    return Ok(BlockStart::CarriedPageTorn);
                }
                n = 1;
            }
            if !fill && !early {
                wait!(self.write_commit_marker(block, &header))?;
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
                    wait!(self.copy_oldest_page(SlotKind::Initial))?;
                }
                if !early {
                    wait!(self.write_commit_marker(block, &header))?;
                }
            }
            self.must_not_erase = NONE;
            Ok(BlockStart::Done)
        })
    }

    /// The commit marker of a block with this header.
    fn marker(&self, block: u16, header: &Header) -> Marker {
        let s = &self.geometry();
        Marker {
            at: s.block_at(block) + s.header,
            checksum: header.checksum(s),
        }
    }

    fn write_commit_marker(
        &mut self,
        block: u16,
        header: &Header,
    ) -> output!(Result<(), D::Error>) {
        steps!({
            let marker = self.marker(block, header);
            if planted!("nvmem/level-marker-not-flushed") {
                for which in 0..2 {
                    wait!(write_word(&mut self.medium, marker, which)).map_err(Fault::Medium)?;
                }
                return Ok(());
            }
            wait!(write_marker(&mut self.medium, marker)).map_err(Fault::Medium)
        })
    }

    /// How far the commit marker of a block with this header was written.
    pub fn progress(&mut self, block: u16, header: &Header) -> output!(Result<Progress, D::Error>) {
        steps!({
            let marker = self.marker(block, header);
            wait!(read_progress(&mut self.medium, marker)).map_err(Fault::Medium)
        })
    }

    fn write_header(&mut self, at: u32, header: &Header) -> output!(Result<(), D::Error>) {
        steps!({
            let bytes = header.encode(&self.geometry());
            let mut buf = [0; PIECE];
            for (to, from) in buf.iter_mut().zip(bytes) {
                *to = from;
            }
            let piece = buf
                .get(..self.geometry().header as usize)
                .unwrap_or_default();
            wait!(self.put(at, piece))
        })
    }

    /// Copies the next live page of the oldest block to the next slot.
    fn copy_oldest_page(&mut self, kind: SlotKind) -> output!(Result<(), D::Error>) {
        steps!({
            self.skip_empty_blocks();
            if self.tail == self.newest {
                return Err(Fault::Damaged);
            }
            let page = self.table.next_page_of_block(self.tail, self.cursor);
            let page = page.ok_or(Fault::Damaged)?;
            wait!(self.append(kind, page, 0, &[]))?;
            self.cursor = page + 1;
            self.skip_empty_blocks();
            Ok(())
        })
    }

    /// Writes a page to the next slot: its old content with `bytes` at `off`.
    fn append(
        &mut self,
        kind: SlotKind,
        page: u16,
        off: u32,
        bytes: &[u8],
    ) -> output!(Result<(), D::Error>) {
        steps!({
            let to = self.slot(self.newest, self.valid_slots);
            wait!(self.write_slot(to, kind, page, self.table.slot(page), off, bytes))?;
            self.valid_slots += 1;
            self.table.set(page, to);
            Ok(())
        })
    }

    /// Scans the flash again after a failed write, as after a power cut.
    pub fn ready(&mut self) -> output!(Result<(), D::Error>) {
        steps!({
            if self.stale {
                wait!(self.open())?;
                self.stale = false;
            }
            Ok(())
        })
    }

    /// Writes `bytes` at offset `off` of a page.
    pub fn write(&mut self, page: u16, off: u32, bytes: &[u8]) -> output!(Result<(), D::Error>) {
        steps!({
            if self.read_only {
                return Err(Fault::ReadOnly);
            }
            wait!(self.ready())?;
            self.stale = !planted!("nvmem/level-slot-reused-after-error");
            loop {
                if !self.open || self.valid_slots == self.geometry().slots as u16 {
                    wait!(self.begin(None, false))?;
                }
                if self.has_room(1) {
                    break;
                }
                wait!(self.copy_oldest_page(SlotKind::Appended))?;
            }
            wait!(self.append(SlotKind::Appended, page, off, bytes))?;
            self.skip_empty_blocks();
            self.stale = false;
            Ok(())
        })
    }

    /// Writes slot `to`: the page in slot `from` (zeros if `NONE`) with `bytes` at `patch`. Returns
    /// whether the old page was intact. If it was not, the new slot gets a wrong checksum too,
    /// unless `bytes` covers the whole page.
    fn write_slot(
        &mut self,
        to: u16,
        kind: SlotKind,
        page: u16,
        from: u16,
        patch: u32,
        bytes: &[u8],
    ) -> output!(Result<bool, D::Error>) {
        steps!({
            let s = self.geometry();
            let head = s.slot_head(kind, page);
            let old = (from != NONE && bytes.len() as u32 != s.page).then(|| s.slot_at(from));
            let (mut old_crc, mut new_crc) = (Crc32::new(), Crc32::new());
            let mut intact = true;
            let mut buf = [0; PIECE];
            let most = PIECE as u32 / s.word * s.word;
            let mut off = 0;
            while off < s.stride {
                // Write the first word by its own call: if it reads as erased, the rest was not
                // written.
                let n = if off == 0 && !planted!("nvmem/level-first-word-with-others") {
                    s.first
                } else {
                    most.min(s.stride - off)
                };
                let piece = buf.get_mut(..n as usize).unwrap_or_default();
                match old {
                    Some(from) => {
                        wait!(self.medium.read(from + off, piece)).map_err(Fault::Medium)?
                    }
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
                    // The checksum leaves out the first byte, the slot's kind: a copy may have
                    // another kind.
                    if at > 0 {
                        old_crc = old_crc.byte(before);
                        new_crc = new_crc.byte(*b);
                    }
                }
                wait!(self.put(s.slot_at(to) + off, piece))?;
                off += n;
            }
            if !planted!("nvmem/level-no-flush") {
                wait!(self.medium.flush()).map_err(Fault::Medium)?;
            }
            Ok(intact)
        })
    }

    /// Whether the checksum of a slot is correct.
    pub fn is_intact(&mut self, slot: u16) -> output!(Result<bool, D::Error>) {
        steps!({
            if planted!("nvmem/level-crc-unchecked") {
                return Ok(true);
            }
            let s = self.geometry();
            // The checksum leaves out the first byte.
            let (mut at, end) = (s.slot_at(slot) + 1, s.slot_at(slot) + s.stride - CRC);
            let mut crc = Crc32::new();
            while at < end {
                let mut buf = [0; 32];
                let n = (end - at).min(32);
                let piece = buf.get_mut(..n as usize).unwrap_or_default();
                wait!(self.read(at, piece))?;
                crc = crc.bytes(piece);
                at += n;
            }
            let mut stored = [0; CRC as usize];
            wait!(self.read(end, &mut stored))?;
            Ok(u32::from_le_bytes(stored) == crc.finish())
        })
    }

    /// Reads any bytes, rounded to the flash's read size.
    #[inline(never)]
    pub fn read(&mut self, at: u32, buf: &mut [u8]) -> output!(Result<(), D::Error>) {
        steps!({ wait!(read(&mut self.medium, at, buf)).map_err(Fault::Medium) })
    }

    #[inline(never)]
    fn put(&mut self, at: u32, bytes: &[u8]) -> output!(Result<(), D::Error>) {
        steps!({ wait!(self.medium.write(at, bytes)).map_err(Fault::Medium) })
    }

    /// Whether every byte of a range reads as erased.
    #[inline(never)]
    pub fn is_erased(&mut self, from: u32, to: u32) -> output!(Result<bool, D::Error>) {
        steps!({
            let erased = self.geometry().erased;
            wait!(all_bytes_are(&mut self.medium, from, to, erased)).map_err(Fault::Medium)
        })
    }

    pub fn header(&mut self, block: u16) -> output!(Result<DecodedHeader, D::Error>) {
        steps!({
            let mut header = [0; HEADER];
            wait!(self.read(self.geometry().block_at(block), &mut header))?;
            Ok(Header::decode(&header, &self.geometry()))
        })
    }

    pub fn slot_head(&mut self, slot: u16) -> output!(Result<SlotHead, D::Error>) {
        steps!({
            let s = self.geometry();
            let at = s.slot_at(slot);
            let mut head = [0; SLOT_HEAD as usize];
            wait!(self.read(at, &mut head))?;
            let erased = head == [s.erased; 4] && wait!(self.is_erased(at, at + s.first))?;
            Ok(if erased {
                SlotHead::Erased
            } else if D::CONTRACT.overwrites() && head == [!s.erased; 4] {
                SlotHead::Dead
            } else {
                s.decode_slot(head)
            })
        })
    }

    /// Reads bytes from offset `off` of a page.
    pub fn read_page(
        &mut self,
        page: u16,
        off: u32,
        buf: &mut [u8],
    ) -> output!(Result<(), D::Error>) {
        steps!({
            match self.table.slot(page) {
                NONE => buf.fill(0),
                slot => wait!(self.read(self.geometry().slot_at(slot) + SLOT_HEAD + off, buf))?,
            }
            Ok(())
        })
    }

    /// The number of pages with a wrong checksum.
    pub fn damaged_pages(&mut self) -> output!(Result<u32, D::Error>) {
        steps!({
            wait!(self.ready())?;
            let mut n = 0;
            for page in 0..self.pages as u16 {
                let slot = self.table.slot(page);
                if slot != NONE && !wait!(self.is_intact(slot))? {
                    n += 1;
                }
            }
            Ok(n)
        })
    }

    /// Erases a block. Where words may be overwritten, kills its commit marker first, so that what
    /// a cut erase leaves never counts.
    fn erase_block(&mut self, block: u16) -> output!(Result<(), D::Error>) {
        steps!({
            let s = self.geometry();
            let at = s.block_at(block);
            if D::CONTRACT.overwrites() && !planted!("nvmem/level-marker-left-in-erase") {
                wait!(kill(&mut self.medium, at + s.header)).map_err(Fault::Medium)?;
            }
            wait!(self.medium.erase(at, at + s.block)).map_err(Fault::Medium)
        })
    }

    /// Makes slots dead, one after the other. Use it only where words may be overwritten.
    pub fn kill_slots(&mut self, slots: Range<u16>) -> output!(Result<(), D::Error>) {
        steps!({
            for slot in slots {
                let at = self.geometry().slot_at(slot);
                wait!(kill(&mut self.medium, at)).map_err(Fault::Medium)?;
            }
            Ok(())
        })
    }

    /// Continues the newest block, which an earlier boot started: kills the slots `tail`, and
    /// copies the page to the slot after them. Returns whether the page was intact.
    pub fn append_after(
        &mut self,
        mut tail: Range<u16>,
        page: u16,
    ) -> output!(Result<bool, D::Error>) {
        steps!({
            let (to, from) = (tail.end, self.table.slot(page));
            if planted!("nvmem/level-kill-not-repeated") {
                tail.start = tail.end - 1;
            }
            if planted!("nvmem/level-blank-slot-not-killed") {
                tail.end -= 1;
            }
            wait!(self.kill_slots(tail))?;
            let intact = wait!(self.write_slot(to, SlotKind::Appended, page, from, 0, &[]))?;
            self.table.set(page, to);
            self.valid_slots = to - self.slot(self.newest, 0) + 1;
            self.open = true;
            self.skip_empty_blocks();
            Ok(intact)
        })
    }

    /// Erases every block, the newest last, so that a cut never leaves only older content.
    pub fn erase_all(&mut self) -> output!(Result<(), D::Error>) {
        steps!({
            let s = self.geometry();
            let newest = wait!(self.newest_block())?;
            let first = if planted!("nvmem/level-format-newest-first") {
                0
            } else {
                1
            };
            for i in first..first + s.blocks {
                wait!(self.erase_block(((newest + i) % s.blocks) as u16))?;
            }
            Ok(())
        })
    }
}
