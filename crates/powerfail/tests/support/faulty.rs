//! A medium whose n-th operation fails while its program goes on. The suites of several crates have
//! this as a module.
//!
//! ```text
//!  control.meets(Fault::Fails(3, Part::Half))
//!
//!  read   write   flush   write     flush   ...
//!  0      1       2       3 fails   works   works
//!                         half of it is done
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
    /// The medium's operation of this number fails, counted from 0. So much of it is done.
    Fails(u8, Part),
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
#[derive(Default)]
pub struct Control {
    fault: Cell<Option<(u8, Part)>>,
    failed: Cell<bool>,
    writes: Cell<u32>,
    erases: Cell<u32>,
}

impl Control {
    /// Counts from here on.
    pub fn meets(&self, fault: Fault) {
        self.fault.set(match fault {
            Fault::Fails(n, part) => Some((n, part)),
            Fault::None | Fault::Dropped(_) => None,
        });
        self.failed.set(false);
        self.writes.set(0);
        self.erases.set(0);
    }

    /// Whether an operation has failed since `meets`.
    pub fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Writes and erases since `meets`.
    pub fn changes(&self) -> u32 {
        self.writes.get() + self.erases.get()
    }

    pub fn writes(&self) -> u32 {
        self.writes.get()
    }

    pub fn erases(&self) -> u32 {
        self.erases.get()
    }

    /// How much of the next operation is done, if it fails.
    fn next(&self) -> Option<Part> {
        let (n, part) = self.fault.get()?;
        self.fault.set(n.checked_sub(1).map(|n| (n, part)));
        if n > 0 {
            return None;
        }
        self.failed.set(true);
        Some(part)
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

/// One operation, or the part of it that is done before it fails.
macro_rules! operation {
    ($self:ident, $half:expr, $all:expr) => {
        match $self.control.next() {
            None => $all.map_err(|_| Failed),
            Some(Part::Nothing) => Err(Failed),
            Some(Part::Half) => $half.map_err(|_| Failed).and(Err(Failed)),
            Some(Part::All) => $all.map_err(|_| Failed).and(Err(Failed)),
        }
    };
}

impl<D: Medium> Medium for Faulty<D> {
    type Error = Failed;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Failed> {
        operation!(self, Ok::<(), Failed>(()), self.medium.read(at, buf))
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Failed> {
        self.control.writes.update(|n| n + 1);
        let half = &bytes[..middle::<D>(bytes)];
        operation!(
            self,
            self.medium.write(at, half),
            self.medium.write(at, bytes)
        )
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        self.control.erases.update(|n| n + 1);
        let size = D::CONTRACT.erase_size();
        let half = from + (to - from) / 2 / size * size;
        operation!(
            self,
            self.medium.erase(from, half),
            self.medium.erase(from, to)
        )
    }
    fn flush(&mut self) -> Result<(), Failed> {
        operation!(self, Ok::<(), Failed>(()), self.medium.flush())
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
