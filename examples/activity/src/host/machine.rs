//! A device with simulated FRAM, whose power is cut after a number of stores.
//!
//! Instrumented stores of the libraries are counted when they happen. Writes through a lent `&mut`
//! are invisible until the loan ends; then a scan compares memory with the medium. If the power is
//! cut among them, a random subset persists.

use example_activity::Fram;
use nvmem::instrument::{Observer, observe};
use nvmem::{Model, Region, Unit};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

const UNIT: usize = <<Fram as Model>::Unit as Unit>::BYTES;

/// The value of blank bytes. Not zero, so that stores of zeros are detected.
const BLANK: u8 = 0xFF;

/// The panic payload that ends a run at a power cut.
struct PowerCut;

/// The FRAM and its power supply.
pub struct Machine {
    memory: Box<[MaybeUninit<u64>]>,
    meter: Rc<Meter>,
}

/// Counts stores and cuts the power.
pub struct Meter {
    /// The start of the region in this boot.
    base: Cell<*mut u8>,
    /// The medium's contents. They differ from memory after a write through a lent `&mut` that was
    /// not scanned yet, and after a power cut.
    medium: RefCell<Vec<u8>>,
    loans: RefCell<Vec<(usize, usize)>>,
    /// Stores until the power is cut.
    stores_left: Cell<u64>,
    power_off: Cell<bool>,
    /// The number of stores in this boot until recovery was complete.
    stores_to_open: Cell<Option<u64>>,
    stores_at_boot: Cell<u64>,
    /// Units written by the program in the current step.
    step_units: RefCell<BTreeSet<usize>>,
    /// Units written in a step that was cut, and not written again yet.
    interrupted_units: RefCell<BTreeSet<usize>>,
    random_state: Cell<u64>,
    count: Cell<Count>,
}

/// Stores of atomic units, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// By the libraries and by the program.
    pub stores: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// The part of `bytes` that the program wrote itself, through `&mut`.
    pub by_program: u64,
}

impl std::ops::Add for Count {
    type Output = Count;
    fn add(self, other: Count) -> Count {
        Count {
            stores: self.stores + other.stores,
            bytes: self.bytes + other.bytes,
            by_program: self.by_program + other.by_program,
        }
    }
}

impl Machine {
    /// A blank medium.
    pub fn new(len: usize) -> Self {
        Self::with_image(&vec![BLANK; len.next_multiple_of(8)], 0)
    }

    /// A medium with these contents. `seed` starts the random numbers.
    pub fn with_image(image: &[u8], seed: u64) -> Self {
        let words = image.as_chunks::<8>().0.iter();
        let words = words.map(|w| MaybeUninit::new(u64::from_ne_bytes(*w)));
        let meter = Rc::new(Meter {
            base: Cell::new(std::ptr::null_mut()),
            medium: RefCell::new(image.to_vec()),
            loans: RefCell::default(),
            stores_left: Cell::new(u64::MAX),
            power_off: Cell::new(false),
            stores_to_open: Cell::default(),
            stores_at_boot: Cell::default(),
            step_units: RefCell::default(),
            interrupted_units: RefCell::default(),
            random_state: Cell::new(seed),
            count: Cell::default(),
        });
        Machine {
            memory: words.collect(),
            meter,
        }
    }

    /// Runs `program` on the medium until it ends, or until `stores` units are stored; then returns
    /// `None`. Only the medium survives, without stores made after the cut, for example by
    /// destructors.
    pub fn boot<R>(
        &mut self,
        stores: Option<u64>,
        program: impl FnOnce(Region<'_, Fram>, &Meter) -> R,
    ) -> Option<R> {
        let meter = &*self.meter;
        meter.stores_left.set(stores.unwrap_or(u64::MAX));
        meter.power_off.set(false);
        meter.stores_to_open.set(None);
        meter.stores_at_boot.set(meter.count.get().stores);
        meter.loans.borrow_mut().clear();
        let region = Region::new(&mut self.memory);
        meter.base.set(region.base());
        let run = || {
            observe(meter, || {
                let r = program(region, meter);
                meter.scan_loans();
                r
            })
        };
        let r = catch_unwind(AssertUnwindSafe(run));
        self.restore();
        match r {
            Ok(r) => Some(r),
            Err(e) if e.is::<PowerCut>() => None,
            Err(e) => resume_unwind(e),
        }
    }

    /// Copies the medium's contents to memory.
    fn restore(&mut self) {
        let medium = self.meter.medium.borrow();
        for (word, bytes) in self.memory.iter_mut().zip(medium.as_chunks::<8>().0) {
            *word = MaybeUninit::new(u64::from_ne_bytes(*bytes));
        }
    }

    /// The meter of the medium.
    pub fn meter(&self) -> &Rc<Meter> {
        &self.meter
    }

    /// The medium's contents.
    pub fn image(&self) -> Vec<u8> {
        self.meter.medium.borrow().clone()
    }

    /// The number of units that the last boot stored until recovery was complete; `None` if it was
    /// cut before.
    pub fn opened(&self) -> Option<u64> {
        self.meter.stores_to_open.get()
    }

    /// A random number below `below`.
    pub fn random(&self, below: u64) -> u64 {
        self.meter.random(below.max(1) as usize) as u64
    }

    /// The stores since the machine was created.
    pub fn count(&self) -> Count {
        self.meter.count()
    }
}

impl Meter {
    /// Called when recovery is complete.
    pub fn opened(&self) {
        let stores = self.count.get().stores - self.stores_at_boot.get();
        self.stores_to_open.set(Some(stores));
    }

    /// Called when a step begins: the one before is committed.
    pub fn step(&self) {
        self.step_units.borrow_mut().clear();
        self.interrupted_units.borrow_mut().clear();
    }

    /// The stores so far.
    pub fn count(&self) -> Count {
        self.count.get()
    }

    /// Scans the whole medium for writes without a loan, as a pool makes during its format.
    pub fn scan_all(&self) {
        if !self.power_off.get() {
            let all = self.medium.borrow().len();
            self.scan(0, all);
        }
    }

    fn offset(&self, at: *const u8) -> usize {
        at as usize - self.base.get() as usize
    }

    /// Stores one unit on the medium.
    fn store_unit(&self, at: usize, new: &[u8], by_program: bool) {
        self.medium.borrow_mut()[at..at + new.len()].copy_from_slice(new);
        let mut c = self.count.get();
        c.stores += 1;
        c.bytes += new.len() as u64;
        if by_program {
            c.by_program += new.len() as u64;
            self.step_units.borrow_mut().insert(at);
        }
        self.count.set(c);
        self.stores_left.set(self.stores_left.get() - 1);
    }

    fn cut(&self) {
        self.power_off.set(true);
        self.interrupted_units
            .borrow_mut()
            .append(&mut self.step_units.borrow_mut());
        // A second panic would abort.
        if !std::thread::panicking() {
            resume_unwind(Box::new(PowerCut));
        }
    }

    /// Stores the units that were written through a loan. Their order is unknown: if the power is
    /// cut among them, any of them may persist.
    fn scan(&self, at: usize, len: usize) {
        let (from, to) = (at / UNIT * UNIT, (at + len).next_multiple_of(UNIT));
        let mut changed = Vec::new();
        for unit in (from..to).step_by(UNIT) {
            let mut live = [0; UNIT];
            for (i, byte) in live.iter_mut().enumerate() {
                // SAFETY: inside the medium, whose bytes are all initialised. Volatile, because a
                // lent `&mut` may have written it.
                *byte = unsafe { self.base.get().add(unit + i).read_volatile() };
            }
            // Storing an equal value does not change memory: a repeated step's units count as
            // stored again.
            let repeated = self.interrupted_units.borrow_mut().remove(&unit);
            if repeated || self.medium.borrow()[unit..unit + UNIT] != live {
                changed.push((unit, live));
            }
        }
        let room = usize::try_from(self.stores_left.get()).unwrap_or(usize::MAX);
        let dies = changed.len() > room;
        while changed.len() > room {
            let (unit, _) = changed.swap_remove(self.random(changed.len()));
            self.step_units.borrow_mut().insert(unit);
        }
        for (unit, live) in changed {
            self.store_unit(unit, &live, true);
        }
        if dies {
            self.cut();
        }
    }

    fn scan_loans(&self) {
        for i in 0.. {
            let Some((at, len)) = self.loans.borrow().get(i).copied() else {
                break;
            };
            self.scan(at, len);
        }
    }

    fn random(&self, below: usize) -> usize {
        // SplitMix64: neighbouring seeds give unrelated sequences.
        let state = self.random_state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random_state.set(state);
        let v = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let v = (v ^ v >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((v ^ v >> 31) % below as u64) as usize
    }
}

impl Observer for Meter {
    fn store(&self, at: *mut u8, new: &[u8]) {
        if self.power_off.get() {
            return;
        }
        self.scan_loans();
        if self.stores_left.get() == 0 {
            return self.cut();
        }
        self.store_unit(self.offset(at), new, false);
    }
    fn lend(&self, at: *mut u8, len: usize) {
        if !self.power_off.get() {
            self.loans.borrow_mut().push((self.offset(at), len));
        }
    }
    fn end_loan(&self, at: *mut u8, len: usize) {
        if self.power_off.get() {
            return;
        }
        let range = (self.offset(at), len);
        self.scan(range.0, len);
        let mut loans = self.loans.borrow_mut();
        if let Some(i) = loans.iter().rposition(|l| *l == range) {
            loans.remove(i);
        }
    }
}
