//! `arithmetic [--seed N] [--calls N] PATH…`: calls the arithmetic that the compiler expects under
//! the names of the MSP430 ABI, as it is in an image, with random operands, and compares with this
//! machine's. Prints `msp430.arithmetic_calls N`.

use msp430_emu::{Cpu, Image, PC, Random, SP, Stop, Unobserved};
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

/// Where a call returns to: no code is there.
const RETURN: u16 = 0x4ffe;
const STACK: u16 = 0x3c00;
/// More than any of them takes.
const LIMIT: u64 = 10_000;

/// A function of the ABI.
struct Helper {
    name: &'static str,
    /// Bits of operands and result.
    bits: u32,
    host: fn(u64, u64) -> u64,
}

const HELPERS: [Helper; 11] = [
    Helper {
        name: "__mspabi_mpyi",
        bits: 16,
        host: u64::wrapping_mul,
    },
    Helper {
        name: "__mspabi_mpyl",
        bits: 32,
        host: u64::wrapping_mul,
    },
    Helper {
        name: "__mspabi_mpyll",
        bits: 64,
        host: u64::wrapping_mul,
    },
    Helper {
        name: "__mspabi_divu",
        bits: 16,
        host: |a, b| a / b,
    },
    Helper {
        name: "__mspabi_remu",
        bits: 16,
        host: |a, b| a % b,
    },
    Helper {
        name: "__mspabi_divul",
        bits: 32,
        host: |a, b| a / b,
    },
    Helper {
        name: "__mspabi_remul",
        bits: 32,
        host: |a, b| a % b,
    },
    Helper {
        name: "__mspabi_divli",
        bits: 32,
        host: |a, b| i64::from(a as i32).wrapping_div(i64::from(b as i32)) as u64,
    },
    Helper {
        name: "__mspabi_remli",
        bits: 32,
        host: |a, b| i64::from(a as i32).wrapping_rem(i64::from(b as i32)) as u64,
    },
    Helper {
        name: "__mspabi_slll",
        bits: 32,
        host: |a, b| a << b,
    },
    Helper {
        name: "__mspabi_srll",
        bits: 32,
        host: |a, b| a >> b,
    },
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let (mut seed, mut calls) = (1, 2000);
    let mut images = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut number =
            || -> Result<u64, Error> { Ok(args.next().ok_or("a number is missing")?.parse()?) };
        match a.as_str() {
            "--seed" => seed = number()?,
            "--calls" => calls = number()?,
            // As the other programs take it; the group does not matter here.
            _ => images.push(a.split('=').next().unwrap_or_default().to_owned()),
        }
    }
    let mut rng = Random::new(seed);
    let (mut all, mut missing) = (0, Vec::new());
    let images: Vec<_> = images
        .iter()
        .map(|p| Ok(Image::parse(&std::fs::read(p)?)?))
        .collect::<Result<_, Error>>()?;
    for h in &HELPERS {
        let mut found = false;
        for image in &images {
            let Some(at) = image.address(h.name) else {
                continue;
            };
            found = true;
            let mut cpu = Cpu::new();
            image.load(&mut cpu);
            for _ in 0..calls {
                one(&mut cpu, h, at, &mut rng).map_err(|e| format!("seed {seed}: {e}"))?;
                all += 1;
            }
        }
        if !found {
            missing.push(h.name);
        }
    }
    if !missing.is_empty() {
        return Err(format!("in no image: {}", missing.join(", ")).into());
    }
    println!("msp430.arithmetic_calls {all}");
    Ok(())
}

/// One call: the result, and what the callee must keep.
fn one(cpu: &mut Cpu, h: &Helper, at: u16, rng: &mut Random) -> Result<(), String> {
    let a = operand(rng, h.bits);
    let mut b = operand(rng, h.bits);
    if b == 0 && !h.name.contains("mpy") {
        // Rust looks for that before it calls.
        b = 1;
    }
    if shifts(h.name) {
        b %= 32;
    }
    for r in 4..16 {
        cpu.regs[r] = rng.next_u16();
    }
    // 64 bits have a convention of their own.
    let (first, second) = match h.bits {
        16 => (12, 13),
        32 => (12, 14),
        _ => (8, 12),
    };
    let words = h.bits as usize / 16;
    for n in 0..words {
        cpu.regs[first + n] = (a >> (16 * n)) as u16;
        cpu.regs[second + n] = (b >> (16 * n)) as u16;
    }
    let kept: [u16; 7] = std::array::from_fn(|n| cpu.regs[4 + n]);
    (cpu.regs[SP], cpu.regs[PC]) = (STACK - 2, at);
    cpu.set_word(STACK - 2, RETURN);
    cpu.set_executable(0x5000, 0xffff);
    let stop = cpu.run(LIMIT, &mut Unobserved);
    let call = format!("{}({a:#x}, {b:#x})", h.name);
    if !matches!(stop, Stop::Fault(f) if f.pc == RETURN) {
        return Err(format!("{call} does not return: {stop:?}"));
    }
    let got = (0..words).fold(0, |v, n| v | u64::from(cpu.regs[12 + n]) << (16 * n));
    let want = (h.host)(a, b) & mask(h.bits);
    if got != want {
        return Err(format!("{call} is {got:#x}, not {want:#x}"));
    }
    // R4 to R10; of the 64-bit operands R8 to R10 may go.
    let saved = if first == 8 { 4 } else { 7 };
    if cpu.regs[4..4 + saved] != kept[..saved] || cpu.regs[SP] != STACK {
        return Err(format!("{call} does not keep R4 to R{} and SP", 3 + saved));
    }
    Ok(())
}

fn shifts(name: &str) -> bool {
    matches!(name, "__mspabi_slll" | "__mspabi_srll")
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Of any length, and near the edges.
fn operand(rng: &mut Random, bits: u32) -> u64 {
    let x = rng.next_u64() >> rng.below(64);
    let edge = rng.below(8) == 0;
    let x = if edge { !(x & 3) } else { x };
    x & mask(bits)
}
