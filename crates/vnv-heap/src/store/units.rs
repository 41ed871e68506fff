//! The bitmap of units: finding free ones, and marking.

use super::{Error, PIECE, Step, Store};
use crate::promise::Promise;
use nvmem::{Medium, planted};

/// Taking `need` units in a row: a search by next fit, in pieces, then marking them, in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Take {
    need: u16,
    /// The next unit to be looked at, from 1.
    at: u16,
    /// Free units just before it.
    run: u16,
    /// Units still to be looked at; `None` before the first look.
    left: Option<u32>,
    /// Found, and being marked.
    found: Option<Mark>,
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
    pub(super) fn new(need: u16) -> Self {
        Take {
            need,
            at: 0,
            run: 0,
            left: None,
            found: None,
        }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// One step: looks at up to 256 units, or marks up to as many.
    ///
    /// **Errors**: [`Error::Full`]; nothing was marked then.
    pub(super) fn take(&mut self, t: &mut Take) -> Result<Step<u16>, Error<S::Error>> {
        if let Some(mut m) = t.found {
            let step = self.mark(&mut m)?;
            t.found = Some(m);
            return Ok(match step {
                Step::Done(()) => {
                    self.free_units = self.free_units.saturating_sub(t.need);
                    Step::Done(m.unit)
                }
                Step::Again => Step::Again,
            });
        }
        let left = match t.left {
            Some(left) => left,
            None => {
                if self.free_units < t.need {
                    return Err(Error::Full);
                }
                t.at = self.next_unit;
                // Once round, and on to where a run that began before the start may end.
                u32::from(self.map.units) + u32::from(t.need) - 1
            }
        };
        if left == 0 {
            return Err(Error::Full);
        }
        t.left = Some(self.look(t, left)?);
        Ok(Step::Again)
    }

    /// Looks at the bytes of the bitmap from `t.at` on; what is left to be looked at.
    fn look(&mut self, t: &mut Take, mut left: u32) -> Result<u32, Error<S::Error>> {
        let len = self.map.bitmap_len();
        if t.at == 0 || t.at > self.map.units {
            (t.at, t.run) = (1, 0);
        }
        let first = u32::from(t.at - 1) / 8;
        let mut b = [0; PIECE];
        let n = (len - first).min(PIECE as u32) as usize;
        self.get(self.map.bitmap() + first, &mut b[..n])?;
        let skip = u32::from(t.at - 1) % 8;
        let end = first * 8 + n as u32 * 8;
        let mut unit = first * 8 + skip;
        while unit < end && left > 0 {
            let byte = b[((unit / 8) - first) as usize];
            if byte == 0xFF && unit.is_multiple_of(8) {
                t.run = 0;
                unit += 8;
                left = left.saturating_sub(8);
                continue;
            }
            unit += 1;
            left -= 1;
            if byte >> ((unit - 1) % 8) & 1 != 0 {
                t.run = 0;
                continue;
            }
            t.run += 1;
            if t.run == t.need {
                // Units are numbered from 1, so this is the number of the last one.
                let from = unit as u16 - (t.need - 1);
                t.found = Some(Mark {
                    unit: from,
                    n: t.need,
                    done: 0,
                    used: true,
                });
                self.next_unit = unit as u16 + 1;
                return Ok(left);
            }
        }
        if unit >= u32::from(self.map.units) {
            // No block goes over the end.
            (t.at, t.run) = (1, 0);
        } else {
            t.at = unit as u16 + 1;
        }
        Ok(left)
    }

    /// One step.
    pub(super) fn mark(&mut self, m: &mut Mark) -> Result<Step<()>, Error<S::Error>> {
        if m.done >= m.n {
            return Ok(Step::Done(()));
        }
        let from = u32::from(m.unit) - 1 + u32::from(m.done);
        let end = u32::from(m.unit) - 1 + u32::from(m.n);
        let first = from / 8;
        let to = end.min((first + PIECE as u32) * 8);
        let n = (to.div_ceil(8) - first) as usize;
        let mut b = [0; PIECE];
        let piece = &mut b[..n];
        self.get(self.map.bitmap() + first, piece)?;
        set(piece, from - first * 8, to - first * 8, m.used);
        if planted!("vnv-heap/bitmap-neighbours") {
            piece.fill(if m.used { 0xFF } else { 0 });
        }
        self.put(self.map.bitmap() + first, piece)?;
        m.done += (to - from) as u16;
        if m.done < m.n {
            return Ok(Step::Again);
        }
        if !m.used {
            self.free_units = (self.free_units + m.n).min(self.map.units);
        }
        Ok(Step::Done(()))
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
