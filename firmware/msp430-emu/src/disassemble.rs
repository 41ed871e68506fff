//! Text of an instruction, for reports; from the tables that the interpreter uses.

use crate::decode::{Condition, Double, Instruction, Operand, Single, decode};

/// An instruction as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disassembled {
    /// As an assembler takes it; `.word 0x…` where there is no instruction.
    pub text: String,
    /// Its length in bytes.
    pub length: u16,
}

/// The instruction at `pc`.
///
/// `word` reads the memory; `name` gives the symbol at an address that the instruction calls, jumps
/// to or names, if any.
pub fn disassemble(
    pc: u16,
    word: impl Fn(u16) -> u16,
    name: impl Fn(u16) -> Option<String>,
) -> Disassembled {
    let first = word(pc);
    let Some(i) = decode(first) else {
        return Disassembled {
            text: format!(".word 0x{first:04x}"),
            length: 2,
        };
    };
    let mut next = pc.wrapping_add(2);
    let mut operand = |o: Operand| {
        let here = next;
        let x = word(here);
        if o.extends() {
            next = next.wrapping_add(2);
        }
        match o {
            Operand::Register(r) => register(r),
            Operand::Indexed(r) => format!("{}({})", x as i16, register(r)),
            Operand::Symbolic => address(here.wrapping_add(x), &name),
            Operand::Absolute => format!("&{}", address(x, &name)),
            Operand::Indirect(r) => format!("@{}", register(r)),
            Operand::Increment(r) => format!("@{}+", register(r)),
            Operand::Immediate => format!("#{}", address(x, &name)),
            Operand::Constant(c) => format!("#{}", c as i16),
        }
    };
    let text = match i {
        Instruction::Double { op, byte, src, dst } => {
            let (s, d) = (operand(src), operand(dst));
            double(op, byte, (src, &s), (dst, &d))
        }
        Instruction::Single {
            op,
            byte,
            operand: o,
            ..
        } => {
            let op = match op {
                Single::Rrc => "rrc",
                Single::Swpb => "swpb",
                Single::Rra => "rra",
                Single::Sxt => "sxt",
                Single::Push => "push",
                Single::Call => "call",
            };
            format!("{op}{} {}", suffix(byte), operand(o))
        }
        Instruction::Reti => "reti".into(),
        Instruction::Jump { condition, offset } => {
            let op = match condition {
                Condition::NotZero => "jnz",
                Condition::Zero => "jz",
                Condition::NoCarry => "jnc",
                Condition::Carry => "jc",
                Condition::Negative => "jn",
                Condition::GreaterOrEqual => "jge",
                Condition::Less => "jl",
                Condition::Always => "jmp",
            };
            let to = pc.wrapping_add(2).wrapping_add_signed(offset);
            format!("{op} {}", address(to, &name))
        }
    };
    Disassembled {
        text,
        length: 2 * i.words(),
    }
}

fn suffix(byte: bool) -> &'static str {
    if byte { ".b" } else { "" }
}

fn register(r: u8) -> String {
    match r {
        0 => "pc".into(),
        1 => "sp".into(),
        2 => "sr".into(),
        n => format!("r{n}"),
    }
}

fn address(a: u16, name: &impl Fn(u16) -> Option<String>) -> String {
    match name(a) {
        Some(n) => format!("0x{a:04x} <{n}>"),
        None => format!("0x{a:04x}"),
    }
}

/// Under the name of the emulated instruction where that reads better.
fn double(op: Double, byte: bool, (from, s): (Operand, &str), (to, d): (Operand, &str)) -> String {
    let b = suffix(byte);
    let constant = match from {
        Operand::Constant(c) => Some(c),
        _ => None,
    };
    match (op, from, to, constant) {
        (Double::Mov, Operand::Increment(1), Operand::Register(0), _) => return "ret".into(),
        (Double::Mov, Operand::Increment(1), _, _) => return format!("pop{b} {d}"),
        (Double::Mov, _, Operand::Register(3), Some(0)) => return "nop".into(),
        (Double::Mov, _, Operand::Register(0), _) => return format!("br {s}"),
        (Double::Mov, _, _, Some(0)) => return format!("clr{b} {d}"),
        (Double::Bis, _, Operand::Register(2), Some(8)) => return "eint".into(),
        (Double::Bic, _, Operand::Register(2), Some(8)) => return "dint".into(),
        (Double::Add, _, _, Some(1)) => return format!("inc{b} {d}"),
        (Double::Add, _, _, Some(2)) => return format!("incd{b} {d}"),
        (Double::Sub, _, _, Some(1)) => return format!("dec{b} {d}"),
        (Double::Sub, _, _, Some(2)) => return format!("decd{b} {d}"),
        (Double::Cmp, _, _, Some(0)) => return format!("tst{b} {d}"),
        (Double::Xor, _, _, Some(0xffff)) => return format!("inv{b} {d}"),
        (Double::Addc, _, _, Some(0)) => return format!("adc{b} {d}"),
        (Double::Subc, _, _, Some(0)) => return format!("sbc{b} {d}"),
        (Double::Add, Operand::Register(x), Operand::Register(y), _) if x == y => {
            return format!("rla{b} {d}");
        }
        (Double::Addc, Operand::Register(x), Operand::Register(y), _) if x == y => {
            return format!("rlc{b} {d}");
        }
        _ => {}
    }
    let op = match op {
        Double::Mov => "mov",
        Double::Add => "add",
        Double::Addc => "addc",
        Double::Subc => "subc",
        Double::Sub => "sub",
        Double::Cmp => "cmp",
        Double::Dadd => "dadd",
        Double::Bit => "bit",
        Double::Bic => "bic",
        Double::Bis => "bis",
        Double::Xor => "xor",
        Double::And => "and",
    };
    format!("{op}{b} {s}, {d}")
}
