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
//! The sweep rebuilds table and bitmap from the reachable objects:
//!
//! ```text
//!  no damage known:
//!    for each stretch of the bitmap (as much as fits into scratch):
//!       claim_all: set the bits of each reachable block
//!                  two claim one unit, or a claimed unit was free --> damage known
//!       write the bytes that differ
//!    clear the entries of unreachable objects
//!  damage known: start over, free nothing
//!    pass 1: claim the blocks of reachable objects whose check is right; one that overlaps is lost
//!    pass 2: claim unreachable blocks that are intact, and one unit of each damaged block,
//!            so that a later allocation cannot overwrite its header
//!    other units: the old bitmap's bits stay
//! ```
//!
//! Why it is safe: damage must not spread over any number of opens. A length that nothing proves
//! takes no unit from another object, and while damage is known no entry and no unit is freed. Only
//! metadata is written, never a reachable block, so the sweep may be cut and repeated.

use super::commit::{COMMITTED, PERSISTED, RUNNING, Record};
use super::image::{Entries, Entry, Geometry, Image, RECORDS, WORDS, set, units_of};
use super::{GIVES_UP, MANY, PIECE, Store};
use crate::config::{Config, Promise};
use crate::error::Fail;
use crate::plain::{as_bytes, zero, zeros};
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

/// The first and the last unreachable object with an entry. Empty when first > last.
type Range = (u16, u16);

/// What claiming all reachable blocks found.
enum Claims {
    Sound,
    /// An object is damaged, two claim one unit, or one claims a unit that was free: a length in a
    /// header or an entry is wrong.
    Damage,
}

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
        self.image.get(0, copies.as_bytes_mut())?;
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

    /// Rebuilds the bitmap from the reachable objects and clears the entries of the others. When
    /// damage is known (`damaged` counts objects with handles), nothing becomes free, unless this
    /// open salvages.
    ///
    /// Afterwards no two readable objects share a byte, for any image: the second of two
    /// that overlap is lost.
    ///
    /// **Power loss**: reachable objects are not touched; the next open does it again. **Cost**:
    /// reads the table and the headers once for each `8 * scratch` units, and writes what differs.
    /// When damage is known, three times, and it reads the reachable content. `scratch` may have
    /// any size; its content is lost.
    #[inline(never)]
    pub(crate) fn sweep(
        &mut self,
        scratch: &mut [u8],
        damaged: u16,
        reachable: impl Fn(u16) -> bool,
    ) -> Result<(), Fail> {
        let mut least = MaybeUninit::uninit();
        let scratch = if scratch.len() < PIECE {
            as_bytes(zeros::<WORDS>(&mut least))
        } else {
            scratch
        };
        let gives_up = self.damaged == GIVES_UP;
        self.damaged = damaged.min(MANY.into()) as u8;
        let mut damage = damaged != 0 && !planted!("vnv-heap/swept-while-damaged");
        let mut unreachable = (u16::MAX, 0);
        self.free_units = self.image.geometry().units;
        let (start, len) = (
            self.image.geometry().bitmap(),
            self.image.geometry().bitmap_len(),
        );
        let mut at = 0;
        while at < len {
            let n = (scratch.len() as u32).min(len - at) as usize;
            let bits = &mut scratch[..n];
            // SAFETY: invariant "Written before it is read": as many bytes.
            unsafe { zero(bits.as_mut_ptr(), bits.len()) }
            let mut claims = Claims::Sound;
            // While damage is known, no used unit becomes free.
            let mut keep_mask = 0;
            if damage {
                self.claim_what_is_known(bits, at * 8, gives_up, &reachable)?;
                keep_mask = if gives_up { 0 } else { 0xFF };
            } else {
                claims = self.claim_all(bits, at * 8, &mut unreachable, &reachable)?;
            }
            for piece in bits.chunks_mut(PIECE) {
                let mut b = MaybeUninit::uninit();
                let there = &mut as_bytes(zeros::<WORDS>(&mut b))[..piece.len()];
                self.image.get(start + at, there)?;
                let (mut differs, mut more) = (0, 0);
                for (new, old) in piece.iter_mut().zip(there) {
                    // These include units of blocks whose length is unknown.
                    *new |= *old & keep_mask;
                    differs |= *new ^ *old;
                    more |= *new & !*old;
                }
                if more != 0 && !damage && !planted!("vnv-heap/claims-more") {
                    claims = Claims::Damage;
                }
                if let Claims::Damage = claims {
                    break;
                }
                if differs != 0 {
                    self.image.put(start + at, piece)?;
                }
                at += piece.len() as u32;
                if damage {
                    // Lengths are not reliable here: count bits.
                    for b in piece {
                        self.free_units -= b.count_ones() as u16;
                    }
                }
            }
            if let Claims::Damage = claims {
                // Start over. The bytes written so far lack no bit of a reachable block.
                damage = true;
                at = 0;
                self.free_units = self.image.geometry().units;
            }
        }
        let (first, last) = match damage {
            false => unreachable,
            true if gives_up => (1, self.image.geometry().objects),
            true => return Ok(()),
        };
        if planted!("vnv-heap/unreachable-kept") {
            return Ok(());
        }
        for id in first..=last {
            if !reachable(id) && self.image.entry(id)? != Entry::FREE {
                self.image.put_entry(id, Entry::FREE)?;
            }
        }
        Ok(())
    }

    /// Sets the bits of all reachable blocks, in a bitmap part that begins with unit `first` (from
    /// 0).
    fn claim_all(
        &mut self,
        bits: &mut [u8],
        first: u32,
        unreachable: &mut Range,
        reachable: impl Fn(u16) -> bool,
    ) -> Result<Claims, Fail> {
        (self.free_ids, self.free_units) =
            (self.image.geometry().objects, self.image.geometry().units);
        let mut id = 1;
        while id <= self.image.geometry().objects {
            let mut table = Entries::uninit();
            let table = self.image.entries(id, &mut table)?;
            for (id, e) in (id..).zip(table) {
                let e = Entry::decode(*e);
                if !reachable(id) {
                    if e != Entry::FREE {
                        *unreachable = (unreachable.0.min(id), id.max(unreachable.1));
                    }
                    continue;
                }
                self.free_ids -= 1;
                let place = match self.image.locate_by(id, e) {
                    Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
                    Ok(place) => place,
                    Err(_) => return Ok(Claims::Damage),
                };
                let units = units_of(place.len);
                if claim(bits, first, place.unit, units) {
                    return Ok(Claims::Damage);
                }
                // An overlap in another part is noticed there.
                self.free_units = self.free_units.saturating_sub(units);
            }
            id += table.len() as u16;
        }
        Ok(Claims::Sound)
    }

    /// The same when damage is known: pass 1 claims the blocks of reachable objects with the right
    /// check. Pass 2 claims unreachable blocks that are kept, and the header unit of each damaged
    /// object, so that a later allocation cannot change it. The remaining units of those stay as
    /// the old bitmap has them.
    #[cold]
    #[inline(never)]
    fn claim_what_is_known(
        &mut self,
        bits: &mut [u8],
        first: u32,
        gives_up: bool,
        reachable: impl Fn(u16) -> bool,
    ) -> Result<(), Fail> {
        (self.free_ids, self.damaged) = (self.image.geometry().objects, 0);
        for sound in [true, false] {
            for id in 1..=self.image.geometry().objects {
                let e = self.image.entry(id)?;
                if !reachable(id) && (e == Entry::FREE || gives_up) {
                    continue;
                }
                let place = match self.image.locate_by(id, e) {
                    Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
                    place => place.ok(),
                };
                if !sound {
                    self.free_ids -= 1;
                    let n = match place {
                        Some(place) if !reachable(id) && self.image.is_sound(id, &place)? => {
                            units_of(place.len)
                        }
                        _ => 1,
                    };
                    if self.image.geometry().has(e.pending(), n)
                        && !planted!("vnv-heap/damaged-unclaimed")
                    {
                        claim(bits, first, e.pending(), n);
                    }
                    continue;
                }
                if !reachable(id) {
                    continue;
                }
                let lost = match place {
                    Some(place) if self.image.is_sound(id, &place)? => {
                        claim(bits, first, place.unit, units_of(place.len))
                            && !planted!("vnv-heap/overlap-unnoticed")
                    }
                    // Its number must not be allocated again.
                    _ => {
                        self.damaged = (self.damaged + 1).min(MANY);
                        e == Entry::FREE && !planted!("vnv-heap/number-given-twice")
                    }
                };
                if lost {
                    self.image.mark_lost(id)?;
                }
            }
        }
        Ok(())
    }
}

/// Sets the bits of `n` units. Whether one of them was set.
fn claim(bits: &mut [u8], first: u32, unit: u16, n: u16) -> bool {
    let from = u32::from(unit) - 1;
    set(bits, first, from, from + u32::from(n), true)
}
