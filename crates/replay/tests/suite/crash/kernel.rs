//! A kernel of counters: a token whose tagged words take effect with the step, or not at all.

use nv_replay::nvmem::tagged::{Stamp, Widths, Words};
use nv_replay::nvmem::{CommitNumber, Model, NumberOwner, Region};
use nv_replay::{Commit, Committed, Config, Error, Options, Step, Token, pmem_tx};
use std::cell::{Cell, RefCell};

/// Numbers come round after 15.
pub const WIDTHS: Widths = Widths {
    sequence: 4,
    owner: 0,
    state: 6,
};
/// How many tagged words, and how many bytes they take.
pub const WORDS: usize = 3;
pub const BYTES: usize = 16;
/// Who the program is.
const OWNER: u32 = 0;

/// The options of a runtime whose numbers the words hold.
pub fn options<'m>() -> Options<'m> {
    Options {
        table: Config {
            bytes: 200,
            outbox_bytes: 0,
            seq_bits: WIDTHS.sequence,
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    }
}

/// A kernel of counters, which steps raise.
pub struct Kernel<'m, M> {
    counters: RefCell<Words<'m, M>>,
    owner: NumberOwner,
    /// The number that was committed last with this token, and that of the last sweep.
    committed: Cell<u32>,
    swept: Cell<u32>,
    /// What the body that runs wants: which counter, and by how much.
    wanted: Cell<Option<(usize, u32)>>,
    /// The next join is refused.
    pub refuses: Cell<bool>,
}

impl<'m, M: Model> Kernel<'m, M> {
    /// Opens the words. To be called before the runtime commits anything: `number` is what it has
    /// committed last, and words that are in doubt are reverted.
    pub fn recover(words: Region<'m, M>, last: CommitNumber) -> Self {
        let number = last.get();
        let counters = Words::recover(words, WORDS, WIDTHS, |_| Some(number));
        Kernel {
            counters: RefCell::new(counters.ok().unwrap()),
            owner: last.owner(),
            committed: Cell::new(number),
            swept: Cell::new(number),
            wanted: Cell::new(None),
            refuses: Cell::new(false),
        }
    }

    /// Raises a counter with the commit of the step.
    pub fn raise(step: &Step<'_, '_, M, Self>, index: usize, by: u32) {
        step.token().wanted.set(Some((index, by)))
    }

    /// The same, for a join without a body.
    pub fn wants(&self, index: usize, by: u32) {
        self.wanted.set(Some((index, by)))
    }

    /// Gives the words back.
    pub fn close(self) -> Region<'m, M> {
        self.counters.into_inner().close()
    }

    /// What is committed.
    pub fn get(&self, index: usize) -> u32 {
        let committed = |_| Some(self.committed.get());
        self.counters.borrow().get(index, committed).unwrap()
    }

    pub fn sum(&self) -> u32 {
        (0..WORDS).map(|i| self.get(i)).sum()
    }
}

impl<M: Model> Token<M> for Kernel<'_, M> {
    fn join<'c>(&self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error> {
        let mut counters = self.counters.borrow_mut();
        let (owner, sequence) = (OWNER, commit.number().get());
        let stamp = Stamp { owner, sequence };
        let committed = |_| Some(self.committed.get());
        counters.sweep(stamp, self.swept.replace(sequence)).unwrap();
        if let Some((index, by)) = self.wanted.take() {
            let state = counters.get(index, committed).unwrap() + by;
            counters.set(index, stamp, state, committed).unwrap();
        }
        if self.refuses.take() {
            // The record of the error gets this number.
            counters.revert(stamp).unwrap();
            return Err(Error::Aborted(8));
        }
        let done = commit.store();
        self.committed.set(sequence);
        Ok(done)
    }

    fn undone(&self) {
        self.wanted.take().expect("each body has wanted something");
    }

    fn owner(&self) -> Option<NumberOwner> {
        Some(self.owner)
    }
}
