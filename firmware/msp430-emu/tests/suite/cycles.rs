//! The counts of the guides' tables, for every combination of instruction and modes.

use crate::support::*;
use msp430_emu::{Accesses, Cpu, PC, SR, Timing, Unobserved};

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

/// Wait states: one, set by the program's first instruction, which lies in RAM. PC is at `CODE`, in
/// FRAM, then.
fn waiting(code: &[u16]) -> Cpu {
    let mut cpu = machine(code);
    let write = [double(MOV, 0, INCREMENT, 2, INDEXED), 0xA510, 0x0140];
    for (n, w) in write.into_iter().enumerate() {
        cpu.set_word(0x1C00 + 2 * n as u16, w);
    }
    cpu.regs[PC] = 0x1C00;
    step(&mut cpu);
    assert_eq!(cpu.word(0x0140), 0x9610, "its password reads otherwise");
    assert_eq!(cpu.cycles, 4, "RAM has none");
    cpu.regs[PC] = CODE;
    cpu.cycles = 0;
    cpu
}

const NOP: u16 = 0x4303;

#[test]
fn each_line_of_fram_waits_once() {
    // A line has four words. Ten instructions of one word are in three lines.
    let mut cpu = waiting(&[NOP; 10]);
    (0..10).for_each(|_| step(&mut cpu));
    assert_eq!((cpu.cycles, cpu.waits.cycles, cpu.waits.most), (13, 3, 10));
    // A loop waits in its first turn.
    let mut cpu = waiting(&[NOP, 0x3ffe]);
    (0..20).for_each(|_| step(&mut cpu));
    assert_eq!((cpu.cycles, cpu.waits.cycles, cpu.waits.most), (31, 1, 20));
    // Without the register's write there are none, as after a reset.
    let mut cpu = machine(&[NOP; 10]);
    (0..10).for_each(|_| step(&mut cpu));
    assert_eq!((cpu.cycles, cpu.waits.most), (10, 0));
    let mut cpu = waiting(&[NOP; 4]);
    cpu.reset();
    cpu.regs[PC] = CODE;
    step(&mut cpu);
    assert_eq!(cpu.waits.cycles, 0);
}

#[test]
fn two_lines_of_a_set_stay_and_three_do_not() {
    // mov @R4, R6; mov @R5, R6 and back, with the code in RAM.
    let load = |register| double(MOV, register, INDIRECT, 6, REGISTER);
    let turn = |code: &[u16], cpu: &mut Cpu| {
        for (n, w) in code.iter().enumerate() {
            cpu.set_word(0x1D00 + 2 * n as u16, *w);
        }
        cpu.regs[PC] = 0x1D00;
        let before = cpu.waits.cycles;
        code.iter().for_each(|_| step(cpu));
        cpu.waits.cycles - before
    };
    let mut cpu = waiting(&[]);
    // Bit 3 of an address chooses the set: these have the same.
    (cpu.regs[4], cpu.regs[5], cpu.regs[7]) = (0x4000, 0x4010, 0x4020);
    assert_eq!(turn(&[load(4), load(5)], &mut cpu), 2);
    assert_eq!(turn(&[load(4), load(5)], &mut cpu), 0);
    assert_eq!(turn(&[load(7), load(4), load(5)], &mut cpu), 3);
    assert_eq!(turn(&[load(7), load(4), load(5)], &mut cpu), 3);
    // In the other set it does not push them out.
    cpu.regs[7] = 0x4028;
    assert_eq!(turn(&[load(7), load(4), load(5)], &mut cpu), 1);
    assert_eq!(turn(&[load(7), load(4), load(5)], &mut cpu), 0);
}

#[test]
fn a_write_waits_and_leaves_its_line() {
    let mut cpu = waiting(&[]);
    let code = [
        double(MOV, 4, INDIRECT, 6, REGISTER),
        double(MOV, 6, REGISTER, 4, INDEXED),
        0,
        double(MOV, 4, INDIRECT, 6, REGISTER),
    ];
    for (n, w) in code.into_iter().enumerate() {
        cpu.set_word(0x1D00 + 2 * n as u16, w);
    }
    (cpu.regs[PC], cpu.regs[4]) = (0x1D00, 0x4000);
    // 2, 3 and 2 cycles by the table; the first load and the store wait.
    (0..3).for_each(|_| step(&mut cpu));
    assert_eq!((cpu.cycles, cpu.waits.cycles, cpu.waits.most), (9, 2, 3));
    // The code is in SRAM: four words of it.
    let Accesses {
        hits,
        misses,
        writes,
        ram,
    } = cpu.waits.accesses;
    assert_eq!((hits, misses, writes, ram), (1, 1, 1, 4));
    // Three wait states, and a wrong password.
    let mut cpu = waiting(&[]);
    for (value, waits) in [(0xA530, 3), (0x0000, 3), (0xA500, 0)] {
        let write = [double(MOV, 0, INCREMENT, 2, INDEXED), value, 0x0140];
        for (n, w) in write.into_iter().enumerate() {
            cpu.set_word(0x1D00 + 2 * n as u16, w);
        }
        cpu.regs[PC] = 0x1D00;
        step(&mut cpu);
        assert_eq!(cpu.word(0x0140), 0x9600 | waits << 4);
    }
}
