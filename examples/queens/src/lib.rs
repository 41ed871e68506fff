//! All ways to place n queens on a board of n times n fields so that none attacks another: an ordinary recursive program with a heap, written
//! without a thought of power cuts. [`device`] is the program around it.
#![no_std]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;

#[cfg(all(target_os = "none", target_arch = "arm"))]
pub mod device;

/// The columns of the queens in row 0, 1, and so on.
pub type Board = Box<[u8]>;

/// What a search has found.
pub struct Found {
    /// All solutions.
    pub solutions: u32,
    /// Those that no turning and no mirroring makes of each other, the smallest of each kind.
    pub different: Vec<Board>,
}

struct Search<F> {
    size: u8,
    queens: Vec<u8>,
    placed: u32,
    found: Found,
    checkpoint: F,
}

/// Queens that are placed between two checkpoints.
pub const EVERY: u32 = 500;

/// Looks for all solutions. `checkpoint` is called now and then, with the number of queens that were placed; it is the only trace
/// of checkpoints here.
pub fn search(size: u8, checkpoint: impl FnMut(u32)) -> Found {
    let mut search = Search {
        size,
        queens: Vec::new(),
        placed: 0,
        found: Found {
            solutions: 0,
            different: Vec::new(),
        },
        checkpoint,
    };
    search.row();
    search.found
}

impl<F: FnMut(u32)> Search<F> {
    /// Places a queen in the next row, in all ways that there are.
    fn row(&mut self) {
        if self.queens.len() == usize::from(self.size) {
            self.found.solutions += 1;
            if is_smallest(&self.queens) {
                self.found.different.push(self.queens.as_slice().into());
            }
            return;
        }
        for column in 0..self.size {
            if is_safe(&self.queens, column) {
                self.queens.push(column);
                self.placed += 1;
                if self.placed.is_multiple_of(EVERY) {
                    (self.checkpoint)(self.placed);
                }
                self.row();
                self.queens.pop();
            }
        }
    }
}

/// Whether no queen attacks this field of the next row.
fn is_safe(queens: &[u8], column: u8) -> bool {
    let mut nearest_first = (1..).zip(queens.iter().rev());
    nearest_first.all(|(rows, q): (u8, _)| *q != column && q.abs_diff(column) != rows)
}

/// Whether no turned or mirrored board comes before this one.
fn is_smallest(queens: &[u8]) -> bool {
    let mut board = queens.to_vec();
    (0..4).all(|_| {
        board = turned(&board);
        let mirrored: Vec<_> = board.iter().rev().copied().collect();
        *queens <= *board && *queens <= *mirrored
    })
}

/// The board, turned by a quarter.
fn turned(queens: &[u8]) -> Vec<u8> {
    let mut out = queens.to_vec();
    for (row, &column) in queens.iter().enumerate() {
        out[usize::from(column)] = (queens.len() - 1 - row) as u8;
    }
    out
}
