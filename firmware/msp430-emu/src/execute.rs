//! What each instruction does.

use crate::cpu::{Cpu, PC, SP, SR};
use crate::decode::{Condition, Double, Instruction, Operand, Single};
use crate::flag;
use crate::operands::Place;
use crate::watch::{Observer, Width};

impl Cpu {
    /// `pc`: the address of the instruction. PC is already behind its first word.
    #[inline]
    pub(crate) fn execute<O: Observer>(&mut self, i: Instruction, pc: u16, o: &mut O) {
        match i {
            Instruction::Double { op, byte, src, dst } => self.double(op, byte, src, dst, pc, o),
            Instruction::Single { op, byte, operand } => self.single(op, byte, operand, pc, o),
            Instruction::Reti => {
                // An interrupt that is pending then is accepted at once.
                self.regs[SR] = self.pop(o);
                self.regs[PC] = self.pop(o) & !1;
            }
            Instruction::Jump { condition, offset } => {
                if self.holds(condition) {
                    self.regs[PC] = self.regs[PC].wrapping_add_signed(offset);
                }
            }
        }
    }

    fn holds(&self, condition: Condition) -> bool {
        let is = |f: u16| self.regs[SR] & f != 0;
        match condition {
            Condition::NotZero => !is(flag::Z),
            Condition::Zero => is(flag::Z),
            Condition::NoCarry => !is(flag::C),
            Condition::Carry => is(flag::C),
            Condition::Negative => is(flag::N),
            Condition::GreaterOrEqual => is(flag::N) == is(flag::V),
            Condition::Less => is(flag::N) != is(flag::V),
            Condition::Always => true,
        }
    }

    #[inline]
    fn double<O: Observer>(
        &mut self,
        op: Double,
        byte: bool,
        src: Operand,
        dst: Operand,
        pc: u16,
        o: &mut O,
    ) {
        let from = self.locate(src, byte);
        let a = self.read(from, byte, o);
        let to = self.locate(dst, byte);
        if op == Double::Mov {
            return self.write(to, byte, a, pc, o);
        }
        let b = self.read(to, byte, o);
        let (result, flags) = compute(op, byte, a, b, self.regs[SR]);
        // Before the result, which may go to SR.
        self.regs[SR] = flags;
        if !matches!(op, Double::Cmp | Double::Bit) {
            self.write(to, byte, result, pc, o);
        }
    }

    #[inline]
    fn single<O: Observer>(
        &mut self,
        op: Single,
        byte: bool,
        operand: Operand,
        pc: u16,
        o: &mut O,
    ) {
        let place = self.locate(operand, byte);
        match op {
            Single::Push => {
                // The register after the decrement; an address in memory is found before it.
                let value = match place {
                    Place::Register(1) => self.regs[SP].wrapping_sub(2),
                    _ => self.read(place, byte, o),
                };
                let mask = if byte { 0xff } else { 0xffff };
                self.regs[SP] = self.regs[SP].wrapping_sub(2);
                self.store(self.regs[SP], byte, value & mask, pc, o);
            }
            Single::Call => {
                let to = self.read(place, false, o);
                self.regs[SP] = self.regs[SP].wrapping_sub(2);
                self.store(self.regs[SP], false, self.regs[PC], pc, o);
                self.regs[PC] = to & !1;
            }
            Single::Swpb => {
                let value = self.read(place, false, o);
                self.write(place, false, value.swap_bytes(), pc, o);
            }
            Single::Sxt => {
                let result = self.read(place, false, o) as i8 as u16;
                self.logic_flags(false, result);
                self.write(place, false, result, pc, o);
            }
            Single::Rra | Single::Rrc => {
                let value = self.read(place, byte, o);
                let msb = if byte { 0x80 } else { 0x8000 };
                let top = match op {
                    Single::Rra => value & msb,
                    _ if self.regs[SR] & flag::C != 0 => msb,
                    _ => 0,
                };
                let result = value >> 1 | top;
                self.logic_flags(byte, result);
                self.regs[SR] = self.regs[SR] & !flag::C | value & 1;
                self.write(place, byte, result, pc, o);
            }
        }
    }

    fn logic_flags(&mut self, byte: bool, result: u16) {
        self.regs[SR] = logic(byte, result, self.regs[SR]);
    }

    fn pop<O: Observer>(&mut self, o: &mut O) -> u16 {
        let at = self.regs[SP];
        self.wait(at, false);
        self.see_load(at, Width::Word, o);
        self.regs[SP] = at.wrapping_add(2);
        self.word(at)
    }
}

/// SR after a result that sets N and Z, C when it is not 0, and clears V.
#[inline]
fn logic(byte: bool, result: u16, sr: u16) -> u16 {
    let msb = if byte { 0x80 } else { 0x8000 };
    let mut sr = sr & !flag::ARITHMETIC;
    sr |= if result == 0 { flag::Z } else { flag::C };
    if result & msb != 0 {
        sr |= flag::N;
    }
    sr
}

/// The result and SR of an instruction with two operands but MOV; `a` is the source.
#[inline]
fn compute(op: Double, byte: bool, a: u16, b: u16, sr: u16) -> (u16, u16) {
    let mask: u16 = if byte { 0xff } else { 0xffff };
    let msb: u16 = if byte { 0x80 } else { 0x8000 };
    let carry = sr & flag::C;
    let sum = |a: u16, carry: u16| {
        let wide = u32::from(a) + u32::from(b) + u32::from(carry);
        let r = wide as u16 & mask;
        let mut s = sr & !flag::ARITHMETIC;
        if wide > u32::from(mask) {
            s |= flag::C;
        }
        if r == 0 {
            s |= flag::Z;
        }
        if r & msb != 0 {
            s |= flag::N;
        }
        if (a ^ r) & (b ^ r) & msb != 0 {
            s |= flag::V;
        }
        (r, s)
    };
    match op {
        Double::Mov => (a, sr),
        Double::Add => sum(a, 0),
        Double::Addc => sum(a, carry),
        // Subtraction adds the complement: C is "no borrow".
        Double::Sub | Double::Cmp => sum(!a & mask, 1),
        Double::Subc => sum(!a & mask, carry),
        Double::Dadd => decimal(byte, a, b, sr),
        Double::And | Double::Bit => (a & b, logic(byte, a & b, sr)),
        Double::Bic => (b & !a, sr),
        Double::Bis => (b | a, sr),
        Double::Xor => {
            let r = a ^ b;
            let v = if a & b & msb != 0 { flag::V } else { 0 };
            (r, logic(byte, r, sr) | v)
        }
    }
}

/// DADD, digit by digit. The guide leaves V undefined (here: cleared), and digits above 9.
fn decimal(byte: bool, a: u16, b: u16, sr: u16) -> (u16, u16) {
    let mut carry = sr & flag::C;
    let mut r = 0;
    for shift in (0..if byte { 8 } else { 16 }).step_by(4) {
        let mut d = (a >> shift & 15) + (b >> shift & 15) + carry;
        carry = u16::from(d > 9);
        if d > 9 {
            d -= 10;
        }
        r |= (d & 15) << shift;
    }
    let s = logic(byte, r, sr) & !flag::C | carry;
    (r, s)
}
