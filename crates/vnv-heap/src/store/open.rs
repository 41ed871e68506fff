//! Opening the medium, formatting it, and finishing a commit that was cut.
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
//! ```
//!
//! Why it is safe: a format becomes valid with the last byte of `finish_format`; before that the
//! next open formats again. `finish_commit` decides each entry by the record and the applied word
//! only, so it may be cut and repeated.

use super::geometry::{Geometry, RECORDS, units_of};
use super::record::{COMMITTED, PERSISTED, RUNNING, Record, applied_word};
use super::units::{WORDS, set};
use super::{BlockRef, Entry, FREED, PIECE, Store};
use crate::config::Config;
use crate::error::Fail;
use crate::heap::ROOT;
use crate::plain::{as_bytes, zeros};
use crate::promise::Promise;
use core::marker::PhantomData;
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

/// Entries of the table that are read together.
pub(super) const ENTRIES: u16 = 16;

/// Entries as they are on the medium.
pub(super) type Entries = [[u8; 4]; ENTRIES as usize];
pub(super) const NO_ENTRIES: Entries = [[0; 4]; ENTRIES as usize];

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
            params: self.geometry.params(),
        }
    }

    /// A store that is neither opened nor formatted yet.
    pub(crate) fn new(medium: S, config: &Config) -> Self {
        let () = Self::MEDIUM;
        Store {
            failure: None,
            medium,
            geometry: Geometry::NONE,
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
            torn: 0,
            padded: 0,
            bytes_written: 0,
            bytes_read: 0,
            _promise: PhantomData,
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
    #[inline(never)]
    pub(crate) fn open(
        &mut self,
        config: &Config,
        fingerprint: u64,
        copies: &mut Copies,
    ) -> Result<(), Fail> {
        let capacity = self.medium.capacity();
        if capacity < Superblock::BYTES as u32 {
            // Too small for any superblock: report what this configuration needs. An existing heap
            // states its own size.
            Geometry::largest(config, capacity)?;
        }
        self.get(0, copies.as_bytes_mut())?;
        let newest = match copies.newest() {
            Some(n) if !n.is_formatting() => n.copy(),
            Some(n) if copies.kind(n.copy()) != KIND => return Err(Fail::FOREIGN),
            // A format marker stays after a format has begun. It does not count beside a damaged
            // superblock.
            Some(n)
                if copies.is_damaged(1 - n.copy())
                    && !planted!("vnv-heap/damaged-is-formatted") =>
            {
                return Err(Fail::HEADER);
            }
            Some(_) => return self.begin(config, fingerprint),
            None => {
                self.is_blank(copies)?;
                return self.begin(config, fingerprint);
            }
        };
        if !copies.has_layout(newest, &Self::layout(fingerprint)) {
            return Err(Fail::layout(newest));
        }
        self.geometry = Geometry::of_params(&copies.params(newest)).ok_or(Fail::HEADER)?;
        if self.geometry.end() > capacity {
            return Err(Fail::too_small(self.geometry.end()));
        }
        if let Some(budget) = &config.budget
            && !config.keeps_on(self.geometry.objects, self.geometry.pins(), budget)
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
        let map = Geometry::largest(config, self.medium.capacity())?;
        self.geometry = map;
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
        self.put(RECORDS, as_bytes(&mut first.words()))?;
        self.flush()
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
            self.put_changed(at, &b[..n as usize])?;
            at += n;
        }
        Ok(())
    }

    /// Writes a piece if it differs from the medium.
    #[inline(never)]
    pub(super) fn put_changed(&mut self, at: u32, piece: &[u8]) -> Result<(), Fail> {
        let mut b = MaybeUninit::uninit();
        let there = &mut as_bytes(zeros::<WORDS>(&mut b))[..piece.len()];
        self.get(at, there)?;
        if there.iter().ne(piece) {
            self.put(at, piece)?;
        }
        Ok(())
    }

    /// Snapshot, at open: completes the table of the last commit. Pending units of no commit are
    /// dropped.
    ///
    /// Each entry is decided by its pending unit alone, so the next open repairs a torn write to
    /// it. To finish a commit only `committed` is written and `pending` stays, except for a freed
    /// object: its pending unit stays recognisable until the entry is zero.
    fn finish_commit(&mut self) -> Result<(), Fail> {
        let applied = self.applied()?;
        let next = self.seq.wrapping_add(1);
        if applied == applied_word(next) {
            // The table shows a commit whose record is damaged now: write the record again.
            self.put_record_of(next, COMMITTED, 0)?;
        }
        let late = applied != applied_word(self.seq);
        // The applied word names neither this commit nor the previous one.
        let unknown = late && applied != applied_word(self.seq.wrapping_sub(1));
        let mut id = 1;
        while id <= self.geometry.objects {
            let mut table = NO_ENTRIES;
            let n = self.entries(id, &mut table)?;
            for (i, e) in (id..).zip(table.iter().take(usize::from(n))) {
                let e = Entry::decode(*e);
                if e.is_settled() {
                    continue;
                }
                if unknown && !planted!("vnv-heap/applied-unchecked") {
                    return Err(Fail::RECORD);
                }
                let late = late && !planted!("vnv-heap/late-commit-forgotten");
                let counts = if late { e.pending() } else { e.committed() };
                if late && counts >= FREED {
                    self.put_entry(i, Entry::FREE)?;
                } else if counts != 0 && !self.is_own_block(i, counts)? {
                    if i == ROOT {
                        return Err(Fail::damaged(i));
                    }
                    self.mark_lost(i)?;
                } else if late {
                    self.put_committed(i, counts)?;
                } else {
                    self.put_pending(i, counts)?;
                }
            }
            id += n;
        }
        if late {
            self.put_applied()?;
        }
        Ok(())
    }

    /// Whether the unit named by an unsettled entry can be the object's own block. A freed block
    /// still holds a valid header; but then all its units are free in an intact bitmap.
    fn is_own_block(&mut self, id: u16, unit: u16) -> Result<bool, Fail> {
        match self.locate_in(id, unit) {
            Ok(place) => {
                let taken = self.has_unit(&place, true)?;
                Ok(taken
                    || planted!("vnv-heap/former-block-believed")
                    || self.bitmap_lacks_unit()?)
            }
            Err(f) if f.is_damage() => Ok(false),
            Err(f) => Err(f),
        }
    }

    /// Whether at least one unit of a block is taken in the bitmap, or, without `taken`, is free.
    /// Looks at about the first 200.
    fn has_unit(&mut self, place: &BlockRef, taken: bool) -> Result<bool, Fail> {
        let from = u32::from(place.unit) - 1;
        let first = from / 8;
        let to = from + u32::from(units_of(place.len));
        let mut b = MaybeUninit::uninit();
        let b = as_bytes(zeros::<WORDS>(&mut b));
        let n = (self.geometry.bitmap_len() - first).min(PIECE as u32) as usize;
        let piece = b.get_mut(..n).unwrap_or_default();
        self.get(self.geometry.bitmap() + first, piece)?;
        for b in &mut *piece {
            *b ^= if taken { 0 } else { 0xFF };
        }
        Ok(set(piece, first * 8, from, to, true))
    }

    /// Whether the bitmap is damaged: a settled entry has a block with a free unit.
    #[cold]
    fn bitmap_lacks_unit(&mut self) -> Result<bool, Fail> {
        for id in 1..=self.geometry.objects {
            let e = self.entry(id)?;
            if e.is_settled()
                && let Ok(place) = self.locate_in(id, e.pending())
                && self.has_unit(&place, false)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads up to [`ENTRIES`] entries from `id` on, which is in the table. Returns how many.
    #[inline(never)]
    pub(super) fn entries(&mut self, id: u16, table: &mut Entries) -> Result<u16, Fail> {
        let n = (self.geometry.objects - id + 1).min(ENTRIES);
        let at = self.geometry.entry(id).ok_or(Fail::damaged(id))?;
        let bytes = table.as_flattened_mut();
        let n4 = bytes.len().min(usize::from(n) * 4);
        self.get(at, &mut bytes[..n4])?;
        Ok(n)
    }
}
