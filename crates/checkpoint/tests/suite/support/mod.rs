//! What several modules share.

pub mod counting;
pub mod nor;
pub mod program;
pub mod torn_flash;

use checkpoint::Memory;
use nvmem::device::{Contract, Medium, Misuse};

/// A program's memory.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    pub statics: [u8; 301],
    pub heap: [u8; 400],
    pub stack: [u8; 200],
}

impl State {
    pub fn filled(byte: u8) -> Self {
        State {
            statics: [byte; 301],
            heap: [byte; 400],
            stack: [byte; 200],
        }
    }
    /// With so many used bytes of the heap.
    pub fn memory(&mut self, heap_used: usize) -> Memory<'_> {
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(heap_used)
            .stack_from(150)
    }
}

/// Fails at the n-th write or erase.
pub struct Failing<D> {
    pub d: D,
    pub left: u32,
}

impl<D: Medium<Error = Misuse>> Medium for Failing<D> {
    type Error = &'static str;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.d.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        self.d.read(at, buf).map_err(|_| "misuse")
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        self.left = self.left.checked_sub(1).ok_or("bus")?;
        self.d.write(at, bytes).map_err(|_| "misuse")
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        self.left = self.left.checked_sub(1).ok_or("bus")?;
        self.d.erase(from, to).map_err(|_| "misuse")
    }
}
