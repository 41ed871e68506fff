//! Text of instructions.

use crate::support::*;
use msp430_emu::{decode, disassemble};

fn text(code: &[u16]) -> String {
    let cpu = machine(code);
    let d = disassemble(
        CODE,
        |a| cpu.word(a),
        |a| (a == 0x6000).then(|| "f".to_owned()),
    );
    assert_eq!(usize::from(d.length), 2 * code.len(), "{}", d.text);
    d.text
}

#[test]
fn modes_and_names() {
    assert_eq!(
        text(&[double(MOV, 4, INDEXED, 5, REGISTER), 0xfffe]),
        "mov -2(r4), r5"
    );
    assert_eq!(
        text(&[double(XOR | BYTE, 4, INCREMENT, 5, INDEXED), 6]),
        "xor.b @r4+, 6(r5)"
    );
    assert_eq!(
        text(&[double(CMP, 0, INCREMENT, 2, INDEXED), 0x1234, 0x4000]),
        "cmp #0x1234, &0x4000"
    );
    assert_eq!(
        text(&[double(AND, 0, INDEXED, 5, REGISTER), 0x10]),
        "and 0x5012, r5"
    );
    assert_eq!(text(&[double(BIT, 2, 2, 2, REGISTER)]), "bit #4, sr");
    assert_eq!(
        text(&[single(CALL, INCREMENT, 0), 0x6000]),
        "call #0x6000 <f>"
    );
    assert_eq!(text(&[single(RRC | BYTE, INDIRECT, 9)]), "rrc.b @r9");
    assert_eq!(text(&[0x3fff]), "jmp 0x5000");
    assert_eq!(text(&[RETI]), "reti");
    assert_eq!(text(&[0x1380]), ".word 0x1380");
}

#[test]
fn emulated_instructions() {
    assert_eq!(text(&[0x4130]), "ret");
    assert_eq!(text(&[0x4303]), "nop");
    assert_eq!(text(&[0x4135]), "pop r5");
    assert_eq!(text(&[0x4030, 0x6000]), "br #0x6000 <f>");
    assert_eq!(text(&[0xd232]), "eint");
    assert_eq!(text(&[0xc232]), "dint");
    assert_eq!(text(&[0x5315]), "inc r5");
    assert_eq!(text(&[0x8325]), "decd r5");
    assert_eq!(text(&[0x5505]), "rla r5");
    assert_eq!(text(&[0x9305]), "tst r5");
}

/// Every word has a text, and its length is the one that the interpreter steps over.
#[test]
fn every_word() {
    for word in 0..=0xffff {
        let d = disassemble(CODE, |a| if a == CODE { word } else { 0x1234 }, |_| None);
        assert!(!d.text.is_empty());
        assert_eq!(d.length, 2 * decode(word).map_or(1, |i| i.words()));
    }
}
