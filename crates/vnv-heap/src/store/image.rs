//! The image: the bytes on the medium, by their types. It decides nothing: what is allocated, what
//! counts and in which order it is written is up to the [store](super).
//!
//! ```text
//!  address 0                                                                          capacity
//!  +-----------+--------+--------+---------+----------+-----------+--------+-------------------+
//!  | superblock| record | record | applied | pin      | table     | bitmap | units of 8 bytes: |
//!  | 2 copies  |   0    |   1    |  word   | records  | 4 B an id | 1 bit a| blocks            |
//!  +-----------+--------+--------+---------+----------+-----------+ unit --+-------------------+
//!
//!  entry (4 bytes)  committed unit 16 | pending unit 16      0,0: free; pending >= 0xFF00: freed
//!  block            id 16 | length 16 | previous block of the chain 16 | check 16 | content ...
//! ```
//!
//! Why it is safe: every number that is read is compared with the geometry before it becomes an
//! address. An entry whose write the medium broke off is repaired before the next one is read.

use super::check::Check;
use super::{BLOCK_HEADER, LOST, MAX_LEN, PIECE, UNIT};
use crate::config::{Config, MAX_PINS, Promise};
use crate::error::{Fail, Word};
use crate::plain::{as_bytes, zeros};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nvmem::superblock::Superblock;
use nvmem::{Medium, planted};

/// Words that are read together.
pub(super) const WORDS: usize = PIECE / 4;

/// Entries of the table that are read together.
const ENTRIES: usize = 16;

/// Memory for these entries.
pub(super) type Entries = MaybeUninit<[u32; ENTRIES]>;

/// The two records, 16 bytes apart.
pub(super) const RECORDS: u32 = Superblock::BYTES as u32;
pub(super) const RECORD_STRIDE: u32 = 16;
/// The applied word: which commit the table shows completely.
pub(super) const APPLIED: u32 = RECORDS + 2 * RECORD_STRIDE;
const PINS: u32 = APPLIED + 8;
pub(super) const PIN_BYTES: u32 = 8;
/// The largest unit number.
const MAX_UNITS: u32 = 0xFE00;

/// Sizes and addresses of the areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) objects: u16,
    pub(super) units: u16,
    /// The address of the table of objects.
    table: u16,
    /// The address of unit 0 (units are numbered from 1), in units.
    before: u16,
}

const _: () = {
    let table = PINS + MAX_PINS as u32 * PIN_BYTES;
    assert!(table <= u16::MAX as u32);
    assert!((table + 4 * 0xFFFE + MAX_UNITS / 8 + 14) / UNIT <= u16::MAX as u32);
};

impl Geometry {
    /// Before open.
    pub(super) const NONE: Geometry = Geometry {
        objects: 0,
        units: 0,
        table: PINS as u16,
        before: 0,
    };

    /// From these counts. `None` when no configuration can have them.
    fn new(objects: u32, units: u32, pins: u32) -> Option<Geometry> {
        let sound = (1..0xFFFF).contains(&objects) && units <= MAX_UNITS;
        if !sound || pins > u32::from(MAX_PINS) {
            return None;
        }
        let table = PINS + pins * PIN_BYTES;
        let blocks = (bitmap_at(table, objects) + units / 8).next_multiple_of(UNIT);
        Some(Geometry {
            objects: objects as u16,
            units: units as u16,
            table: table as u16,
            before: (blocks / UNIT - 1) as u16,
        })
    }

    /// The largest heap of this configuration in `capacity` bytes. **Errors**: the medium is too
    /// small.
    pub(super) fn largest(config: &Config, capacity: u32) -> Result<Geometry, Fail> {
        let (objects, pins) = (u32::from(config.objects), u32::from(config.max_pins));
        // Eight units are 65 bytes with their part of the bitmap; the bitmap's end is rounded up.
        let fixed = bitmap_at(PINS + pins * PIN_BYTES, objects);
        let groups = (capacity.saturating_sub(fixed + 8) / (8 * UNIT + 1)).min(MAX_UNITS / 8);
        match Geometry::new(objects, groups * 8, pins) {
            Some(map) if groups != 0 => Ok(map),
            _ => Err(Fail::too_small(fixed + 8 + 8 * UNIT + 1)),
        }
    }

    /// From the superblock's parameters.
    pub(super) fn of_params(params: &[u32; 8]) -> Option<Geometry> {
        let [objects, units, pins, rest @ ..] = *params;
        Geometry::new(objects, units, pins)
            .filter(|_| units > 0 && units.is_multiple_of(8) && rest.iter().all(|v| *v == 0))
    }

    pub(super) fn params(&self) -> [u32; 8] {
        let [o, u, p] = [self.objects, self.units, self.pins()].map(u32::from);
        // Hides the constant from the optimiser, which would call `memset` for five zero words.
        let zero = core::hint::black_box(0);
        [o, u, p, zero, zero, zero, zero, zero]
    }

    /// How many pins can be recorded.
    pub(super) fn pins(&self) -> u16 {
        ((self.table() - PINS) / PIN_BYTES) as u16
    }

    pub(super) fn pin(&self, i: u16) -> Option<u32> {
        (i < self.pins()).then_some(PINS + u32::from(i) * PIN_BYTES)
    }

    pub(super) fn table(&self) -> u32 {
        u32::from(self.table)
    }

    /// The address of an object's entry.
    pub(super) fn entry(&self, id: u16) -> Option<u32> {
        (id != 0 && id <= self.objects).then(|| self.table() + (u32::from(id) - 1) * 4)
    }

    pub(super) fn bitmap(&self) -> u32 {
        bitmap_at(self.table(), u32::from(self.objects))
    }

    pub(super) fn bitmap_len(&self) -> u32 {
        u32::from(self.units) / 8
    }

    /// The address of a unit; units are numbered from 1.
    pub(super) fn unit(&self, unit: u16) -> u32 {
        (u32::from(self.before) + u32::from(unit)) * UNIT
    }

    /// Whether `n` units from `unit` on exist.
    pub(super) fn has(&self, unit: u16, n: u16) -> bool {
        let end = u32::from(unit) + u32::from(n);
        if planted!("vnv-heap/one-unit-more") {
            return unit != 0 && end <= u32::from(self.units) + 2;
        }
        unit != 0 && end <= u32::from(self.units) + 1
    }

    pub(super) fn end(&self) -> u32 {
        self.unit(self.units) + UNIT
    }
}

/// Address of the bitmap behind a table of so many objects.
fn bitmap_at(table: u32, objects: u32) -> u32 {
    (table + objects * 4).next_multiple_of(UNIT)
}

/// Units of a block whose content has this many bytes.
pub(super) fn units_of(len: u16) -> u16 {
    // No `div_ceil`: the sum cannot overflow.
    ((u32::from(len) + BLOCK_HEADER + UNIT - 1) >> UNIT.ilog2()) as u16
}

/// A table entry: the unit of the committed block and that of the pending one. One word, so that a
/// result with it is returned in registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(Word);

impl Entry {
    pub(super) const FREE: Entry = Entry::of(0, 0);

    pub(super) const fn of(committed: u16, pending: u16) -> Self {
        Entry(committed as Word | (pending as Word) << 16)
    }

    pub(super) fn committed(self) -> u16 {
        self.0 as u16
    }

    pub(super) fn pending(self) -> u16 {
        (self.0 >> 16) as u16
    }

    pub(super) fn is_settled(self) -> bool {
        self.committed() == self.pending()
    }

    /// The entry in a word as it is on the medium.
    pub(super) fn decode(word: u32) -> Self {
        Entry(u32::from_le(word) as Word)
    }

    fn encode(self) -> [u8; 4] {
        (self.0 as u32).to_le_bytes()
    }
}

impl core::fmt::Debug for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Entry({}, {})", self.committed(), self.pending())
    }
}

/// Flag in a header's length: this block records that its object was freed.
pub(super) const TOMBSTONE: u16 = 0x8000;

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) id: u16,
    pub(super) len: u16,
    /// The block that was allocated before it in the same epoch (the chain of a commit).
    pub(super) prev: u16,
    pub(super) check: u16,
}

impl BlockHeader {
    pub(super) fn decode(b: [u8; 8]) -> Self {
        let [i0, i1, l0, l1, p0, p1, c0, c1] = b;
        BlockHeader {
            id: u16::from_le_bytes([i0, i1]),
            len: u16::from_le_bytes([l0, l1]),
            prev: u16::from_le_bytes([p0, p1]),
            check: u16::from_le_bytes([c0, c1]),
        }
    }
}

/// The check in a block header, if the header is that of this object with this length.
pub(crate) fn check_in_header(
    head: &[u8; BLOCK_HEADER as usize],
    id: u16,
    len: u16,
) -> Option<u16> {
    let h = BlockHeader::decode(*head);
    (h.id == id && h.len == len).then_some(h.check)
}

/// The block with an object's current content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRef {
    /// Bytes of the content.
    pub(crate) len: u16,
    /// What [`Check`] over the content must give.
    pub(crate) check: u16,
    pub(super) unit: u16,
}

/// The bytes on the medium. Field order avoids padding.
#[repr(C)]
pub(crate) struct Image<S: Medium, P> {
    geometry: Geometry,
    /// Snapshot: the object whose pending unit may be torn because the medium failed. 0 when there
    /// is none.
    torn: u16,
    /// The medium's last error, until the program gets it.
    failure: Option<S::Error>,
    bytes_written: u32,
    bytes_read: u32,
    medium: S,
    _promise: PhantomData<fn() -> P>,
}

impl<S: Medium, P: Promise> Image<S, P> {
    /// Before open: the geometry is not known yet.
    pub(super) fn new(medium: S) -> Self {
        Image {
            geometry: Geometry::NONE,
            torn: 0,
            failure: None,
            bytes_written: 0,
            bytes_read: 0,
            medium,
            _promise: PhantomData,
        }
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Sets where everything lies: once, at open or format.
    pub(super) fn set_geometry(&mut self, geometry: Geometry) {
        self.geometry = geometry;
    }

    /// The medium.
    pub(crate) fn medium(&mut self) -> &mut S {
        &mut self.medium
    }

    /// Bytes written to and read from the medium since it was opened. Both wrap.
    pub(crate) fn traffic(&self) -> (u32, u32) {
        (self.bytes_written, self.bytes_read)
    }

    /// The medium's last error, if the program has not got it yet.
    pub(crate) fn take_failure(&mut self) -> Option<S::Error> {
        self.failure.take()
    }

    pub(crate) fn set_failure(&mut self, failure: Option<S::Error>) {
        self.failure = failure;
    }

    /// Keeps the medium's error. Out of line: rare.
    #[cold]
    fn failed(&mut self, e: S::Error) -> Fail {
        self.failure = Some(e);
        Fail::MEDIUM
    }

    #[inline(never)]
    pub(crate) fn get(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Fail> {
        self.bytes_read = self.bytes_read.wrapping_add(buf.len() as u32);
        match self.medium.read(at, buf) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    #[inline(never)]
    pub(crate) fn put(&mut self, at: u32, bytes: &[u8]) -> Result<(), Fail> {
        self.bytes_written = self.bytes_written.wrapping_add(bytes.len() as u32);
        match self.medium.write(at, bytes) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), Fail> {
        match self.medium.flush() {
            Ok(()) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    #[inline(never)]
    pub(super) fn entry(&mut self, id: u16) -> Result<Entry, Fail> {
        if P::SNAPSHOT {
            self.repair_torn_entry()?;
        }
        let at = self.geometry.entry(id).ok_or(Fail::damaged(id))?;
        let mut word = [0];
        self.get(at, as_bytes(&mut word))?;
        Ok(Entry::decode(word[0]))
    }

    #[inline(never)]
    pub(super) fn put_entry(&mut self, id: u16, e: Entry) -> Result<(), Fail> {
        self.put_in_entry(id, 0, &e.encode())
    }

    pub(super) fn put_committed(&mut self, id: u16, unit: u16) -> Result<(), Fail> {
        self.put_in_entry(id, 0, &unit.to_le_bytes())
    }

    pub(super) fn put_pending(&mut self, id: u16, unit: u16) -> Result<(), Fail> {
        self.put_in_entry(id, 2, &unit.to_le_bytes())
    }

    /// Writes a part of an object's entry.
    #[inline(never)]
    fn put_in_entry(&mut self, id: u16, from: u32, bytes: &[u8]) -> Result<(), Fail> {
        let at = self.geometry.entry(id).ok_or(Fail::damaged(id))?;
        self.put(at + from, bytes)
    }

    /// Marks an object as lost: open found that two objects claim it, or none. Two writes, so that
    /// a cut leaves a damaged entry.
    pub(crate) fn mark_lost(&mut self, id: u16) -> Result<(), Fail> {
        self.put_pending(id, LOST)?;
        self.put_committed(id, LOST)
    }

    // INVARIANT "A half-written entry counts for nothing": snapshot: after an error of the medium
    // in the entry of a first write-back, the committed entry is restored before any other change.
    // Noticed by: the bus that fails at each byte, in store/tests/hostile.rs; planted
    // `torn-entry-kept`.
    /// Repairs an entry that the medium tore when a write-back began: the committed content counts
    /// again.
    pub(super) fn repair_torn_entry(&mut self) -> Result<(), Fail> {
        if self.torn == 0 || nvmem::planted!("vnv-heap/torn-entry-kept") {
            return Ok(());
        }
        let at = self.geometry.entry(self.torn).ok_or(Fail::UNFINISHED)?;
        let mut b = [0; 4];
        self.get(at, &mut b)?;
        self.put(at + 2, &b[..2])?;
        self.torn = 0;
        Ok(())
    }

    /// Reads the entries from `id` on, which is in the table: as many as there are and fit.
    /// [`Entry::decode`] gets their numbers.
    pub(super) fn entries<'t>(&mut self, id: u16, to: &'t mut Entries) -> Result<&'t [u32], Fail> {
        let at = self.geometry.entry(id).ok_or(Fail::damaged(id))?;
        let n = usize::from(self.geometry.objects - id) + 1;
        let words = zeros(to).split_at_mut(n.min(ENTRIES)).0;
        self.get(at, as_bytes(words))?;
        Ok(words)
    }

    /// Writes a piece if it differs from the medium.
    pub(super) fn put_changed(&mut self, at: u32, piece: &[u8]) -> Result<(), Fail> {
        let mut b = MaybeUninit::uninit();
        let there = &mut as_bytes(zeros::<WORDS>(&mut b))[..piece.len()];
        self.get(at, there)?;
        if there.iter().ne(piece) {
            self.put(at, piece)?;
        }
        Ok(())
    }

    /// The block of an object, by its entry and its header.
    ///
    /// **Cost**: reads 12 bytes. **Errors**: [`Error::Damaged`](crate::Error::Damaged) when the two
    /// do not match. The content is not read.
    #[inline(never)]
    pub(crate) fn locate(&mut self, id: u16) -> Result<BlockRef, Fail> {
        let e = self.entry(id)?;
        self.locate_by(id, e)
    }

    /// `Store::locate` with an entry that was read already.
    pub(super) fn locate_by(&mut self, id: u16, e: Entry) -> Result<BlockRef, Fail> {
        if !P::SNAPSHOT && !e.is_settled() {
            return Err(Fail::damaged(id));
        }
        self.locate_in(id, e.pending())
    }

    pub(super) fn locate_in(&mut self, id: u16, unit: u16) -> Result<BlockRef, Fail> {
        let damaged = Fail::damaged(id);
        let head = self.read_block_header(unit, id)?;
        let bounded = head.len <= MAX_LEN && self.geometry.has(unit, units_of(head.len));
        if head.id != id || !bounded {
            return Err(damaged);
        }
        Ok(BlockRef {
            len: head.len,
            check: head.check,
            unit,
        })
    }

    /// The header in a unit; `id` is the object that it should belong to.
    pub(super) fn read_block_header(&mut self, unit: u16, id: u16) -> Result<BlockHeader, Fail> {
        if !self.geometry.has(unit, 1) {
            return Err(Fail::damaged(id));
        }
        let mut b = [0; 8];
        self.get(self.geometry.unit(unit), &mut b)?;
        Ok(BlockHeader::decode(b))
    }

    /// Whether a block's content matches its check, or it has no content yet. **Cost**: reads it.
    #[cold]
    #[inline(never)]
    pub(super) fn is_sound(&mut self, id: u16, place: &BlockRef) -> Result<bool, Fail> {
        let mut check = Check::new(id, place.len);
        if place.check == check.finish() && !planted!("vnv-heap/empty-is-damaged") {
            return Ok(true);
        }
        let mut b = MaybeUninit::uninit();
        let b = as_bytes(zeros::<WORDS>(&mut b));
        let (mut at, end) = (
            self.address(place),
            self.address(place) + u32::from(place.len),
        );
        while at < end {
            let n = (end - at).min(PIECE as u32) as usize;
            let piece = b.get_mut(..n).unwrap_or_default();
            self.get(at, piece)?;
            check.add(piece);
            at += n as u32;
        }
        Ok(check.finish() == place.check)
    }

    /// The address of the content; its check is in the two bytes before.
    pub(crate) fn address(&self, place: &BlockRef) -> u32 {
        self.geometry.unit(place.unit) + BLOCK_HEADER
    }

    /// Writes the header of a new block. `prev`: the block before it in the chain. With `empty` the
    /// check is that of a block without content; else it is written with the content. Without that
    /// check an element of a queue that was never written would look damaged. Its length would then
    /// count for nothing, its units could become another's, and the next push would overwrite them.
    pub(super) fn write_block_header(
        &mut self,
        unit: u16,
        id: u16,
        len: u16,
        prev: u16,
        empty: bool,
    ) -> Result<(), Fail> {
        let ([i0, i1], [l0, l1], [p0, p1]) =
            (id.to_le_bytes(), len.to_le_bytes(), prev.to_le_bytes());
        let [c0, c1] = Check::new(id, len).finish().to_le_bytes();
        let head = [i0, i1, l0, l1, p0, p1, c0, c1];
        self.put(
            self.geometry.unit(unit),
            if empty { &head } else { &head[..6] },
        )
    }

    /// [`Image::put_pending`], the first one since the commit: if the medium breaks it off, the
    /// entry is repaired before anything else changes.
    pub(super) fn begin_pending(&mut self, id: u16, unit: u16) -> Result<(), Fail> {
        self.torn = id;
        self.put_pending(id, unit)?;
        self.torn = 0;
        Ok(())
    }

    /// Whether at least one unit of a block is taken in the bitmap, or, without `taken`, is free.
    /// Reads the bits of about the first 200 units.
    pub(super) fn has_unit(&mut self, place: &BlockRef, taken: bool) -> Result<bool, Fail> {
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
}

#[cfg(test)]
impl<S: Medium, P> Image<S, P> {
    /// The medium, and the same image on another medium.
    pub(super) fn replace<T: Medium>(self, medium: T) -> (S, Image<T, P>) {
        let new = Image {
            geometry: self.geometry,
            torn: self.torn,
            failure: None,
            bytes_written: 0,
            bytes_read: 0,
            medium,
            _promise: PhantomData,
        };
        (self.medium, new)
    }
}

/// Sets or clears the bits of units `from..to` in `bits`, whose first bit is that of unit `first`.
/// Whether one of them was set.
#[inline(never)]
pub(super) fn set(bits: &mut [u8], first: u32, from: u32, to: u32, value: bool) -> bool {
    let mut any = false;
    let mut at = from.max(first);
    while at < to {
        let Some(byte) = bits.get_mut(((at - first) / 8) as usize) else {
            break;
        };
        let low = at % 8;
        let n = (8 - low).min(to - at);
        let mask = (0xFF_u8 >> (8 - n)) << low;
        any |= *byte & mask != 0;
        if value {
            *byte |= mask;
        } else {
            *byte &= !mask;
        }
        at += n;
    }
    any
}
