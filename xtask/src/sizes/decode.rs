//! As much of three instruction sets as tells what a function takes of the stack and whom it calls.
//!
//! The compiler can say what a function takes (`-Z emit-stack-sizes`), but not whom it calls, and
//! not whether it calls through a pointer. It says nothing of the functions of `core` and
//! `compiler_builtins` either, which come compiled without that option. So the instructions are
//! read in any case.

use super::stack::Frame;

/// What one instruction does.
enum Does {
    Nothing,
    /// Takes bytes of the stack; what it gives back does not count.
    Takes(i64),
    Calls(u32),
    Jumps(u32),
    /// It cannot be told.
    Unknown,
}

/// Goes through a function; `one` gives the length of the instruction at an index, in halfwords,
/// and what it does.
fn go(start: u32, code: &[u16], mut one: impl FnMut(usize, u32) -> (usize, Does)) -> Option<Frame> {
    let mut f = Frame::default();
    let inside = start..start + 2 * code.len() as u32;
    let mut i = 0;
    while i < code.len() {
        let (length, does) = one(i, start + 2 * i as u32);
        match does {
            Does::Nothing => {}
            Does::Takes(n) => f.bytes += n.max(0) as u64,
            // On ARMv6-M `bl` is also a far jump.
            Does::Calls(to) if to != start && inside.contains(&to) => {}
            Does::Calls(to) => drop(f.calls.insert(to)),
            Does::Jumps(to) => {
                if !inside.contains(&to) {
                    f.jumps.insert(to);
                }
            }
            Does::Unknown => return None,
        }
        i += length;
    }
    Some(f)
}

/// The low `bits` of `v` as a signed number.
fn signed(v: u32, bits: u32) -> i64 {
    i64::from((v << (32 - bits)) as i32 >> (32 - bits))
}

fn to(pc: u32, offset: i64) -> u32 {
    pc.wrapping_add(offset as u32)
}

/// The bits of `v` in the places that are named, the highest first.
fn bits(v: u32, places: &[u32]) -> u32 {
    places.iter().fold(0, |all, p| all << 1 | v >> p & 1)
}

/// ARM's Thumb instructions.
pub fn thumb(start: u32, code: &[u16]) -> Option<Frame> {
    go(start, code, |i, pc| {
        let a = u32::from(code[i]);
        if a >> 11 < 0b11101 {
            return (1, thumb_16(a, pc));
        }
        let b = u32::from(code.get(i + 1).copied().unwrap_or(0));
        (2, thumb_32(a, b, pc))
    })
}

fn thumb_16(a: u32, pc: u32) -> Does {
    match a {
        // push
        _ if a & 0xFE00 == 0xB400 => Does::Takes(4 * i64::from((a & 0x1FF).count_ones())),
        // sub sp
        _ if a & 0xFF80 == 0xB080 => Does::Takes(4 * i64::from(a & 0x7F)),
        // add sp, register
        _ if a & 0xFF87 == 0x4485 => Does::Unknown,
        // b
        _ if a & 0xF800 == 0xE000 => Does::Jumps(to(pc + 4, 2 * signed(a, 11))),
        // blx and, other than bx lr, bx
        _ if a & 0xFF87 == 0x4780 => Does::Unknown,
        _ if a & 0xFF87 == 0x4700 && a != 0x4770 => Does::Unknown,
        _ => Does::Nothing,
    }
}

fn thumb_32(a: u32, b: u32, pc: u32) -> Does {
    let immediate = (a >> 10 & 1) << 11 | (b >> 12 & 7) << 8 | b & 0xFF;
    if a & 0xF800 == 0xF000 && b & 0x9000 == 0x9000 {
        // bl, and b without a condition
        let s = a >> 10 & 1;
        let (i1, i2) = (!(b >> 13 ^ s) & 1, !(b >> 11 ^ s) & 1);
        let offset = s << 24 | i1 << 23 | i2 << 22 | (a & 0x3FF) << 12 | (b & 0x7FF) << 1;
        let target = to(pc + 4, signed(offset, 25));
        return if b & 0x4000 != 0 {
            Does::Calls(target)
        } else {
            Does::Jumps(target)
        };
    }
    match a {
        // stmdb sp!, vpush, str and strd with write-back
        0xE92D => Does::Takes(4 * i64::from(b.count_ones())),
        0xED2D => Does::Takes(4 * i64::from(b & 0xFF)),
        0xF84D if b & 0x0F00 == 0x0D00 => Does::Takes(i64::from(b & 0xFF)),
        0xE96D => Does::Takes(4 * i64::from(b & 0xFF)),
        // sub.w sp, sp, #
        _ if a & 0xFBEF == 0xF1AD && b & 0x8F00 == 0x0D00 => Does::Takes(expand(immediate)),
        _ if a & 0xFBFF == 0xF2AD && b & 0x8F00 == 0x0D00 => Does::Takes(i64::from(immediate)),
        // sub.w sp, sp, register
        _ if a & 0xFFEF == 0xEBAD && b & 0x0F00 == 0x0D00 => Does::Unknown,
        _ => Does::Nothing,
    }
}

/// A Thumb immediate of 12 bits.
fn expand(v: u32) -> i64 {
    let byte = v & 0xFF;
    i64::from(match v >> 8 {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte * 0x0101_0101,
        _ => (byte | 0x80).rotate_right(v >> 7),
    })
}

/// RISC-V, 32 bits, with compressed instructions.
pub fn riscv(start: u32, code: &[u16]) -> Option<Frame> {
    // What the last instruction put into a register: `auipc`.
    let mut upper = None;
    go(start, code, |i, pc| {
        let a = u32::from(code[i]);
        let before = upper.take();
        if a & 3 != 3 {
            return (1, riscv_16(a, pc));
        }
        let w = a | u32::from(code.get(i + 1).copied().unwrap_or(0)) << 16;
        let (rd, rs1) = (w >> 7 & 31, w >> 15 & 31);
        let does = match w & 0x7F {
            0x17 => {
                upper = Some((rd, to(pc, i64::from((w & !0xFFF) as i32))));
                Does::Nothing
            }
            0x13 if w & 0x7000 == 0 && rd == 2 && rs1 == 2 => Does::Takes(-signed(w >> 20, 12)),
            0x33 if rd == 2 => Does::Unknown,
            0x6F => {
                let high = bits(w, &[31, 19, 18, 17, 16, 15, 14, 13, 12, 20]);
                let target = to(pc, signed(high << 11 | (w >> 21 & 0x3FF) << 1, 21));
                if rd == 0 {
                    Does::Jumps(target)
                } else {
                    Does::Calls(target)
                }
            }
            0x67 if rd == 0 && rs1 == 1 => Does::Nothing,
            0x67 => match before {
                Some((r, at)) if r == rs1 => {
                    let target = to(at, signed(w >> 20, 12));
                    if rd == 0 {
                        Does::Jumps(target)
                    } else {
                        Does::Calls(target)
                    }
                }
                _ => Does::Unknown,
            },
            _ => Does::Nothing,
        };
        (2, does)
    })
}

fn riscv_16(a: u32, pc: u32) -> Does {
    let jump = || {
        to(
            pc,
            signed(bits(a, &[12, 8, 10, 9, 6, 7, 2, 11, 5, 4, 3]) << 1, 12),
        )
    };
    match a {
        // c.addi16sp, c.addi sp
        _ if a & 0xEF83 == 0x6101 => Does::Takes(-signed(bits(a, &[12, 4, 3, 5, 2, 6]) << 4, 10)),
        _ if a & 0xEF83 == 0x0101 => Does::Takes(-signed(bits(a, &[12, 6, 5, 4, 3, 2]), 6)),
        // c.jal, c.j
        _ if a & 0xE003 == 0x2001 => Does::Calls(jump()),
        _ if a & 0xE003 == 0xA001 => Does::Jumps(jump()),
        // c.jr other than ra, c.jalr; c.ebreak is none
        _ if a & 0xF07F == 0x8002 && a != 0x8082 => Does::Unknown,
        _ if a & 0xF07F == 0x9002 && a != 0x9002 => Does::Unknown,
        // c.add sp
        _ if a & 0xFF83 == 0x9102 && a & 0x7C != 0 => Does::Unknown,
        _ => Does::Nothing,
    }
}

/// The MSP430, its 16-bit instructions.
pub fn msp430(start: u32, code: &[u16]) -> Option<Frame> {
    go(start, code, |i, pc| {
        let a = u32::from(code[i]);
        let next = || u32::from(code.get(i + 1).copied().unwrap_or(0));
        match a >> 12 {
            2 | 3 => (1, Does::Jumps(to(pc + 2, 2 * signed(a, 10)))),
            1 => {
                let (mode, register) = (a >> 4 & 3, a & 15);
                let length =
                    1 + usize::from(mode == 1 && register != 3 || mode == 3 && register == 0);
                let does = match a >> 7 & 7 {
                    4 => Does::Takes(2),
                    5 if mode == 3 && register == 0 => Does::Calls(next()),
                    5 => Does::Unknown,
                    _ => Does::Nothing,
                };
                (length, does)
            }
            0 => (1, Does::Nothing),
            operation => {
                let (mode, from, into) = (a >> 4 & 3, a >> 8 & 15, a & 15);
                let in_register = a >> 7 & 1 == 0;
                let extra = mode == 1 && from != 3 || mode == 3 && from == 0;
                let length = 1 + usize::from(extra) + usize::from(!in_register);
                let number = match (from, mode) {
                    (0, 3) => Some(signed(next(), 16)),
                    (3, 3) => Some(-1),
                    (3, m) => Some(i64::from(m)),
                    (2, 2) => Some(4),
                    (2, 3) => Some(8),
                    _ => None,
                };
                let does = match (operation, into, in_register) {
                    // add and sub to sp
                    (5, 1, true) => number.map_or(Does::Unknown, |n| Does::Takes(-n)),
                    (8, 1, true) => number.map_or(Does::Unknown, Does::Takes),
                    // ret is a mov from the stack to pc, br one of a number
                    (4, 0, true) if (from, mode) == (1, 3) => Does::Nothing,
                    (4, 0, true) => {
                        number.map_or(Does::Unknown, |n| Does::Jumps(n as u32 & 0xFFFF))
                    }
                    (5 | 8, 0, true) => Does::Unknown,
                    _ => Does::Nothing,
                };
                (length, does)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(f: Option<Frame>) -> (u64, Vec<u32>, Vec<u32>) {
        let f = f.expect("it can be told");
        (
            f.bytes,
            f.calls.into_iter().collect(),
            f.jumps.into_iter().collect(),
        )
    }

    #[test]
    fn thumb_frames() {
        // push {r4, lr}; sub.w sp, sp, #560; sub sp, #16; bl END; stmdb sp!, {r4-r9, lr}; str lr,
        // [sp, #-8]!; strd r0, r1, [sp, #-16]!; subw sp, sp, #1234; vpush {d8, d9}; b.w END + 2; bl
        // 0x2400; b back; b END; bx lr; pop {r4, pc}
        let code = [
            0xB510, 0xF5AD, 0x7D0C, 0xB084, 0xF000, 0xF812, 0xE92D, 0x43F0, 0xF84D, 0xED08, 0xE96D,
            0x0104, 0xF2AD, 0x4DD2, 0xED2D, 0x8B04, 0xF000, 0xB807, 0xF000, 0xF9EC, 0xE7EE, 0xE001,
            0x4770, 0xBD10,
        ];
        let end = 0x2000 + 2 * code.len() as u32;
        let takes = 8 + 560 + 16 + 28 + 8 + 16 + 1234 + 16;
        assert_eq!(
            of(thumb(0x2000, &code)),
            (takes, vec![end, 0x2400], vec![end, end + 2])
        );
        // blx r3; sub.w sp, sp, r4
        assert_eq!(thumb(0, &[0x4798]), None);
        assert_eq!(thumb(0, &[0xEBAD, 0x0D04]), None);
    }

    #[test]
    fn riscv_frames() {
        // addi sp, sp, -560; c.addi16sp -64; c.addi sp, -16; jal 0x3000; c.jal END; c.j END; c.j
        // back; j 0x3000; auipc ra, 1; jalr 16(ra); ret
        let code = [
            0x0113, 0xDD01, 0x7139, 0x1141, 0x10EF, 0x7F90, 0x2811, 0xA809, 0xBFF5, 0x106F, 0x7EF0,
            0x1097, 0x0000, 0x80E7, 0x0100, 0x8082,
        ];
        let end = 0x1000 + 2 * code.len() as u32;
        let calls = vec![end, 0x2026, 0x3000];
        assert_eq!(
            of(riscv(0x1000, &code)),
            (560 + 64 + 16, calls, vec![end, 0x3000])
        );
        // c.jalr a0; jalr a0; c.jr a0; sub sp, sp, a0
        for code in [
            &[0x9502][..],
            &[0x00E7, 0x0005],
            &[0x8502],
            &[0x0133, 0x40A1],
        ] {
            assert_eq!(riscv(0, code), None);
        }
    }

    #[test]
    fn msp430_frames() {
        // push r10; push #2; sub #40, sp; sub #8, sp; add #-6, sp; call #0x6000; br #0x7000; jmp;
        // mov 4(r4), 6(r5); ret
        let code = [
            0x120A, 0x1223, 0x8031, 0x0028, 0x8231, 0x5031, 0xFFFA, 0x12B0, 0x6000, 0x4030, 0x7000,
            0x3C14, 0x4495, 0x0004, 0x0006, 0x4130,
        ];
        let takes = 2 + 2 + 40 + 8 + 6;
        assert_eq!(
            of(msp430(0x5000, &code)),
            (takes, vec![0x6000], vec![0x5040, 0x7000])
        );
        // call r12; sub r10, sp
        assert_eq!(msp430(0, &[0x128C]), None);
        assert_eq!(msp430(0, &[0x8A01]), None);
    }
}
