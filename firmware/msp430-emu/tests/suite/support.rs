//! A machine with a few words of code at 0x5000.
#![allow(dead_code)]

use msp430_emu::{Cpu, Event, PC, SP, SR, Unobserved, flag};

pub const CODE: u16 = 0x5000;

/// Source modes As, and destination modes Ad.
pub const REGISTER: u16 = 0;
pub const INDEXED: u16 = 1;
pub const INDIRECT: u16 = 2;
pub const INCREMENT: u16 = 3;

pub const MOV: u16 = 0x4000;
pub const ADD: u16 = 0x5000;
pub const ADDC: u16 = 0x6000;
pub const SUBC: u16 = 0x7000;
pub const SUB: u16 = 0x8000;
pub const CMP: u16 = 0x9000;
pub const DADD: u16 = 0xa000;
pub const BIT: u16 = 0xb000;
pub const BIC: u16 = 0xc000;
pub const BIS: u16 = 0xd000;
pub const XOR: u16 = 0xe000;
pub const AND: u16 = 0xf000;
pub const RRC: u16 = 0x1000;
pub const SWPB: u16 = 0x1080;
pub const RRA: u16 = 0x1100;
pub const SXT: u16 = 0x1180;
pub const PUSH: u16 = 0x1200;
pub const CALL: u16 = 0x1280;
pub const RETI: u16 = 0x1300;

pub const BYTE: u16 = 0x40;

/// Format I.
pub fn double(op: u16, src: u16, mode: u16, dst: u16, ad: u16) -> u16 {
    op | src << 8 | ad << 7 | mode << 4 | dst
}

/// Format II.
pub fn single(op: u16, mode: u16, register: u16) -> u16 {
    op | mode << 4 | register
}

pub fn machine(code: &[u16]) -> Cpu {
    let mut cpu = Cpu::new();
    for (n, w) in code.iter().enumerate() {
        cpu.set_word(CODE + 2 * n as u16, *w);
    }
    cpu.regs[PC] = CODE;
    cpu.regs[SP] = 0x3000;
    cpu
}

pub fn step(cpu: &mut Cpu) {
    assert_eq!(cpu.step(&mut Unobserved), Ok(Event::Executed));
}

/// `op R4, R5` once: R5 and the flags C, Z, N, V.
pub fn binary(op: u16, a: u16, b: u16, carry: bool) -> (u16, String) {
    let mut cpu = machine(&[double(op, 4, REGISTER, 5, REGISTER)]);
    cpu.regs[4] = a;
    cpu.regs[5] = b;
    cpu.regs[SR] = u16::from(carry);
    step(&mut cpu);
    (cpu.regs[5], flags(&cpu))
}

/// `op R5` once.
pub fn unary(op: u16, a: u16, carry: bool) -> (u16, String) {
    let mut cpu = machine(&[single(op, REGISTER, 5)]);
    cpu.regs[5] = a;
    cpu.regs[SR] = u16::from(carry);
    step(&mut cpu);
    (cpu.regs[5], flags(&cpu))
}

pub fn flags(cpu: &Cpu) -> String {
    [
        (flag::C, 'C'),
        (flag::Z, 'Z'),
        (flag::N, 'N'),
        (flag::V, 'V'),
    ]
    .iter()
    .filter(|(f, _)| cpu.regs[SR] & f != 0)
    .map(|(_, c)| *c)
    .collect()
}
