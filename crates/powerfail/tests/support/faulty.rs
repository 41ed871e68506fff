//! A medium whose n-th operation fails while its program goes on. The suites of several crates have
//! this as a module.
//!
//! ```text
//!  control.meets(Fault::Change(2, Part::Half))
//!
//!  read   write   flush   read   write     flush   ...
//!         0       1              2 fails   works   works
//!                                half of it is done
//! ```
//!
//! A power cut ends its boot. A failed operation does not: what was written before may still be in
//! a buffer, and the next operation of the same boot reads it there.
#![allow(dead_code)] // no suite needs all of it

use nvmem::device::{AsyncMedium, Contract, Medium};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What a call of the program meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    None,
    /// The medium's n-th read fails, counted from 0.
    Read(u8),
    /// The n-th of its writes, erases and flushes fails. So much of it is done.
    Change(u8, Part),
    /// The call's future is dropped after so many polls. A blocking call meets nothing.
    Dropped(u8),
}

/// How much of an operation is done before it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Nothing,
    Half,
    All,
}

/// The error of a failed operation.
#[derive(Debug)]
pub struct Failed;

/// Says what a medium's operations meet, and counts them. The program keeps it, because the medium
/// is inside of what it tests.
pub struct Control {
    fault: Cell<Fault>,
    failed: Cell<bool>,
    reads: Cell<u32>,
    writes: Cell<u32>,
    erases: Cell<u32>,
    flushes: Cell<u32>,
}

impl Control {
    pub fn new() -> Rc<Self> {
        let zero = || Cell::new(0);
        Rc::new(Control {
            fault: Cell::new(Fault::None),
            failed: Cell::new(false),
            reads: zero(),
            writes: zero(),
            erases: zero(),
            flushes: zero(),
        })
    }

    /// Counts from here on.
    pub fn meets(&self, fault: Fault) {
        self.fault.set(fault);
        self.failed.set(false);
        for count in [&self.reads, &self.writes, &self.erases, &self.flushes] {
            count.set(0);
        }
    }

    /// Whether an operation has failed since `meets`.
    pub fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Writes since `meets`.
    pub fn writes(&self) -> u32 {
        self.writes.get()
    }

    /// Erases since `meets`.
    pub fn erases(&self) -> u32 {
        self.erases.get()
    }

    /// Whether the next read fails.
    fn read_fails(&self) -> bool {
        let before = self.reads.replace(self.reads.get() + 1);
        let fails = matches!(self.fault.get(), Fault::Read(n) if u32::from(n) == before);
        self.failed.set(self.failed.get() || fails);
        fails
    }

    /// How much is done of the next operation of this kind, if it fails.
    fn change_fails(&self, kind: &Cell<u32>) -> Option<Part> {
        let before = self.writes.get() + self.erases.get() + self.flushes.get();
        kind.update(|n| n + 1);
        match self.fault.get() {
            Fault::Change(n, part) if u32::from(n) == before => {
                self.failed.set(true);
                Some(part)
            }
            _ => None,
        }
    }
}

/// A medium that fails where its [`Control`] says.
pub struct Faulty<D> {
    medium: D,
    control: Rc<Control>,
}

impl<D> Faulty<D> {
    pub fn new(medium: D, control: &Rc<Control>) -> Self {
        Faulty {
            medium,
            control: control.clone(),
        }
    }

    pub fn into_medium(self) -> D {
        self.medium
    }
}

impl<D: Medium> Faulty<D> {
    /// Does `half` or `all` of an operation.
    fn change(
        &mut self,
        fails: Option<Part>,
        half: impl FnOnce(&mut D) -> Result<(), D::Error>,
        all: impl FnOnce(&mut D) -> Result<(), D::Error>,
    ) -> Result<(), Failed> {
        let done = match fails {
            None | Some(Part::All) => all(&mut self.medium),
            Some(Part::Half) => half(&mut self.medium),
            Some(Part::Nothing) => Ok(()),
        };
        match fails {
            None => done.map_err(|_| Failed),
            Some(_) => Err(Failed),
        }
    }
}

impl<D: Medium> Medium for Faulty<D> {
    type Error = Failed;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Failed> {
        if self.control.read_fails() {
            return Err(Failed);
        }
        self.medium.read(at, buf).map_err(|_| Failed)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Failed> {
        let fails = self.control.change_fails(&self.control.writes);
        let half = &bytes[..middle::<D>(bytes)];
        self.change(fails, |d| d.write(at, half), |d| d.write(at, bytes))
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        let fails = self.control.change_fails(&self.control.erases);
        let size = D::CONTRACT.erase_size();
        let half = from + (to - from) / 2 / size * size;
        self.change(fails, |d| d.erase(from, half), |d| d.erase(from, to))
    }
    fn flush(&mut self) -> Result<(), Failed> {
        let fails = self.control.change_fails(&self.control.flushes);
        self.change(fails, |_| Ok(()), |d| d.flush())
    }
}

/// Half of the bytes, in whole program words.
fn middle<D: Medium>(bytes: &[u8]) -> usize {
    let word = D::CONTRACT.write_size as usize;
    bytes.len() / 2 / word * word
}

/// Waits before each operation, after it, and in the middle of a write.
impl<D: Medium> AsyncMedium for Faulty<D> {
    type Error = Failed;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Failed> {
        wait_once().await;
        Medium::read(self, at, buf)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Failed> {
        wait_once().await;
        let (first, second) = bytes.split_at(middle::<D>(bytes));
        if !first.is_empty() {
            Medium::write(self, at, first)?;
            wait_once().await;
        }
        Medium::write(self, at + first.len() as u32, second)?;
        wait_once().await;
        Ok(())
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        wait_once().await;
        Medium::erase(self, from, to)?;
        wait_once().await;
        Ok(())
    }
    async fn flush(&mut self) -> Result<(), Failed> {
        wait_once().await;
        Medium::flush(self)?;
        wait_once().await;
        Ok(())
    }
}

async fn wait_once() {
    let mut waited = false;
    poll_fn(|_| {
        if std::mem::replace(&mut waited, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Polls a call to its end, or drops it after as many polls as its fault says. `None` if it was
/// dropped.
pub fn finish<T>(call: impl Future<Output = T>, fault: Fault) -> Option<T> {
    let polls = match fault {
        Fault::Dropped(n) => u32::from(n),
        _ => u32::MAX,
    };
    let mut call = pin!(call);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(done) = call.as_mut().poll(&mut context) {
            return Some(done);
        }
    }
    None
}
