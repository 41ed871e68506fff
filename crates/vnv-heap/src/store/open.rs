//! Opening the medium and formatting it; the sweep, which ends an open.
//!
//! ```text
//! superblock?
//!   blank, format marker:     begin(): marker, zero areas, first record -> root -> finish_format()
//!   foreign, damaged, other:  error; nothing is written
//!   valid -> newest record?
//!      just in time:  persisted -> open         running -> Interrupted
//!      snapshot:      committed -> finish_commit(): complete the table -> open
//! then the caller runs two passes: `walk` finds the reachable objects,
//! `sweep` rebuilds table and bitmap from them
//!
//! a superblock copy, always the other one:
//!   first byte 0 -> flush -> bytes 1.. -> flush -> first byte 'R' -> flush (valid now)
//! ```
//!
//! Why it is safe: a format becomes valid with the last byte of `finish_format`; before that the
//! next open formats again.
//!
//! The sweep rebuilds bitmap and table from the reachable objects. It looks for their blocks in the
//! order of addresses, so it needs no RAM beside the marks:
//!
//! ```text
//!   bitmap  . 1 1 1 . 1 1 1 1 . .     unit set, not in a block: read the header there
//!             |   |     |             id sought, its entry names this unit: found, skip its units
//!             A---'     '- nobody's   else: left by a cut, or by a handle that was dropped: clear
//!
//!  every reachable object found, each with all of its units set:
//!    clear the entries of the others
//!  else there is damage; free nothing:
//!    set the units of reachable blocks whose check is right
//!    set the units of unreachable blocks that are intact, and one unit of each damaged block,
//!    so that a later allocation cannot overwrite its header
//!    look for the readable blocks again; one that begins inside another one is lost
//!    a damaged block that shares a unit with another one, or has a free one, is lost too
//! ```
//!
//! Why it is safe: damage must not spread over any number of opens. Blocks that were found share no
//! unit. A length that nothing proves takes no unit from another object: either it hides a block,
//! or it claims a unit that is free, and both are damage. Until damage is noticed, units of objects
//! that cannot be found may be cleared. What hides them stays on the medium, and a clear unit hides
//! no other block: so an open that was cut here is followed by one that notices the same, and sets
//! them again before anything is allocated. While damage is known, no entry and no unit is freed.
//!
//! The owner of a damaged object can still write it and give it up, and only the object's header
//! confirms the owner. A forged image may put the block of such an object inside of another block,
//! or its header where another object's content will be. Such an object is lost.
//!
//! Only metadata is written, never a reachable block, so the sweep may be cut and repeated. No
//! flush follows it: its writes count for nothing after a cut, and a flush precedes the next
//! record.
//!
//! Why the bitmap is rebuilt: the walk from the root is needed anyway, because an object that only
//! a variable owned at the cut has no owner any more. So nothing is spent to keep the bitmap in
//! step: a block is marked when it is taken, in both promises. A bitmap that changes in the commit
//! only would need a search that knows what was taken since the last commit, and an order of writes
//! in the commit that survives a torn entry.

use super::commit::{COMMITTED, PERSISTED, RUNNING, Record};
use super::image::{Entries, Entry, Geometry, Image, RECORDS, WORDS, units_of};
use super::{GIVES_UP, MANY, MAX_LEN, PIECE, Store};
use crate::config::{Config, Promise};
use crate::error::{Fail, Word};
use crate::plain::{as_bytes, zeros};
use crate::walk::{DONE, Marks, NONE};
use core::mem::MaybeUninit;
use nvmem::device::Torn;
use nvmem::superblock::{Copies, Superblock};
use nvmem::{Layout, Medium, planted};

/// The kind in the superblock.
pub(super) const KIND: [u8; 4] = *b"HEAP";
const VERSION: u16 = 1;
const SNAPSHOT_VERSION: u16 = 2;
/// Flag in the version: the snapshot promise.
pub(super) const SNAPSHOT: u16 = 0x0100;

const COPY: u32 = Superblock::COPY_BYTES as u32;
/// First byte of the magic: written last, cleared first.
const MAGIC_FIRST_BYTE: u8 = b'R';

/// The mark of a reachable object whose block is to be found: what the walk leaves.
const SOUGHT: u8 = DONE;
/// Its block was found.
const FOUND: u8 = 2;
/// It is damaged, but has a header. Where its block lies is not checked yet.
const DAMAGED: u8 = 3;
/// It is damaged, and its block shares no unit with another one.
const DISJOINT: u8 = 4;
/// It is damaged, and has no header that is its own.
const NO_HEADER: u8 = 5;

impl<S: Medium, P: Promise> Store<S, P> {
    const MEDIUM: () = {
        let c = &S::CONTRACT;
        assert!(
            c.write_size == 1 && c.read_size == 1 && c.erase.is_none(),
            "a heap needs a medium that is read and written by single bytes and never erased: put flash behind `nvmem::WearLevelled`"
        );
        assert!(
            matches!(c.torn, Torn::Prefix | Torn::Subset),
            "a heap needs a medium on which a cut leaves each byte old or new"
        );
    };

    /// The layout that this program expects.
    pub(super) const fn layout(fingerprint: u64) -> Layout {
        Layout {
            kind: KIND,
            version: if P::SNAPSHOT {
                SNAPSHOT | SNAPSHOT_VERSION
            } else {
                VERSION
            },
            fingerprint,
        }
    }

    #[inline(never)]
    pub(super) fn superblock(&self, fingerprint: u64) -> Superblock {
        let Layout { kind, version, .. } = Self::layout(fingerprint);
        Superblock {
            kind,
            version,
            fingerprint,
            params: self.image.geometry().params(),
        }
    }

    /// A store that is neither opened nor formatted yet.
    pub(crate) fn new(medium: S, config: &Config) -> Self {
        let () = Self::MEDIUM;
        Store {
            image: Image::new(medium),
            seq: 0,
            pinned: 0,
            burst: config.burst.max(PIECE as u16),
            free_units: 0,
            free_ids: 0,
            next_unit: 0,
            next_id: 0,
            chain: 0,
            state: 0,
            damaged: 0,
        }
    }

    /// Opens what is on the medium; formats a blank one. The caller then finds the reachable
    /// objects and calls [`Store::sweep`] before it allocates.
    ///
    /// **Power loss**: the medium is as before, or closer to what this would have done; the next
    /// open continues. **Cost**: reads the superblock and the records, and with the snapshot
    /// promise the table; the whole medium when it holds no superblock. **Errors**: as
    /// [`Store::begin`] when it was formatted; else those of [`OpenError`](crate::OpenError) that
    /// do not concern RAM. Nothing is written then, and `copies` holds the superblock.
    pub(crate) fn open(
        &mut self,
        config: &Config,
        fingerprint: u64,
        copies: &mut Copies,
    ) -> Result<(), Fail> {
        let capacity = self.image.medium().capacity();
        if capacity < Superblock::BYTES as u32 {
            // Too small for any superblock: report what this configuration needs. An existing heap
            // states its own size.
            Geometry::largest(config, capacity)?;
        }
        // INVARIANT "Flushed before it is believed": what an open finds stays: a flush comes first.
        // An error is not a cut: a commit whose last flush failed has left its record in the
        // medium's buffer, where an open in the same boot reads it. If that one counted, the sweep
        // would free blocks that the record before it needs, and a cut then leaves that record.
        // Noticed by: `an_open_after_a_flush_that_failed` in tests/suite/generated.rs; planted
        // `buffer-believed`.
        if !planted!("vnv-heap/buffer-believed") {
            self.image.flush()?;
        }
        self.image.get(0, copies.as_bytes_mut())?;
        let newest = match copies.newest() {
            Some(n) if !n.is_formatting() => n.copy(),
            Some(n) if copies.kind(n.copy()) != KIND => return Err(Fail::FOREIGN),
            // A format marker stays after a format has begun. It does not count beside a damaged
            // superblock.
            Some(n) => {
                let damaged = copies.is_damaged(1 - n.copy());
                if damaged && !planted!("vnv-heap/damaged-is-formatted") {
                    return Err(Fail::HEADER);
                }
                return self.begin(config, fingerprint);
            }
            None => {
                self.is_blank(copies)?;
                return self.begin(config, fingerprint);
            }
        };
        if !copies.has_layout(newest, &Self::layout(fingerprint)) {
            return Err(Fail::layout(newest));
        }
        self.image
            .set_geometry(Geometry::of_params(&copies.params(newest)).ok_or(Fail::HEADER)?);
        if self.image.geometry().end() > capacity {
            return Err(Fail::too_small(self.image.geometry().end()));
        }
        if let Some(budget) = &config.budget
            && !config.fits_budget_on(
                self.image.geometry().objects,
                self.image.geometry().pins(),
                budget,
            )
        {
            return Err(Fail::BUDGET);
        }
        match (P::SNAPSHOT, self.find_record()? as u8) {
            (false, PERSISTED) => {}
            (false, RUNNING) if planted!("vnv-heap/interrupted-ignored") => {}
            (false, RUNNING) => return Err(Fail::INTERRUPTED),
            (true, COMMITTED) => self.finish_commit()?,
            _ => return Err(Fail::RECORD),
        }
        Ok(())
    }

    /// Formats the medium and drops what it holds.
    ///
    /// **Errors**: [`Fail::BLANK`] on success: the heap is empty. The caller then writes the root,
    /// persists or commits, and calls [`Store::finish_format`]. Until then the next open formats
    /// again.
    ///
    /// **Power loss**: before the format is finished, the medium holds the old heap, is blank, or
    /// is refused by [`Store::open`].
    #[inline(never)]
    pub(crate) fn begin(&mut self, config: &Config, fingerprint: u64) -> Result<(), Fail> {
        let map = Geometry::largest(config, self.image.medium().capacity())?;
        self.image.set_geometry(map);
        if !planted!("vnv-heap/format-unmarked") {
            self.put_header(fingerprint, true)?;
        }
        self.blank(&map)?;
        self.state = u8::from(!P::SNAPSHOT);
        self.free_units = map.units;
        self.free_ids = map.objects;
        Err(Fail::BLANK)
    }

    /// Zeroes the areas and writes the first record.
    fn blank(&mut self, map: &Geometry) -> Result<(), Fail> {
        self.zero(RECORDS, map.unit(1))?;
        let first = Record {
            seq: 0,
            state: if P::SNAPSHOT { COMMITTED } else { RUNNING },
            pins: 0,
        };
        self.image.put(RECORDS, as_bytes(&mut first.words()))?;
        self.image.flush()
    }

    /// Ends a format: the medium holds a heap from here on. Its root has been persisted or
    /// committed.
    ///
    /// **Power loss**: before the last byte, the next open formats again. **Cost**: at most 65
    /// bytes.
    pub(crate) fn finish_format(&mut self, fingerprint: u64) -> Result<(), Fail> {
        self.put_header(fingerprint, false)
    }

    /// Zeroes the bytes that are not zero.
    fn zero(&mut self, from: u32, to: u32) -> Result<(), Fail> {
        let mut b = MaybeUninit::uninit();
        let b = as_bytes(zeros::<WORDS>(&mut b));
        let mut at = from;
        while at < to {
            let n = (to - at).min(PIECE as u32);
            self.image.put_changed(at, &b[..n as usize])?;
            at += n;
        }
        Ok(())
    }

    /// Whether a medium without a valid superblock is all 0 or all 0xFF, apart from bytes of a
    /// format marker that was being written. **Errors**: what else it is. `copies` holds what was
    /// read, and is overwritten.
    pub(super) fn is_blank(&mut self, copies: &mut Copies) -> Result<(), Fail> {
        // A magic means that there was a superblock once.
        let other = if copies.has_magic() {
            Fail::HEADER
        } else {
            Fail::FOREIGN
        };
        // A format marker holds only the kind.
        copies.fill(0, &self.superblock(0), 0, true);
        let marker = copies.copy(0);
        let end = self.image.medium().capacity();
        let mut b = MaybeUninit::uninit();
        let b = as_bytes(zeros::<WORDS>(&mut b));
        self.image.get(end - 1, &mut b[..1])?;
        let fill = b[0];
        let mut at = 0;
        let mut blank = fill == 0 || fill == 0xFF;
        while at < end && blank {
            let n = (end - at).min(PIECE as u32) as usize;
            let piece = b.get_mut(..n).unwrap_or_default();
            self.image.get(at, piece)?;
            for v in piece {
                blank &= *v == fill || marker.get(at as usize) == Some(v);
                at += 1;
            }
        }
        if blank { Ok(()) } else { Err(other) }
    }

    /// Writes the other copy, after everything that was written before. Its first byte makes it
    /// valid. It is either the marker of a format that begins, which is not written twice, or the
    /// end of a format. **Errors**: the marker to end is missing.
    #[inline(never)]
    pub(super) fn put_header(&mut self, fingerprint: u64, formatting: bool) -> Result<(), Fail> {
        self.image.flush()?;
        let mut copies = MaybeUninit::uninit();
        let copies = Copies::zeroed(&mut copies);
        let (mut which, mut sequence) = (0, 0);
        self.image.get(0, copies.as_bytes_mut())?;
        for copy in 0..2 {
            if formatting && copies.is_damaged(copy) {
                // Beside a format marker, a broken copy could be taken for a heap.
                self.image.put(copy as u32 * COPY, &[0])?;
            }
        }
        match copies.newest() {
            Some(n) if formatting && n.is_formatting() && copies.kind(n.copy()) == KIND => {
                return Ok(());
            }
            Some(n) => (which, sequence) = (1 - n.copy(), n.sequence().wrapping_add(1)),
            None if formatting => {}
            // The marker was written before; it is gone.
            None => return Err(Fail::HEADER),
        }
        let at = which as u32 * COPY;
        // A blank first byte stays blank: a cut must leave a blank medium or a torn marker.
        if copies.copy(which)[0] == MAGIC_FIRST_BYTE {
            self.image.put(at, &[0])?;
            self.image.flush()?;
        }
        copies.fill(which, &self.superblock(fingerprint), sequence, formatting);
        let bytes = copies.copy(which);
        self.image.put(at + 1, &bytes[1..])?;
        self.image.flush()?;
        self.image.put(at, &bytes[..1])?;
        self.image.flush()
    }

    // INVARIANT "Nothing leaks": after an open, every allocated object is reachable.
    // Noticed by: `audit` after every cut in tests/suite/crash/ops.rs, and after trees of any shape
    // in tests/suite/free.rs; planted `no-sweep`, `children-kept`, `gap-unnoticed`.
    /// Rebuilds the bitmap from the reachable objects and clears the entries of the others. When
    /// damage is known (`damaged` counts objects with handles), nothing becomes free, unless this
    /// open salvages.
    ///
    /// Afterwards no two objects share a byte, for any image: of two that overlap, the one that
    /// begins later is lost, or the damaged one.
    ///
    /// **Power loss**: reachable objects are not touched; the next open does it again. **Cost**:
    /// reads bitmap and table, 8 bytes for each reachable object, and at most 8 for each other unit
    /// that is set; writes what differs. With damage, as much again, the table twice more, and the
    /// content of all objects.
    #[inline(never)]
    pub(crate) fn sweep(
        &mut self,
        marks: &mut Marks<'_>,
        reachable: u16,
        damaged: u16,
    ) -> Result<(), Fail> {
        let gives_up = self.damaged == GIVES_UP;
        self.damaged = damaged.min(MANY.into()) as u8;
        let damage = damaged != 0 && !planted!("vnv-heap/swept-while-damaged");
        let damage = damage || {
            let found = self.find_blocks(marks, true)?;
            found != reachable.into() && !planted!("vnv-heap/hidden-unnoticed")
        };
        if damage {
            self.claim_what_is_known(marks, gives_up)?;
            if !gives_up {
                return Ok(());
            }
        } else {
            self.free_ids = self.image.geometry().objects - reachable;
        }
        if planted!("vnv-heap/unreachable-kept") {
            return Ok(());
        }
        let mut id = 1;
        while id <= self.image.geometry().objects {
            let mut table = Entries::uninit();
            let table = self.image.entries(id, &mut table)?;
            for e in table {
                if Entry::decode(*e) != Entry::FREE && marks.get(id) == NONE {
                    self.image.put_entry(id, Entry::FREE)?;
                }
                id += 1;
            }
        }
        Ok(())
    }

    // INVARIANT "No shared byte": after an open no two objects that can be read overlap. A damaged
    // one shares no unit with another one, nor does its entry name a unit inside of one. No
    // reachable number is free.
    // Noticed by: forged images in store/tests/hostile.rs and tests/suite/hostile.rs; planted
    // `overlap-unnoticed`, `hidden-unnoticed`, `empty-is-damaged`, `number-given-twice`,
    // `damaged-overlaps`, `damaged-claims-more`, `named-inside`.
    /// Finds the blocks of the objects that are sought, in the order of their addresses. Counts
    /// free units. With `frees`, clears the units that belong to none of them. Without, sets all
    /// units of the blocks, and finds the damaged ones that share no unit with them.
    ///
    /// Returns how many were found; 0 when it frees and a unit of one is not set in the bitmap.
    #[inline(never)]
    fn find_blocks(&mut self, marks: &mut Marks<'_>, frees: bool) -> Result<Word, Fail> {
        let mut at = self.image.geometry().bitmap();
        let stop = at + self.image.geometry().bitmap_len();
        let mut free = self.image.geometry().units;
        // The last unit that was looked at, and the one behind the last block.
        let (mut unit, mut end) = (0, 0);
        // The last damaged block that is disjoint, and the unit behind it.
        let (mut disjoint, mut disjoint_end) = (0, 0);
        let mut found = 0;
        let mut b = MaybeUninit::uninit();
        let b = as_bytes(zeros::<WORDS>(&mut b));
        while at < stop {
            let n = (stop - at).min(PIECE as u32);
            let piece = b.get_mut(..n as usize).unwrap_or_default();
            self.image.get(at, piece)?;
            let mut differs = false;
            for byte in &mut *piece {
                for bit in 0..8 {
                    unit += 1;
                    if *byte >> bit & 1 == 0 {
                        if unit < disjoint_end && !planted!("vnv-heap/damaged-claims-more") {
                            // A later allocation may take the unit.
                            marks.set(disjoint, DAMAGED);
                        }
                        if unit >= end || frees && planted!("vnv-heap/claims-more") {
                            continue;
                        }
                        if frees {
                            return Ok(0);
                        }
                        // A damaged object without a header names this unit.
                        *byte |= 1 << bit;
                        differs = true;
                    } else if unit >= end {
                        let block = self.block_at(unit, marks)?;
                        let (id, units) = (block as u16, (block >> 16) as u16);
                        match if units == 0 { NONE } else { marks.get(id) } {
                            SOUGHT => {
                                if unit < disjoint_end && !planted!("vnv-heap/damaged-overlaps") {
                                    marks.set(disjoint, DAMAGED);
                                }
                                marks.set(id, FOUND);
                                end = unit + units;
                                found += 1;
                            }
                            DAMAGED if unit >= disjoint_end => {
                                marks.set(id, DISJOINT);
                                (disjoint, disjoint_end) = (id, unit + units);
                            }
                            NONE if frees && !planted!("vnv-heap/units-kept") => {
                                *byte &= !(1 << bit);
                                differs = true;
                                continue;
                            }
                            _ => {}
                        }
                    }
                    free -= 1;
                }
            }
            if differs {
                self.image.put(at, piece)?;
            }
            at += n;
        }
        self.free_units = free;
        Ok(found)
    }

    /// The block that begins here, if it belongs to an object that is sought or damaged: its
    /// object, and in the upper half its units. Else 0.
    fn block_at(&mut self, unit: u16, marks: &Marks<'_>) -> Result<Word, Fail> {
        if !self.image.geometry().has(unit, 1) {
            return Ok(0);
        }
        let mut head = [0];
        let at = self.image.geometry().unit(unit);
        self.image.get(at, as_bytes(&mut head))?;
        let head = u32::from_le(head[0]);
        let (id, len) = (head as u16, (head >> 16) as u16);
        let units = units_of(len);
        let bounded = len <= MAX_LEN && self.image.geometry().has(unit, units);
        if !matches!(marks.get(id), SOUGHT | DAMAGED) || !bounded {
            return Ok(0);
        }
        let named = self.image.entry(id)? == Entry::of(unit, unit);
        if !named && !planted!("vnv-heap/found-by-its-header") {
            return Ok(0);
        }
        Ok(Word::from(id) | Word::from(units) << 16)
    }

    // INVARIANT "Damage stays where it is": over any number of opens, an object reads its value if
    // its block and entry are sound and sound objects lead to it. Objects that only damaged ones
    // lead to are kept. Nothing is swept while damage is known, and only a length that a check or
    // an owner vouches for frees a unit: also `free` in store.rs, and `former_units`,
    // `judge_broken` and `finish_commit` in store/commit.rs.
    // Noticed by: each flipped bit and pages of noise in tests/suite/damage.rs; planted
    // `swept-while-damaged`, `claims-more`, `damaged-unclaimed`, `damaged-is-formatted`,
    // `damaged-record-forgotten`, `applied-unchecked`, `former-block-believed`, `near-copy`,
    // `freed-by-its-header`, `put-over-damage`, `old-encoded-length-not-checked`.
    /// When damage is known: sets the units of all blocks that are kept in the bitmap.
    #[cold]
    #[inline(never)]
    fn claim_what_is_known(&mut self, marks: &mut Marks<'_>, gives_up: bool) -> Result<(), Fail> {
        let Geometry { objects, .. } = *self.image.geometry();
        (self.free_ids, self.damaged) = (objects, 0);
        if gives_up {
            let bitmap = self.image.geometry().bitmap();
            self.zero(bitmap, bitmap + self.image.geometry().bitmap_len())?;
        }
        for id in 1..=objects {
            let mark = marks.get(id);
            let e = self.image.entry(id)?;
            if mark == NONE && (e == Entry::FREE || gives_up) {
                continue;
            }
            self.free_ids -= 1;
            let (mut now, mut units) = (NO_HEADER, 1);
            match self.image.locate_by(id, e) {
                Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
                Err(_) => {}
                Ok(place) => {
                    let sound = self.image.is_sound(id, &place)?;
                    now = if sound { SOUGHT } else { DAMAGED };
                    // The bits of a damaged block stay, but a salvage has cleared them: it sets
                    // those that the header states, since whoever gives the object up frees them
                    // if that is the length of its type.
                    if sound || gives_up && !planted!("vnv-heap/damaged-keeps-one-unit") {
                        units = units_of(place.len);
                    }
                }
            }
            if mark != NONE {
                marks.set(id, now);
                if now != SOUGHT {
                    self.count_damaged();
                    // Its number must not be allocated again.
                    if e == Entry::FREE && !planted!("vnv-heap/number-given-twice") {
                        self.image.mark_lost(id)?;
                    }
                }
            }
            if marks.get(id) == SOUGHT && planted!("vnv-heap/nothing-claimed") {
                continue;
            }
            if marks.get(id) != SOUGHT && planted!("vnv-heap/damaged-unclaimed") {
                continue;
            }
            self.claim(e.pending(), units, true)?;
        }
        for id in 1..=objects {
            if marks.get(id) == NO_HEADER {
                let unit = self.image.entry(id)?.pending();
                if self.block_at(unit, marks)? != 0 {
                    // That is where the block of another one begins.
                    marks.set(id, DAMAGED);
                } else {
                    self.claim(unit, 1, false)?;
                }
            }
        }
        self.find_blocks(marks, false)?;
        for id in 1..=objects {
            let lost = match marks.get(id) {
                SOUGHT => {
                    self.count_damaged();
                    true
                }
                DAMAGED => true,
                // The units of all other blocks are set now. This one keeps later allocations off
                // what is read as its header.
                NO_HEADER => {
                    let unit = self.image.entry(id)?.pending();
                    self.claim(unit, 1, true)? && !planted!("vnv-heap/named-inside")
                }
                _ => false,
            };
            if lost && !planted!("vnv-heap/overlap-unnoticed") {
                self.image.mark_lost(id)?;
            }
        }
        Ok(())
    }

    fn count_damaged(&mut self) {
        self.damaged = (self.damaged + 1).min(MANY);
    }

    /// Sets or clears units in the bitmap, if there are such units. Whether one of them was set.
    fn claim(&mut self, unit: u16, n: u16, used: bool) -> Result<bool, Fail> {
        let mut any = false;
        if !self.image.geometry().has(unit, n) {
            return Ok(any);
        }
        let first = u32::from(unit) - 1;
        for bit in first..first + u32::from(n) {
            let at = self.image.geometry().bitmap() + bit / 8;
            let mut byte = [0];
            self.image.get(at, &mut byte)?;
            let is_used = byte[0] >> (bit % 8) & 1 != 0;
            any |= is_used;
            if is_used != used {
                byte[0] ^= 1 << (bit % 8);
                self.image.put(at, &byte)?;
                // `find_blocks` has counted the free units; this one is not free any more.
                self.free_units = self.free_units.wrapping_sub(1);
            }
        }
        Ok(any)
    }
}
