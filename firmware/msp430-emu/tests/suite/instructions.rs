//! What each of the 27 instructions does to its operands and to the flags, by the user's guide.

use crate::support::*;
use msp430_emu::{Cpu, Fault, FaultKind, PC, SP, SR, Unobserved, decode, flag};

fn check(got: (u16, String), value: u16, flags: &str) {
    assert_eq!((got.0, got.1.as_str()), (value, flags));
}

#[test]
fn mov_changes_no_flag() {
    check(binary(MOV, 0x8000, 1, true), 0x8000, "C");
    check(binary(MOV | BYTE, 0x1280, 0xffff, true), 0x80, "C");
}

#[test]
fn add_and_addc() {
    check(binary(ADD, 1, 2, true), 3, "");
    check(binary(ADD, 1, 0x7fff, false), 0x8000, "NV");
    check(binary(ADD, 1, 0xffff, false), 0, "CZ");
    check(binary(ADD, 0x8000, 0x8000, false), 0, "CZV");
    check(binary(ADD | BYTE, 0x1201, 0x347f, false), 0x80, "NV");
    check(binary(ADD | BYTE, 0x1201, 0x34ff, false), 0, "CZ");
    check(binary(ADDC, 1, 2, true), 4, "");
    check(binary(ADDC, 0xffff, 0, true), 0, "CZ");
    check(binary(ADDC, 0x7fff, 0, true), 0x8000, "NV");
}

#[test]
fn sub_and_subc_have_carry_as_no_borrow() {
    check(binary(SUB, 1, 3, false), 2, "C");
    check(binary(SUB, 3, 1, false), 0xfffe, "N");
    check(binary(SUB, 3, 3, false), 0, "CZ");
    check(binary(SUB, 1, 0x8000, false), 0x7fff, "CV");
    check(binary(SUB, 0x8000, 0, false), 0x8000, "NV");
    check(binary(SUB | BYTE, 0x01, 0x80, false), 0x7f, "CV");
    check(binary(SUBC, 1, 3, true), 2, "C");
    check(binary(SUBC, 1, 3, false), 1, "C");
    check(binary(SUBC, 3, 3, false), 0xffff, "N");
}

#[test]
fn cmp_and_bit_store_nothing() {
    check(binary(CMP, 3, 1, false), 1, "N");
    check(binary(CMP | BYTE, 0x8001, 0x7f01, false), 0x7f01, "CZ");
    check(binary(BIT, 0x8001, 0x8000, false), 0x8000, "CN");
    check(binary(BIT, 1, 2, true), 2, "Z");
}

#[test]
fn dadd_adds_decimal_digits_and_the_carry() {
    check(binary(DADD, 0x1999, 1, false), 0x2000, "");
    check(binary(DADD, 0x1999, 0, true), 0x2000, "");
    check(binary(DADD, 0x9999, 1, false), 0, "CZ");
    check(binary(DADD, 0x7999, 1, false), 0x8000, "N");
    check(binary(DADD | BYTE, 0x45, 0x1255, false), 0, "CZ");
    check(binary(DADD | BYTE, 0x45, 0x1245, true), 0x91, "N");
}

/// Against arithmetic: all pairs of two decimal digits, and many of four.
#[test]
fn dadd_is_decimal_addition() {
    let bcd = |n: u16| (0..4).fold(0, |v, d| v | (n / 10u16.pow(d) % 10) << (4 * d));
    for a in 0..100 {
        for b in 0..100 {
            for c in 0..2 {
                let (r, f) = binary(DADD | BYTE, bcd(a), bcd(b), c == 1);
                assert_eq!(
                    (r, f.contains('C')),
                    (bcd((a + b + c) % 100), a + b + c > 99)
                );
                let (r, f) = binary(DADD, bcd(a * 99), bcd(b * 97), c == 1);
                let sum = a * 99 + b * 97 + c;
                assert_eq!((r, f.contains('C')), (bcd(sum % 10000), sum > 9999));
            }
        }
    }
}

#[test]
fn bic_and_bis_change_no_flag() {
    check(binary(BIC, 0x00ff, 0xffff, true), 0xff00, "C");
    check(binary(BIS, 0x00f0, 0x0f00, true), 0x0ff0, "C");
    check(binary(BIC | BYTE, 0x0f, 0xffff, false), 0xf0, "");
}

#[test]
fn xor_and_and() {
    check(binary(XOR, 0x8000, 0x8000, false), 0, "ZV");
    check(binary(XOR, 0x8000, 1, false), 0x8001, "CN");
    check(binary(XOR | BYTE, 0x80, 0x81, false), 1, "CV");
    check(binary(AND, 0x8000, 0xffff, false), 0x8000, "CN");
    check(binary(AND, 1, 2, true), 0, "Z");
}

#[test]
fn rotates() {
    check(unary(RRC, 1, true), 0x8000, "CN");
    check(unary(RRC, 2, false), 1, "");
    check(unary(RRC | BYTE, 0x1201, true), 0x80, "CN");
    check(unary(RRA, 0x8001, false), 0xc000, "CN");
    check(unary(RRA, 1, false), 0, "CZ");
    check(unary(RRA | BYTE, 0x1281, true), 0xc0, "CN");
}

#[test]
fn swpb_and_sxt() {
    check(unary(SWPB, 0x1234, true), 0x3412, "C");
    check(unary(SXT, 0x1280, false), 0xff80, "CN");
    check(unary(SXT, 0x127f, true), 0x7f, "C");
    check(unary(SXT, 0xff00, true), 0, "Z");
}

#[test]
fn push_decrements_first() {
    let mut cpu = machine(&[single(PUSH, REGISTER, 5), single(PUSH | BYTE, REGISTER, 5)]);
    cpu.regs[5] = 0x1234;
    cpu.set_word(0x2ffc, 0xffff);
    step(&mut cpu);
    assert_eq!((cpu.regs[SP], cpu.word(0x2ffe)), (0x2ffe, 0x1234));
    step(&mut cpu);
    // The upper byte of the stack's word is not touched.
    assert_eq!((cpu.regs[SP], cpu.word(0x2ffc)), (0x2ffc, 0xff34));
}

/// The sequence PUSH SP, POP SP leaves SP two lower: what is pushed is the decremented SP.
#[test]
fn push_sp_then_pop_sp() {
    let pop = double(MOV, 1, INCREMENT, 1, REGISTER);
    let mut cpu = machine(&[single(PUSH, REGISTER, 1), pop]);
    step(&mut cpu);
    assert_eq!(cpu.word(0x2ffe), 0x2ffe);
    step(&mut cpu);
    assert_eq!(cpu.regs[SP], 0x2ffe);
}

#[test]
fn call_and_ret() {
    let ret = double(MOV, 1, INCREMENT, 0, REGISTER);
    let mut cpu = machine(&[single(CALL, INCREMENT, 0), 0x6000]);
    cpu.set_word(0x6000, ret);
    step(&mut cpu);
    assert_eq!((cpu.regs[PC], cpu.word(0x2ffe)), (0x6000, CODE + 4));
    step(&mut cpu);
    assert_eq!((cpu.regs[PC], cpu.regs[SP]), (CODE + 4, 0x3000));
}

#[test]
fn reti_takes_sr_and_pc() {
    let mut cpu = machine(&[RETI]);
    cpu.regs[SP] = 0x2ffc;
    cpu.set_word(0x2ffc, flag::GIE | flag::N);
    cpu.set_word(0x2ffe, 0x6001);
    step(&mut cpu);
    assert_eq!(cpu.regs[..3], [0x6000, 0x3000, flag::GIE | flag::N]);
}

#[test]
fn jumps_look_at_the_flags() {
    use flag::{C, N, V, Z};
    let taken = |condition: u16, sr: u16| {
        let mut cpu = machine(&[0x2000 | condition << 10 | 0x10]);
        cpu.regs[SR] = sr;
        step(&mut cpu);
        assert!([CODE + 2, CODE + 0x22].contains(&cpu.regs[PC]));
        assert_eq!(cpu.regs[SR], sr);
        cpu.regs[PC] != CODE + 2
    };
    for sr in [0, C, Z, N, V, N | V, C | Z | N | V] {
        let expected = [
            sr & Z == 0,
            sr & Z != 0,
            sr & C == 0,
            sr & C != 0,
            sr & N != 0,
            (sr & N != 0) == (sr & V != 0),
            (sr & N != 0) != (sr & V != 0),
            true,
        ];
        for (condition, expected) in expected.into_iter().enumerate() {
            assert_eq!(
                taken(condition as u16, sr),
                expected,
                "{condition}, {sr:#x}"
            );
        }
    }
}

#[test]
fn jumps_reach_from_minus_511_to_512_words() {
    for (word, to) in [(0x3dff, 0x5400), (0x3e00, 0x4c02), (0x3fff, 0x5000)] {
        let mut cpu = machine(&[word]);
        step(&mut cpu);
        assert_eq!(cpu.regs[PC], to);
    }
}

#[test]
fn a_result_that_goes_to_sr_is_what_sr_has() {
    let mut cpu = machine(&[double(ADD, 4, REGISTER, 2, REGISTER)]);
    cpu.regs[4] = 0xffff;
    cpu.regs[SR] = 1;
    step(&mut cpu);
    assert_eq!(cpu.regs[SR], 0);
}

/// Of the 65,536 words, the ones that begin no instruction are faults and change nothing.
#[test]
fn what_is_undefined_is_a_fault() {
    let mut undefined = 0;
    for word in 0..=0xffff {
        let mut cpu = machine(&[word]);
        let before = cpu.clone();
        let outcome = cpu.step(&mut Unobserved);
        if decode(word).is_some() {
            assert!(outcome.is_ok(), "{word:#06x}");
            continue;
        }
        undefined += 1;
        let kind = FaultKind::Undefined(word);
        assert_eq!(outcome, Err(Fault { pc: CODE, kind }));
        same(&cpu, &before);
    }
    // Of 64 operands 7 are constants: what RRC and RRA (with .B), SWPB and SXT leave of them; PUSH
    // (with .B), CALL, RETI.
    let one_operand = 6 * (64 - 7) + 2 * 64 + 64 + 1;
    let to_x_r3 = 12 * 64 * 2;
    assert_eq!(undefined, 4096 + (4096 - one_operand) + to_x_r3);
    for word in [
        0, 0x0fff, 0x1301, 0x1380, 0x1400, 0x10c5, 0x11c5, 0x12c5, 0x1030, 0x1103, 0x4583,
    ] {
        assert_eq!(decode(word), None, "{word:#06x}");
    }
}

fn same(a: &Cpu, b: &Cpu) {
    assert_eq!(a.regs, b.regs);
    assert!(a.mem == b.mem);
    assert_eq!((a.cycles, a.instructions), (b.cycles, b.instructions));
}

#[test]
fn code_outside_of_the_executable_range_is_a_fault() {
    let mut cpu = machine(&[0x3fff]);
    cpu.set_executable(0x5002, 0xffff);
    let kind = FaultKind::NotExecutable;
    assert_eq!(cpu.step(&mut Unobserved), Err(Fault { pc: CODE, kind }));
    cpu.set_executable(0x5000, 0x5001);
    step(&mut cpu);
}
