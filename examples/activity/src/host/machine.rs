//! A device with simulated FRAM, whose power goes after a number of stores.

use example_activity::Fram;
use nvmem::instrument::{Observer, observe};
use nvmem::{Model, Region, Unit};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

const UNIT: usize = <<Fram as Model>::Unit as Unit>::BYTES;

/// What a blank medium is filled with: not zero, so that storing zeros is seen to be a store.
const BLANK: u8 = 0xFF;

/// The payload of the unwinding that ends a run when the power goes.
struct PowerCut;

/// The FRAM, and the power supply.
pub struct Machine {
    memory: Box<[MaybeUninit<u64>]>,
    meter: Rc<Meter>,
}

/// What is stored, and how much.
pub struct Meter {
    /// Where the region of this boot is.
    base: Cell<*mut u8>,
    /// What the medium holds: it differs from memory where a lent `&mut` was written through and not looked at yet, and
    /// after the power has gone.
    held: RefCell<Vec<u8>>,
    loans: RefCell<Vec<(usize, usize)>>,
    /// Stores until the power goes.
    left: Cell<u64>,
    dead: Cell<bool>,
    /// Stores of this boot when the program said that recovery is over.
    opened: Cell<Option<u64>>,
    booted: Cell<u64>,
    /// Units that the program has written in the current step.
    written: RefCell<BTreeSet<usize>>,
    /// Units that it wrote in a step that was cut and has not done again.
    again: RefCell<BTreeSet<usize>>,
    chance: Cell<u64>,
    count: Cell<Count>,
}

/// Stores of atomic units, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// By the libraries and by the program.
    pub stores: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// Of `bytes`, what the program wrote itself, through `&mut`.
    pub programs: u64,
}

impl std::ops::Add for Count {
    type Output = Count;
    fn add(self, other: Count) -> Count {
        Count {
            stores: self.stores + other.stores,
            bytes: self.bytes + other.bytes,
            programs: self.programs + other.programs,
        }
    }
}

impl Machine {
    /// A blank medium.
    pub fn new(len: usize) -> Self {
        Self::with(&vec![BLANK; len.next_multiple_of(8)], 0)
    }

    /// A medium that holds this already. `seed` decides what chance decides.
    pub fn with(image: &[u8], seed: u64) -> Self {
        let words = image.as_chunks::<8>().0.iter();
        let words = words.map(|w| MaybeUninit::new(u64::from_ne_bytes(*w)));
        let meter = Rc::new(Meter {
            base: Cell::new(std::ptr::null_mut()),
            held: RefCell::new(image.to_vec()),
            loans: RefCell::default(),
            left: Cell::new(u64::MAX),
            dead: Cell::new(false),
            opened: Cell::default(),
            booted: Cell::default(),
            written: RefCell::default(),
            again: RefCell::default(),
            chance: Cell::new(seed),
            count: Cell::default(),
        });
        Machine {
            memory: words.collect(),
            meter,
        }
    }

    /// Runs `program` on the medium until it ends, or until `stores` units are stored: then `None`. Nothing of the run is left
    /// but the medium, and on it nothing that was stored after the cut, by destructors for instance.
    pub fn boot<R>(
        &mut self,
        stores: Option<u64>,
        program: impl FnOnce(Region<'_, Fram>, &Meter) -> R,
    ) -> Option<R> {
        let meter = &*self.meter;
        meter.left.set(stores.unwrap_or(u64::MAX));
        meter.dead.set(false);
        meter.opened.set(None);
        meter.booted.set(meter.count.get().stores);
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

    /// Makes memory what the medium holds.
    fn restore(&mut self) {
        let held = self.meter.held.borrow();
        for (word, bytes) in self.memory.iter_mut().zip(held.as_chunks::<8>().0) {
            *word = MaybeUninit::new(u64::from_ne_bytes(*bytes));
        }
    }

    /// What watches the medium.
    pub fn meter(&self) -> &Rc<Meter> {
        &self.meter
    }

    /// What the medium holds.
    pub fn image(&self) -> Vec<u8> {
        self.meter.held.borrow().clone()
    }

    /// How many units the last boot stored until recovery was over; `None` if it did not get so far.
    pub fn opened(&self) -> Option<u64> {
        self.meter.opened.get()
    }

    /// A number below `below`.
    pub fn chance(&self, below: u64) -> u64 {
        self.meter.chance(below.max(1) as usize) as u64
    }

    /// What was stored since the machine was made.
    pub fn count(&self) -> Count {
        self.meter.count()
    }
}

impl Meter {
    /// Recovery is over.
    pub fn opened(&self) {
        let stores = self.count.get().stores - self.booted.get();
        self.opened.set(Some(stores));
    }

    /// A step begins: the one before is committed.
    pub fn step(&self) {
        self.written.borrow_mut().clear();
        self.again.borrow_mut().clear();
    }

    /// What was stored so far.
    pub fn count(&self) -> Count {
        self.count.get()
    }

    /// Looks for what was written where nothing was lent, as a pool does while it is formatted.
    pub fn look(&self) {
        if !self.dead.get() {
            let all = self.held.borrow().len();
            self.scan(0, all);
        }
    }

    fn offset(&self, at: *const u8) -> usize {
        at as usize - self.base.get() as usize
    }

    /// The medium takes a unit, unless the power is gone.
    fn take(&self, at: usize, new: &[u8], programs: bool) {
        self.held.borrow_mut()[at..at + new.len()].copy_from_slice(new);
        let mut c = self.count.get();
        c.stores += 1;
        c.bytes += new.len() as u64;
        if programs {
            c.programs += new.len() as u64;
            self.written.borrow_mut().insert(at);
        }
        self.count.set(c);
        self.left.set(self.left.get() - 1);
    }

    fn cut(&self) {
        self.dead.set(true);
        self.again
            .borrow_mut()
            .append(&mut self.written.borrow_mut());
        // A second unwinding would abort.
        if !std::thread::panicking() {
            resume_unwind(Box::new(PowerCut));
        }
    }

    /// Looks for units that were written through a loan. In which order is not known: if the power goes among them, any of them
    /// may have persisted.
    fn scan(&self, at: usize, len: usize) {
        let (from, to) = (at / UNIT * UNIT, (at + len).next_multiple_of(UNIT));
        let mut changed = Vec::new();
        for unit in (from..to).step_by(UNIT) {
            let mut live = [0; UNIT];
            for (i, byte) in live.iter_mut().enumerate() {
                // SAFETY: inside the medium, whose bytes are all initialised. Volatile: a lent `&mut` may have written it.
                *byte = unsafe { self.base.get().add(unit + i).read_volatile() };
            }
            // A value that is stored again shows in memory as little as one that is not.
            let again = self.again.borrow_mut().remove(&unit);
            if again || self.held.borrow()[unit..unit + UNIT] != live {
                changed.push((unit, live));
            }
        }
        let room = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        let dies = changed.len() > room;
        while changed.len() > room {
            let (unit, _) = changed.swap_remove(self.chance(changed.len()));
            self.written.borrow_mut().insert(unit);
        }
        for (unit, live) in changed {
            self.take(unit, &live, true);
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

    fn chance(&self, below: usize) -> usize {
        // SplitMix64: neighbouring seeds have nothing in common.
        let state = self.chance.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.chance.set(state);
        let v = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let v = (v ^ v >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((v ^ v >> 31) % below as u64) as usize
    }
}

impl Observer for Meter {
    fn store(&self, at: *mut u8, new: &[u8]) {
        if self.dead.get() {
            return;
        }
        self.scan_loans();
        if self.left.get() == 0 {
            return self.cut();
        }
        self.take(self.offset(at), new, false);
    }
    fn lend(&self, at: *mut u8, len: usize) {
        if !self.dead.get() {
            self.loans.borrow_mut().push((self.offset(at), len));
        }
    }
    fn end_loan(&self, at: *mut u8, len: usize) {
        if self.dead.get() {
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
