//! The product that FNV-1a makes for each byte.

/// The prime of 64 bits.
const PRIME: u64 = 0x100_0000_01b3;

/// `h` times the prime.
#[cfg(not(target_arch = "msp430"))]
#[inline]
pub(crate) const fn times_prime(h: u64) -> u64 {
    h.wrapping_mul(PRIME)
}

/// `h` times the prime: 2^40 + 3 · (2^7 + 2^4 + 1).
///
/// There is no multiplier, and 64 bits by a loop take some 900 instructions: nine tenths of what it takes to open a pool. The
/// compiler makes shifts of 64 bits out of shifts of 16, so these 50 are written out. In registers, by the C convention.
#[cfg(target_arch = "msp430")]
#[inline(never)]
pub(crate) extern "C" fn times_prime(h: u64) -> u64 {
    const { assert!(PRIME == (1 << 40) + 3 * ((1 << 7) + (1 << 4) + 1)) };
    let limb = |n: u32| (h >> (16 * n)) as u16;
    let (mut a, mut b, mut c, mut d) = (limb(0), limb(1), limb(2), limb(3));
    // SAFETY: computes with the registers that it is given.
    unsafe {
        core::arch::asm!(
            "mov {a}, {s}", "mov {b}, {t}", "mov {c}, {u}", "mov {d}, {v}",
            // a = 3 h
            "rla {s}", "rlc {t}", "rlc {u}", "rlc {v}",
            "add {s}, {a}", "addc {t}, {b}", "addc {u}, {c}", "addc {v}, {d}",
            "mov {a}, {s}", "mov {b}, {t}", "mov {c}, {u}", "mov {d}, {v}",
            // and that times 2^4
            "rla {s}", "rlc {t}", "rlc {u}", "rlc {v}",
            "rla {s}", "rlc {t}", "rlc {u}", "rlc {v}",
            "rla {s}", "rlc {t}", "rlc {u}", "rlc {v}",
            "rla {s}", "rlc {t}", "rlc {u}", "rlc {v}",
            "add {s}, {a}", "addc {t}, {b}", "addc {u}, {c}", "addc {v}, {d}",
            // and times 2^7
            "rla {s}", "rlc {t}", "rlc {u}", "rlc {v}",
            "rla {s}", "rlc {t}", "rlc {u}", "rlc {v}",
            "rla {s}", "rlc {t}", "rlc {u}", "rlc {v}",
            "add {s}, {a}", "addc {t}, {b}", "addc {u}, {c}", "addc {v}, {d}",
            a = inout(reg) a,
            b = inout(reg) b,
            c = inout(reg) c,
            d = inout(reg) d,
            s = out(reg) _,
            t = out(reg) _,
            u = out(reg) _,
            v = out(reg) _,
            options(pure, nomem, nostack),
        );
    }
    let low = u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48;
    low.wrapping_add(h << 40)
}
