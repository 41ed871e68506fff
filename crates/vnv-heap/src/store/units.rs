//! The allocator: finding free units or numbers, and marking units in the bitmap.
//!
//! ```text
//!  find_free:   next fit over bitmap (a bit a unit) or table (a word a number), 32 bytes a call
//!    next_unit v
//!    1 1 0 1 1 0 0 0 1 ...     need 3: run 1 -> 0 -> 1,2,3 found; next search begins behind it
//!  mark_units:  read up to 32 bytes of the bitmap, set or clear the bits, write them back
//! ```
//!
//! Why it is safe: units are marked before anything points to them, so a cut leaks them at most
//! until the next sweep.

use super::{Fail, PIECE, Store};
use crate::plain::{as_bytes, zeros};
use crate::promise::Promise;
use core::mem::MaybeUninit;
use nvmem::{Medium, planted};

/// Words that are read together.
pub(super) const WORDS: usize = PIECE / 4;

/// A search for free units (a bit each) or numbers (a word each) in a row, by next fit, one piece a
/// call.
#[derive(Debug, Clone, Copy)]
pub(super) struct FindFree {
    /// Index behind the last one examined, from 0. At the end, behind the run found.
    at: u16,
    /// Free ones right before `at`.
    run: u16,
    /// How many are still to be examined.
    left: u32,
    /// The run must not begin at a unit that differs from this one in a single bit. 0: no
    /// condition.
    avoid: u16,
}

impl FindFree {
    /// Value of `left` before the first step.
    const BEGIN: u32 = u32::MAX;

    pub(super) const NEW: FindFree = FindFree {
        at: 0,
        run: 0,
        left: Self::BEGIN,
        avoid: 0,
    };

    /// Whether the run that ends here is acceptable: one flipped bit must not turn one unit of an
    /// entry into the other.
    fn is_allowed(&self, need: u16) -> bool {
        let differs = self.first(need) ^ self.avoid;
        self.avoid == 0 || differs & differs.wrapping_sub(1) != 0 || planted!("vnv-heap/near-copy")
    }

    /// The first of the run found; numbered from 1.
    pub(super) fn first(&self, need: u16) -> u16 {
        self.at - need + 1
    }
}

/// Allocates units in a row: finds them, then marks them, in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllocRun {
    find: FindFree,
    /// The units found, being marked. Their first unit is 0 until then.
    mark: MarkUnits,
}

/// Marks units as used or free, in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct MarkUnits {
    unit: u16,
    n: u16,
    done: u16,
    used: bool,
}

impl MarkUnits {
    pub(super) fn free(unit: u16, n: u16) -> Self {
        MarkUnits {
            unit,
            n,
            done: 0,
            used: false,
        }
    }
}

impl AllocRun {
    /// The first unit, when the allocation has finished.
    pub(super) fn unit(&self) -> u16 {
        self.mark.unit
    }

    /// Allocates elsewhere than a copy: not at a unit that differs in one bit, unless there is no
    /// other space.
    pub(super) fn avoiding(unit: u16, need: u16) -> Self {
        let mut run = Self::new(need);
        run.find.avoid = unit;
        run
    }

    /// Drops that condition and starts over. False when there was none.
    pub(super) fn stop_avoiding(&mut self) -> bool {
        core::mem::replace(&mut self.find, FindFree::NEW).avoid != 0
    }

    pub(super) fn new(need: u16) -> Self {
        AllocRun {
            find: FindFree::NEW,
            mark: MarkUnits {
                unit: 0,
                n: need,
                done: 0,
                used: true,
            },
        }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// One step: examines up to 256 units, or marks as many.
    ///
    /// **Errors**: [`Error::Full`](crate::Error::Full); nothing was marked then.
    pub(super) fn alloc_run(&mut self, t: &mut AllocRun) -> Result<(), Fail> {
        let need = t.mark.n;
        if t.mark.unit == 0 {
            self.find_free(&mut t.find, need, true)?;
            t.mark.unit = t.find.first(need);
            return Err(Fail::PENDING);
        }
        self.mark_units(&mut t.mark)?;
        self.free_units = self.free_units.saturating_sub(need);
        Ok(())
    }

    /// One step of releasing the units again.
    pub(super) fn release(&mut self, t: &mut AllocRun) -> Result<(), Fail> {
        if t.mark.used {
            t.mark = MarkUnits::free(t.mark.unit, t.mark.n);
        }
        self.mark_units(&mut t.mark)
    }

    /// One step of a search for units or numbers. **Errors**: [`Error::Full`](crate::Error::Full).
    #[inline(never)]
    pub(super) fn find_free(
        &mut self,
        f: &mut FindFree,
        need: u16,
        units: bool,
    ) -> Result<(), Fail> {
        let geometry = self.geometry;
        let (free, next, all, start) = if units {
            (
                self.free_units,
                self.next_unit,
                geometry.units,
                geometry.bitmap(),
            )
        } else {
            (
                self.free_ids,
                self.next_id,
                geometry.objects,
                geometry.table(),
            )
        };
        let mut n = PIECE as u32;
        if f.left == FindFree::BEGIN {
            if free < need {
                return Err(Fail::FULL);
            }
            f.at = next;
            // Once round, and on to the end of a run that began just before the start.
            f.left = u32::from(all) + u32::from(need) - 1;
            // The first word is usually enough.
            n = 4;
        }
        if f.at >= all {
            // A run does not wrap.
            (f.at, f.run) = (0, 0);
        }
        let at = u32::from(f.at);
        let (at, end) = if units {
            (at / 32 * 4, geometry.bitmap_len())
        } else {
            (at * 4, u32::from(all) * 4)
        };
        n = n.min(end - at);
        let mut b = MaybeUninit::uninit();
        let b = zeros::<WORDS>(&mut b);
        self.get(start + at, &mut as_bytes(b)[..n as usize])?;
        for w in &b[..n.div_ceil(4) as usize] {
            let w = u32::from_le(*w);
            // The bit to test: one unit, or the whole word of a number.
            let mut one = if units { 1 << (f.at % 32) } else { !0 };
            if w == !0 {
                let n = if units { 32 - f.at % 32 } else { 1 };
                (f.at, f.run) = (f.at + n, 0);
                f.left = f.left.saturating_sub(u32::from(n));
                one = 0;
            }
            while one != 0 && f.at < all {
                if f.left == 0 {
                    return Err(Fail::FULL);
                }
                f.at += 1;
                f.left -= 1;
                f.run = if w & one == 0 { f.run + 1 } else { 0 };
                if P::SNAPSHOT && f.run == need && !f.is_allowed(need) {
                    f.run -= 1;
                }
                if f.run == need {
                    if units {
                        self.next_unit = f.at;
                    } else {
                        self.next_id = f.at;
                    }
                    return Ok(());
                }
                one = if units { one << 1 } else { 0 };
            }
        }
        if f.left == 0 {
            return Err(Fail::FULL);
        }
        Err(Fail::PENDING)
    }

    /// One step of marking.
    pub(super) fn mark_units(&mut self, m: &mut MarkUnits) -> Result<(), Fail> {
        if m.done >= m.n {
            return Ok(());
        }
        let from = u32::from(m.unit) - 1 + u32::from(m.done);
        let end = u32::from(m.unit) - 1 + u32::from(m.n);
        let first = from / 8;
        let to = end.min((first + PIECE as u32) * 8);
        let n = (to.div_ceil(8) - first) as usize;
        let mut b = MaybeUninit::uninit();
        let b = zeros::<WORDS>(&mut b);
        let piece = as_bytes(b).get_mut(..n).unwrap_or_default();
        let at = self.geometry.bitmap() + first;
        self.get(at, piece)?;
        set(piece, first * 8, from, to, m.used);
        if planted!("vnv-heap/bitmap-neighbours") {
            piece.fill(if m.used { 0xFF } else { 0 });
        }
        self.put(at, piece)?;
        m.done += (to - from) as u16;
        if m.done < m.n {
            return Err(Fail::PENDING);
        }
        if !m.used {
            self.free_units = (self.free_units + m.n).min(self.geometry.units);
        }
        Ok(())
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
