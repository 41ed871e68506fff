//! The instruction word: one table for the interpreter, the cycle counts and the disassembler.

/// Where an operand is. `Indexed`, `Symbolic`, `Absolute` and `Immediate` take a word behind the
/// instruction word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// `Rn`
    Register(u8),
    /// `X(Rn)`
    Indexed(u8),
    /// `ADDR`: `X(PC)`, counted from the word that holds X
    Symbolic,
    /// `&ADDR`
    Absolute,
    /// `@Rn`
    Indirect(u8),
    /// `@Rn+`
    Increment(u8),
    /// `#N`: `@PC+`
    Immediate,
    /// `#N` of the constant generators R2 and R3: -1, 0, 1, 2, 4, 8
    Constant(u16),
}

impl Operand {
    /// Whether a word behind the instruction belongs to the operand.
    pub fn extends(self) -> bool {
        use Operand::*;
        matches!(self, Indexed(_) | Symbolic | Absolute | Immediate)
    }
}

/// Two operands (format I).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Double {
    Mov,
    Add,
    Addc,
    Subc,
    Sub,
    Cmp,
    Dadd,
    Bit,
    Bic,
    Bis,
    Xor,
    And,
}

/// One operand (format II).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Single {
    Rrc,
    Swpb,
    Rra,
    Sxt,
    Push,
    Call,
}

/// Of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Condition {
    NotZero,
    Zero,
    NoCarry,
    Carry,
    Negative,
    GreaterOrEqual,
    Less,
    Always,
}

/// One of the 27 instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Format I.
    Double {
        /// What it does.
        op: Double,
        /// `.B`
        byte: bool,
        /// The source; any mode.
        src: Operand,
        /// The destination; register, indexed, symbolic or absolute.
        dst: Operand,
    },
    /// Format II but RETI.
    Single {
        /// What it does.
        op: Single,
        /// `.B`
        byte: bool,
        /// The operand. Immediate and constant only of PUSH and CALL.
        operand: Operand,
    },
    /// Return from interrupt.
    Reti,
    /// Conditional and unconditional jumps.
    Jump {
        /// When it is taken.
        condition: Condition,
        /// Bytes from the next instruction.
        offset: i16,
    },
}

impl Instruction {
    /// How many words it has, 1 to 3.
    pub fn words(self) -> u16 {
        match self {
            Instruction::Double { src, dst, .. } => {
                1 + u16::from(src.extends()) + u16::from(dst.extends())
            }
            Instruction::Single { operand, .. } => 1 + u16::from(operand.extends()),
            Instruction::Reti | Instruction::Jump { .. } => 1,
        }
    }
}

const DOUBLE: [Double; 12] = [
    Double::Mov,
    Double::Add,
    Double::Addc,
    Double::Subc,
    Double::Sub,
    Double::Cmp,
    Double::Dadd,
    Double::Bit,
    Double::Bic,
    Double::Bis,
    Double::Xor,
    Double::And,
];

const CONDITION: [Condition; 8] = [
    Condition::NotZero,
    Condition::Zero,
    Condition::NoCarry,
    Condition::Carry,
    Condition::Negative,
    Condition::GreaterOrEqual,
    Condition::Less,
    Condition::Always,
];

/// The instruction that a word begins; `None` where the user's guide of the 16-bit CPU defines
/// none.
///
/// Undefined are also: the byte forms of SWPB, SXT and CALL, RETI with an operand, a destination
/// `X(R3)`, and RRC, RRA, SWPB and SXT of a constant ("not applicable" in the tables).
#[inline]
pub fn decode(word: u16) -> Option<Instruction> {
    let byte = word & 0x40 != 0;
    match word >> 12 {
        0 => None,
        1 => single(word, byte),
        2 | 3 => Some(Instruction::Jump {
            condition: CONDITION[usize::from(word >> 10 & 7)],
            // Ten bits with a sign, in words.
            offset: ((word << 6) as i16) >> 5,
        }),
        n => Some(Instruction::Double {
            op: DOUBLE[usize::from(n - 4)],
            byte,
            src: source(word >> 4, word >> 8),
            dst: destination(word)?,
        }),
    }
}

fn single(word: u16, byte: bool) -> Option<Instruction> {
    let op = match word >> 7 & 0x1f {
        0 => Single::Rrc,
        1 => Single::Swpb,
        2 => Single::Rra,
        3 => Single::Sxt,
        4 => Single::Push,
        5 => Single::Call,
        6 if word == 0x1300 => return Some(Instruction::Reti),
        _ => return None,
    };
    let operand = source(word >> 4, word);
    let writes_back = !matches!(op, Single::Push | Single::Call);
    let constant = matches!(operand, Operand::Immediate | Operand::Constant(_));
    let word_only = matches!(op, Single::Swpb | Single::Sxt | Single::Call);
    if (byte && word_only) || (writes_back && constant) {
        return None;
    }
    Some(Instruction::Single { op, byte, operand })
}

#[inline]
fn source(mode: u16, register: u16) -> Operand {
    use Operand::*;
    let register = (register & 15) as u8;
    match (mode & 3, register) {
        (0, 3) => Constant(0),
        (1, 3) => Constant(1),
        (2, 3) => Constant(2),
        (3, 3) => Constant(0xffff),
        (2, 2) => Constant(4),
        (3, 2) => Constant(8),
        (1, 2) => Absolute,
        (1, 0) => Symbolic,
        (3, 0) => Immediate,
        (0, r) => Register(r),
        (1, r) => Indexed(r),
        (2, r) => Indirect(r),
        (_, r) => Increment(r),
    }
}

#[inline]
fn destination(word: u16) -> Option<Operand> {
    match (word & 0x80 != 0, (word & 15) as u8) {
        (false, r) => Some(Operand::Register(r)),
        (true, 0) => Some(Operand::Symbolic),
        (true, 2) => Some(Operand::Absolute),
        (true, 3) => None,
        (true, r) => Some(Operand::Indexed(r)),
    }
}
