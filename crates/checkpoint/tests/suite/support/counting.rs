//! A medium that counts.

use checkpoint::nvmem::device::{Contract, Medium};
use checkpoint::{Cost, Work};
use std::cell::Cell;

/// Counts the operations of its medium. All reads count as comparing.
pub struct Counting<'w, D> {
    pub inner: D,
    pub cost: Cost,
    pub work: &'w Cell<Work>,
}

impl<D> Counting<'_, D> {
    fn count(&self, w: Work) {
        self.work.set(self.work.get().and(w));
    }
}

impl<D: Medium> Medium for Counting<'_, D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.inner.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.count(Work {
            compared: buf.len() as u64,
            ..Work::default()
        });
        self.inner.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        self.count(Work {
            written: bytes.len() as u64,
            programs: self.cost.operations(at, bytes.len() as u32),
            ..Work::default()
        });
        self.inner.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        let size = D::CONTRACT.erase.map_or(1, |e| e.size);
        self.count(Work {
            erases: u64::from((to - from) / size),
            ..Work::default()
        });
        self.inner.erase(from, to)
    }
    fn flush(&mut self) -> Result<(), D::Error> {
        self.inner.flush()
    }
}

/// A bound, in the same counts.
pub fn counted(worst: Work) -> Work {
    Work {
        read: 0,
        compared: worst.read + worst.compared,
        ..worst
    }
}

pub fn within(seen: &Work, worst: &Work) -> bool {
    seen.compared <= worst.compared
        && seen.written <= worst.written
        && seen.programs <= worst.programs
        && seen.erases <= worst.erases
}
