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
//! committed     scan its slots for the end; if the last slot is in doubt, copy its page to a slot
//!               that no boot has begun: of a new block, or of this one after dead slots
//! ```
//!
//! # Dead slots
//!
//! Where words may be overwritten, a boot continues in the newest block, instead of erasing
//! another. It [kills](crate::marker::kill) the first word of each slot that may be unstable:
//!
//! ```text
//! slot    | 0 ... | i: in doubt | i + 1: reads as erased |  i + 2   | i + 3 ...
//!           live    intact                                               earlier boot
//!           live    live          dead: killed first       i's page   this boot appends
//!
//!           live    not intact                                           earlier boot
//!           live    dead: killed  the slot before i is in doubt now
//! ```
//!
//! - Slot i + 1 may have been begun, so its first word may be unstable, and nothing is written
//!   there. Slots that earlier boots left dead are killed again, because a kill that was cut may
//!   read as any value.
//! - A slot whose first word may read as erased is never followed by one that was begun. If the
//!   first word of slot i is torn, slot i + 1 is blank. If not, a kill that was cut leaves bits of
//!   it programmed, so it never reads as erased.
//! - The page of slot i is returned only when its copy is complete. If the copy is cut, the next
//!   boot decides about both slots again.
//! - A slot that was appended to a block says that the confirmation of the block is complete.
//!   Without one, the confirmation may be unstable, and the boot starts a block.
//! - A block that continues this one, and whose commit marker a boot began, may count at a later
//!   boot. It says where this block ends, so this boot starts a block, too. `begun_block` accepts
//!   only a block that names the newest committed one, so an unstable block that was given up
//!   cannot come back.
//! - The commit marker of a block is killed before the block is erased. So what a cut erase leaves
//!   never counts, and never hides such a block.
//!
//! The price is one slot per boot. A begin word in each slot, as a record has, would save it, but
//! cost its bytes and one more program in every write. A confirmation in each slot would save the
//! copy of each boot, but cost two words in every slot.

use super::Medium;
use super::log::{BlockStart, Log};
use crate::level::fault::{Fault, Result};
use crate::level::geometry::{DecodedHeader, Header, NONE, SlotHead, SlotKind};
use crate::marker::Progress;
use crate::planted;
use core::ops::Range;

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
    /// The slots of the newest block after the last page that may have been begun.
    tail: Range<u16>,
    /// Whether the page in doubt may be appended after them.
    append: bool,
}

/// The newest block after the committed one that has its commit marker.
struct Begun {
    block: Option<Block>,
    /// Whether there is any block that continues the committed one, with or without a marker.
    any: bool,
}

impl<D: Medium, const PAGE: usize> Log<'_, D, PAGE> {
    pub fn open(&mut self) -> output!(Result<(), D::Error>) {
        steps!({
            // After a write that failed, the same boot reads what the medium's buffer holds.
            wait!(self.medium.flush()).map_err(Fault::Medium)?;
            // A carried page that proves torn while it is copied was never complete, and no program
            // has acted on it. Then scan again without the block or the page, for the rest of this
            // boot. No search reaches such histories: tests/suite/level_doubt.rs tests them step by
            // step.
            let mut distrusted = NONE;
            let mut drop_carry = false;
            // Where slots are killed, each round kills one.
            let kills = if D::CONTRACT.overwrites() {
                self.geometry().slots
            } else {
                0
            };
            for _ in 0..3 + kills {
                self.reset();
                let confirmed = wait!(self.committed_block())?;
                let Begun { block: begun, any } = wait!(self.begun_block(confirmed, distrusted))?;
                let alone = !any || planted!("nvmem/level-successor-ignored");
                let end = match (confirmed, begun) {
                    (None, None) => return wait!(self.format_blank()),
                    (None, Some(b)) => return wait!(self.format_begun(b)),
                    (Some(_), Some(b)) => wait!(self.end_from_header(b))?,
                    (Some(c), None) => wait!(self.find_end(c, drop_carry, alone))?,
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
                if let Some((page, slot)) = carry
                    && D::CONTRACT.overwrites()
                    && end.append
                {
                    if !wait!(self.append_after(end.tail, page))? {
                        wait!(self.kill_slots(slot..slot + 1))?;
                        continue;
                    }
                    (carry, write) = (None, false);
                }
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
                match (begun, end.carry) {
                    (Some(b), _) => distrusted = b.at,
                    (None, Some((_, slot))) if D::CONTRACT.overwrites() => {
                        wait!(self.kill_slots(slot..slot + 1))?;
                    }
                    _ => drop_carry = true,
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
    ) -> output!(Result<Begun, D::Error>) {
        steps!({
            let (base, base_sequence) = last.map_or((NONE, 0), |l| (l.at, l.header.sequence));
            let mut newest: Option<Block> = None;
            let mut any = except != NONE;
            if planted!("nvmem/level-half-committed-ignored") {
                return Ok(Begun { block: None, any });
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
                if h.sequence <= base_sequence || h.base_sequence != base_sequence || h.base != base
                {
                    continue;
                }
                any = true;
                if newest.is_some_and(|n| n.header.sequence >= h.sequence)
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
            Ok(Begun { block: newest, any })
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
                tail: 0..0,
                append: false,
            })
        })
    }

    /// Finds the end of the newest block. At most one slot is torn: the last one begun. That is
    /// either the last readable slot or the one after it; the medium does not tell which. Where
    /// words may be overwritten, kills the last slot while it is not intact. The page in doubt may
    /// be appended if the block is `alone`: no other one says where it ends.
    fn find_end(
        &mut self,
        newest: Block,
        drop_carry: bool,
        alone: bool,
    ) -> output!(Result<End, D::Error>) {
        steps!({
            let slots = self.geometry().slots as u16;
            let from = newest.at * slots;
            let may_kill = D::CONTRACT.overwrites() && !self.read_only;
            // Each round kills one slot. A chip that ignores a write, or a word that stays as it
            // was, must not make it endless.
            for _ in 0..=slots {
                let mut last = None;
                // How many slots are before the end of the last page, and of the last slot that
                // was begun. The slot after that may have been begun, too.
                let (mut used, mut begun) = (0, 0);
                for n in 0..slots {
                    match wait!(self.slot_head(from + n))? {
                        SlotHead::Holds(kind, page) => {
                            last = Some((kind, page));
                            (used, begun) = (n + 1, n + 1);
                        }
                        SlotHead::Erased => break,
                        // If its first word is torn, no slot after it was begun. If its kill was
                        // cut, slots after it may be dead.
                        SlotHead::Dead | SlotHead::Invalid => begun = n + 1,
                    }
                }
                let slot = from + used.saturating_sub(1);
                let end = |valid_slots, carry, doubt, append| {
                    let doubt = doubt && !planted!("nvmem/level-doubt-ignored");
                    Ok(End {
                        valid_slots,
                        carry,
                        doubt,
                        tail: slot + 1..from + slots.min(begun + 1),
                        append,
                    })
                };
                match last {
                    // The slots before a slot that was begun are complete. But where slots are
                    // killed, it may have been begun to be killed, which says nothing of them.
                    _ if begun > used && !D::CONTRACT.overwrites() => {
                        return end(used, None, true, false);
                    }
                    Some((SlotKind::Appended, page)) => {
                        if !drop_carry && wait!(self.is_intact(slot))? {
                            if planted!("nvmem/level-doubt-ignored") {
                                return end(used, None, false, false);
                            }
                            let append = may_kill && alone && begun + 1 < slots;
                            return end(used - 1, Some((page, slot)), true, append);
                        }
                        if !may_kill || planted!("nvmem/level-torn-slot-not-killed") {
                            return end(used - 1, None, true, false);
                        }
                        wait!(self.kill_slots(slot..slot + 1))?;
                    }
                    // Slots written before the commit marker are complete, and no later slot was
                    // begun.
                    _ => return end(used, None, begun > used, false),
                }
            }
            Err(Fault::Damaged)
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
                    let page = match wait!(self.slot_head(slot))? {
                        SlotHead::Holds(_, page) => page,
                        SlotHead::Dead => continue,
                        _ => return Err(Fault::Damaged),
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
                // Another block is not blank, so the first block was complete. Keep it until
                // another block counts.
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
