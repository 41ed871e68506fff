//! Recovery: finds the newest block, how many of its slots are valid, and the slot of each page.
//!
//! ```text
//! newest block with marker and confirmation   = committed block
//! a newer block with the marker only          = begun block: a boot may have acted on it
//!
//! neither       blank flash: format it
//! begun only    the first block: finish the format
//! both          the header of the begun block states where the log ends; start a block that
//!               states the same
//! committed     scan its slots for the end; start a block if the last slot is in doubt
//! ```

use super::Medium;
use super::log::{BlockStart, Log};
use crate::level::fault::{Fault, Result};
use crate::level::geometry::{DecodedHeader, Header, NONE, SlotHead, SlotKind};
use crate::marker::Progress;
use crate::planted;

/// A block with a valid header.
#[derive(Clone, Copy)]
struct Block {
    at: u16,
    header: Header,
}

/// The end of the log.
struct End {
    /// How many slots of the newest block are valid.
    valid_slots: u16,
    /// A page in doubt and its slot.
    carry: Option<(u16, u16)>,
    /// Whether a later boot could reach another result, unless this boot starts a block that states
    /// its own.
    doubt: bool,
}

impl<D: Medium, const PAGE: usize> Log<'_, D, PAGE> {
    pub fn open(&mut self) -> output!(Result<(), D::Error>) {
        steps!({
            // A carried page that proves torn while it is copied was never complete, and no program has
            // acted on it. Then scan again without the block or the page.
            let mut distrusted = NONE;
            let mut drop_carry = false;
            for _ in 0..3 {
                self.reset();
                let confirmed = wait!(self.committed_block())?;
                let begun = wait!(self.begun_block(confirmed, distrusted))?;
                let end = match (confirmed, begun) {
                    (None, None) => return wait!(self.format_blank()),
                    (None, Some(b)) => return wait!(self.format_begun(b)),
                    (Some(_), Some(b)) => wait!(self.end_from_header(b))?,
                    (Some(c), None) => wait!(self.find_end(c, drop_carry))?,
                };
                let Some(newest) = confirmed else { continue };
                wait!(self.rebuild_table(newest, end.valid_slots))?;
                if let Some((page, slot)) = end.carry {
                    self.table.set(page, slot);
                }
                if self.read_only {
                    return Ok(());
                }
                self.skip_empty_blocks();
                self.must_not_erase = begun.map_or(NONE, |b| b.at);
                let mut carry = end.carry;
                let mut write = end.doubt;
                let mut torn = false;
                // Each block that is filled here frees space, even if cuts interrupt it.
                let most = self.geometry().blocks * (self.geometry().slots + 1);
                for _ in 0..most {
                    if !write && self.has_room(0) {
                        return Ok(());
                    }
                    if let BlockStart::CarriedPageTorn = wait!(self.begin(carry.take(), true))? {
                        torn = true;
                        break;
                    }
                    write = false;
                }
                if !torn {
                    return Err(Fault::Damaged);
                }
                match begun {
                    Some(b) => distrusted = b.at,
                    None => drop_carry = true,
                }
            }
            Err(Fault::Damaged)
        })
    }

    /// The block with the newest content; block 0 if there is none.
    pub fn newest_block(&mut self) -> output!(Result<u32, D::Error>) {
        steps!({
            match wait!(self.committed_block()) {
                Ok(c) => Ok(c.map_or(0, |c| c.at.into())),
                Err(Fault::Medium(e)) => Err(Fault::Medium(e)),
                // Formatted with another geometry.
                Err(_) => Ok(0),
            }
        })
    }

    fn reset(&mut self) {
        self.table.clear();
        (self.newest, self.newest_sequence, self.valid_slots) = (0, 0, 0);
        (self.open, self.used) = (false, 0);
        (self.tail, self.oldest) = (0, 0);
        (self.must_not_erase, self.cursor) = (NONE, 0);
    }

    /// The newest block with commit marker and confirmation.
    fn committed_block(&mut self) -> output!(Result<Option<Block>, D::Error>) {
        steps!({
            let mut newest: Option<Block> = None;
            let mut needed = Progress::Confirmed;
            if planted!("nvmem/level-one-commit-word") {
                needed = Progress::Marked;
            }
            for at in 0..self.geometry().blocks as u16 {
                let header = match wait!(self.header(at))? {
                    DecodedHeader::Nothing => continue,
                    DecodedHeader::Other(version, sizes) => {
                        self.other = (version, sizes);
                        return Err(Fault::Other);
                    }
                    DecodedHeader::Valid(h) => h,
                };
                self.sequence = self.sequence.max(header.sequence);
                if newest.is_none_or(|n| header.sequence > n.header.sequence)
                    && wait!(self.progress(at, &header))? >= needed
                {
                    newest = Some(Block { at, header });
                }
            }
            Ok(newest)
        })
    }

    /// The newest block after `last` that has its commit marker: its content is complete, and a
    /// program may have acted on it. Leaves out block `except`.
    fn begun_block(
        &mut self,
        last: Option<Block>,
        except: u16,
    ) -> output!(Result<Option<Block>, D::Error>) {
        steps!({
            let (base, base_sequence) = last.map_or((NONE, 0), |l| (l.at, l.header.sequence));
            let mut newest: Option<Block> = None;
            if planted!("nvmem/level-half-committed-ignored") {
                return Ok(None);
            }
            let except = if planted!("nvmem/level-torn-block-trusted") {
                NONE
            } else {
                except
            };
            for at in (0..self.geometry().blocks as u16).filter(|b| *b != except && *b != base) {
                let DecodedHeader::Valid(h) = wait!(self.header(at))? else {
                    continue;
                };
                self.sequence = self.sequence.max(h.sequence);
                if h.sequence <= base_sequence
                    || h.base_sequence != base_sequence
                    || h.base != base
                    || newest.is_some_and(|n| n.header.sequence >= h.sequence)
                    || wait!(self.progress(at, &h))? < Progress::Marked
                {
                    continue;
                }
                // An interrupted erase may leave the marker but not the content.
                if h.carried {
                    let slot = at * self.geometry().slots as u16;
                    if !matches!(wait!(self.slot_head(slot))?, SlotHead::Holds(..))
                        || !wait!(self.is_intact(slot))?
                    {
                        continue;
                    }
                }
                newest = Some(Block { at, header: h });
            }
            Ok(newest)
        })
    }

    /// The end of the log as the header of the begun block `b` states it.
    fn end_from_header(&mut self, b: Block) -> output!(Result<End, D::Error>) {
        steps!({
            let slot = b.at * self.geometry().slots as u16;
            let mut carry = None;
            if b.header.carried
                && let SlotHead::Holds(_, page) = wait!(self.slot_head(slot))?
            {
                carry = Some((page, slot));
            }
            Ok(End {
                valid_slots: b.header.valid_slots,
                carry,
                doubt: true,
            })
        })
    }

    /// Finds the end of the newest block. At most one slot is torn: the last one begun. That is
    /// either the last readable slot or the one after it; the medium does not tell which.
    fn find_end(&mut self, newest: Block, drop_carry: bool) -> output!(Result<End, D::Error>) {
        steps!({
            let from = newest.at * self.geometry().slots as u16;
            let mut last = None;
            let mut n = 0;
            let mut begun = false;
            while u32::from(n) < self.geometry().slots {
                match wait!(self.slot_head(from + n))? {
                    SlotHead::Holds(kind, page) => last = Some((kind, page)),
                    SlotHead::Erased => break,
                    SlotHead::Invalid => {
                        begun = true;
                        break;
                    }
                }
                n += 1;
            }
            let end = |valid_slots, carry, doubt| {
                Ok(End {
                    valid_slots,
                    carry,
                    doubt: doubt && !planted!("nvmem/level-doubt-ignored"),
                })
            };
            match last {
                // The slots before a slot that was begun are complete.
                _ if begun => end(n, None, true),
                Some((SlotKind::Appended, page)) => {
                    let slot = from + n - 1;
                    if !drop_carry && wait!(self.is_intact(slot))? {
                        if planted!("nvmem/level-doubt-ignored") {
                            return end(n, None, false);
                        }
                        end(n - 1, Some((page, slot)), true)
                    } else {
                        end(n - 1, None, true)
                    }
                }
                // Slots written before the commit marker are complete, and no later slot was begun.
                _ => end(n, None, false),
            }
        })
    }

    /// Walks the log from the newest block to the oldest and records the slot of each page.
    fn rebuild_table(&mut self, newest: Block, valid_slots: u16) -> output!(Result<(), D::Error>) {
        steps!({
            let s = self.geometry();
            let tail = newest.header.tail;
            (self.newest, self.newest_sequence) = (newest.at, newest.header.sequence);
            (self.valid_slots, self.tail, self.oldest) = (valid_slots, tail, tail);
            let (mut block, mut valid_slots, mut after) = (newest, valid_slots, NONE);
            loop {
                if u32::from(valid_slots) > s.slots || self.table.in_log(block.at) {
                    return Err(Fault::Damaged);
                }
                self.table.link(block.at, after);
                self.used += 1;
                let from = block.at * s.slots as u16;
                for slot in (from..from + valid_slots).rev() {
                    let SlotHead::Holds(_, page) = wait!(self.slot_head(slot))? else {
                        return Err(Fault::Damaged);
                    };
                    if self.table.slot(page) == NONE {
                        self.table.set(page, slot);
                    }
                }
                if block.at == tail {
                    return Ok(());
                }
                let at = block.header.base;
                if u32::from(at) >= s.blocks {
                    return Err(Fault::Damaged);
                }
                let DecodedHeader::Valid(header) = wait!(self.header(at))? else {
                    return Err(Fault::Damaged);
                };
                if header.sequence != block.header.base_sequence {
                    return Err(Fault::Damaged);
                }
                valid_slots = if planted!("nvmem/level-valid-slots-recounted") {
                    wait!(self.count_valid_slots(at))?
                } else {
                    block.header.valid_slots
                };
                after = block.at;
                block = Block { at, header };
            }
        })
    }

    /// Counts the valid slots of a block.
    fn count_valid_slots(&mut self, block: u16) -> output!(Result<u16, D::Error>) {
        steps!({
            let from = block * self.geometry().slots as u16;
            let mut n = 0;
            while u32::from(n) < self.geometry().slots
                && matches!(wait!(self.slot_head(from + n))?, SlotHead::Holds(..))
                && wait!(self.is_intact(from + n))?
            {
                n += 1;
            }
            Ok(n)
        })
    }

    /// No block counts: if the flash is blank, starts the log in its last block. That block may
    /// hold anything, because a cut in the erase of a format leaves anything.
    fn format_blank(&mut self) -> output!(Result<(), D::Error>) {
        steps!({
            let last = self.geometry().blocks as u16 - 1;
            if !wait!(self.blank_except(last))? {
                let mut ours = false;
                for at in 0..=last {
                    ours |= matches!(wait!(self.header(at))?, DecodedHeader::Valid(_));
                }
                return Err(if ours { Fault::Damaged } else { Fault::Foreign });
            }
            if self.read_only {
                return Ok(());
            }
            self.newest = last - 1;
            wait!(self.begin(None, true)).map(|_| ())
        })
    }

    /// The first block has its marker but not its confirmation: finishes the format. No program has
    /// stored data yet.
    fn format_begun(&mut self, begun: Block) -> output!(Result<(), D::Error>) {
        steps!({
            if self.read_only {
                return Ok(());
            }
            let last = self.geometry().blocks as u16 - 1;
            if begun.at == last && wait!(self.blank_except(last))? {
                self.newest = last - 1;
            } else {
                // Another block is not blank, so the first block was complete. Keep it until another
                // block counts.
                self.newest = begun.at;
                self.must_not_erase = begun.at;
            }
            wait!(self.begin(None, true)).map(|_| ())
        })
    }

    /// Whether all blocks except one read as erased.
    fn blank_except(&mut self, block: u16) -> output!(Result<bool, D::Error>) {
        steps!({
            let s = self.geometry();
            for b in (0..s.blocks as u16).filter(|b| *b != block) {
                let at = s.block_at(b);
                if !wait!(self.is_erased(at, at + s.block))? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}
