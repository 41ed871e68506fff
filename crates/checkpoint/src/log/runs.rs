//! Where cells of memory are: how a manifest tells it.

use nvmem::crc::crc32;

/// A place: not in a manifest yet.
pub(crate) const PENDING: u16 = 1 << 15;
/// A place: of this cell nothing is kept.
pub(crate) const NONE: u16 = 0x7FFF;
/// A place: all of it is zero.
pub(crate) const ZERO: u16 = 0x7FFE;
/// The places of a medium are below.
pub(crate) const SLOTS: u32 = 0x7FF0;

/// In the number of a cell: there is a count.
const RUN: u16 = 1 << 15;
/// In a count: each cell has a place of its own.
const ROW: u16 = 1 << 15;

/// The check of a cell's content.
pub(crate) fn check(content: &[u8]) -> u16 {
    let c = crc32(content);
    (c ^ c >> 16) as u16
}

struct Writer<'b> {
    to: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn room(&self) -> usize {
        self.to.len() - self.at
    }
    fn all<const N: usize>(&mut self, values: [u16; N]) {
        values.into_iter().for_each(|v| self.put(v));
    }
    fn put(&mut self, v: u16) {
        if let Some(to) = self.to.get_mut(self.at..self.at + 2) {
            to.copy_from_slice(&v.to_le_bytes());
            self.at += 2;
        }
    }
}

/// Tells the pending places of `map`: bytes written, and the first cell that there was no room for.
pub(crate) fn encode(
    to: &mut [u8],
    map: &[u16],
    mut check: impl FnMut(u32) -> u16,
) -> (usize, usize) {
    let pending = |i: usize| {
        map.get(i)
            .filter(|p| **p & PENDING != 0)
            .map(|p| p & !PENDING)
    };
    let is_slot = |p: u16| u32::from(p) < SLOTS;
    let mut w = Writer { to, at: 0 };
    let mut i = 0;
    while i < map.len() {
        let Some(p) = pending(i) else {
            i += 1;
            continue;
        };
        let cell = i as u16;
        if w.room() < 6 {
            break;
        }
        if !is_slot(p) {
            let n = (i..).take_while(|j| pending(*j) == Some(p)).count();
            w.all([cell | RUN, n as u16, p]);
            i += n;
            continue;
        }
        let next = |k: usize| pending(i + k).filter(|p| is_slot(*p));
        let row = (0..).take_while(|k| next(*k).is_some()).count();
        let run = (0..row)
            .take_while(|k| next(*k) == Some(p + *k as u16))
            .count();
        if row == 1 {
            w.all([cell, p, check(i as u32)]);
            i += 1;
        } else if run > 2 || run == row {
            let n = run.min((w.room() - 6) / 2);
            if n == 0 {
                break;
            }
            w.all([cell | RUN, n as u16, p]);
            for k in 0..n {
                w.put(check((i + k) as u32));
            }
            i += n;
        } else {
            let n = row.min((w.room() - 4) / 4);
            if n == 0 {
                break;
            }
            w.all([cell | RUN, n as u16 | ROW]);
            for k in 0..n {
                w.put(next(k).unwrap_or(NONE));
                w.put(check((i + k) as u32));
            }
            i += n;
        }
    }
    (w.at, i)
}

/// Where one cell is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub cell: u16,
    pub place: u16,
    pub check: u16,
}

/// What was told. Ends where it makes no sense.
pub(crate) struct Runs<'b> {
    from: &'b [u8],
    /// Cells left of the run, the next one, its place, and whether places are told one by one.
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
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        if self.left == 0 {
            let cell = self.take()?;
            (self.cell, self.left, self.row) = (cell & !RUN, 1, false);
            if cell & RUN != 0 {
                let n = self.take()?;
                (self.left, self.row) = (n & !ROW, n & ROW != 0);
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
        Some(Place { cell, place, check })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn told(map: &[u16], room: usize) -> Vec<Place> {
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
    fn what_is_told_is_read() {
        let p = |places: &[u16]| places.iter().map(|p| p | PENDING).collect::<Vec<_>>();
        let mut map = p(&[5, 6, 7, 8, NONE, NONE, ZERO, 3]);
        map.extend([9, 9, NONE]);
        map.extend(p(&[1, 4, 2, 7, 20, 21, 22, 23, 24, 25, ZERO, 30]));
        for room in [12, 20, 24, 76, 120] {
            let told = told(&map, room);
            let expected: Vec<_> = (map.iter().enumerate())
                .filter(|(_, p)| **p & PENDING != 0)
                .map(|(i, p)| Place {
                    cell: i as u16,
                    place: p & !PENDING,
                    check: if u32::from(p & !PENDING) < SLOTS {
                        i as u16 * 3
                    } else {
                        0
                    },
                })
                .collect();
            assert_eq!(told, expected, "{room}");
        }
    }

    #[test]
    fn any_bytes_end() {
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
