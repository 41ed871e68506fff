//! The encoding of cell places in manifests and records: runs of 16-bit words.
//!
//! ```text
//!  one cell          | cell | place | check |
//!  run of n cells    | cell, RUN | n | place | check | check | ...      consecutive places
//!  own places        | cell, RUN | n, OWN_PLACES | place | check | place | check | ...
//! ```
//!
//! A check follows only where the place holds data: not for `NONE` (nothing saved) and `ZERO`.

use nvmem::crc::crc32;

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
            let mut x = seed;
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    x = x.wrapping_mul(0x9E37_79B9) ^ x >> 15;
                    (x >> 20) as u8
                })
                .collect();
            assert!(Runs::new(&bytes).count() <= 0x7FFF * 40);
        }
    }
}
