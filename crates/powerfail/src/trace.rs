//! The record of one run, and the observer that makes it.

use crate::arena::Arena;
use nvmem::instrument::Observer;
use std::cell::RefCell;

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
    /// Everything before persists before everything after.
    Fence,
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
}

/// Payload of the panic that ends a run which makes no end.
pub(crate) struct Hung;

pub(crate) struct Rec {
    pub(crate) arena: Arena,
    pub(crate) parts: Vec<Part>,
    pub(crate) trace: Vec<Event>,
    pub(crate) loans: Vec<(u32, u32)>,
    pub(crate) want_reads: bool,
    /// Events that are left before the run counts as hanging.
    pub(crate) budget: usize,
    pub(crate) hung: bool,
}

pub(crate) struct Recorder(pub(crate) RefCell<Rec>);

impl Rec {
    pub(crate) fn part_of(&self, at: u32) -> &Part {
        let i = self.parts.partition_point(|p| p.at <= at);
        &self.parts[i - 1]
    }

    fn offset(&self, at: *const u8) -> Option<u32> {
        let off = (at as usize).wrapping_sub(self.arena.base() as usize);
        (off < self.arena.len()).then_some(off as u32)
    }

    fn push(&mut self, e: Event) {
        if self.budget == 0 {
            self.hung = true;
            std::panic::resume_unwind(Box::new(Hung));
        }
        self.budget -= 1;
        self.trace.push(e);
    }

    /// Looks for units that the user has written in the range.
    fn scan(&mut self, at: u32, len: u32) {
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

    /// Takes a run's stores back.
    pub(crate) fn undo(&mut self, trace: &[Event]) {
        for e in trace.iter().rev() {
            if let Event::Store { at, len, old, .. } | Event::Touched { at, len, old, .. } = *e {
                self.arena.undo(at, &old.to_le_bytes()[..len as usize]);
            }
        }
    }
}

impl Observer for Recorder {
    fn store(&self, at: *mut u8, new: &[u8]) {
        let mut r = self.0.borrow_mut();
        let Some(at) = r.offset(at) else { return };
        r.scan_loans();
        let mut w = [0; 4];
        w[..new.len()].copy_from_slice(new);
        let (len, new) = (new.len() as u8, u32::from_le_bytes(w));
        if r.budget == 0 {
            r.hung = true;
            drop(r);
            std::panic::resume_unwind(Box::new(Hung));
        }
        let old = r.arena.expect(at, len, new);
        r.push(Event::Store { at, len, old, new });
    }
    fn fence(&self) {
        let mut r = self.0.borrow_mut();
        r.scan_loans();
        r.push(Event::Fence);
    }
    fn lend(&self, at: *mut u8, len: usize) {
        let mut r = self.0.borrow_mut();
        let Some(at) = r.offset(at) else { return };
        r.scan_loans();
        let len = len as u32;
        if len > 0 {
            r.push(Event::Lend { at, len });
            r.loans.push((at, len));
        }
    }
    fn end_loan(&self, at: *mut u8, len: usize) {
        let mut r = self.0.borrow_mut();
        let Some(at) = r.offset(at) else { return };
        let len = len as u32;
        r.scan_loans();
        if let Some(i) = r.loans.iter().rposition(|l| *l == (at, len)) {
            r.loans.remove(i);
            r.scan(at, len);
            r.push(Event::EndLoan { at, len });
        }
    }
    fn read(&self, at: *const u8, len: usize) {
        let mut r = self.0.borrow_mut();
        if !r.want_reads {
            // A loop that only reads must end, too.
            if r.budget == 0 {
                r.hung = true;
                drop(r);
                std::panic::resume_unwind(Box::new(Hung));
            }
            r.budget -= 1;
            return;
        }
        let Some(at) = r.offset(at) else { return };
        r.push(Event::Read {
            at,
            len: len as u32,
        });
    }
    fn scratch(&self, at: *mut u8, len: usize) {
        let mut r = self.0.borrow_mut();
        let Some(at) = r.offset(at) else { return };
        r.push(Event::Scratch {
            at,
            len: len as u32,
        });
    }
}
