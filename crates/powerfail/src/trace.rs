//! The record of one run: its events, and the recorder's state during the run.
//!
//! ```text
//!  events: | Store | Store | Fence | Lend | Touched | EndLoan | Program | World | ...
//!  side:   | old bytes, new bytes of Program | second contents of unstable words | ...
//! ```
//!
//! A record is enough to rebuild the image at each instant of the run, and to undo the run in
//! reverse.

use crate::arena::Arena;
use crate::cost::Cost;
use crate::observe::Hung;
use crate::source;
use crate::torn::{EraseTear, Policy, Tear, UnstableWord, UnstableWords, program};

/// One event of a run. Offsets count from the first medium's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A store by the library: one atomic unit.
    Store {
        at: u32,
        len: u8,
        old: u32,
        new: u32,
    },
    /// A unit in a lent range was found changed. The instant of the store is unknown.
    Touched {
        at: u32,
        len: u8,
        old: u32,
        new: u32,
    },
    /// All earlier stores persist before all later ones, on the media of these bits.
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
    /// The world has the value with this number from here on.
    World(u32),
    Read {
        at: u32,
        len: u32,
    },
    Scratch {
        at: u32,
        len: u32,
    },
    /// A device programs or erases `len` bytes. The old and new content are in the trace at `side`.
    Program {
        at: u32,
        len: u32,
        side: u32,
        burst: u32,
        how: Tear,
    },
    /// The range is stable from here on.
    Stable {
        at: u32,
        len: u32,
    },
    /// The range is unstable. Its second content is in the trace at `side`.
    Unstable {
        at: u32,
        len: u32,
        side: u32,
    },
    /// An erase unit was erased by the stores recorded before this.
    Erased {
        at: u32,
    },
}

/// The events of a run, and their bytes.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) events: Vec<Event>,
    pub(crate) side: Vec<u8>,
}

impl Trace {
    pub(crate) fn bytes(&self, side: u32, len: u32) -> &[u8] {
        &self.side[side as usize..][..len as usize]
    }
    /// The content before and after an [`Event::Program`].
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

/// The engine's description of a medium.
#[derive(Debug, Clone)]
pub(crate) struct MediumInfo {
    pub(crate) name: &'static str,
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// Bytes of an atomic unit.
    pub(crate) unit: u8,
    pub(crate) buffered: bool,
    /// The most erases of an erase unit, if limited.
    pub(crate) endurance: Option<u32>,
    /// A refused call is a failure.
    pub(crate) refusal_fails: bool,
}

impl MediumInfo {
    /// A medium with units of one byte; its offset is set later.
    pub(crate) fn of(name: &'static str) -> MediumInfo {
        MediumInfo {
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

/// The bit of a medium in [`Event::Fence`].
pub(crate) fn bit(part: usize) -> u32 {
    1_u32.checked_shl(part as u32).unwrap_or(0)
}

pub(crate) struct Record {
    pub(crate) arena: Arena,
    pub(crate) parts: Vec<MediumInfo>,
    pub(crate) trace: Trace,
    pub(crate) unstable: UnstableWords,
    pub(crate) policy: Policy,
    /// The run read an unstable word.
    pub(crate) read_unstable: bool,
    pub(crate) cost: Cost,
    burst: u32,
    pub(crate) loans: Vec<(u32, u32)>,
    pub(crate) record_reads: bool,
    /// The events left before the run counts as not ending.
    pub(crate) budget: usize,
    pub(crate) hung: bool,
    /// The event whose place in the program is wanted, and that place.
    pub(crate) wanted: Option<usize>,
    pub(crate) place: Vec<String>,
}

impl Record {
    pub(crate) fn part_of(&self, at: u32) -> &MediumInfo {
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
                // A second panic would abort the process, and the run has failed already.
                return;
            }
            std::panic::resume_unwind(Box::new(Hung));
        }
        self.budget -= 1;
        if self.wanted == Some(self.trace.events.len()) {
            self.place = source::here();
        }
        self.trace.events.push(e);
    }

    /// Records the units that the user has changed in the range.
    pub(crate) fn scan(&mut self, at: u32, len: u32) {
        let part = self.part_of(at);
        let unit = u32::from(part.unit);
        let end = (at + len).next_multiple_of(unit).min(part.at + part.len);
        let mut u = at / unit * unit;
        while u < end {
            // SAFETY: lent ranges hold initialised bytes. Under Miri this runs only after the
            // loan's end.
            let new = unsafe { self.arena.live(u, unit as u8) };
            let old = self.arena.unit(u, unit as u8);
            if new != old {
                self.arena.record_store(u, unit as u8, new);
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

    /// Records changes in all lent ranges. Not under Miri, where reading would invalidate the
    /// user's reference.
    pub(crate) fn scan_loans(&mut self) {
        if cfg!(miri) {
            return;
        }
        for i in 0..self.loans.len() {
            let (at, len) = self.loans[i];
            self.scan(at, len);
        }
    }

    /// Ends all loans at the end of a run.
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

    /// Undoes and removes the events from `from` on.
    #[cfg(miri)]
    pub(crate) fn forget(&mut self, from: usize) {
        let mut rest = Trace::default();
        std::mem::swap(&mut rest.side, &mut self.trace.side);
        rest.events = self.trace.events.split_off(from);
        self.undo(&rest);
        self.trace.side = rest.side;
    }

    /// Undoes the stores of a run.
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

    /// Prepares for a boot of the state in the arena.
    pub(crate) fn reset(
        &mut self,
        budget: usize,
        record_reads: bool,
        unstable: &UnstableWords,
        p: Policy,
    ) {
        self.trace.clear();
        self.loans.clear();
        self.unstable.clone_from(unstable);
        self.policy = p;
        self.read_unstable = false;
        self.cost = Cost::default();
        self.burst = 0;
        self.record_reads = record_reads;
        self.hung = false;
        self.budget = budget;
    }

    pub(crate) fn new(arena: Arena, parts: Vec<MediumInfo>) -> Self {
        Record {
            arena,
            parts,
            trace: Trace::default(),
            unstable: UnstableWords::default(),
            policy: Policy::default(),
            read_unstable: false,
            cost: Cost::default(),
            burst: 0,
            loans: Vec::new(),
            record_reads: false,
            budget: 0,
            hung: false,
            wanted: None,
            place: Vec::new(),
        }
    }

    /// Counts a command to a device.
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
        self.read_unstable |= self.unstable.read(self.policy, at, buf);
    }

    /// Records a read of open units by the device itself, because the run depends on them.
    pub(crate) fn device_inspects(&mut self, at: u32, len: u32) {
        if self.record_reads {
            self.push(Event::Read { at, len });
        }
    }

    /// Stores bytes in one atomic unit of a device. With `erased`, bits only change away from that
    /// value.
    pub(crate) fn device_store(&mut self, at: u32, bytes: &[u8], erased: Option<u8>) {
        self.cost.stores += 1;
        self.cost.bytes += bytes.len() as u64;
        let part = self.part_of(at);
        let (unit, buffered) = (part.unit, part.buffered);
        let start = at - at % u32::from(unit);
        let whole = bytes.len() == usize::from(unit);
        if buffered && !(whole && erased.is_none()) {
            self.device_inspects(start, unit.into());
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

    /// Drains the write buffer of the device at `at`.
    pub(crate) fn device_drain(&mut self, at: u32) {
        self.cost.fences += 1;
        let i = self.parts.partition_point(|p| p.at <= at) - 1;
        self.push(Event::Fence { of: bit(i) });
    }

    pub(crate) fn is_erased(&self, at: u32, len: u32, erased: u8) -> bool {
        let here = &self.arena.bytes()[at as usize..][..len as usize];
        here.iter().all(|b| *b == erased)
            || self.unstable.alt(at, here).iter().all(|b| *b == erased)
    }

    /// Programs `new`. With `erased`, bits only change away from that value.
    pub(crate) fn program(&mut self, at: u32, new: &[u8], erased: Option<u8>, how: Tear) {
        self.cost.stores += 1;
        self.cost.bytes += new.len() as u64;
        let is = self.arena.bytes()[at as usize..][..new.len()].to_vec();
        let alt = self.unstable.alt(at, &is);
        let (now, other) = match erased {
            Some(erased) => (program(&is, new, erased), program(&alt, new, erased)),
            None => (new.to_vec(), new.to_vec()),
        };
        self.change(at, &is, &now, how);
        if alt != is {
            self.push(Event::Stable {
                at,
                len: now.len() as u32,
            });
            self.unstable.settle(at, now.len() as u32);
        }
        if other != now {
            let side = self.trace.keep(&other);
            self.push(Event::Unstable {
                at,
                len: now.len() as u32,
                side,
            });
            self.unstable.add(UnstableWord::new(at, &other));
        }
    }

    /// Erases a unit. Returns how often it was erased.
    pub(crate) fn erase(&mut self, at: u32, len: u32, erased: u8, how: EraseTear) -> u32 {
        self.burst();
        self.cost.erases += 1;
        let is = self.arena.bytes()[at as usize..][..len as usize].to_vec();
        self.change(at, &is, &vec![erased; len as usize], Tear::Erase(how));
        if self.unstable.settle(at, len) {
            self.push(Event::Stable { at, len });
        }
        self.unstable.erased(at)
    }

    /// [`erase`](Self::erase) on a device with a write buffer: each of the unit's atomic units is
    /// open until the device is drained.
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
        self.push(Event::Erased { at });
        self.unstable.erased(at)
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
