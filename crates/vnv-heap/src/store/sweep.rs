//! What open does when it knows what is reachable: the table and the bitmap of exactly that.

use super::map::units_of;
use super::units::set;
use super::{Entry, Fail, LOST, PIECE, Store};
use crate::plain::{zero, zeros};
use crate::promise::Promise;
use core::mem::MaybeUninit;
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
    #[inline(never)]
    pub(crate) fn sweep(
        &mut self,
        scratch: &mut [u8],
        reachable: impl Fn(u16) -> bool,
    ) -> Result<Swept, Fail> {
        let mut least = MaybeUninit::uninit();
        let scratch = if scratch.len() < PIECE {
            zeros::<PIECE>(&mut least)
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
            // SAFETY: as many bytes.
            unsafe { zero(bits.as_mut_ptr(), bits.len()) }
            let mut window = Window {
                first: at * 8,
                bits,
            };
            taken = self.window(&mut window, at == 0, &reachable, &mut swept)?;
            used += window.bits.iter().map(|b| b.count_ones()).sum::<u32>();
            self.put_bitmap(at, window.bits)?;
            at += n as u32;
        }
        self.flush()?;
        self.free_units = self.map.units - used as u16;
        self.free_ids = self.map.objects - taken;
        Ok(swept)
    }

    /// Sets the bits of what is reachable in this window. How many objects that is.
    fn window(
        &mut self,
        window: &mut Window<'_>,
        first: bool,
        reachable: impl Fn(u16) -> bool,
        swept: &mut Swept,
    ) -> Result<u16, Fail> {
        // Once for what is intact; and once more, if something is not: nobody may write what is read as its header, so that it
        // stays what it is.
        let mut doubtful = false;
        loop {
            let again = doubtful;
            doubtful = false;
            let mut count = 0;
            for id in 1..=self.map.objects {
                let e = self.entry(id)?;
                let r = reachable(id);
                count += u16::from(r);
                if r {
                    doubtful |= self.claim(window, id, e, first, again, swept)?;
                } else if e != Entry::FREE
                    && first
                    && !again
                    && !planted!("vnv-heap/unreachable-kept")
                {
                    self.put_entry(id, Entry::FREE)?;
                    swept.freed += 1;
                }
            }
            if again || !doubtful {
                return Ok(count);
            }
        }
    }

    /// One reachable object. Whether it is one for the second time round.
    fn claim(
        &mut self,
        window: &mut Window<'_>,
        id: u16,
        e: Entry,
        first: bool,
        again: bool,
        swept: &mut Swept,
    ) -> Result<bool, Fail> {
        let there = self.map.has(e.pending, 1);
        let (unit, n) = match self.locate(id) {
            Ok(_) if again => return Ok(false),
            Ok(place) => (place.unit, units_of(place.len)),
            Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
            Err(_) if again => {
                if !there || !window.has(e.pending) {
                    return Ok(false);
                }
                (e.pending, 1)
            }
            Err(_) => {
                swept.damaged += u16::from(first);
                if e == Entry::FREE && !planted!("vnv-heap/number-given-twice") {
                    // Its number must not be given to another one.
                    self.lose(id)?;
                }
                return Ok(there);
            }
        };
        if window.set(unit, n) && !planted!("vnv-heap/overlap-unnoticed") {
            self.lose(id)?;
        }
        Ok(false)
    }

    fn lose(&mut self, id: u16) -> Result<(), Fail> {
        self.put_entry(
            id,
            Entry {
                committed: LOST,
                pending: LOST,
            },
        )
    }

    /// Writes the pieces of the bitmap that differ.
    #[inline(never)]
    fn put_bitmap(&mut self, at: u32, bits: &[u8]) -> Result<(), Fail> {
        let mut at = self.map.bitmap() + at;
        for piece in bits.chunks(PIECE) {
            let mut b = MaybeUninit::uninit();
            let b = zeros::<PIECE>(&mut b);
            let there = &mut b[..piece.len()];
            self.get(at, there)?;
            if there.iter().ne(piece) {
                self.put(at, piece)?;
            }
            at += piece.len() as u32;
        }
        Ok(())
    }
}
