//! Where a log keeps what: sizes that follow from the medium's contract, the division of memory
//! into cells, and the encoding of the cells' places.
//!
//! ```text
//!  anchors (records)              units (cells, manifests)
//!  |a0|a1|..|a7|                  |u0: c c c c|u1: c c c c| ...
//!  '-- front() --'                '-- unit --'  per cells each
//! ```
//!
//! The places of cells in manifests and records are runs of 16-bit words:
//!
//! ```text
//!  one cell          | cell | place | check |
//!  run of n cells    | cell, RUN | n | place | check | check | ...      consecutive places
//!  own places        | cell, RUN | n, OWN_PLACES | place | check | place | check | ...
//! ```
//!
//! A check follows only where the place holds data: not for `NONE` (nothing saved) and `ZERO`.
//!
//! Why this is safe: decoding accepts any bytes. It ends at the first run that is cut off, and
//! whoever uses a cell or a place checks that it exists.

use crate::format::Sizes;
use crate::memory::Memory;
use nvmem::crc::crc32;
use nvmem::device::Contract;
use nvmem::marker;

/// Bytes of a record, unless the program word is larger.
pub(crate) const RECORD: u32 = 128;
/// The largest record and the largest program word.
pub(crate) const LARGEST: usize = crate::format::PIECE;
/// The most anchors of any medium.
pub(crate) const ANCHORS: usize = 8;
/// The most manifests in a record's chain.
pub(crate) const MANIFESTS: usize = 96;
/// The most manifests that are chained before all places are written anew.
const CHANGES: u32 = 32;
/// Bytes of a manifest beside its runs: the previous manifest's place, the length, the checksum.
pub(crate) const FRAME: u32 = 8;

/// A bit in a place: not in a manifest yet.
pub(crate) const PENDING: u16 = 1 << 15;
/// A place: nothing of this cell is saved.
pub(crate) const NONE: u16 = 0x7FFF;
/// A place: the cell is zero.
pub(crate) const ZERO: u16 = 0x7FFE;
/// Places on the medium are below this.
pub(crate) const SLOTS: u32 = 0x7FF0;

/// A bit in a cell number: a count follows.
const RUN: u16 = 1 << 15;
/// A bit in a count: each cell has a place of its own.
const OWN_PLACES: u16 = 1 << 15;

/// Where records lie: it depends on the medium alone.
#[derive(Clone, Copy)]
pub(crate) struct RecordShape {
    pub word: u32,
    /// Bytes from one record to the next.
    pub record: u32,
    /// Bytes of an anchor: the erase units that hold records.
    pub anchor: u32,
    pub anchors: u32,
    pub erases: bool,
    pub unstable: bool,
    /// Bytes of a marker word; 0 on media without unstable words.
    pub marker: u32,
    /// What an erased byte reads.
    pub erased: u8,
}

impl RecordShape {
    pub(crate) const fn of(c: &Contract) -> Self {
        let s = Sizes::of(c);
        let record = RECORD.next_multiple_of(s.word);
        let anchor = if s.erases {
            (2 * record).next_multiple_of(s.unit)
        } else {
            record
        };
        let anchors = match s.unstable {
            false => 2,
            true if anchor <= 512 => ANCHORS as u32,
            true => 4,
        };
        assert!(
            anchors as u64 * anchor as u64 <= u32::MAX as u64,
            "the erase units are too large: no medium can hold the anchors"
        );
        RecordShape {
            word: s.word,
            record,
            anchor,
            anchors,
            erases: s.erases,
            unstable: s.unstable,
            marker: s.marker,
            erased: marker::erased(c),
        }
    }

    /// The number of records in an anchor.
    pub(crate) const fn slots(&self) -> u32 {
        self.anchor / self.record
    }
}

/// Where records and cells lie.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub records: RecordShape,
    pub erases: bool,
    /// Bytes of a cell.
    pub cell: u32,
    /// Bytes of a unit of cells.
    pub unit: u32,
    /// Cells in it.
    pub per: u32,
}

impl Shape {
    pub(crate) const fn of(c: &Contract, cell: u32) -> Self {
        let s = Sizes::of(c);
        assert!(
            cell >= 32 && cell.is_multiple_of(s.word) && cell <= 1 << 12,
            "a cell is a multiple of the program word, from 32 bytes to 4 KiB"
        );
        let unit = if s.erases {
            cell.next_multiple_of(s.unit)
        } else {
            8 * cell
        };
        let per = unit / cell;
        Shape {
            records: RecordShape::of(c),
            erases: s.erases,
            cell,
            unit,
            per: if per > 254 { 254 } else { per },
        }
    }

    /// Bytes in front of the units.
    pub(crate) const fn front(&self) -> u32 {
        self.records.anchors * self.records.anchor
    }

    /// The most cells that the places of `cells` cells take, wherever they lie: six bytes for a
    /// cell that is encoded differently from its neighbours, and up to six at the end of each
    /// manifest.
    pub(crate) const fn manifest(&self, cells: u32) -> u32 {
        let row = (self.cell - FRAME - 6) / 6;
        cells.div_ceil(row) + 1
    }

    /// The most manifests in a chain, if the places of all cells take `places` manifests.
    pub(crate) const fn chain(places: u32) -> u32 {
        let all = places.saturating_add(CHANGES);
        if all > MANIFESTS as u32 {
            return MANIFESTS as u32;
        }
        all
    }
}

/// A segment's length, and the part in use.
#[derive(Clone, Copy)]
struct Segment {
    len: u32,
    from: u32,
    to: u32,
}

/// The division of memory into cells: each segment from its start; its last cell may be shorter.
#[derive(Clone, Copy)]
pub(crate) struct Cells<const CELL: usize>([Segment; 3]);

/// One cell of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its offset in memory.
    pub at: u32,
    /// The part in use, from the cell's start; empty if both are the same.
    pub from: u32,
    pub to: u32,
}

impl<const CELL: usize> Cells<CELL> {
    #[inline(never)]
    pub(crate) fn of(memory: &Memory<'_>) -> Self {
        let segments = memory.lengths().map(|len| Segment {
            len,
            from: 0,
            to: len,
        });
        let (heap_used, stack_from) = memory.in_use();
        Cells(segments).using(heap_used, stack_from)
    }

    /// The same cells with other parts in use.
    pub(crate) fn using(mut self, heap_used: u32, stack_from: u32) -> Self {
        let [_, heap, stack] = &mut self.0;
        heap.to = heap_used.min(heap.len);
        stack.from = stack_from.min(stack.len);
        self
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|s| s.len.div_ceil(CELL as u32)).sum()
    }

    #[inline(never)]
    pub(crate) fn get(&self, i: u32) -> Option<Cell> {
        let (mut off, mut at) = (i * CELL as u32, 0);
        for s in &self.0 {
            if off < s.len {
                let end = (off + CELL as u32).min(s.len);
                let (from, to) = (s.from.max(off) - off, s.to.min(end).saturating_sub(off));
                return Some(Cell {
                    at: at + off,
                    from: from.min(end - off),
                    to: to.max(from.min(end - off)),
                });
            }
            off -= s.len.next_multiple_of(CELL as u32);
            at += s.len;
        }
        None
    }
}

impl Cell {
    /// `NONE` if nothing of the cell is in use, `ZERO` if all that is in use is zero, else `None`.
    #[inline(never)]
    pub(crate) fn empty(&self, memory: &Memory<'_>) -> Option<u16> {
        if self.from >= self.to {
            return Some(NONE);
        }
        let zero = memory.is_zero(self.at + self.from, self.to - self.from);
        zero.then_some(ZERO)
    }

    /// The bytes that the medium holds for this cell: the part in use, with zeros around it.
    pub(crate) fn content(&self, memory: &Memory<'_>, buf: &mut [u8]) {
        if let Some(used) = buf.get_mut(self.from as usize..self.to as usize) {
            memory.read(self.at + self.from, used);
        }
    }
}

/// The check of a cell's content.
pub(crate) fn check(content: &[u8]) -> u16 {
    let c = crc32(content);
    (c ^ c >> 16) as u16
}

#[inline(never)]
fn put(to: &mut core::slice::IterMut<'_, [u8; 2]>, v: u16) {
    if let Some(to) = to.next() {
        *to = v.to_le_bytes();
    }
}

/// Encodes the pending places of `map`. Returns the bytes written, and the first cell without
/// space.
#[inline(never)]
pub(crate) fn encode(
    to: &mut [u8],
    map: &[u16],
    mut check: impl FnMut(u32) -> u16,
) -> (usize, usize) {
    let mut to = to.as_chunks_mut::<2>().0.iter_mut();
    let all = to.len();
    let mut i = 0;
    while let Some(p) = map.get(i).copied() {
        if p & PENDING == 0 {
            i += 1;
            continue;
        }
        let room = to.len();
        if room < 3 {
            break;
        }
        let rest = map.get(i..).unwrap_or_default();
        let is_slot = |p: u16| u32::from(p.wrapping_sub(PENDING)) < SLOTS;
        let slot = is_slot(p);
        // `run`: cells with consecutive places. `row`: cells with any place on the medium.
        let (mut run, mut row) = (1, 0);
        while rest.get(run) == Some(&p.wrapping_add(u16::from(slot) * run as u16)) {
            run += 1;
        }
        while slot && rest.get(row).is_some_and(|p| is_slot(*p)) {
            row += 1;
        }
        let own_places = run <= 2 && run < row;
        let n = if own_places {
            row.min((room - 2) / 2)
        } else if row > 1 {
            run.min(room - 3)
        } else {
            run
        };
        if n == 0 {
            break;
        }
        if row == 1 {
            put(&mut to, i as u16);
        } else {
            put(&mut to, i as u16 | RUN);
            put(&mut to, n as u16 | if own_places { OWN_PLACES } else { 0 });
        }
        if !own_places {
            put(&mut to, p & !PENDING);
        }
        for p in rest.iter().take(n) {
            if own_places {
                put(&mut to, p & !PENDING);
            }
            if slot {
                put(&mut to, check(i as u32));
            }
            i += 1;
        }
    }
    (2 * (all - to.len()), i)
}

/// The place of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CellPlace {
    pub cell: u16,
    pub place: u16,
    pub check: u16,
}

/// Decodes runs. Ends at the first invalid one.
pub(crate) struct Runs<'b> {
    from: &'b [u8],
    /// The cells left in the run, the next cell, its place, and whether each cell has its own
    /// place.
    left: u16,
    cell: u16,
    place: u16,
    row: bool,
}

impl<'b> Runs<'b> {
    pub(crate) fn new(from: &'b [u8]) -> Self {
        Runs {
            from,
            left: 0,
            cell: 0,
            place: 0,
            row: false,
        }
    }

    fn take(&mut self) -> Option<u16> {
        let (v, rest) = self.from.split_first_chunk::<2>()?;
        self.from = rest;
        Some(u16::from_le_bytes(*v))
    }
}

impl Iterator for Runs<'_> {
    type Item = CellPlace;

    fn next(&mut self) -> Option<CellPlace> {
        if self.left == 0 {
            let cell = self.take()?;
            (self.cell, self.left, self.row) = (cell & !RUN, 1, false);
            if cell & RUN != 0 {
                let n = self.take()?;
                (self.left, self.row) = (n & !OWN_PLACES, n & OWN_PLACES != 0);
            }
            if !self.row {
                self.place = self.take()?;
            }
            if self.left == 0 {
                return None;
            }
        }
        if self.row {
            self.place = self.take()?;
        }
        let (cell, place) = (self.cell, self.place);
        let slot = u32::from(place) < SLOTS;
        let check = if slot { self.take()? } else { 0 };
        self.left -= 1;
        self.cell = cell.wrapping_add(1);
        if slot {
            self.place = place + 1;
        }
        Some(CellPlace { cell, place, check })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn roundtrip(map: &[u16], room: usize) -> Vec<CellPlace> {
        let mut map = map.to_vec();
        let mut all = Vec::new();
        loop {
            let mut buf = std::vec![0; room];
            let (n, next) = encode(&mut buf, &map, |i| i as u16 * 3);
            all.extend(Runs::new(&buf[..n]));
            map[..next].iter_mut().for_each(|p| *p &= !PENDING);
            if next == map.len() {
                return all;
            }
            assert!(next > 0 && n > 0);
        }
    }

    #[test]
    fn runs_decode_as_encoded() {
        let p = |places: &[u16]| places.iter().map(|p| p | PENDING).collect::<Vec<_>>();
        let mut map = p(&[5, 6, 7, 8, NONE, NONE, ZERO, 3]);
        map.extend([9, 9, NONE]);
        map.extend(p(&[1, 4, 2, 7, 20, 21, 22, 23, 24, 25, ZERO, 30]));
        for room in [12, 20, 24, 76, 120] {
            let decoded = roundtrip(&map, room);
            let expected: Vec<_> = (map.iter().enumerate())
                .filter(|(_, p)| **p & PENDING != 0)
                .map(|(i, p)| CellPlace {
                    cell: i as u16,
                    place: p & !PENDING,
                    check: if u32::from(p & !PENDING) < SLOTS {
                        i as u16 * 3
                    } else {
                        0
                    },
                })
                .collect();
            assert_eq!(decoded, expected, "{room}");
        }
    }

    #[test]
    fn decoding_any_bytes_ends() {
        for seed in 0..if cfg!(miri) { 3 } else { 2000u32 } {
            let mut bytes = [0; 40];
            powerfail::Rng::new(seed.into()).fill(&mut bytes);
            assert!(Runs::new(&bytes).count() <= 0x7FFF * 40);
        }
    }
}
