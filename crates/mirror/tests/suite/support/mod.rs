//! Memory, and a medium that fails.

// Each test uses a part.
#![allow(dead_code)]

use core::mem::MaybeUninit;
use nvmem::device::{Contract, Medium};

/// Image and shadow, 416 bytes each.
pub type Memory = [MaybeUninit<u64>; 2 * 52];
pub const MEMORY: Memory = [MaybeUninit::new(0); 2 * 52];

/// A medium one of whose operations fails, after half of it was done.
#[derive(Clone)]
pub struct Failing<D> {
    pub medium: D,
    /// Operations before the one that fails.
    pub left: Option<u32>,
}

/// The failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

impl<D: Medium> Failing<D> {
    fn fails(&mut self) -> bool {
        match &mut self.left {
            Some(0) => {
                self.left = None;
                true
            }
            Some(n) => {
                *n -= 1;
                false
            }
            None => false,
        }
    }
}

impl<D: Medium> Medium for Failing<D> {
    type Error = Failed;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Failed> {
        if self.fails() {
            return Err(Failed);
        }
        self.medium.read(at, buf).map_err(|_| Failed)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Failed> {
        if self.fails() {
            let word = D::CONTRACT.write_size as usize;
            let half = bytes.len() / 2 / word * word;
            let _ = self.medium.write(at, &bytes[..half]);
            return Err(Failed);
        }
        self.medium.write(at, bytes).map_err(|_| Failed)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        if self.fails() {
            return Err(Failed);
        }
        self.medium.erase(from, to).map_err(|_| Failed)
    }
    fn flush(&mut self) -> Result<(), Failed> {
        if self.fails() {
            return Err(Failed);
        }
        self.medium.flush().map_err(|_| Failed)
    }
}

/// Counts what is written, read and erased.
#[derive(Debug, Default)]
pub struct Counting<D> {
    pub medium: D,
    pub written: u64,
    pub read: u64,
    pub erases: u64,
}

impl<D: Medium> Medium for Counting<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.read += buf.len() as u64;
        self.medium.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        self.written += bytes.len() as u64;
        self.medium.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        self.erases += u64::from((to - from) / D::CONTRACT.erase_size());
        self.medium.erase(from, to)
    }
}
