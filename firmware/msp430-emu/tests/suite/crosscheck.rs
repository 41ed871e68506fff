//! The comparison with mspdebug's simulator: that it agrees, and that it would not if our core were
//! wrong.
//!
//! Without mspdebug these tests say so and pass, except in the step `crosscheck` of `cargo xtask
//! ci`.

use msp430_emu::crosscheck::{Failure, Plant, installed, random};
use msp430_emu::{Condition, Cpu, Double, Instruction, PC, SR, Single, flag};

fn missing() -> bool {
    if installed() {
        return false;
    }
    assert!(
        std::env::var_os("RELUME_ALL_TOOLS").is_none(),
        "mspdebug is not installed: cargo xtask ci --only crosscheck installs it"
    );
    println!("skipped: mspdebug is not installed");
    true
}

#[test]
fn random_programs_agree() {
    if missing() {
        return;
    }
    let seed = std::env::var("CROSSCHECK_SEED").ok();
    let seed = seed.map_or(100, |s| s.parse().expect("a number"));
    for seed in seed..seed + 5 {
        println!("seed {seed}");
        let r = random(seed, 1000, None).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(r.instructions, 1000);
    }
}

/// A wrong flag, a wrong result, a wrong address and a wrong jump.
#[test]
fn wrong_cores_are_found() {
    if missing() {
        return;
    }
    let plants: [(&str, Plant); 5] = [
        ("SUBC leaves no carry", |cpu: &mut Cpu, i| {
            if let Instruction::Double {
                op: Double::Subc, ..
            } = i
            {
                cpu.regs[SR] &= !flag::C;
            }
        }),
        ("XOR sets no overflow", |cpu, i| {
            if let Instruction::Double {
                op: Double::Xor, ..
            } = i
            {
                cpu.regs[SR] &= !flag::V;
            }
        }),
        ("a byte does not clear the upper half", |cpu, i| {
            if let Instruction::Double {
                byte: true,
                op: Double::Bis,
                ..
            } = i
            {
                cpu.regs[5] |= 0x100;
            }
        }),
        ("PUSH stores one off", |cpu, i| {
            if let Instruction::Single {
                op: Single::Push,
                byte: false,
                ..
            } = i
            {
                let at = cpu.regs[1];
                cpu.set_word(at, cpu.word(at) ^ 0x8000);
            }
        }),
        ("JL jumps when it should not", |cpu, i| {
            if let Instruction::Jump {
                condition: Condition::Less,
                ..
            } = i
                && cpu.regs[SR] & (flag::N | flag::V) == flag::V | flag::N
            {
                cpu.regs[PC] ^= 2;
            }
        }),
    ];
    for (name, plant) in plants {
        let found = (0..20).find_map(|seed| random(seed, 1000, Some(plant)).err());
        match found {
            Some(Failure::Differs(m)) => println!("{name}: {m}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}
