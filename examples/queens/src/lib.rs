//! Finds all ways to place n queens on an n by n board so that none attacks another. An ordinary
//! recursive program with a heap, written without regard to power cuts. [`device`] runs it on a
//! device.
#![no_std]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;

#[cfg(all(target_os = "none", target_arch = "arm"))]
pub mod device;

/// The columns of the queens in row 0, 1, and so on.
pub type Board = Box<[u8]>;

/// The result of a search.
pub struct SearchResult {
    /// The number of solutions.
    pub solutions: u32,
    /// The solutions that no rotation or reflection turns into each other, the smallest of each
    /// class.
    pub different: Vec<Board>,
}

struct Search<F> {
    size: u8,
    queens: Vec<u8>,
    placed: u32,
    found: SearchResult,
    checkpoint: F,
}

/// The number of queens placed between two checkpoints.
pub const QUEENS_PER_CHECKPOINT: u32 = 500;

/// Searches all solutions. Calls `checkpoint` regularly with the number of queens placed; the
/// search has no other trace of checkpoints.
pub fn search(size: u8, checkpoint: impl FnMut(u32)) -> SearchResult {
    let mut search = Search {
        size,
        queens: Vec::new(),
        placed: 0,
        found: SearchResult {
            solutions: 0,
            different: Vec::new(),
        },
        checkpoint,
    };
    search.row();
    search.found
}

impl<F: FnMut(u32)> Search<F> {
    /// Places a queen in the next row in all possible ways.
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
                if self.placed.is_multiple_of(QUEENS_PER_CHECKPOINT) {
                    (self.checkpoint)(self.placed);
                }
                self.row();
                self.queens.pop();
            }
        }
    }
}

/// Whether no queen attacks this square of the next row.
fn is_safe(queens: &[u8], column: u8) -> bool {
    let mut nearest_first = (1..).zip(queens.iter().rev());
    nearest_first.all(|(rows, q): (u8, _)| *q != column && q.abs_diff(column) != rows)
}

/// Whether no rotated or reflected board is smaller.
fn is_smallest(queens: &[u8]) -> bool {
    let mut board = queens.to_vec();
    (0..4).all(|_| {
        board = rotated(&board);
        let mirrored: Vec<_> = board.iter().rev().copied().collect();
        *queens <= *board && *queens <= *mirrored
    })
}

/// The board, rotated by a quarter turn.
fn rotated(queens: &[u8]) -> Vec<u8> {
    let mut out = queens.to_vec();
    for (row, &column) in queens.iter().enumerate() {
        out[usize::from(column)] = (queens.len() - 1 - row) as u8;
    }
    out
}
