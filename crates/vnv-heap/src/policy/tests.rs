//! Bytes written under each policy, on the heap's own cache: key-value updates, and a queue that
//! does not fit.
//!
//! The bounds hold for means over the seeds, as in lab/EVALUATION.md.

extern crate std;

use super::{Lru, PolicyRules, Predict};
use crate::cache::tests::{Ram, budget, reserve};
use crate::cache::{CHECK, Cache, PIN_RECORD};
use powerfail::Rng;
use std::{vec, vec::Vec};

const KEYS: u32 = 256;
const UPDATES: u32 = 10_000;
/// All values.
const DATA: u32 = 64 * 32 + 128 * 128 + 32 * 256 + 32 * 1024;

fn size(key: u32) -> usize {
    [32, 128, 256, 128, 32, 128, 1024, 128][key as usize % 8]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pattern {
    Uniform,
    Sequential,
    Unequal,
    Partitioned,
}
use Pattern::*;

const PATTERNS: [Pattern; 4] = [Uniform, Sequential, Unequal, Partitioned];

fn keys(pattern: Pattern, seed: u64) -> Vec<u32> {
    let mut random = Rng::new(seed);
    let mut below = |n: u32| random.below(n.into()) as u32;
    let mut sums = vec![];
    let mut sum = 0.0;
    for key in 0..KEYS {
        sum += (40.0 * f64::from(key) / f64::from(KEYS)).sin().powi(4) + 0.1;
        sums.push(sum);
    }
    let mut group = 0;
    let mut next = |i: u32| match pattern {
        Uniform => below(KEYS),
        Sequential => i % KEYS,
        Unequal => {
            let at = f64::from(below(1 << 30)) / f64::from(1 << 30) * sum;
            sums.partition_point(|s| *s <= at) as u32
        }
        Partitioned => {
            if i.is_multiple_of(100) {
                group = below(KEYS / 16);
            }
            group * 16 + below(16)
        }
    };
    (0..UPDATES).map(&mut next).collect()
}

/// Bytes written by an update, everything being resident, with the limit as a fraction of the data.
fn kv<P: PolicyRules>(pattern: Pattern, fraction: u32, seeds: u64) -> f64 {
    let limit = DATA / fraction;
    let mut written = 0;
    for seed in 1..=seeds {
        let mut ram = Ram::new(65_000, 0);
        let mut c: Cache<P> = ram.cache();
        for key in 0..KEYS {
            let s = reserve(&mut c, key as u16 + 1, size(key), 64).expect("all fits");
            c.set_in_transfer(s, false);
            c.note_update(s);
        }
        for key in keys(pattern, seed) {
            let s = c.lookup(key as u16 + 1).expect("all is resident");
            let more = PIN_RECORD + if c.is_dirty(s) { 0 } else { c.weight(s) };
            while c.persist_bytes() + more > limit {
                // A guard holds the value that is updated.
                c.set_in_transfer(s, true);
                let v = c.victim(true).expect("something is dirty");
                c.set_in_transfer(s, false);
                written += c.len(v) as u32 + CHECK;
                c.mark_clean(v);
            }
            c.pin(s, true).expect("free");
            c.note_update(s);
            c.mark_dirty(s);
            assert!(c.persist_bytes() <= limit);
            c.unpin(s, true);
        }
    }
    f64::from(written) / f64::from(UPDATES) / seeds as f64
}

/// Bytes written by an enqueue and a dequeue, with room for 15 elements.
fn fifo<P: PolicyRules>(length: u32) -> f64 {
    let mut ram = Ram::new(3_985, 0);
    let mut c: Cache<P> = ram.cache();
    let mut written = 0;
    let steps = 20 * length + 2_000;
    for step in 0..steps + length {
        if step == length {
            written = 0;
        }
        let id = (step % length) as u16 + 1;
        // From the second round on the old element is read; then the new one overwrites it.
        let s = match c.lookup(id) {
            Some(s) => s,
            None => {
                while reserve(&mut c, id, 256, 64).is_none() {
                    let v = c.victim(false).expect("nothing is held");
                    if c.is_dirty(v) {
                        written += c.len(v) as u32 + CHECK;
                        c.mark_clean(v);
                    }
                    c.remove(v);
                }
                let s = c.lookup(id).expect("just loaded");
                c.set_in_transfer(s, false);
                s
            }
        };
        c.note_read(s);
        c.note_update(s);
        c.mark_dirty(s);
    }
    f64::from(written) / f64::from(steps)
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic")]
fn key_value_updates_write_little() {
    for (pattern, most) in [
        (Uniform, 193.0),
        (Sequential, 195.0),
        (Unequal, 165.0),
        (Partitioned, 33.5),
    ] {
        let bytes = kv::<Predict>(pattern, 5, 20);
        std::println!("{pattern:?} {bytes:.1}");
        assert!(bytes <= most, "{pattern:?}: {bytes:.1} of {most}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic")]
fn with_little_room_it_is_not_much_worse_than_the_least_recently_used() {
    for fraction in [10, 20] {
        for pattern in PATTERNS {
            let (bytes, lru) = (
                kv::<Predict>(pattern, fraction, 5),
                kv::<Lru>(pattern, fraction, 5),
            );
            std::println!("1/{fraction} {pattern:?} {bytes:.1} {lru:.1}");
            assert!(bytes <= 1.2 * lru, "{pattern:?} {bytes:.1} {lru:.1}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic")]
fn a_queue_that_does_not_fit_stays_where_it_is() {
    for length in [10, 15] {
        assert_eq!(fifo::<Predict>(length), 0.0, "it fits");
    }
    for length in [16, 20, 30, 60, 120] {
        let bytes = fifo::<Predict>(length);
        let ideal = 256.0 * (1.0 - 14.0 / f64::from(length));
        std::println!("{length} {bytes:.1} {ideal:.1} {:.3}", bytes / ideal);
        assert!(bytes <= 1.05 * ideal, "{length}: {bytes:.1} of {ideal:.1}");
        assert!(fifo::<Lru>(length) >= 250.0, "the known weakness");
    }
}

/// How many of 3500 accesses to ten objects must load, when each is followed by one of a scan
/// through 200 others.
fn scan<P: PolicyRules>() -> u32 {
    let mut ram = Ram::new(4_096, 0);
    let mut c: Cache<P> = ram.cache();
    let mut random = Rng::new(3);
    let mut loads = 0;
    for step in 0..8_000u32 {
        let (id, hot) = if step % 2 == 0 {
            (1 + random.below(10) as u16, true)
        } else {
            (100 + (step / 2 % 200) as u16, false)
        };
        if c.lookup(id).is_none() {
            loads += (hot && step > 1_000) as u32;
            budget(&mut c, id, 200, |_| {}).expect("something leaves");
        }
        c.note_read(c.lookup(id).expect("loaded"));
    }
    loads
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic")]
fn a_scan_does_not_drive_out_what_is_used() {
    let (loads, lru) = (scan::<Predict>(), scan::<Lru>());
    std::println!("{loads} {lru}");
    assert!(loads < lru / 5 * 4, "{loads} of 3500, {lru}");
}

/// The working set changes completely: the new objects become resident.
#[test]
#[cfg_attr(miri, ignore = "arithmetic")]
fn another_phase_gets_its_room() {
    let mut ram = Ram::new(4_096, 0);
    let mut c: Cache<Predict> = ram.cache();
    let mut random = Rng::new(3);
    let mut loads = [0; 6];
    for step in 0..12_000u32 {
        let phase = step / 2_000;
        let id = (1 + phase * 20) as u16 + random.below(15) as u16;
        if c.lookup(id).is_none() {
            loads[phase as usize] += 1;
            budget(&mut c, id, 256, |_| {}).expect("something leaves");
        }
        let s = c.lookup(id).expect("loaded");
        c.note_update(s);
    }
    std::println!("{loads:?}");
    assert!(loads.iter().all(|l| *l < 400), "{loads:?}");
}
