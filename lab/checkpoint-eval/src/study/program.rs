//! A program's memory, whose heap is laid out as an experiment wants it.

use checkpoint::{BLOCK, Blocks, Memory};
use std::collections::BTreeMap;

/// Bytes of statics that every program has.
pub const STATICS: usize = 64;
/// Bytes of the stack segment.
pub const STACK: usize = 1024;
/// Of it, what is in use: "kept to the minimum".
pub const STACK_USED: usize = 64;

/// RAM of a machine, in three segments.
#[derive(Debug, Clone)]
pub struct Program {
    pub statics: Vec<u8>,
    pub heap: Vec<u8>,
    pub stack: Vec<u8>,
    pub stack_used: usize,
    /// Bytes of the table for each block of the heap; 0 when there is none.
    pub entry: usize,
    live: BTreeMap<usize, usize>,
}

/// Which blocks are in use, by the first byte of each entry.
#[derive(Debug)]
pub struct Table(Vec<u8>);
impl Table {
    pub fn new(counts: Vec<u8>) -> Self {
        Table(counts)
    }
}
impl Blocks for Table {
    fn in_use(&self, block: u32) -> bool {
        self.0.get(block as usize).is_none_or(|c| *c > 0)
    }
}

impl Program {
    /// With so much RAM, and so many bytes for each of its blocks in a table; a heap of zeros.
    pub fn new(ram: usize, entry: usize, stack: usize) -> Self {
        let statics = STATICS + ram / BLOCK as usize * entry;
        let fill = |i: usize| (i as u8) | 1;
        Program {
            statics: (0..statics)
                .map(|i| if i < STATICS { fill(i) } else { 0 })
                .collect(),
            heap: vec![0; ram - statics - stack],
            stack: (0..stack).map(fill).collect(),
            stack_used: STACK_USED,
            entry,
            live: BTreeMap::new(),
        }
    }

    /// Highest byte in use of the heap, and one.
    pub fn heap_used(&self) -> usize {
        self.live.last_key_value().map_or(0, |(at, len)| at + len)
    }

    /// The first and one after the last byte that is allocated.
    pub fn span(&self) -> std::ops::Range<usize> {
        self.live.keys().next().copied().unwrap_or(0)..self.heap_used()
    }

    /// Bytes that are allocated.
    pub fn occupation(&self) -> usize {
        self.live.values().sum()
    }

    /// The paper's equation 1, to the byte.
    pub fn fragmentation(&self) -> f64 {
        let x = self.live.values().copied().max().unwrap_or(1);
        let (mut free, mut fitting, mut end) = (0, 0, self.span().start);
        for (at, len) in &self.live {
            free += at - end;
            fitting += (at - end) / x * x;
            end = at + len;
        }
        if free == 0 {
            0.0
        } else {
            1.0 - fitting as f64 / free as f64
        }
    }

    fn count(&mut self, at: usize, len: usize, more: bool) {
        if self.entry == 0 {
            return;
        }
        for b in at / BLOCK as usize..=(at + len - 1) / BLOCK as usize {
            let c = &mut self.statics[STATICS + b * self.entry];
            *c = if more { *c + 1 } else { *c - 1 };
        }
    }

    /// Allocates here, and fills what is allocated.
    pub fn alloc(&mut self, at: usize, len: usize, fill: u8) {
        self.count(at, len, true);
        self.heap[at..at + len].fill(fill | 1);
        self.live.insert(at, len);
    }

    /// Frees what was allocated here; as a tracked heap does, with zeros.
    pub fn free(&mut self, at: usize) {
        if let Some(len) = self.live.remove(&at) {
            self.count(at, len, false);
            self.heap[at..at + len].fill(0);
        }
    }

    /// What is allocated: where and how much.
    pub fn live(&self) -> impl Iterator<Item = (usize, usize)> {
        self.live.iter().map(|(at, len)| (*at, *len))
    }

    pub fn table(&self) -> Table {
        let counts = self.statics.get(STATICS..).unwrap_or_default();
        Table(counts.iter().step_by(self.entry.max(1)).copied().collect())
    }

    pub fn memory(&mut self) -> Memory<'_> {
        let (used, from) = (self.heap_used(), self.stack.len() - self.stack_used);
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(used)
            .stack_from(from)
    }
}
