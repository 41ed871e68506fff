//! The arithmetic that the compiler expects under the names of the MSP430 ABI, as it is in an
//! image, compared with this machine's. Also `memcpy` and `memset`.

use crate::{Cpu, Image, PC, Random, SP, SR, Stop, Unobserved};

/// Where a call returns to: no code is there.
const RETURN: u16 = 0x3ffe;
const STACK: u16 = 0x3c00;
/// More than any of them takes.
const LIMIT: u64 = 10_000;

/// A function of the ABI.
pub struct Helper {
    /// Its name.
    pub name: &'static str,
    /// Bits of operands and result.
    bits: u32,
    host: fn(u64, u64) -> u64,
}

/// Those that an image may have.
pub const HELPERS: [Helper; 11] = [
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

/// Calls a function so often with random operands, if the image has it. Says how often.
///
/// **Errors**: a wrong result, or a register that it does not keep.
pub fn check(image: &Image, h: &Helper, calls: u64, rng: &mut Random) -> Result<u64, String> {
    let Some(at) = image.address(h.name) else {
        return Ok(0);
    };
    let mut cpu = Cpu::new();
    image.load(&mut cpu);
    cpu.set_multiplier(true);
    cpu.regs[SR] = 0;
    // Code, and what is in the information memory.
    cpu.set_executable(0x4000, 0xffff);
    cpu.set_executable_too(0x1800, 0x19ff);
    for _ in 0..calls {
        one(&mut cpu, h, at, rng)?;
    }
    Ok(calls)
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
    let stop = cpu.run(LIMIT, &mut Unobserved);
    let call = format!("{}({a:#x}, {b:#x})", h.name);
    if !matches!(stop, Stop::Fault(f) if f.pc == RETURN) {
        return Err(format!("{call} does not return: {stop:?}"));
    }
    if let Some(what) = cpu.misused() {
        return Err(format!("{call}: {what}"));
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

/// Calls `memcpy` and `memset` of an image with random addresses and lengths, odd ones among them.
/// How many calls it made: none for what is not in the image.
///
/// **Errors**: a byte that is not as it should be, or a register that is not kept.
pub fn check_memory(image: &Image, calls: u64, rng: &mut Random) -> Result<u64, String> {
    /// Somewhere in RAM, below the stack.
    const MEMORY: std::ops::Range<usize> = 0x2000..0x2100;
    let mut all = 0;
    for name in ["memcpy", "memset"] {
        let Some(at) = image.address(name) else {
            continue;
        };
        let mut cpu = Cpu::new();
        image.load(&mut cpu);
        cpu.regs[SR] = 0;
        cpu.set_executable(0x4000, 0xffff);
        cpu.set_executable_too(0x1800, 0x19ff);
        for _ in 0..calls {
            rng.fill(&mut cpu.mem[MEMORY]);
            for r in 4..16 {
                cpu.regs[r] = rng.next_u16();
            }
            let below = |rng: &mut Random, n| rng.below(n) as usize;
            let (to, from) = (below(rng, 60), 128 + below(rng, 60));
            let (len, byte) = (below(rng, 60), rng.next_u16());
            let mut want = cpu.mem[MEMORY].to_vec();
            let second = match name {
                "memcpy" => {
                    want.copy_within(from..from + len, to);
                    (MEMORY.start + from) as u16
                }
                _ => {
                    want[to..to + len].fill(byte as u8);
                    byte
                }
            };
            let to = (MEMORY.start + to) as u16;
            cpu.regs[12..15].copy_from_slice(&[to, second, len as u16]);
            let kept: [u16; 7] = std::array::from_fn(|n| cpu.regs[4 + n]);
            (cpu.regs[SP], cpu.regs[PC]) = (STACK - 2, at);
            cpu.set_word(STACK - 2, RETURN);
            let stop = cpu.run(LIMIT, &mut Unobserved);
            let call = format!("{name}({to:#x}, {second:#x}, {len})");
            if !matches!(stop, Stop::Fault(f) if f.pc == RETURN) {
                return Err(format!("{call} does not return: {stop:?}"));
            }
            if cpu.mem[MEMORY] != want || cpu.regs[12] != to {
                return Err(format!("{call} leaves something else"));
            }
            if cpu.regs[4..11] != kept || cpu.regs[SP] != STACK {
                return Err(format!("{call} does not keep R4 to R10 and SP"));
            }
            all += 1;
        }
    }
    Ok(all)
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
