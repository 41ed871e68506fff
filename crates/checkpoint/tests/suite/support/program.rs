//! A program of any size.

use checkpoint::{Blocks, Maxima, Memory};

/// Used blocks, one bit each.
pub struct Bits(pub u64);
impl Blocks for Bits {
    fn in_use(&self, block: u32) -> bool {
        self.0 >> (block % 64) & 1 != 0
    }
}

#[derive(Debug, Clone)]
pub struct Program {
    pub statics: Vec<u8>,
    pub heap: Vec<u8>,
    pub stack: Vec<u8>,
    pub heap_used: usize,
    pub stack_used: usize,
    pub blocks: u64,
}

impl Program {
    pub fn memory(&mut self) -> Memory<'_> {
        let from = self.stack.len() - self.stack_used;
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(self.heap_used)
            .stack_from(from)
    }
    pub fn most(&self) -> Maxima {
        Maxima {
            statics: self.statics.len() as u32,
            heap: self.heap.len() as u32,
            heap_used: self.heap_used as u32,
            stack: self.stack.len() as u32,
            stack_used: self.stack_used as u32,
        }
    }
}
