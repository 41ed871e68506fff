//! The seven addressing modes, as source and as destination, words and bytes.

use crate::support::*;
use msp430_emu::{Cpu, PC, SP};

/// `mov SRC, R5` with R4 = 0x2000, the word behind it, and memory where it matters.
fn load(src: u16, mode: u16, byte: bool, x: u16) -> (u16, Cpu) {
    let op = if byte { MOV | BYTE } else { MOV };
    let mut cpu = machine(&[double(op, src, mode, 5, REGISTER), x]);
    cpu.regs[4] = 0x2000;
    cpu.set_word(0x2000, 0x1234);
    cpu.set_word(0x2006, 0x5678);
    cpu.set_word(CODE + 2 + 0x100, 0x9abc);
    step(&mut cpu);
    (cpu.regs[5], cpu)
}

#[test]
fn sources() {
    let value = |src, mode, byte, x| load(src, mode, byte, x).0;
    assert_eq!(value(4, REGISTER, false, 0), 0x2000);
    assert_eq!(value(4, REGISTER, true, 0), 0);
    assert_eq!(value(4, INDEXED, false, 6), 0x5678);
    assert_eq!(value(4, INDEXED, true, 7), 0x56);
    // An index wraps round.
    assert_eq!(value(4, INDEXED, false, 0xe006), 0);
    // X counts from the word that holds it.
    assert_eq!(value(0, INDEXED, false, 0x100), 0x9abc);
    assert_eq!(value(2, INDEXED, false, 0x2006), 0x5678);
    assert_eq!(value(4, INDIRECT, false, 0), 0x1234);
    assert_eq!(value(4, INDIRECT, true, 0), 0x34);
    assert_eq!(value(4, INCREMENT, false, 0), 0x1234);
    assert_eq!(value(0, INCREMENT, false, 0xbeef), 0xbeef);
    assert_eq!(value(0, INCREMENT, true, 0xbeef), 0xef);
}

#[test]
fn increments() {
    assert_eq!(load(4, INCREMENT, false, 0).1.regs[4], 0x2002);
    assert_eq!(load(4, INCREMENT, true, 0).1.regs[4], 0x2001);
    // SP and PC stay even.
    assert_eq!(load(1, INCREMENT, true, 0).1.regs[SP], 0x3002);
    assert_eq!(load(0, INCREMENT, true, 0).1.regs[PC], CODE + 4);
    assert_eq!(load(4, INDIRECT, false, 0).1.regs[4], 0x2000);
}

#[test]
fn constant_generators() {
    let constants = [
        (3, 0, 0u16),
        (3, 1, 1),
        (3, 2, 2),
        (3, 3, 0xffff),
        (2, 2, 4),
        (2, 3, 8),
    ];
    for (register, mode, value) in constants {
        let (r, cpu) = load(register, mode, false, 0);
        assert_eq!((r, cpu.regs[PC]), (value, CODE + 2));
        let (r, _) = load(register, mode, true, 0);
        assert_eq!(r, value & 0xff);
    }
}

#[test]
fn a_word_ignores_bit_0_of_its_address() {
    assert_eq!(load(4, INDEXED, false, 7).0, 0x5678);
    let mut cpu = machine(&[double(MOV, 4, REGISTER, 5, INDEXED), 1]);
    (cpu.regs[4], cpu.regs[5]) = (0x1234, 0x2000);
    step(&mut cpu);
    assert_eq!(cpu.word(0x2000), 0x1234);
    let mut cpu = machine(&[double(MOV, 0, INCREMENT, 1, REGISTER), 0x2fff]);
    step(&mut cpu);
    assert_eq!(cpu.regs[SP], 0x2ffe);
    let mut cpu = machine(&[double(MOV, 0, INCREMENT, 0, REGISTER), 0x6001]);
    step(&mut cpu);
    assert_eq!(cpu.regs[PC], 0x6000);
}

#[test]
fn destinations() {
    for byte in [false, true] {
        let op = if byte { MOV | BYTE } else { MOV };
        let new = if byte { 0xff34 } else { 0x1234 };
        for (register, x, at) in [
            (5, 6, 0x2006),
            (0, 0x100, CODE + 2 + 0x100),
            (2, 0x2222, 0x2222),
        ] {
            let mut cpu = machine(&[double(op, 4, REGISTER, register, INDEXED), x]);
            (cpu.regs[4], cpu.regs[5]) = (0x1234, 0x2000);
            cpu.set_word(at, 0xffff);
            step(&mut cpu);
            assert_eq!((cpu.word(at), cpu.regs[PC]), (new, CODE + 4));
        }
    }
    // A byte in a register clears the upper half; one at an odd address is the upper half of its
    // word.
    let mut cpu = machine(&[double(MOV | BYTE, 4, REGISTER, 5, INDEXED), 1]);
    (cpu.regs[4], cpu.regs[5]) = (0x1234, 0x2000);
    step(&mut cpu);
    assert_eq!(cpu.word(0x2000), 0x3400);
}

#[test]
fn r3_keeps_nothing() {
    let mut cpu = machine(&[double(MOV, 0, INCREMENT, 3, REGISTER), 7]);
    step(&mut cpu);
    assert_eq!(cpu.regs[3], 0);
}

/// Both operands with a word of their own: the source's comes first. The source is read and
/// incremented before the destination is found.
#[test]
fn from_memory_to_memory() {
    let mut cpu = machine(&[double(ADD, 4, INDEXED, 5, INDEXED), 2, 4]);
    (cpu.regs[4], cpu.regs[5]) = (0x2000, 0x2100);
    cpu.set_word(0x2002, 0x1111);
    cpu.set_word(0x2104, 0x2222);
    step(&mut cpu);
    assert_eq!((cpu.word(0x2104), cpu.regs[PC]), (0x3333, CODE + 6));

    let mut cpu = machine(&[double(ADD, 4, INCREMENT, 4, INDEXED), 0]);
    cpu.regs[4] = 0x2000;
    cpu.set_word(0x2000, 0x1111);
    step(&mut cpu);
    assert_eq!((cpu.word(0x2002), cpu.word(0x2000)), (0x1111, 0x1111));
}

#[test]
fn one_operand_in_memory() {
    for (mode, register, x, after) in [
        (INDEXED, 5, 6, 0x2000),
        (INDIRECT, 4, 0, 0x2000),
        (INCREMENT, 4, 0, 0x2002),
        (INDEXED, 2, 0x2006, 0x2000),
    ] {
        let mut cpu = machine(&[single(SWPB, mode, register), x]);
        (cpu.regs[4], cpu.regs[5]) = (0x2000, 0x2000);
        cpu.set_word(0x2000, 0x1234);
        cpu.set_word(0x2006, 0x1234);
        step(&mut cpu);
        let at = if mode == INDEXED { 0x2006 } else { 0x2000 };
        assert_eq!(cpu.word(at), 0x3412);
        assert_eq!(cpu.regs[4], after);
    }
}

/// A device that answers with how often it was asked.
struct Device(u16);

impl msp430_emu::Observer for Device {
    fn supply(&mut self, load: &msp430_emu::Load) -> Option<u16> {
        (load.address & !1 == 0x2000).then(|| {
            self.0 += 1;
            0xAB00 + self.0
        })
    }
}

#[test]
fn a_device_answers_instead_of_the_memory() {
    let mut device = Device(0);
    let mut run = |op, dst, ad| {
        let mut cpu = machine(&[double(op, 4, INDIRECT, dst, ad), 0x2000]);
        (cpu.regs[4], cpu.regs[5]) = (0x2000, 1);
        cpu.set_word(0x2000, 0x1234);
        cpu.step(&mut device).unwrap();
        (cpu.regs[5], cpu.word(0x2000))
    };
    assert_eq!(run(MOV, 5, REGISTER), (0xAB01, 0x1234));
    assert_eq!(run(MOV | BYTE, 5, REGISTER), (2, 0x1234));
    assert_eq!(run(ADD, 5, REGISTER), (0xAB04, 0x1234));
    // A destination is read, too, unless it is only written.
    assert_eq!(run(ADD, 2, INDEXED), (1, 0x5609));
    assert_eq!(run(MOV, 2, INDEXED), (1, 0xAB06));
}
