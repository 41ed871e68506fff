//! The record of one run.

use crate::arena::Arena;
use crate::cost::Cost;
use crate::observe::Hung;
use crate::torn::{Policy, Shaky, ShakySet, Tear, Wipe, program};

/// One event of a run. Offsets count from the start of the first medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A store of the library: one atomic unit.
    Store {
        at: u32,
        len: u8,
        old: u32,
        new: u32,
    },
    /// A unit in a lent range was found changed; when it was stored is not known.
    Touched {
        at: u32,
        len: u8,
        old: u32,
        new: u32,
    },
    /// Everything before persists before everything after, on the media that these bits stand for.
    Fence {
        of: u32,
    },
    Lend {
        at: u32,
        len: u32,
    },
    EndLoan {
        at: u32,
        len: u32,
    },
    /// The world has the value of this number from here on.
    World(u32),
    Read {
        at: u32,
        len: u32,
    },
    Scratch {
        at: u32,
        len: u32,
    },
    /// A device programs or erases `len` bytes; old and new content are in the trace at `side`.
    Program {
        at: u32,
        len: u32,
        side: u32,
        burst: u32,
        how: Tear,
    },
    /// Nothing in the range is unstable any more.
    Steady {
        at: u32,
        len: u32,
    },
    /// The range may read another way, which is in the trace at `side`.
    Shaky {
        at: u32,
        len: u32,
        side: u32,
    },
    /// An erase unit was erased by stores that are in the record before this.
    Worn {
        at: u32,
    },
}

/// The record of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) events: Vec<Event>,
    pub(crate) side: Vec<u8>,
}

impl Trace {
    pub(crate) fn bytes(&self, side: u32, len: u32) -> &[u8] {
        &self.side[side as usize..][..len as usize]
    }
    /// Content before and after a [`Event::Program`].
    pub(crate) fn old_new(&self, side: u32, len: u32) -> (&[u8], &[u8]) {
        (self.bytes(side, len), self.bytes(side + len, len))
    }
    fn clear(&mut self) {
        self.events.clear();
        self.side.clear();
    }
    fn keep(&mut self, bytes: &[u8]) -> u32 {
        let at = self.side.len() as u32;
        self.side.extend_from_slice(bytes);
        at
    }
}

/// What the engine knows of each medium.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// Bytes of an atomic unit.
    pub(crate) unit: u8,
    pub(crate) buffered: bool,
    /// How often an erase unit may be erased, when that is to be kept.
    pub(crate) endurance: Option<u32>,
    /// A call that a device refuses is a failure.
    pub(crate) refusal_fails: bool,
}

impl Part {
    /// A medium of bytes, which is placed later.
    pub(crate) fn of(name: &'static str) -> Part {
        Part {
            name,
            at: 0,
            len: 0,
            unit: 1,
            buffered: false,
            endurance: None,
            refusal_fails: false,
        }
    }
}

/// The bits of a unit of so many bytes.
fn mask(unit: u8) -> u32 {
    u32::MAX >> (32 - 8 * u32::from(unit))
}

/// What stands for a medium in [`Event::Fence`].
pub(crate) fn bit(part: usize) -> u32 {
    1_u32.checked_shl(part as u32).unwrap_or(0)
}

pub(crate) struct Rec {
    pub(crate) arena: Arena,
    pub(crate) parts: Vec<Part>,
    pub(crate) trace: Trace,
    pub(crate) shaky: ShakySet,
    pub(crate) policy: Policy,
    /// Something unstable was read.
    pub(crate) shook: bool,
    pub(crate) cost: Cost,
    burst: u32,
    pub(crate) loans: Vec<(u32, u32)>,
    pub(crate) want_reads: bool,
    /// Events that are left before the run counts as hanging.
    pub(crate) budget: usize,
    pub(crate) hung: bool,
}

impl Rec {
    pub(crate) fn part_of(&self, at: u32) -> &Part {
        let i = self.parts.partition_point(|p| p.at <= at);
        &self.parts[i - 1]
    }

    pub(crate) fn offset(&self, at: *const u8) -> Option<u32> {
        let off = (at as usize).wrapping_sub(self.arena.base() as usize);
        (off < self.arena.len()).then_some(off as u32)
    }

    pub(crate) fn push(&mut self, e: Event) {
        if self.budget == 0 {
            self.hung = true;
            if std::thread::panicking() {
                // A second panic would end the process; the run has failed anyway.
                return;
            }
            std::panic::resume_unwind(Box::new(Hung));
        }
        self.budget -= 1;
        self.trace.events.push(e);
    }

    /// Looks for units that the user has written in the range.
    pub(crate) fn scan(&mut self, at: u32, len: u32) {
        let part = self.part_of(at);
        let unit = u32::from(part.unit);
        let end = (at + len).next_multiple_of(unit).min(part.at + part.len);
        let mut u = at / unit * unit;
        while u < end {
            // SAFETY: lent ranges hold initialised bytes; under Miri only called when the loan is over.
            let new = unsafe { self.arena.live(u, unit as u8) };
            let old = self.arena.unit(u, unit as u8);
            if new != old {
                self.arena.expect(u, unit as u8, new);
                self.cost.lent_bytes += u64::from(unit);
                self.push(Event::Touched {
                    at: u,
                    len: unit as u8,
                    old,
                    new,
                });
            }
            u += unit;
        }
    }

    /// Under Miri a look at a lent range would take the loan away from the user.
    pub(crate) fn scan_loans(&mut self) {
        if cfg!(miri) {
            return;
        }
        for i in 0..self.loans.len() {
            let (at, len) = self.loans[i];
            self.scan(at, len);
        }
    }

    /// When a run is over, its loans are.
    pub(crate) fn close(&mut self) {
        self.budget = usize::MAX;
        while let Some((at, len)) = self.loans.pop() {
            self.scan(at, len);
        }
    }

    pub(crate) fn world(&mut self, number: u32) {
        self.scan_loans();
        self.push(Event::World(number));
    }

    /// Takes back what the record has from event `from` on.
    #[cfg(miri)]
    pub(crate) fn forget(&mut self, from: usize) {
        let mut rest = Trace::default();
        std::mem::swap(&mut rest.side, &mut self.trace.side);
        rest.events = self.trace.events.split_off(from);
        self.undo(&rest);
        self.trace.side = rest.side;
    }

    /// Takes a run's stores back.
    pub(crate) fn undo(&mut self, trace: &Trace) {
        for e in trace.events.iter().rev() {
            match *e {
                Event::Store { at, len, old, .. } | Event::Touched { at, len, old, .. } => {
                    self.arena.undo(at, &old.to_le_bytes()[..len as usize]);
                }
                Event::Program { at, len, side, .. } => self.arena.undo(at, trace.bytes(side, len)),
                _ => {}
            }
        }
    }

    /// Ready for a boot of what is in the arena.
    pub(crate) fn reset(&mut self, budget: usize, want_reads: bool, shaky: &ShakySet, p: Policy) {
        self.trace.clear();
        self.loans.clear();
        self.shaky.clone_from(shaky);
        self.policy = p;
        self.shook = false;
        self.cost = Cost::default();
        self.burst = 0;
        self.want_reads = want_reads;
        self.hung = false;
        self.budget = budget;
    }

    pub(crate) fn new(arena: Arena, parts: Vec<Part>) -> Self {
        Rec {
            arena,
            parts,
            trace: Trace::default(),
            shaky: ShakySet::default(),
            policy: Policy::default(),
            shook: false,
            cost: Cost::default(),
            burst: 0,
            loans: Vec::new(),
            want_reads: false,
            budget: 0,
            hung: false,
        }
    }

    /// One command of a device begins.
    pub(crate) fn burst(&mut self) {
        self.burst += 1;
        self.cost.bursts += 1;
    }

    pub(crate) fn device_read(&mut self, at: u32, buf: &mut [u8]) {
        self.cost.reads += buf.len() as u64;
        self.push(Event::Read {
            at,
            len: buf.len() as u32,
        });
        buf.copy_from_slice(&self.arena.bytes()[at as usize..][..buf.len()]);
        self.shook |= self.shaky.read(self.policy, at, buf);
    }

    /// A run that depends on what is open there has to know it.
    pub(crate) fn device_looks(&mut self, at: u32, len: u32) {
        if self.want_reads {
            self.push(Event::Read { at, len });
        }
    }

    /// Stores bytes that lie in one atomic unit of a device. With `erased`, bits only go away from that value.
    pub(crate) fn device_store(&mut self, at: u32, bytes: &[u8], erased: Option<u8>) {
        self.cost.stores += 1;
        self.cost.bytes += bytes.len() as u64;
        let part = self.part_of(at);
        let (unit, buffered) = (part.unit, part.buffered);
        let start = at - at % u32::from(unit);
        let whole = bytes.len() == usize::from(unit);
        if buffered && !(whole && erased.is_none()) {
            self.device_looks(start, unit.into());
        }
        let old = self.arena.unit(start, unit);
        let mut now = old.to_le_bytes();
        let to = &mut now[(at - start) as usize..][..bytes.len()];
        match erased {
            Some(erased) => to.copy_from_slice(&program(to, bytes, erased)),
            None => to.copy_from_slice(bytes),
        }
        self.push(Event::Store {
            at: start,
            len: unit,
            old,
            new: u32::from_le_bytes(now),
        });
        self.arena.undo(start, &now[..usize::from(unit)]);
    }

    /// Everything before is drained to the device at `at`.
    pub(crate) fn device_drain(&mut self, at: u32) {
        self.cost.fences += 1;
        let i = self.parts.partition_point(|p| p.at <= at) - 1;
        self.push(Event::Fence { of: bit(i) });
    }

    pub(crate) fn is_erased(&self, at: u32, len: u32, erased: u8) -> bool {
        let here = &self.arena.bytes()[at as usize..][..len as usize];
        here.iter().all(|b| *b == erased) || self.shaky.alt(at, here).iter().all(|b| *b == erased)
    }

    /// Programs `new`. With `erased`, bits only go away from that value.
    pub(crate) fn program(&mut self, at: u32, new: &[u8], erased: Option<u8>, how: Tear) {
        self.cost.stores += 1;
        self.cost.bytes += new.len() as u64;
        let is = self.arena.bytes()[at as usize..][..new.len()].to_vec();
        let alt = self.shaky.alt(at, &is);
        let (now, other) = match erased {
            Some(erased) => (program(&is, new, erased), program(&alt, new, erased)),
            None => (new.to_vec(), new.to_vec()),
        };
        self.change(at, &is, &now, how);
        if alt != is {
            self.push(Event::Steady {
                at,
                len: now.len() as u32,
            });
            self.shaky.settle(at, now.len() as u32);
        }
        if other != now {
            let side = self.trace.keep(&other);
            self.push(Event::Shaky {
                at,
                len: now.len() as u32,
                side,
            });
            self.shaky.add(Shaky::new(at, &other));
        }
    }

    /// For the how-many-th time that unit is erased.
    pub(crate) fn erase(&mut self, at: u32, len: u32, erased: u8, how: Wipe) -> u32 {
        self.burst();
        self.cost.erases += 1;
        let is = self.arena.bytes()[at as usize..][..len as usize].to_vec();
        self.change(at, &is, &vec![erased; len as usize], Tear::Erase(how));
        if self.shaky.settle(at, len) {
            self.push(Event::Steady { at, len });
        }
        self.shaky.erased(at)
    }

    /// The same on a device that holds back what it is given: of each of its units, it is open until it is drained.
    pub(crate) fn erase_later(&mut self, at: u32, len: u32, erased: u8) -> u32 {
        self.burst();
        self.cost.erases += 1;
        let part = self.part_of(at);
        let (unit, end) = (part.unit, (at + len).min(part.at + part.len));
        for u in (at..end).step_by(unit.into()) {
            let old = self.arena.unit(u, unit);
            let new = [erased; 4];
            self.push(Event::Store {
                at: u,
                len: unit,
                old,
                new: u32::from_le_bytes(new) & mask(unit),
            });
            self.arena.undo(u, &new[..usize::from(unit)]);
        }
        self.push(Event::Worn { at });
        self.shaky.erased(at)
    }

    fn change(&mut self, at: u32, is: &[u8], now: &[u8], how: Tear) {
        let side = self.trace.keep(is);
        self.trace.keep(now);
        self.push(Event::Program {
            at,
            len: now.len() as u32,
            side,
            burst: self.burst,
            how,
        });
        self.arena.undo(at, now);
    }
}
