//! The bitmap of units: finding free ones, and marking.

use super::{Fail, PIECE, Store};
use crate::plain::zeros;
use crate::promise::Promise;
use core::mem::MaybeUninit;
use nvmem::{Medium, planted};

/// Taking `need` units in a row: a search by next fit, in pieces, then marking them, in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Take {
    /// What was found, and is being marked; until then only how many are needed.
    mark: Mark,
    stage: Stage,
    /// The next unit to be looked at, from 0.
    at: u16,
    /// Free units just before it.
    run: u16,
    /// Units still to be looked at.
    left: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    Look,
    Found,
}

/// Marking units as used or free, in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    unit: u16,
    n: u16,
    done: u16,
    used: bool,
}

impl Mark {
    pub(super) fn free(unit: u16, n: u16) -> Self {
        Mark {
            unit,
            n,
            done: 0,
            used: false,
        }
    }
}

impl Take {
    /// The first unit, when it has come to its end.
    pub(super) fn unit(&self) -> u16 {
        self.mark.unit
    }

    pub(super) fn new(need: u16) -> Self {
        Take {
            mark: Mark {
                unit: 0,
                n: need,
                done: 0,
                used: true,
            },
            stage: Stage::Start,
            at: 0,
            run: 0,
            left: 0,
        }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// One step: looks at up to 256 units, or marks up to as many.
    ///
    /// **Errors**: [`Error::Full`]; nothing was marked then.
    pub(super) fn take(&mut self, t: &mut Take) -> Result<(), Fail> {
        let need = t.mark.n;
        if t.stage == Stage::Found {
            self.mark(&mut t.mark)?;
            self.free_units = self.free_units.saturating_sub(need);
            return Ok(());
        }
        if t.stage == Stage::Start {
            if self.free_units < need {
                return Err(Fail::FULL);
            }
            t.at = self.next_unit;
            // Once round, and on to where a run that began before the start may end.
            t.left = u32::from(self.map.units) + u32::from(need) - 1;
            t.stage = Stage::Look;
        }
        if t.left == 0 {
            return Err(Fail::FULL);
        }
        self.look(t)?;
        Err(Fail::AGAIN)
    }

    /// One step of giving back what was taken.
    pub(super) fn give(&mut self, t: &mut Take) -> Result<(), Fail> {
        if t.mark.used {
            t.mark = Mark::free(t.mark.unit, t.mark.n);
        }
        self.mark(&mut t.mark)
    }

    /// Looks at the bytes of the bitmap from `t.at` on.
    fn look(&mut self, t: &mut Take) -> Result<(), Fail> {
        if t.at >= self.map.units {
            // No block goes over the end.
            (t.at, t.run) = (0, 0);
        }
        let mut unit = u32::from(t.at);
        let first = unit / 8;
        let mut b = MaybeUninit::uninit();
        let b = zeros::<PIECE>(&mut b);
        let n = (self.map.bitmap_len() - first).min(PIECE as u32) as usize;
        let piece = b.get_mut(..n).unwrap_or_default();
        self.get(self.map.bitmap() + first, piece)?;
        for byte in piece {
            let end = (unit | 7) + 1;
            if *byte == 0xFF {
                t.left = t.left.saturating_sub(end - unit);
                (t.run, unit) = (0, end);
            }
            while unit < end && t.left > 0 {
                let used = *byte >> (unit % 8) & 1;
                unit += 1;
                t.left -= 1;
                t.run = if used != 0 { 0 } else { t.run + 1 };
                if t.run == t.mark.n {
                    // Units are numbered from 1, so this is the number of the last one.
                    t.mark.unit = unit as u16 - (t.run - 1);
                    t.stage = Stage::Found;
                    self.next_unit = unit as u16;
                    return Ok(());
                }
            }
            if t.left == 0 {
                break;
            }
        }
        t.at = unit as u16;
        Ok(())
    }

    /// One step.
    pub(super) fn mark(&mut self, m: &mut Mark) -> Result<(), Fail> {
        if m.done >= m.n {
            return Ok(());
        }
        let from = u32::from(m.unit) - 1 + u32::from(m.done);
        let end = u32::from(m.unit) - 1 + u32::from(m.n);
        let first = from / 8;
        let to = end.min((first + PIECE as u32) * 8);
        let n = (to.div_ceil(8) - first) as usize;
        let mut b = MaybeUninit::uninit();
        let b = zeros::<PIECE>(&mut b);
        let piece = b.get_mut(..n).unwrap_or_default();
        self.get(self.map.bitmap() + first, piece)?;
        set(piece, from - first * 8, to - first * 8, m.used);
        if planted!("vnv-heap/bitmap-neighbours") {
            piece.fill(if m.used { 0xFF } else { 0 });
        }
        self.put(self.map.bitmap() + first, piece)?;
        m.done += (to - from) as u16;
        if m.done < m.n {
            return Err(Fail::AGAIN);
        }
        if !m.used {
            self.free_units = (self.free_units + m.n).min(self.map.units);
        }
        Ok(())
    }
}

/// Sets the bits `from..to`, or clears them. Whether any of them was set.
pub(super) fn set(bits: &mut [u8], from: u32, to: u32, value: bool) -> bool {
    let mut any = false;
    let mut at = from;
    while at < to {
        let Some(byte) = bits.get_mut((at / 8) as usize) else {
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
