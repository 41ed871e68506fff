//! The node's FRAM, its clock, and a supply that fails.
//!
//! Time is counted in microseconds: the hardware's boot, each store, each byte on a bus, each step.
//! When a life's time is over, the run ends at once, by unwinding; the FRAM holds what was stored
//! before.

use nv_device::nvmem::instrument::{Observer, observe};
use nv_device::nvmem::{InOrder32, Region};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The hardware's boot, as measured in the Sytare paper.
const BOOT: u64 = 1240;
/// A store to FRAM, with the instructions around it: 24 MHz.
const STORE: u64 = 2;

/// One life of the node.
#[derive(Clone, Copy, Default)]
pub struct Life {
    /// Microseconds that it lasted.
    pub used: u64,
    /// The part before the program.
    pub boot: u64,
    /// Packets that arrived for the first time.
    pub packets: usize,
}

/// A generated trace of harvested energy: how long each charge of the capacitor lasts. A walk
/// between 3.5 and 42 ms, as under light that changes.
pub struct Trace {
    state: u64,
    level: f64,
}

impl Trace {
    pub fn new(seed: u64) -> Self {
        Trace {
            state: seed ^ 0x9E37_79B9_7F4A_7C15,
            level: 0.3,
        }
    }

    /// Microseconds of the next life.
    pub fn on_time(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let random = (self.state >> 40) as f64 / (1u64 << 24) as f64;
        self.level = (self.level + (random - 0.5) * 0.3).clamp(0.0, 1.0);
        (3500.0 * 12f64.powf(self.level)) as u64
    }
}

/// The payload of the panic that ends a life.
struct PowerCut;

/// Counts time, and knows what the FRAM holds.
pub struct Clock {
    now: Cell<u64>,
    life: Cell<u64>,
    off: Cell<bool>,
    base: Cell<usize>,
    medium: RefCell<Vec<u8>>,
    loans: RefCell<Vec<(usize, usize)>>,
}

impl Clock {
    /// Time passes. If the life is over, this does not return.
    pub fn pass(&self, micros: u64) {
        self.now.set(self.now.get() + micros);
        if self.now.get() > self.life.get() && !self.off.replace(true) {
            self.now.set(self.life.get());
            resume_unwind(Box::new(PowerCut));
        }
    }

    /// Whether the power is on: a destructor of a life that is over changes nothing.
    pub fn on(&self) -> bool {
        !self.off.get()
    }

    /// What was written through a loan is on the medium.
    fn scan(&self, at: usize, len: usize) {
        let from = at - self.base.get();
        for (i, byte) in self.medium.borrow_mut()[from..from + len]
            .iter_mut()
            .enumerate()
        {
            // SAFETY: inside the machine's memory, whose bytes are all initialised. Volatile, as
            // the one that the loan was lent to may have written it.
            *byte = unsafe { ((at + i) as *const u8).read_volatile() };
        }
    }
}

impl Observer for Clock {
    fn store(&self, at: *mut u8, new: &[u8]) {
        if !self.on() {
            return;
        }
        for (at, len) in self.loans.borrow().iter() {
            self.scan(*at, *len)
        }
        self.pass(STORE);
        let from = at as usize - self.base.get();
        self.medium.borrow_mut()[from..from + new.len()].copy_from_slice(new);
    }
    fn lend(&self, at: *mut u8, len: usize) {
        self.loans.borrow_mut().push((at as usize, len))
    }
    fn end_loan(&self, at: *mut u8, len: usize) {
        self.loans.borrow_mut().retain(|l| *l != (at as usize, len));
        if self.on() {
            self.scan(at as usize, len);
            self.pass(STORE);
        }
    }
}

/// The node's memory and clock.
pub struct Machine {
    memory: Box<[MaybeUninit<u64>]>,
    clock: Clock,
}

impl Machine {
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(8);
        Machine {
            memory: vec![MaybeUninit::new(0); bytes / 8].into(),
            clock: Clock {
                now: Cell::new(0),
                life: Cell::new(0),
                off: Cell::new(false),
                base: Cell::new(0),
                medium: RefCell::new(vec![0; bytes]),
                loans: RefCell::default(),
            },
        }
    }

    /// One life of at most so many microseconds. `None` if it was cut.
    pub fn live<T>(
        &mut self,
        micros: u64,
        program: impl FnOnce(Region<'_, InOrder32>, &Clock) -> T,
    ) -> (Life, Option<T>) {
        let Machine { memory, clock } = self;
        for (word, bytes) in memory
            .iter_mut()
            .zip(clock.medium.borrow().as_chunks::<8>().0)
        {
            *word = MaybeUninit::new(u64::from_ne_bytes(*bytes));
        }
        clock.base.set(memory.as_ptr() as usize);
        clock.loans.borrow_mut().clear();
        clock.off.set(false);
        clock.now.set(0);
        clock.life.set(micros);
        let run = || {
            clock.pass(BOOT);
            observe(clock, || program(Region::new(memory), clock))
        };
        let ended = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(done) => Some(done),
            Err(payload) if payload.is::<PowerCut>() => None,
            Err(payload) => resume_unwind(payload),
        };
        let life = Life {
            used: clock.now.get(),
            boot: BOOT,
            packets: 0,
        };
        (life, ended)
    }
}
