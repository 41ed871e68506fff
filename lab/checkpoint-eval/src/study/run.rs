//! Checkpoints of a program in a steady state, by the crate or in the paper's layout.

use crate::flash::{Flash, Fresh, Part, Tally};
use crate::paper::InPlace;
use crate::program::{Program, STACK, Table};
use checkpoint::{CopyIfChange, Full, HeapTracker, Images, Memory, Split, Stack, Store as _, Work};

/// How a checkpoint is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Full,
    Stack,
    Split,
    HeapTracker,
    CopyIfChange,
    Adaptive,
}

impl Mode {
    /// Modes of the log.
    pub const LOG: &[Mode] = &[Mode::Adaptive];

    /// In keys.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Full => "full",
            Mode::Stack => "stack",
            Mode::Split => "split",
            Mode::HeapTracker => "heap_tracker",
            Mode::CopyIfChange => "copy_if_change",
            Mode::Adaptive => "adaptive",
        }
    }
}

/// Whose layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The crate's slots and log, and its table of one byte a block.
    Crate,
    /// One slot in place, and a table of five bytes a block.
    Paper,
    /// One slot in place, and a table of one byte a block.
    PaperOneByte,
}

impl Layout {
    /// Bytes of the table for each block.
    pub fn entry(self, mode: Mode) -> usize {
        match (mode, self) {
            (Mode::HeapTracker, Layout::Paper) => 5,
            (Mode::HeapTracker, _) => 1,
            _ => 0,
        }
    }
}

/// Checkpoints from one boot to the next, for the log: the first one after a boot erases a unit.
pub const BOOT: u32 = 12;

/// Slots of the crate on flash.
pub const SLOTS: usize = 3;

/// Whoever takes checkpoints.
pub enum Store<P: Part> {
    InPlace(InPlace<P>),
    Slots(Box<Images<Flash<P>, SLOTS>>, Tally),
    Log(Box<P::Log>, Tally),
}

impl<P: Part> Store<P> {
    /// With room for images of so many bytes at most; a log has three times the bytes that are in
    /// use.
    pub fn new(layout: Layout, mode: Mode, most: usize, used: usize) -> Self {
        if layout != Layout::Crate {
            return Store::InPlace(InPlace::new());
        }
        if mode == Mode::Adaptive {
            let (log, tally) = P::Log::fresh(used as u32);
            return Store::Log(Box::new(log), tally);
        }
        let bytes = Images::<Flash<P>, SLOTS>::bytes(most as u32 + 1024, 3);
        let flash = Flash::<P>::new(bytes as usize);
        let tally = flash.tally.clone();
        let images = Images::open(flash, 0..bytes, 1).expect("there is room");
        Store::Slots(Box::new(images), tally)
    }

    fn checkpoint(&mut self, mode: Mode, p: &mut Program, round: u32) -> Work {
        if let Store::InPlace(s) = self {
            return s.checkpoint(mode, p);
        }
        let table = p.table();
        let w = self.save(mode, &p.memory(), &table, round);
        if mode != Mode::Adaptive || round % BOOT != BOOT - 1 {
            return w;
        }
        // What a boot costs beyond the reading of a state, which all do.
        let boot = self.load(&mut p.memory());
        w.and(Work { read: 0, ..boot })
    }

    /// What a checkpoint makes flash do.
    pub fn save(&mut self, mode: Mode, m: &Memory<'_>, table: &Table, round: u32) -> Work {
        let (images, tally) = match self {
            Store::InPlace(_) => unreachable!("in place is for the grids"),
            Store::Log(log, tally) => {
                tally.take(true);
                log.save(m, round).expect("there is room");
                return tally.take(false);
            }
            Store::Slots(images, tally) => (images, tally),
        };
        tally.take(true);
        let taken = match mode {
            Mode::Full => images.checkpoint(&Full, m, round),
            Mode::Stack => images.checkpoint(&Stack, m, round),
            Mode::Split => images.checkpoint(&Split, m, round),
            Mode::HeapTracker => images.checkpoint(&HeapTracker(table), m, round),
            Mode::CopyIfChange => images.checkpoint(&CopyIfChange(Full), m, round),
            Mode::Adaptive => unreachable!("not in slots"),
        };
        taken.expect("there is room");
        tally.take(false)
    }

    /// What a restore makes flash do.
    pub fn load(&mut self, m: &mut Memory<'_>) -> Work {
        let (images, tally) = match self {
            Store::InPlace(_) => unreachable!("in place is for the grids"),
            Store::Log(log, tally) => {
                tally.take(false);
                log.load(m).expect("there is a state");
                return tally.take(false);
            }
            Store::Slots(images, tally) => (images, tally),
        };
        tally.take(false);
        images.restore(m).expect("there is an image");
        tally.take(false)
    }

    /// What restoring reads, and that it brings back what was saved.
    fn restore(&mut self, mode: Mode, p: &mut Program) -> Work {
        if let Store::InPlace(_) = self {
            return InPlace::<P>::restore(mode, p);
        }
        let wanted = p.clone();
        let w = self.load(&mut p.memory());
        assert!(
            p.statics == wanted.statics && p.heap == wanted.heap,
            "another state"
        );
        w
    }
}

/// Rounds before anything counts: each slot was written twice.
const WARM: u32 = 2 * SLOTS as u32;

/// An experiment at one point: how memory starts, and what happens to it between two checkpoints.
pub trait Scenario {
    fn start(&self, p: &mut Program);
    fn step(&self, p: &mut Program, round: u32);
    /// Bytes of memory that are in use at most.
    fn used(&self, p: &Program) -> usize {
        p.statics.len() + p.heap_used() + p.stack_used
    }
    /// Bytes of the stack segment.
    fn stack(&self) -> usize {
        STACK
    }
}

fn open<P: Part>(layout: Layout, mode: Mode, s: &dyn Scenario, p: &Program) -> Store<P> {
    let most = p.statics.len() + p.heap.len() + p.stack.len();
    Store::new(layout, mode, most, s.used(p))
}

/// A checkpoint's work in the mean, times `rounds`, in a steady state; and that of one restore.
pub fn steady<P: Part>(layout: Layout, mode: Mode, s: &dyn Scenario, rounds: u32) -> (Work, Work) {
    let mut p = Program::new(P::RAM, layout.entry(mode), s.stack());
    s.start(&mut p);
    let mut store = open::<P>(layout, mode, s, &p);
    let mut sum = Work::default();
    for round in 0..WARM + rounds {
        s.step(&mut p, round);
        let w = store.checkpoint(mode, &mut p, round);
        if round >= WARM {
            sum = sum.and(w);
        }
    }
    let restored = store.restore(mode, &mut p);
    (sum, restored)
}

/// The work of the first checkpoint of all.
pub fn first<P: Part>(layout: Layout, mode: Mode, s: &dyn Scenario) -> Work {
    let mut p = Program::new(P::RAM, layout.entry(mode), s.stack());
    s.start(&mut p);
    open::<P>(layout, mode, s, &p).checkpoint(mode, &mut p, 0)
}

/// The work of each checkpoint of a run: one for each step.
pub fn each<P: Part>(layout: Layout, mode: Mode, s: &dyn Scenario, rounds: u32) -> Vec<Work> {
    let mut p = Program::new(P::RAM, layout.entry(mode), s.stack());
    s.start(&mut p);
    let mut store = open::<P>(layout, mode, s, &p);
    (0..rounds)
        .map(|round| {
            s.step(&mut p, round);
            store.checkpoint(mode, &mut p, round)
        })
        .collect()
}
