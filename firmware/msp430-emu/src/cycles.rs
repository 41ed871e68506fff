//! Cycle counts, from the tables of the family user's guides.
//!
//! [`Timing::Cpux`]: SLAU367 (MSP430FR58xx, FR59xx), "MSP430 Instruction Cycles and Length": Table 4-8 (interrupt,
//! reset), 4-9 (format II), jumps in the text, 4-10 (format I). [`Timing::Classic`]: SLAU144
//! (MSP430x2xx), Tables 3-14, 3-15, 3-16. Wait states of the memory are not in them; FRAM has none
//! up to 8 MHz.

use crate::decode::{Double, Instruction, Operand, Single};

/// The CPU whose counts are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// The MSP430X CPU of the FR5994, running the 27 instructions of the 16-bit CPU.
    #[default]
    Cpux,
    /// The 16-bit CPU.
    Classic,
}

/// From the acceptance of an interrupt to its first instruction, on both.
pub const ACCEPT: u64 = 6;
const RETI: u64 = 5;
const JUMP: u64 = 2;

/// FRCTL0: a password in the upper byte, which reads as another one; NWAITS.
pub(crate) const FRCTL0: u16 = 0x0140;
const PASSWORD: u16 = 0xA500;
const READS_AS: u16 = 0x9600;
const NWAITS: u16 = 0x0070;
const SHIFT: u16 = 4;
/// Addresses of FRAM: information memory, and what there is of the main memory in the lower 64 KiB.
const INFORMATION: core::ops::RangeInclusive<u16> = 0x1800..=0x19ff;
const MAIN: u16 = 0x4000;
const RAM: core::ops::RangeInclusive<u16> = 0x1c00..=0x3bff;

/// Accesses to memory: fetches of each word of an instruction, loads and stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Reads of FRAM that found their line in the cache.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
    /// Stores to FRAM.
    pub writes: u64,
    /// Loads from SRAM and stores to it.
    pub ram: u64,
}

/// The FRAM controller: its wait states, its cache, and the cycles that a CPU has waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Of an access that the cache does not answer.
    states: u16,
    /// Of each set, the addresses of the lines in bytes divided by 8, the last used one first.
    sets: [[Option<u16>; 2]; 2],
    /// Cycles waited. They are in the CPU's cycles.
    pub cycles: u64,
    /// Cycles that it would have waited had no access found its line.
    pub most: u64,
    /// What was accessed while there were wait states.
    pub accesses: Accesses,
}

impl Waits {
    /// Whether there are any.
    #[inline]
    pub(crate) fn on(&self) -> bool {
        self.states != 0
    }

    /// After a reset there are none, and the cache is empty. The counts go on.
    pub(crate) fn reset(&mut self) {
        (self.states, self.sets) = (0, Default::default());
    }

    /// A store to FRCTL0: what the register says then. A wrong password changes nothing here; it
    /// resets the device.
    pub(crate) fn control(&mut self, value: u16) -> u16 {
        if value & 0xFF00 == PASSWORD {
            self.states = (value & NWAITS) >> SHIFT;
        }
        READS_AS | self.states << SHIFT
    }

    /// An access. How many cycles it waits.
    pub(crate) fn access(&mut self, address: u16, write: bool) -> u64 {
        if address < MAIN && !INFORMATION.contains(&address) {
            self.accesses.ram += u64::from(RAM.contains(&address));
            return 0;
        }
        let states = u64::from(self.states);
        self.most += states;
        let line = Some(address >> 3);
        let set = &mut self.sets[usize::from(address >> 3 & 1)];
        let waits = match set.iter().position(|l| *l == line) {
            _ if write => {
                self.accesses.writes += 1;
                states
            }
            Some(way) => {
                self.accesses.hits += 1;
                set.swap(0, way);
                0
            }
            None => {
                self.accesses.misses += 1;
                *set = [line, set[0]];
                states
            }
        };
        self.cycles += waits;
        waits
    }
}

/// The rows of both tables.
fn row(o: Operand) -> usize {
    match o {
        // A constant of a generator costs what a register costs.
        Operand::Register(_) | Operand::Constant(_) => 0,
        Operand::Indirect(_) => 1,
        Operand::Increment(_) => 2,
        Operand::Immediate => 3,
        Operand::Indexed(_) => 4,
        Operand::Symbolic => 5,
        Operand::Absolute => 6,
    }
}

/// Destinations: a register, PC, memory.
type Format1 = [[u8; 3]; 7];

const CPUX_1: Format1 = [
    [1, 3, 4],
    [2, 4, 5],
    [2, 4, 5],
    [2, 3, 5],
    [3, 5, 6],
    [3, 5, 6],
    [3, 5, 6],
];

const CLASSIC_1: Format1 = [
    [1, 2, 4],
    [2, 2, 5],
    [2, 3, 5],
    [2, 3, 5],
    [3, 3, 6],
    [3, 3, 6],
    [3, 3, 6],
];

/// RRA, RRC, SWPB and SXT; PUSH; CALL. 0: there is no such instruction.
type Format2 = [[u8; 3]; 7];

const CPUX_2: Format2 = [
    [1, 3, 4],
    [3, 3, 4],
    [3, 3, 4],
    [0, 3, 4],
    [4, 4, 5],
    [4, 4, 5],
    [4, 4, 6],
];

const CLASSIC_2: Format2 = [
    [1, 3, 4],
    [3, 4, 4],
    [3, 5, 5],
    [0, 4, 5],
    [4, 5, 5],
    [4, 5, 5],
    [4, 5, 5],
];

/// The cycles of an instruction; of a jump, taken or not.
#[inline]
pub fn cycles(timing: Timing, i: Instruction) -> u64 {
    let cpux = timing == Timing::Cpux;
    match i {
        Instruction::Double { op, src, dst, .. } => {
            let column = match dst {
                Operand::Register(0) => 1,
                Operand::Register(_) => 0,
                _ => 2,
            };
            let n = if cpux { &CPUX_1 } else { &CLASSIC_1 }[row(src)][column];
            // These do not both read and write the destination.
            let less = cpux && column == 2 && matches!(op, Double::Mov | Double::Bit | Double::Cmp);
            u64::from(n) - u64::from(less)
        }
        Instruction::Single { op, operand, .. } => {
            let column = match op {
                Single::Push => 1,
                Single::Call => 2,
                _ => 0,
            };
            u64::from(if cpux { &CPUX_2 } else { &CLASSIC_2 }[row(operand)][column])
        }
        Instruction::Reti => RETI,
        Instruction::Jump { .. } => JUMP,
    }
}
