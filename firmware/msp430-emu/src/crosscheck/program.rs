//! Random programs. Each instruction is made when the program comes to it, so that whatever it
//! does, it goes on.

use super::deviation::{Accesses, Deviation};
use super::session::{MEMORY, Session};
use crate::cpu::PC;
use crate::decode::{Instruction, decode};
use crate::random::Random;
use crate::watch::Width;

/// A program of so many instructions, stepped.
pub(super) fn write(mut s: Session, seed: u64, instructions: u64) -> Session {
    let mut rng = Random::new(seed);
    rng.fill(&mut s.cpu.mem[usize::from(MEMORY)..]);
    for r in 0..16 {
        s.cpu.regs[r] = rng.next_u16();
    }
    s.cpu.regs[0] = address(&mut rng);
    s.cpu.regs[1] &= !1;
    s.cpu.regs[2] = 0;
    s.cpu.regs[3] = 0;
    s.start();
    while s.counts.instructions < instructions {
        let pc = s.cpu.regs[PC];
        if !(MEMORY..0xfff8).contains(&pc) {
            s.cpu.regs[PC] = address(&mut rng);
            s.resync(PC);
        }
        // Registers full of flags and zeros make poor tests of what depends on values.
        if rng.below(16) == 0 {
            let r = 4 + rng.below(12) as usize;
            s.cpu.regs[r] = value(&mut rng);
            s.resync(r);
        }
        // What lies there may be an earlier instruction, or data: loops, and code that changes
        // itself.
        let as_it_is = rng.below(8) == 0 && s.step_if(acceptable(&mut rng));
        if !as_it_is {
            place(&mut s, &mut rng);
            s.step_if(acceptable(&mut rng));
        }
        s.wake();
    }
    s
}

/// Most of what is known to deviate is left out, and so are the peripherals.
fn acceptable(rng: &mut Random) -> impl Fn(&Accesses, Option<Deviation>) -> bool + use<> {
    let also_deviations = rng.below(16) == 0;
    move |a, d| {
        let memory = |at: u16, w: Width| at >= MEMORY && (w == Width::Byte || at < 0xfffe);
        let loads = a.loads.iter().all(|(at, w)| memory(*at, *w));
        loads
            && a.stores.iter().all(|s| s.address >= MEMORY)
            && (also_deviations || d.is_none_or(|d| d == Deviation::OddRegister))
    }
}

fn address(rng: &mut Random) -> u16 {
    (MEMORY + rng.below(0xf000) as u16) & !1
}

/// Values at the edges come often.
fn value(rng: &mut Random) -> u16 {
    const EDGES: [u16; 12] = [
        0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xff7f, 0xff80, 0xffff,
    ];
    match rng.below(4) {
        0 => EDGES[rng.below(12) as usize],
        1 => decimal(rng),
        2 => address(rng),
        _ => rng.next_u16(),
    }
}

fn decimal(rng: &mut Random) -> u16 {
    (0..4).fold(0, |v, _| v << 4 | rng.below(10) as u16)
}

/// Puts a random instruction at PC.
fn place(s: &mut Session, rng: &mut Random) {
    let word = loop {
        // Each of the 27 about as often.
        let w = match rng.below(27) {
            n @ 0..12 => (n as u16 + 4) << 12 | rng.next_u16() & 0xfff,
            n @ 12..20 => 0x2000 | (n as u16 - 12) << 10 | rng.next_u16() & 0x3ff,
            n @ 20..26 => 0x1000 | (n as u16 - 20) << 7 | rng.next_u16() & 0x7f,
            _ => 0x1300,
        };
        if decode(w).is_some() {
            break w;
        }
    };
    // DADD is about decimal digits.
    if word >> 12 == 0xa && rng.below(4) != 0 {
        for r in [word >> 8 & 15, word & 15] {
            if r > 3 {
                s.cpu.regs[usize::from(r)] = decimal(rng);
                s.resync(usize::from(r));
            }
        }
    }
    let pc = s.cpu.regs[PC];
    s.poke(pc, word);
    let words = decode(word).map_or(1, Instruction::words);
    for n in 1..words {
        let x = match rng.below(3) {
            0 => rng.below(64) as u16,
            1 => address(rng),
            _ => value(rng),
        };
        s.poke(pc.wrapping_add(2 * n), x);
    }
}
