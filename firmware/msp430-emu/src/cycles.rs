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
