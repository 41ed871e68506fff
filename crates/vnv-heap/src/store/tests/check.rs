//! Errors that the check detects.

use super::*;
use crate::store::check::{BLOCK, STRIDE, WEIGHTS, weigh};

const PRIME: u64 = 65_521;

/// No two flipped bits of up to 1,280 bytes, of the header, or of the check itself cancel each
/// other: each flipped bit changes the sum by a different number, in either direction.
#[test]
fn weights_are_apart() {
    let mut seen = std::vec![false; PRIME as usize];
    let mut block = 1;
    let mut bits = 0;
    for b in 0..=40 {
        // The header's word weighs what a word of weight 1 would.
        let header = core::iter::once(1);
        for weight in WEIGHTS.map(u64::from).into_iter().chain(header) {
            for bit in 0..32 {
                let v = block * (weight % PRIME) % PRIME * (1 << bit) % PRIME;
                for v in [v, PRIME - v] {
                    assert!(v != 0 && v != PRIME, "a bit of block {b} weighs nothing");
                    assert!(!seen[v as usize], "two bits weigh the same, at block {b}");
                    seen[v as usize] = true;
                    bits += 1;
                }
            }
        }
        block = block * STRIDE % PRIME;
    }
    assert_eq!(bits, 41 * 9 * 64);
}

fn of(id: u16, bytes: &[u8]) -> u16 {
    let mut c = Check::new(id, bytes.len() as u16);
    c.add(bytes);
    c.finish()
}

fn some(len: usize, seed: u32) -> Vec<u8> {
    let mut v = seed | 1;
    core::iter::repeat_with(|| {
        v ^= v << 13;
        v ^= v >> 17;
        v ^= v << 5;
        v as u8
    })
    .take(len)
    .collect()
}

/// The same by experiment: every flipped bit gives a different check.
#[test]
fn every_one_and_two_bit_error_is_noticed() {
    let lengths = [1, 2, 3, 4, 7, 31, 32, 33, 100, 255, 256, 1000, 1023, 1024];
    for len in lengths.into_iter().take(if cfg!(miri) { 4 } else { 14 }) {
        for fill in [0, 1, 2] {
            let mut bytes = match fill {
                0 => std::vec![0; len],
                1 => std::vec![0xFF; len],
                _ => some(len, len as u32),
            };
            let right = of(7, &bytes);
            let mut seen = std::collections::HashSet::new();
            for bit in 0..len * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let c = of(7, &bytes);
                bytes[bit / 8] ^= 1 << (bit % 8);
                // Of two flipped bits the second one adds to what the first one left: apart they
                // are different, and by `weights_are_apart` the sums of any two are not nothing.
                assert_ne!(c, right, "bit {bit} of {len}");
                assert!(seen.insert(c), "bit {bit} of {len} is another one");
                // With one of the check's own bits.
                assert!((0..16).all(|own| c != right ^ (1 << own)), "bit {bit}");
            }
        }
    }
}

/// Two bits, really flipped: all pairs of a short block, many of a long one.
#[cfg_attr(miri, ignore = "half a million sums")]
#[test]
fn two_bits_flipped() {
    let flip = |len: usize, step: usize| {
        let mut bytes = some(len, 99);
        let right = of(3, &bytes);
        let mut n = 0;
        for a in (0..len * 8).step_by(step) {
            bytes[a / 8] ^= 1 << (a % 8);
            for b in (a + 1..len * 8).step_by(step) {
                bytes[b / 8] ^= 1 << (b % 8);
                assert_ne!(of(3, &bytes), right, "bits {a} and {b} of {len}");
                bytes[b / 8] ^= 1 << (b % 8);
                n += 1;
            }
            bytes[a / 8] ^= 1 << (a % 8);
        }
        n
    };
    assert_eq!(flip(40, 1), 320 * 319 / 2);
    assert!(flip(1024, 17) > 100_000);
}

#[cfg_attr(miri, ignore = "14,000 sums of up to 16 KiB")]
#[test]
fn zeroed_erased_and_swapped_blocks_are_noticed() {
    for len in [0, 1, 4, 32, 64, 1024, 16 * 1024] {
        for id in [1, 2, 0x1234, 0xFFFE] {
            for fill in [0, 0xFF] {
                let c = of(id, &std::vec![fill; len]);
                assert!(c != 0 && c != 0xFFFF, "{id} {len} {fill}");
            }
        }
        let bytes = some(len, 5);
        let all: std::collections::HashSet<u16> = (1..2000).map(|id| of(id, &bytes)).collect();
        assert_eq!(all.len(), 1999, "objects of {len} bytes are told apart");
    }
}

/// Pieces give the same check as one call. The length counts, even if the added bytes are zero.
#[test]
fn pieces_make_no_difference() {
    let bytes = some(1000, 1);
    for piece in [32, 64, 96, 512, 1024] {
        let mut c = Check::new(9, 1000);
        bytes.chunks(piece).for_each(|p| c.add(p));
        assert_eq!(c.finish(), of(9, &bytes));
    }
    assert_ne!(of(1, &[1, 2, 3]), of(1, &[1, 2, 3, 0]));
}

/// Other errors pass at the rate of chance: about one in 65,521.
#[cfg_attr(miri, ignore = "200,000 sums")]
#[test]
fn other_errors_pass_rarely() {
    let bytes = some(256, 3);
    let right = of(1, &bytes);
    let mut passed = 0;
    for n in 0..200_000u32 {
        let mut wrong = bytes.clone();
        let at = (n as usize * 7) % 250;
        for (to, v) in wrong[at..at + 5].iter_mut().zip(some(5, n)) {
            *to = v;
        }
        passed += u32::from(wrong != bytes && of(1, &wrong) == right);
    }
    assert!(passed < 20, "{passed}");
}

/// A short last block has the check of one that is filled up with zeros.
#[test]
fn a_short_block_counts_as_zero_filled() {
    let bytes: Vec<u8> = (0..200u32).map(|i| (i * 167 + 31) as u8).collect();
    for n in 0..bytes.len() {
        let mut filled = bytes[..n].to_vec();
        filled.resize(n.next_multiple_of(BLOCK), 0);
        assert_eq!(weigh(77, &filled), weigh(77, &bytes[..n]), "{n} bytes");
    }
}
