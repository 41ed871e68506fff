//! What `train` computes: sets of rows, the nodes of a tree, and a step of the gradient.

use crate::support::{input, mix};
use nv_rtos::nvmem::Persist;

/// Rows of a set.
pub const ROWS: usize = 16;
/// Values of a row.
pub const VALUES: usize = 4;
/// The most nodes of a tree.
pub const NODES: usize = 10;

/// A set: rows with their labels.
#[derive(Persist)]
#[repr(C)]
pub struct Set {
    rows: [[i16; VALUES]; ROWS],
    labels: [i16; ROWS],
}

impl Set {
    /// Rows of the class 1, if the sum of two values is larger than the third one, or 0.
    pub fn of_classes() -> Self {
        let rows = core::array::from_fn(|i| row(i as u32));
        let labels = rows.map(|[a, b, c, _]| i16::from(a + b > c));
        Set { rows, labels }
    }

    /// Rows with what is computed from them.
    pub fn of_values() -> Self {
        let rows = core::array::from_fn(|i| row((ROWS + i) as u32));
        let labels = rows.map(|[a, b, c, d]| 3 * a - 2 * b + c / 2 + d + 10);
        Set { rows, labels }
    }
}

/// A row of four inputs between -64 and 63.
fn row(n: u32) -> [i16; VALUES] {
    let x = input(n);
    [x, x >> 7, x >> 14, x >> 21].map(|v| (v & 127) as i16 - 64)
}
/// A node: which rows of the set come to it, and which of them go to its second child.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Node {
    rows: u16,
    above: i16,
    value: u8,
    /// Its first child; 0: it is a leaf.
    child: u8,
    label: u16,
}

impl Node {
    /// One to which these rows come.
    pub const fn of(rows: u16) -> Self {
        Node {
            rows,
            above: 0,
            value: 0,
            child: 0,
            label: 0,
        }
    }

    /// Finds out what the node does. If it does not become a leaf, its children are `child` and the
    /// next one, and are returned.
    pub fn grow(&mut self, set: &Set, child: Option<u8>) -> Option<[Node; 2]> {
        let rows = self.rows;
        let ones = (0..ROWS).fold(0, |m, i| m | u16::from(set.labels[i] != 0) << i);
        let (mine, all) = ((rows & ones).count_ones(), rows.count_ones());
        self.label = u16::from(2 * mine > all);
        let child = child.filter(|_| mine != 0 && mine != all)?;
        let splits = (0..VALUES).map(|v| (v, split(set, rows, ones, v)));
        let splits = splits.filter(|(_, s)| s.2 != 0 && s.2 != rows);
        let (value, (_, above, larger)) = splits.min_by_key(|(_, s)| s.0)?;
        (self.value, self.above, self.child) = (value as u8, above, child);
        Some([Node::of(rows & !larger), Node::of(larger)])
    }

    /// One more node in a hash.
    pub fn mix(&self, hash: u32) -> u32 {
        let does = u32::from(self.value) << 8 | u32::from(self.child) << 16;
        mix(mix(hash, self.above as u32), does | u32::from(self.label))
    }
}

/// Rows whose value is larger than the mean of those that a node has; that mean, and how many of
/// them would get a wrong label. `ones` are the rows with the label 1.
fn split(set: &Set, rows: u16, ones: u16, value: usize) -> (u32, i16, u16) {
    let of = |i: usize| i32::from(set.rows[i][value]);
    let has = |i: &usize| rows >> i & 1 != 0;
    let (sum, n) = (0..ROWS)
        .filter(has)
        .fold((0, 0), |(s, n), i| (s + of(i), n + 1));
    let above = sum / n;
    let larger = (0..ROWS)
        .filter(|i| has(i) && of(*i) > above)
        .fold(0, |m, i| m | 1 << i);
    let wrong = |m: u16| (m & ones).count_ones().min((m & !ones).count_ones());
    (wrong(larger) + wrong(rows & !larger), above as i16, larger)
}

/// A step against the gradient of the squared error. The last weight is that of 64.
pub fn improve(weights: &mut [i32; VALUES + 1], set: &Set) {
    let mut gradient = [0; VALUES + 1];
    for (row, label) in set.rows.iter().zip(&set.labels) {
        let row = [row[0], row[1], row[2], row[3], 64].map(i32::from);
        let sum: i32 = row.iter().zip(&*weights).map(|(x, w)| x * w).sum();
        let error = (sum >> 8) - i32::from(*label);
        gradient
            .iter_mut()
            .zip(row)
            .for_each(|(g, x)| *g += error * x);
    }
    weights
        .iter_mut()
        .zip(gradient)
        .for_each(|(w, g)| *w -= g >> 9);
}
