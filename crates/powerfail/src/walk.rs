//! Walks along the record of a run and tracks what a cut at each instant may leave.
//!
//! ```text
//!  event           image after it       open units after it
//!  Store (in order)   new               -
//!  Store (buffered)   new               + {old, new}: any of them may persist
//!  Lend               -                 + units that the loan will change: {old, ..., new, garbage}
//!  EndLoan            -                 loan's units: decided (in order), open until a fence (buffered)
//!  Fence              -                 units of its media: decided
//!  Program, Erase     new               - (torn contents come from `chain::torn_states`)
//! ```
//!
//! "Decided" means that the newest value persisted. Units left open by an earlier cut (`free`) stay
//! open until a boot reads or overwrites them.

use crate::arena::Arena;
use crate::torn::{UnstableWord, UnstableWords};
use crate::trace::{Event, MediumInfo, Trace, bit};
use nvmem::planted;

/// An open unit: several values may have persisted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenUnit {
    pub(crate) at: u32,
    pub(crate) len: u8,
    /// The possible values, from the oldest.
    pub(crate) vals: Vec<u32>,
    /// It lies in a range that is still lent.
    pub(crate) lent: bool,
    /// The last value is garbage that no event saw.
    pub(crate) has_garbage: bool,
    /// Left open by an earlier cut and not read since: decided when it is read.
    pub(crate) free: bool,
}

impl OpenUnit {
    fn add_value(&mut self, v: u32) {
        if !self.vals.contains(&v) {
            self.vals.push(v);
        }
    }
    fn overlaps(&self, at: u32, len: u32) -> bool {
        self.at < at + len && at < self.at + u32::from(self.len)
    }
}

/// A value that no event saw: an intermediate result of user code in a lent unit.
fn garbage(v: u32, len: u8) -> u32 {
    let g = !v ^ 0x5a3c_96e1;
    if len == 2 { g & 0xffff } else { g }
}

pub(crate) struct Walk {
    pub(crate) pend: Vec<OpenUnit>,
    pub(crate) unstable: UnstableWords,
    loans: Vec<(u32, u32)>,
    scratch: Vec<(u32, u32)>,
}

impl Walk {
    pub(crate) fn new(free: Vec<OpenUnit>, unstable: UnstableWords) -> Self {
        Walk {
            pend: free,
            unstable,
            loans: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Whether `e` takes possibilities away or changes the world, so that the state before it must
    /// be booted.
    pub(crate) fn must_cut_before(&self, e: &Event, parts: &[MediumInfo]) -> bool {
        match *e {
            Event::Store { at, .. } => !part_of(parts, at).buffered,
            Event::World(_) if planted!("powerfail/world-is-no-cut") => false,
            Event::World(_) | Event::Scratch { .. } | Event::Program { .. } => true,
            Event::Touched { .. }
            | Event::Stable { .. }
            | Event::Unstable { .. }
            | Event::Erased { .. } => false,
            Event::Fence { of } => self
                .pend
                .iter()
                .any(|p| !p.lent && !p.free && fences(of, parts, p.at)),
            Event::EndLoan { at, len } => {
                !part_of(parts, at).buffered && self.pend.iter().any(|p| p.overlaps(at, len))
            }
            Event::Read { at, len } | Event::Lend { at, len } => {
                self.pend.iter().any(|p| p.free && p.overlaps(at, len))
            }
        }
    }

    /// Whether the instant after `e` differs from the one before it.
    pub(crate) fn is_cut(e: &Event) -> bool {
        matches!(
            e,
            Event::Store { .. } | Event::Touched { .. } | Event::World(_) | Event::Program { .. }
        )
    }

    /// Whether `e` counts in the length of a power-on period.
    pub(crate) fn counts_in_life(e: &Event) -> bool {
        matches!(
            e,
            Event::Store { .. } | Event::World(_) | Event::Program { .. } | Event::Erased { .. }
        )
    }

    /// Whether fewer units are open after `e`.
    pub(crate) fn closes_units(e: &Event) -> bool {
        matches!(
            e,
            Event::Fence { .. } | Event::EndLoan { .. } | Event::Scratch { .. }
        )
    }

    fn pend_at(&mut self, at: u32, len: u8, old: u32) -> &mut OpenUnit {
        let i = match self.pend.iter().position(|p| p.at == at) {
            Some(i) => i,
            None => {
                self.pend.push(OpenUnit {
                    at,
                    len,
                    vals: vec![old],
                    lent: false,
                    free: false,
                    has_garbage: false,
                });
                self.pend.len() - 1
            }
        };
        &mut self.pend[i]
    }

    fn is_scratch(&self, at: u32) -> bool {
        self.scratch.iter().any(|&(s, n)| at >= s && at < s + n)
    }

    /// Steps over event `i`. The arena then holds the image in which all events so far persisted.
    pub(crate) fn step(
        &mut self,
        arena: &mut Arena,
        parts: &[MediumInfo],
        trace: &Trace,
        i: usize,
    ) {
        match trace.events[i] {
            Event::Store { at, len, old, new } => {
                if self.is_scratch(at) {
                    return;
                }
                arena.put_unit(at, len, new);
                if part_of(parts, at).buffered {
                    if old == new && !self.pend.iter().any(|p| p.at == at) {
                        return;
                    }
                    let p = self.pend_at(at, len, old);
                    p.free = false;
                    p.add_value(new);
                } else if let Some(k) = self.pend.iter().position(|p| p.at == at) {
                    if self.pend[k].lent {
                        self.pend[k].add_value(new);
                    } else {
                        self.pend.swap_remove(k);
                    }
                }
            }
            Event::Touched { at, len, old, new } => {
                if self.is_scratch(at) {
                    return;
                }
                arena.put_unit(at, len, new);
                let p = self.pend_at(at, len, old);
                p.free = false;
                p.add_value(new);
            }
            Event::Fence { of } => self
                .pend
                .retain(|p| p.lent || p.free || !fences(of, parts, p.at)),
            Event::Lend { at, len } => {
                self.pend.retain(|p| !(p.free && p.overlaps(at, len)));
                self.loans.push((at, len));
                // A plain store may reach memory long before its place in the program.
                for e in &trace.events[i + 1..] {
                    match *e {
                        Event::EndLoan { at: a, len: l } if (a, l) == (at, len) => break,
                        Event::Touched {
                            at: u, len: n, new, ..
                        } if u < at + len && at < u + u32::from(n) && !self.is_scratch(u) => {
                            let now = arena.unit(u, n);
                            let p = self.pend_at(u, n, now);
                            p.lent = true;
                            p.add_value(new);
                            if !planted!("powerfail/nothing-in-between") {
                                p.has_garbage = true;
                                p.add_value(garbage(new, n));
                            }
                        }
                        _ => {}
                    }
                }
            }
            Event::EndLoan { at, len } => {
                if let Some(k) = self.loans.iter().rposition(|l| *l == (at, len)) {
                    self.loans.remove(k);
                }
                let loans = &self.loans;
                self.pend.retain_mut(|p| {
                    if p.overlaps(at, len) && !loans.iter().any(|&(a, l)| p.overlaps(a, l)) {
                        p.lent = false;
                        // On media that persist in order, the writes are in memory now.
                        part_of(parts, p.at).buffered
                    } else {
                        true
                    }
                });
            }
            Event::Read { at, len } => self.pend.retain(|p| !(p.free && p.overlaps(at, len))),
            Event::Scratch { at, len } => {
                self.scratch.push((at, len));
                self.pend.retain(|p| !p.overlaps(at, len));
                let fill: Vec<u8> = (at..at + len)
                    .map(|a| (a.wrapping_mul(0x9e37_79b9) >> 13) as u8 | 1)
                    .collect();
                arena.put(at, &fill);
            }
            Event::Program {
                at, len, side, how, ..
            } => {
                arena.put(at, trace.old_new(side, len).1);
                if how.is_erase() {
                    self.unstable.erased(at);
                }
            }
            Event::Stable { at, len } => {
                self.unstable.settle(at, len);
            }
            Event::Unstable { at, len, side } => {
                self.unstable
                    .add(UnstableWord::new(at, trace.bytes(side, len)));
            }
            Event::Erased { at } => {
                self.unstable.erased(at);
            }
            Event::World(_) => {}
        }
    }
}

// INVARIANT "A fence is of its model": a fence settles the stores to media of its own model, and no
// others.
// Noticed by: `a_fence_of_one_medium_is_none_of_another` in tests/suite/mapped.rs.

/// Whether a fence of these media covers the medium at `at`.
fn fences(of: u32, parts: &[MediumInfo], at: u32) -> bool {
    of & bit(parts.partition_point(|p| p.at <= at) - 1) != 0
}

pub(crate) fn part_of(parts: &[MediumInfo], at: u32) -> &MediumInfo {
    &parts[parts.partition_point(|p| p.at <= at) - 1]
}

/// The open units that a run reads before it overwrites them, in that order.
pub(crate) fn read_first(free: &[OpenUnit], trace: &Trace) -> Vec<OpenUnit> {
    let mut open: Vec<&OpenUnit> = free.iter().collect();
    let mut read = Vec::new();
    for e in &trace.events {
        if open.is_empty() {
            break;
        }
        match *e {
            Event::Read { at, len } | Event::Lend { at, len } => open.retain(|p| {
                let hit = p.overlaps(at, len);
                if hit {
                    read.push((*p).clone());
                }
                !hit
            }),
            Event::Store { at, .. } | Event::Touched { at, .. } => open.retain(|p| p.at != at),
            _ => {}
        }
    }
    read
}
