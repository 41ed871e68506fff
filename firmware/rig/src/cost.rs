//! What the measured sections of a run cost.

use crate::state::{Log, NVM, Store};
use relume_suite::abi::cell;

/// What a measured section cost, its own marks included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions.
    pub instructions: u64,
    /// Stores to non-volatile memory, in atomic units.
    pub stores: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Cycles, where the machine knows them.
    pub cycles: u64,
}

/// What lies between the stores of marks.
pub fn sections(log: &Log) -> Vec<(u16, Cost)> {
    let mut out: Vec<(u16, Cost)> = Vec::new();
    let mut begun: Option<(u16, &Store)> = None;
    let mut cost = Cost::default();
    for s in &log.stores {
        match (s.mailbox_write(), begun) {
            (Some((cell::MARK, 0)), Some((n, b))) => {
                cost.instructions = u64::from(s.instruction - b.instruction);
                cost.cycles = s.cycle - b.cycle;
                out.push((n, cost));
                begun = None;
            }
            (Some((cell::MARK, n)), _) if n != 0 => (begun, cost) = (Some((n, s)), Cost::default()),
            (None, Some(_)) if usize::from(s.at) < NVM => {
                cost.stores += 1;
                cost.bytes += s.bytes().len() as u64;
            }
            _ => {}
        }
    }
    out
}

/// What the scenario counted itself: number and value.
pub fn figures(log: &Log) -> Vec<(u16, u16)> {
    let mut out = Vec::new();
    let mut number = 0;
    for s in &log.stores {
        match s.mailbox_write() {
            Some((cell::FIGURE, n)) => number = n,
            Some((cell::VALUE, v)) => out.push((number, v)),
            _ => {}
        }
    }
    out
}
