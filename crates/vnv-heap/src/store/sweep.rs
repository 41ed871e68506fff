//! What open does when it knows what is reachable: the table and the bitmap of exactly that.

use super::map::units_of;
use super::open::ENTRIES;
use super::units::set;
use super::{Entry, Error, LOST, PIECE, Store};
use crate::promise::Promise;
use nvmem::{Medium, planted};

/// What a sweep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Swept {
    /// Objects that were allocated and not reachable: given back.
    pub(crate) freed: u16,
    /// Reachable objects whose block is damaged or overlaps another one: each use says so.
    pub(crate) damaged: u16,
}

/// Units that are looked at in one pass over the table, and a bit for each.
struct Window<'s> {
    first: u32,
    bits: &'s mut [u8],
}

impl Window<'_> {
    /// Sets the bits of these units, as far as they are here. Whether any of them was set.
    fn set(&mut self, unit: u16, n: u16) -> bool {
        let from = u32::from(unit) - 1;
        let end = self.first + self.bits.len() as u32 * 8;
        let (from, to) = (from.max(self.first), (from + u32::from(n)).min(end));
        from < to && set(self.bits, from - self.first, to - self.first, true)
    }

    fn has(&self, unit: u16) -> bool {
        let end = self.first + self.bits.len() as u32 * 8;
        (self.first..end).contains(&(u32::from(unit) - 1))
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// Frees the entries of what is not reachable, and makes the bitmap that of what is.
    ///
    /// No two reachable objects share a byte afterwards, whatever the image held: the second of two that overlap is lost.
    ///
    /// **Power loss**: reachable objects are not touched; the next open does it again. **Cost**: reads the table and the headers once for each
    /// `8 × scratch` units; writes what differs. `scratch` may be of any size, and lose its content.
    pub(crate) fn sweep(
        &mut self,
        scratch: &mut [u8],
        reachable: impl Fn(u16) -> bool,
    ) -> Result<Swept, Error<S::Error>> {
        let mut least = [0; PIECE];
        let scratch = if scratch.len() < PIECE {
            &mut least
        } else {
            scratch
        };
        let mut swept = Swept::default();
        let mut used = 0;
        let mut taken = 0;
        let len = self.map.bitmap_len();
        let mut at = 0;
        while at < len {
            let n = (scratch.len() as u32).min(len - at) as usize;
            let bits = &mut scratch[..n];
            bits.fill(0);
            let mut window = Window {
                first: at * 8,
                bits,
            };
            let first = at == 0;
            let mut doubtful = false;
            taken = self.each(&reachable, |store, id, e, reachable| {
                if !reachable {
                    if first && !planted!("vnv-heap/unreachable-kept") {
                        store.put_entry(id, Entry::FREE)?;
                        swept.freed += 1;
                    }
                    return Ok(());
                }
                match store.locate(id) {
                    Ok(place) => {
                        if window.set(place.unit, units_of(place.len))
                            && !planted!("vnv-heap/overlap-unnoticed")
                        {
                            store.lose(id)?;
                        }
                    }
                    Err(Error::Medium(e)) => return Err(Error::Medium(e)),
                    Err(_) => {
                        swept.damaged += u16::from(first);
                        if e == Entry::FREE && !planted!("vnv-heap/number-given-twice") {
                            // Its number must not be given to another one.
                            store.lose(id)?;
                        }
                        doubtful |= store.map.has(e.pending, 1);
                    }
                }
                Ok(())
            })?;
            if doubtful {
                // Nobody may write what is read as their headers, so that they stay what they are.
                self.each(&reachable, |store, id, e, reachable| {
                    if reachable
                        && store.map.has(e.pending, 1)
                        && window.has(e.pending)
                        && matches!(store.locate(id), Err(Error::Damaged { .. }))
                        && window.set(e.pending, 1)
                    {
                        store.lose(id)?;
                    }
                    Ok(())
                })?;
            }
            used += window.bits.iter().map(|b| b.count_ones()).sum::<u32>();
            self.put_bitmap(at, window.bits)?;
            at += n as u32;
        }
        self.flush()?;
        self.free_units = self.map.units - used as u16;
        self.free_ids = self.map.objects - taken;
        Ok(swept)
    }

    /// Each entry that is in use or should be, and whether it is reachable. How many of these there are.
    fn each(
        &mut self,
        reachable: impl Fn(u16) -> bool,
        mut f: impl FnMut(&mut Self, u16, Entry, bool) -> Result<(), Error<S::Error>>,
    ) -> Result<u16, Error<S::Error>> {
        let (mut id, mut count) = (1, 0);
        while id <= self.map.objects {
            let n = (self.map.objects - id + 1).min(ENTRIES);
            let table = self.entries(id, n)?;
            for (i, e) in (id..).zip(table.iter().take(usize::from(n))) {
                let r = reachable(i);
                if *e == Entry::FREE && !r {
                    continue;
                }
                count += u16::from(r);
                f(self, i, *e, r)?;
            }
            id += n;
        }
        Ok(count)
    }

    fn lose(&mut self, id: u16) -> Result<(), Error<S::Error>> {
        self.put_entry(
            id,
            Entry {
                committed: LOST,
                pending: LOST,
            },
        )
    }

    /// Writes the pieces of the bitmap that differ.
    fn put_bitmap(&mut self, at: u32, bits: &[u8]) -> Result<(), Error<S::Error>> {
        let mut at = self.map.bitmap() + at;
        for piece in bits.chunks(PIECE) {
            let mut b = [0; PIECE];
            let there = &mut b[..piece.len()];
            self.get(at, there)?;
            if there != piece {
                self.put(at, piece)?;
            }
            at += piece.len() as u32;
        }
        Ok(())
    }
}
