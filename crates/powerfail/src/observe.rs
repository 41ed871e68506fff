//! Makes the record of a run from the reports of `nvmem` and the simulated devices.

use crate::fuse::Fuse;
use crate::preempt::Interrupt;
use crate::threads::Scheduler;
use crate::trace::{Event, Record, bit};
use nvmem::instrument::Observer;
use std::cell::RefCell;

/// The payload of the panic that ends a run with too many events.
pub(crate) struct Hung;

pub(crate) struct Recorder(
    pub(crate) RefCell<Record>,
    pub(crate) Fuse,
    pub(crate) Interrupt,
    pub(crate) Scheduler,
);

impl Recorder {
    pub(crate) fn new(rec: Record) -> Self {
        Recorder(
            RefCell::new(rec),
            Fuse::new(),
            Interrupt::new(),
            Scheduler::default(),
        )
    }

    /// Called before something persists or the world sees something.
    #[inline]
    pub(crate) fn tick(&self) {
        if self.1.is_out() {
            self.cut_thread();
        }
        self.1.tick(|| self.0.borrow().trace.events.len());
    }
}

impl Recorder {
    /// The medium's atomic unit, if it is smaller than a store of `len` bytes.
    #[inline]
    fn narrower(&self, at: *const u8, len: usize) -> Option<usize> {
        let r = self.0.borrow();
        let unit = usize::from(r.part_of(r.offset(at)?).unit);
        (unit < len).then_some(unit)
    }
}

impl Observer for Recorder {
    fn store(&self, at: *mut u8, new: &[u8]) {
        if let Some(unit) = self.narrower(at, new.len()) {
            // One store of the program becomes several stores of the medium, and a cut may come
            // between them.
            for (i, part) in new.chunks(unit).enumerate() {
                self.store(at.wrapping_add(i * unit), part);
            }
            return;
        }
        self.point();
        self.tick();
        let mut r = self.0.borrow_mut();
        let Some(at) = r.offset(at) else { return };
        r.scan_loans();
        let mut w = [0; 4];
        w[..new.len()].copy_from_slice(new);
        let (len, new) = (new.len() as u8, u32::from_le_bytes(w));
        if r.budget == 0 {
            // It is not recorded, so the shadow must not change either.
            r.hung = true;
            if std::thread::panicking() {
                return;
            }
            drop(r);
            std::panic::resume_unwind(Box::new(Hung));
        }
        r.cost.stores += 1;
        r.cost.bytes += u64::from(len);
        let old = r.arena.record_store(at, len, new);
        r.push(Event::Store { at, len, old, new });
    }
    fn fence(&self, model: &'static str) {
        self.point();
        let mut r = self.0.borrow_mut();
        r.scan_loans();
        r.cost.fences += 1;
        let fenced = r.parts.iter().enumerate().filter(|(_, p)| p.name == model);
        let of = fenced.fold(0, |of, (i, _)| of | bit(i));
        r.push(Event::Fence { of });
    }
    fn lend(&self, at: *mut u8, len: usize) {
        self.point();
        let mut r = self.0.borrow_mut();
        let Some(at) = r.offset(at) else { return };
        r.scan_loans();
        let len = len as u32;
        if len > 0 {
            r.cost.loans += 1;
            r.push(Event::Lend { at, len });
            r.loans.push((at, len));
        }
    }
    fn end_loan(&self, at: *mut u8, len: usize) {
        self.point();
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
        self.point();
        let mut r = self.0.borrow_mut();
        r.cost.reads += len as u64;
        if !r.record_reads {
            // A loop that only reads must exhaust the budget, too.
            if r.budget == 0 {
                r.hung = true;
                if std::thread::panicking() {
                    return;
                }
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
