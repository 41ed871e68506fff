//! The seven addressing modes: where an operand is, and how it is read and written.

use crate::cpu::{Cpu, PC, SP, SR};
use crate::decode::Operand;
use crate::flag;
use crate::watch::{Load, Observer, Width};

/// An operand whose address is known.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Register(u8),
    Memory(u16),
    Value(u16),
}

impl Cpu {
    fn fetch(&mut self) -> u16 {
        self.wait(self.regs[PC], false);
        let w = self.word(self.regs[PC]);
        self.regs[PC] = self.regs[PC].wrapping_add(2);
        w
    }

    /// Finds an operand; takes its word from behind the instruction and increments its register.
    #[inline]
    pub(crate) fn locate(&mut self, operand: Operand, byte: bool) -> Place {
        match operand {
            Operand::Register(r) => Place::Register(r),
            Operand::Indexed(r) => {
                let x = self.fetch();
                Place::Memory(self.regs[usize::from(r)].wrapping_add(x))
            }
            Operand::Symbolic => {
                let here = self.regs[PC];
                Place::Memory(self.fetch().wrapping_add(here))
            }
            Operand::Absolute => Place::Memory(self.fetch()),
            Operand::Indirect(r) => Place::Memory(self.regs[usize::from(r)]),
            Operand::Increment(r) => {
                let r = usize::from(r);
                let at = self.regs[r];
                // The stack pointer stays even.
                let n = if byte && r != SP { 1 } else { 2 };
                self.regs[r] = at.wrapping_add(n);
                Place::Memory(at)
            }
            Operand::Immediate => Place::Value(self.fetch()),
            Operand::Constant(c) => Place::Value(c),
        }
    }

    #[inline]
    pub(crate) fn read<O: Observer>(&mut self, place: Place, byte: bool, o: &mut O) -> u16 {
        let mask = if byte { 0xff } else { 0xffff };
        match place {
            // R3 is the constant generator: it reads as 0, also as a destination.
            Place::Register(3) => 0,
            Place::Register(r) => self.regs[usize::from(r)] & mask,
            Place::Value(v) => v & mask,
            Place::Memory(a) => {
                self.wait(a, false);
                self.before_timer(a);
                let width = if byte { Width::Byte } else { Width::Word };
                self.see_load(a, width, o);
                let load = Load {
                    address: a,
                    width,
                    pc: self.last(),
                    instruction: self.instructions,
                    cycle: self.cycles,
                };
                let value = match o.supply(&load) {
                    Some(v) => v & mask,
                    None if byte => u16::from(self.mem[usize::from(a)]),
                    None => self.word(a),
                };
                self.after_timer(a, false);
                value
            }
        }
    }

    /// A byte written to a register clears the upper half.
    #[inline]
    pub(crate) fn write<O: Observer>(
        &mut self,
        place: Place,
        byte: bool,
        value: u16,
        pc: u16,
        o: &mut O,
    ) {
        match place {
            Place::Register(r) => self.set(usize::from(r), value),
            Place::Memory(a) => self.store(a, byte, value, pc, o),
            Place::Value(_) => {}
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, r: usize, value: u16) {
        match r {
            PC | SP => self.regs[r] = value & !1,
            SR => {
                if value & !self.regs[SR] & flag::GIE != 0 {
                    self.enabled_at = self.instructions + 1;
                }
                self.regs[SR] = value;
            }
            3 => {}
            _ => self.regs[r] = value,
        }
    }
}
