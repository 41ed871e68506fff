//! The log: slots are appended to the newest block, the oldest one is cleaned.

use super::shape::{COPIES, CRC, Found, Header, Kind, NONE, SLOT_HEAD, Shape, SlotHead};
use super::table::Table;
use super::{LevelError, Result};
use crate::crc::Crc32;
use crate::device::Medium;
use crate::planted;

#[derive(Debug)]
pub(super) struct Log<'b, D> {
    pub medium: D,
    pub shape: Shape,
    pub table: Table<'b>,
    /// The newest block, its sequence, and how many of its slots count.
    pub newest: u16,
    pub newest_sequence: u32,
    pub cut: u16,
    /// This boot began the newest block, and may append to it.
    pub open: bool,
    /// The oldest block with a live page.
    pub tail: u16,
    /// The oldest block of which the newest one's header says that it is in the log: it and those before `tail` hold nothing, but must be
    /// readable until there is another header.
    pub oldest: u16,
    /// Blocks from `tail` to `newest`.
    pub used: u16,
    /// The highest one that was seen.
    pub sequence: u32,
    /// A block outside of the log that must not be erased, or `NONE`.
    pub avoid: u16,
    /// No page before this one is in the oldest block.
    pub cursor: u16,
    /// A write failed: nothing above can be relied upon.
    pub stale: bool,
    /// Nothing is ever written.
    pub look_only: bool,
}

/// What begins a block.
pub(super) enum Begun {
    Yes,
    /// The page to be carried over is not intact.
    Torn,
}

impl<D: Medium> Log<'_, D> {
    fn slot(&self, block: u16, slot: u16) -> u16 {
        block * self.shape.slots as u16 + slot
    }

    /// Whether cleaning keeps up if `extra` slots are used now, with [`COPIES`] copies for each page that is written from here on.
    ///
    /// Blocks are cleaned from the oldest. When the first `i` of them are clean, their `n` live pages were copied, and
    /// `n / COPIES` pages written besides; before that `i - 1` blocks had become free. So what is free now and `i - 1` blocks must
    /// hold that, for each `i`. A copy brings each of these sums one nearer to being true, a page that is written
    /// takes `COPIES` away; so what is true stays true. The sum over all blocks is what limits the number of pages.
    pub(super) fn room(&self, extra: u32) -> bool {
        if planted!("nvmem/level-no-reserve") {
            return true;
        }
        let s = &self.shape;
        let slots = s.slots as i32;
        let rest = if self.open {
            slots - i32::from(self.cut)
        } else {
            0
        };
        let free = s.blocks as i32 - i32::from(self.used);
        let extra = if planted!("nvmem/level-room-one-slot-short") {
            0
        } else {
            extra
        };
        let mut have = free * slots + rest - (s.floor() + extra) as i32;
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

    /// Passes over blocks without a live page at the old end.
    pub(super) fn settle(&mut self) {
        while self.tail != self.newest && self.table.live(self.tail) == 0 {
            self.tail = self.table.next(self.tail);
            self.used -= 1;
            self.cursor = 0;
        }
    }

    /// The block that is erased next. In turn, so that all wear alike.
    fn target(&self) -> Result<u16, D::Error> {
        let blocks = self.shape.blocks;
        let start = if self.used > 0 && planted!("nvmem/level-lowest-block-first") {
            blocks - 1
        } else {
            u32::from(self.newest)
        };
        let avoid = if planted!("nvmem/level-avoids-nothing") {
            NONE
        } else {
            self.avoid
        };
        (1..=blocks)
            .map(|i| ((start + i) % blocks) as u16)
            .find(|b| *b != avoid && self.table.is_free(*b))
            .ok_or(LevelError::Damaged)
    }

    /// Begins a block. `carry` is a slot with a page that is in doubt: it comes along. With `fill` pages are copied to
    /// the block until there is room.
    ///
    /// Nothing counts before the seals: until then a boot begins the same block again.
    pub(super) fn begin(
        &mut self,
        carry: Option<(u16, u16)>,
        fill: bool,
    ) -> Result<Begun, D::Error> {
        let s = self.shape;
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
            cut: self.cut,
            tail: if first { block } else { self.tail },
            carried: carry.is_some(),
        };
        let at = s.block_at(block);
        self.medium
            .erase(at, at + s.block)
            .map_err(LevelError::Medium)?;
        self.write_padded(at, &header.encode(&s), s.header)?;
        let mut n = 0;
        let early = planted!("nvmem/level-sealed-before-carried");
        if early {
            self.seal(at, &header)?;
        }
        if let Some((page, from)) = carry {
            let intact = self.put(self.slot(block, 0), Kind::Initial, page, from, 0, &[])?;
            if !intact && !planted!("nvmem/level-carried-unchecked") {
                return Ok(Begun::Torn);
            }
            n = 1;
        }
        if !fill && !early {
            self.seal(at, &header)?;
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
        (self.cut, self.open) = (n, true);
        self.used += 1;
        self.cursor = 0;
        if let Some((page, _)) = carry {
            self.table.set(page, self.slot(block, 0));
        }
        self.settle();
        if fill {
            while self.cut < s.slots as u16 && !self.room(0) {
                self.copy(Kind::Initial)?;
            }
            if !early {
                self.seal(at, &header)?;
            }
        }
        self.avoid = NONE;
        Ok(Begun::Yes)
    }

    fn seal(&mut self, at: u32, header: &Header) -> Result<(), D::Error> {
        let s = self.shape;
        for i in 0..2 {
            self.write_padded(at + s.header + i * s.seal, &s.seal_of(header), s.seal)?;
        }
        if planted!("nvmem/level-seal-not-flushed") {
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

    /// Copies one page out of the oldest block.
    fn copy(&mut self, kind: Kind) -> Result<(), D::Error> {
        self.settle();
        if self.tail == self.newest {
            return Err(LevelError::Damaged);
        }
        let page = self.table.page_in(self.tail, self.cursor);
        let page = page.ok_or(LevelError::Damaged)?;
        self.append(kind, page, 0, &[])?;
        self.cursor = page + 1;
        self.settle();
        Ok(())
    }

    /// Writes a page to the next slot: what it was, with `bytes` at `off`.
    fn append(&mut self, kind: Kind, page: u16, off: u32, bytes: &[u8]) -> Result<(), D::Error> {
        let to = self.slot(self.newest, self.cut);
        self.put(to, kind, page, self.table.slot(page), off, bytes)?;
        self.cut += 1;
        self.table.set(page, to);
        Ok(())
    }

    /// After a write that failed, the flash holds what it would hold after a power cut.
    pub(super) fn ready(&mut self) -> Result<(), D::Error> {
        if self.stale {
            self.open()?;
            self.stale = false;
        }
        Ok(())
    }

    /// Changes a part of one page.
    pub(super) fn write(&mut self, page: u16, off: u32, bytes: &[u8]) -> Result<(), D::Error> {
        if self.look_only {
            return Err(LevelError::ReadOnly);
        }
        self.ready()?;
        self.stale = !planted!("nvmem/level-goes-on-after-error");
        loop {
            if !self.open || self.cut == self.shape.slots as u16 {
                self.begin(None, false)?;
            }
            if self.room(1) {
                break;
            }
            self.copy(Kind::Appended)?;
        }
        self.append(Kind::Appended, page, off, bytes)?;
        self.settle();
        self.stale = false;
        Ok(())
    }

    /// Writes a slot: the page as it is in the slot `from`, zeros if that is `NONE`, with `bytes` at `off`. Whether what it was
    /// is intact; when it is not, the new slot is not either, unless all of it is new.
    fn put(
        &mut self,
        to: u16,
        kind: Kind,
        page: u16,
        from: u16,
        off: u32,
        bytes: &[u8],
    ) -> Result<bool, D::Error> {
        if self.shape.word <= 64 {
            self.put_in::<64>(to, kind, page, from, off, bytes)
        } else {
            self.put_in::<256>(to, kind, page, from, off, bytes)
        }
    }

    fn put_in<const N: usize>(
        &mut self,
        to: u16,
        kind: Kind,
        page: u16,
        from: u16,
        patch: u32,
        bytes: &[u8],
    ) -> Result<bool, D::Error> {
        let s = self.shape;
        let head = s.slot_head(kind, page);
        let old = (from != NONE && bytes.len() as u32 != s.page).then(|| s.slot_at(from));
        let (mut was, mut is) = (Crc32::new(), Crc32::new());
        let mut intact = true;
        let mut buf = [0; N];
        let most = N as u32 / s.word * s.word;
        let mut off = 0;
        while off < s.stride {
            // The first word goes alone: a slot whose first word looks erased will never be one.
            let n = if off == 0 && !planted!("nvmem/level-first-word-with-rest") {
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
                    // What was wrong stays wrong.
                    let wrong = match old {
                        Some(_) => *b ^ was.finish().to_le_bytes()[k],
                        None => 0,
                    };
                    intact &= wrong == 0;
                    *b = is.finish().to_le_bytes()[k] ^ wrong;
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
                // The first byte says when the slot was written.
                if at > 0 {
                    was = was.byte(before);
                    is = is.byte(*b);
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

    /// Whether the checksum of a slot is right.
    pub(super) fn is_intact(&mut self, slot: u16) -> Result<bool, D::Error> {
        if planted!("nvmem/level-crc-unchecked") {
            return Ok(true);
        }
        let s = self.shape;
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

    pub(super) fn header(&mut self, block: u16) -> Result<Found, D::Error> {
        let s = self.shape;
        let mut buf = [0; 256];
        let piece = &mut buf[..s.header as usize];
        let at = s.block_at(block);
        self.medium.read(at, piece).map_err(LevelError::Medium)?;
        Ok(Header::decode(piece, &s))
    }

    /// Whether a block with this header has its first, or its second seal.
    pub(super) fn sealed(&mut self, block: u16, header: &Header, n: u32) -> Result<bool, D::Error> {
        let s = self.shape;
        let mut buf = [0; 256];
        let piece = &mut buf[..s.seal as usize];
        let at = s.block_at(block) + s.header + n * s.seal;
        self.medium.read(at, piece).map_err(LevelError::Medium)?;
        Ok(piece.starts_with(&s.seal_of(header)))
    }

    pub(super) fn slot_head(&mut self, slot: u16) -> Result<SlotHead, D::Error> {
        let s = self.shape;
        let mut buf = [0; 256];
        let piece = &mut buf[..s.first as usize];
        self.medium
            .read(s.slot_at(slot), piece)
            .map_err(LevelError::Medium)?;
        Ok(s.decode_slot(piece))
    }
}
