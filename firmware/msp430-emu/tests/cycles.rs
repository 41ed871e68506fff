//! The counts of the guides' tables, for every combination of instruction and modes.

mod common;

use common::*;
use msp430_emu::{Cpu, PC, SR, Timing, Unobserved};

/// The rows as the guides print them: SLAU367 Table 4-10 and SLAU144 Table 3-16. Source; then to
/// Rm, PC, x(Rm), EDE, &EDE.
const FORMAT_1: &str = "
    Rn      1 3 4 4 4    1 2 4 4 4
    @Rn     2 4 5 5 5    2 2 5 5 5
    @Rn+    2 4 5 5 5    2 3 5 5 5
    #N      2 3 5 5 5    2 3 5 5 5
    x(Rn)   3 5 6 6 6    3 3 6 6 6
    EDE     3 5 6 6 6    3 3 6 6 6
    &EDE    3 5 6 6 6    3 3 6 6 6
";

/// SLAU367 Table 4-9 and SLAU144 Table 3-15: RRA, RRC, SWPB and SXT; PUSH; CALL.
const FORMAT_2: &str = "
    Rn      1 3 4    1 3 4
    @Rn     3 3 4    3 4 4
    @Rn+    3 3 4    3 5 5
    #N      - 3 4    - 4 5
    x(Rn)   4 4 5    4 5 5
    EDE     4 4 5    4 5 5
    &EDE    4 4 6    4 5 5
";

const TIMINGS: [Timing; 2] = [Timing::Cpux, Timing::Classic];

/// The encodings of a source mode: register, mode, words behind. R4 points to 0x2000.
fn encodings(mode: &str) -> Vec<(u16, u16, u16)> {
    match mode {
        // The constant generators cost what a register costs.
        "Rn" => vec![
            (4, 0, 0),
            (3, 0, 0),
            (3, 1, 0),
            (3, 2, 0),
            (3, 3, 0),
            (2, 2, 0),
            (2, 3, 0),
        ],
        "@Rn" => vec![(4, 2, 0)],
        "@Rn+" => vec![(4, 3, 0)],
        "#N" => vec![(0, 3, 1)],
        "x(Rn)" => vec![(4, 1, 1)],
        "EDE" => vec![(0, 1, 1)],
        "&EDE" => vec![(2, 1, 1)],
        m => panic!("{m}"),
    }
}

fn count(timing: Timing, code: &[u16]) -> (u64, u16) {
    let mut cpu = machine(code);
    cpu.timing = timing;
    (cpu.regs[4], cpu.regs[5]) = (0x2000, 0x2000);
    cpu.step(&mut Unobserved).expect("an instruction");
    (cpu.cycles, cpu.regs[PC].wrapping_sub(CODE))
}

#[test]
fn two_operands() {
    let mut combinations = 0;
    for line in FORMAT_1.lines().filter(|l| !l.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let encodings = encodings(words.next().expect("the mode"));
        let counts: Vec<u64> = words.map(|w| w.parse().expect("a count")).collect();
        for (t, timing) in TIMINGS.into_iter().enumerate() {
            // Register, PC, indexed, symbolic, absolute.
            for (d, (dst, ad)) in [(5, 0), (0, 0), (5, 1), (0, 1), (2, 1)]
                .into_iter()
                .enumerate()
            {
                for op in (MOV..=AND).step_by(0x1000) {
                    for byte in [0, BYTE] {
                        for &(src, mode, more) in &encodings {
                            let mut expected = counts[5 * t + d];
                            // Footnote of Table 4-10: MOV, BIT and CMP take one less with memory as
                            // the destination.
                            if timing == Timing::Cpux && d >= 2 && [MOV, BIT, CMP].contains(&op) {
                                expected -= 1;
                            }
                            let word = double(op | byte, src, mode, dst, ad);
                            let (n, length) = count(timing, &[word, 0x2000, 0x2000, 0x2000]);
                            assert_eq!(n, expected, "{timing:?} {word:04x}: {line}");
                            if d != 1 {
                                assert_eq!(length, 2 + 2 * more + 2 * ad, "{word:04x}");
                            }
                            combinations += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(combinations, 13 * 2 * 5 * 12 * 2);
}

#[test]
fn one_operand() {
    for line in FORMAT_2.lines().filter(|l| !l.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let name = words.next().expect("the mode");
        let counts: Vec<Option<u64>> = words.map(|w| w.parse().ok()).collect();
        for (t, timing) in TIMINGS.into_iter().enumerate() {
            let kinds = [(&[RRC, SWPB, RRA, SXT][..], 0), (&[PUSH], 1), (&[CALL], 2)];
            for (op, column) in kinds
                .iter()
                .flat_map(|(ops, c)| ops.iter().map(|o| (*o, *c)))
            {
                let Some(expected) = counts[3 * t + column] else {
                    continue;
                };
                for (register, mode, _) in encodings(name) {
                    if column == 0 && (register == 3 || (register == 2 && mode != 1)) {
                        continue;
                    }
                    let word = single(op, mode, register);
                    let (n, _) = count(timing, &[word, 0x2000]);
                    assert_eq!(n, expected, "{timing:?} {word:04x}: {line}");
                }
            }
        }
    }
}

#[test]
fn jumps_and_reti() {
    for timing in TIMINGS {
        for word in (0x2000..0x4000).step_by(0x155) {
            let mut cpu = Cpu::new();
            cpu.timing = timing;
            cpu.regs[SR] = 7;
            cpu.regs[PC] = CODE;
            cpu.set_word(CODE, word);
            step(&mut cpu);
            assert_eq!(cpu.cycles, 2);
        }
        assert_eq!(count(timing, &[RETI]).0, 5);
    }
}
