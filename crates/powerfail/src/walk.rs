//! Walks along the record of a run and knows, at each instant, what a cut may leave.

use crate::arena::Arena;
use crate::torn::{Shaky, ShakySet};
use crate::trace::{Event, Part, Trace, bit};
use nvmem::planted;

/// A unit of which it is open what persisted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pend {
    pub(crate) at: u32,
    pub(crate) len: u8,
    /// What may be there; the first is the oldest.
    pub(crate) vals: Vec<u32>,
    /// In a range that is still lent.
    pub(crate) lent: bool,
    /// The last of the values is garbage that no event saw.
    pub(crate) wild: bool,
    /// Left open by an earlier cut and never looked at since: decided when it is read.
    pub(crate) free: bool,
}

impl Pend {
    fn may_be(&mut self, v: u32) {
        if !self.vals.contains(&v) {
            self.vals.push(v);
        }
    }
    fn inside(&self, at: u32, len: u32) -> bool {
        self.at < at + len && at < self.at + u32::from(self.len)
    }
}

/// The share of a lent unit's contents that no event saw: what a half-done computation left there.
fn garbage(v: u32, len: u8) -> u32 {
    let g = !v ^ 0x5a3c_96e1;
    if len == 2 { g & 0xffff } else { g }
}

pub(crate) struct Walk {
    pub(crate) pend: Vec<Pend>,
    pub(crate) shaky: ShakySet,
    loans: Vec<(u32, u32)>,
    scratch: Vec<(u32, u32)>,
}

impl Walk {
    pub(crate) fn new(free: Vec<Pend>, shaky: ShakySet) -> Self {
        Walk {
            pend: free,
            shaky,
            loans: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Whether `e` takes possibilities away, or changes the world: the state before it has to be judged.
    pub(crate) fn settles(&self, e: &Event, parts: &[Part]) -> bool {
        match *e {
            Event::Store { at, .. } => !part_of(parts, at).buffered,
            Event::World(_) => !planted!("powerfail/world-is-no-cut"),
            Event::Scratch { .. } | Event::Program { .. } => true,
            Event::Touched { .. }
            | Event::Steady { .. }
            | Event::Shaky { .. }
            | Event::Worn { .. } => false,
            Event::Fence { of } => self
                .pend
                .iter()
                .any(|p| !p.lent && !p.free && fences(of, parts, p.at)),
            Event::EndLoan { at, len } => {
                !part_of(parts, at).buffered && self.pend.iter().any(|p| p.inside(at, len))
            }
            Event::Read { at, len } | Event::Lend { at, len } => {
                self.pend.iter().any(|p| p.free && p.inside(at, len))
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

    /// Whether the life of a device is counted in events like `e`.
    pub(crate) fn ticks(e: &Event) -> bool {
        matches!(
            e,
            Event::Store { .. } | Event::World(_) | Event::Program { .. } | Event::Worn { .. }
        )
    }

    /// Whether less is open after `e`.
    pub(crate) fn forgets(e: &Event) -> bool {
        matches!(
            e,
            Event::Fence { .. } | Event::EndLoan { .. } | Event::Scratch { .. }
        )
    }

    fn pend_at(&mut self, at: u32, len: u8, old: u32) -> &mut Pend {
        let i = match self.pend.iter().position(|p| p.at == at) {
            Some(i) => i,
            None => {
                self.pend.push(Pend {
                    at,
                    len,
                    vals: vec![old],
                    lent: false,
                    free: false,
                    wild: false,
                });
                self.pend.len() - 1
            }
        };
        &mut self.pend[i]
    }

    fn is_scratch(&self, at: u32) -> bool {
        self.scratch.iter().any(|&(s, n)| at >= s && at < s + n)
    }

    /// Goes over event `i`. The arena then has the state in which everything so far persisted.
    pub(crate) fn step(&mut self, arena: &mut Arena, parts: &[Part], trace: &Trace, i: usize) {
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
                    p.may_be(new);
                } else if let Some(k) = self.pend.iter().position(|p| p.at == at) {
                    if self.pend[k].lent {
                        self.pend[k].may_be(new);
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
                p.may_be(new);
            }
            Event::Fence { of } => self
                .pend
                .retain(|p| p.lent || p.free || !fences(of, parts, p.at)),
            Event::Lend { at, len } => {
                self.pend.retain(|p| !(p.free && p.inside(at, len)));
                self.loans.push((at, len));
                // A plain store may reach memory long before the place where the program has it.
                for e in &trace.events[i + 1..] {
                    match *e {
                        Event::EndLoan { at: a, len: l } if (a, l) == (at, len) => break,
                        Event::Touched {
                            at: u, len: n, new, ..
                        } if u < at + len && at < u + u32::from(n) && !self.is_scratch(u) => {
                            let now = arena.unit(u, n);
                            let p = self.pend_at(u, n, now);
                            p.lent = true;
                            p.may_be(new);
                            if !planted!("powerfail/nothing-in-between") {
                                p.wild = true;
                                p.may_be(garbage(new, n));
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
                    if p.inside(at, len) && !loans.iter().any(|&(a, l)| p.inside(a, l)) {
                        p.lent = false;
                        // In order, what was written is in memory now.
                        part_of(parts, p.at).buffered
                    } else {
                        true
                    }
                });
            }
            Event::Read { at, len } => self.pend.retain(|p| !(p.free && p.inside(at, len))),
            Event::Scratch { at, len } => {
                self.scratch.push((at, len));
                self.pend.retain(|p| !p.inside(at, len));
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
                    self.shaky.erased(at);
                }
            }
            Event::Steady { at, len } => {
                self.shaky.settle(at, len);
            }
            Event::Shaky { at, len, side } => {
                self.shaky.add(Shaky::new(at, trace.bytes(side, len)));
            }
            Event::Worn { at } => {
                self.shaky.erased(at);
            }
            Event::World(_) => {}
        }
    }
}

/// Whether a fence of these media is one of what lies at `at`.
fn fences(of: u32, parts: &[Part], at: u32) -> bool {
    of & bit(parts.partition_point(|p| p.at <= at) - 1) != 0
}

pub(crate) fn part_of(parts: &[Part], at: u32) -> &Part {
    &parts[parts.partition_point(|p| p.at <= at) - 1]
}

/// Which of the open units a run reads before it overwrites them, in that order.
pub(crate) fn read_first(free: &[Pend], trace: &Trace) -> Vec<Pend> {
    let mut open: Vec<&Pend> = free.iter().collect();
    let mut read = Vec::new();
    for e in &trace.events {
        if open.is_empty() {
            break;
        }
        match *e {
            Event::Read { at, len } | Event::Lend { at, len } => open.retain(|p| {
                let hit = p.inside(at, len);
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
