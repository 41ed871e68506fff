//! Every word decoded, once in the life of a program: the interpreter looks up.

use crate::cycles::{Timing, cycles};
use crate::decode::{Instruction, decode};
use std::sync::LazyLock;

/// What a word begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub instruction: Instruction,
    /// By [`Timing`]; 0 where there is no instruction.
    pub cycles: [u8; 2],
}

/// By the word.
pub(crate) type Table = [Entry; 0x10000];

pub(crate) static TABLE: LazyLock<Box<Table>> = LazyLock::new(|| {
    let entry = |word: usize| match decode(word as u16) {
        Some(i) => Entry {
            instruction: i,
            cycles: [Timing::Cpux, Timing::Classic].map(|t| cycles(t, i) as u8),
        },
        None => Entry {
            instruction: Instruction::Reti,
            cycles: [0; 2],
        },
    };
    let all: Box<[Entry]> = (0..0x10000).map(entry).collect();
    all.try_into().expect("a word has 16 bits")
});
