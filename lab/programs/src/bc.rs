//! Bit counts: a hundred rounds. Each makes an object of six words. For each of six methods one
//! step appends a zero, and another one adds the ones of fifty integers to it.
//!
//! One thread, no objects of the kernel.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::pmem_tx::PBox;
use super::nv_rtos::{self, Error, Room, Thread};
use crate::support::{Fram, Machine, SEQ_BITS, Unit, hidden, mix, rounds, run};

/// How often it is done.
pub const ROUNDS: u32 = 100;
/// Ways to count.
pub const METHODS: usize = 6;
/// Integers.
pub const INTEGERS: u32 = 50;
/// The first one.
pub static FIRST: u32 = 0xABCD;

nv_rtos::system! {
    /// One thread.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 4, journal_bytes: 64, seq_bits: SEQ_BITS }
    objects {}
    threads {
        count(Counts<'static> = Counts::NONE): 1;
    }
}

/// The counts of the running round, and what the rounds before have found.
#[derive(Persist)]
#[repr(C)]
pub struct Counts<'p> {
    round: Option<PBox<'p, [u32; METHODS], Unit>>,
    rounds: u32,
    last: u32,
    hash: u32,
}

impl Counts<'_> {
    const NONE: Self = Counts {
        round: None,
        rounds: 0,
        last: 0,
        hash: 0,
    };
}

fn count(th: &mut Thread<Plan, Counts<'static>>) -> Result<[u32; 4], Error> {
    th.each(0..rounds(ROUNDS), (), |th, _, ()| {
        th.step((), |sys, counts, ()| {
            let words = PBox::new(sys, [0; METHODS])?;
            *counts.fields(sys).round.get_mut()? = Some(words);
            Ok(())
        })?;
        th.each_step(0..2 * METHODS as u32, (), |sys, counts, i, ()| {
            let Some(mut words) = counts.fields(sys).round.into_follow() else {
                return Err(sys.abort(1));
            };
            let method = i as usize / 2;
            if i % 2 == 0 {
                *words.at_mut(method)? = 0;
            } else {
                let ones = ones(method, *hidden(&FIRST));
                *words.at_mut(method)? += ones;
            }
            Ok(())
        })?;
        th.step((), |sys, counts, ()| {
            let counts = counts.get_mut(sys)?;
            let words = counts.round.take().ok_or(sys.abort(1))?.into_inner(sys)?;
            counts.rounds += 1;
            counts.last = words.iter().sum();
            counts.hash = words.into_iter().fold(counts.hash, mix);
            Ok(())
        })?;
        Ok(())
    })?;
    Ok(th.step((), |sys, counts, ()| {
        let c = counts.get(sys);
        Ok([c.rounds, c.last, c.hash, 0])
    })?)
}

/// The ones of all integers, counted by a method.
fn ones(method: usize, first: u32) -> u32 {
    let all = first..first + INTEGERS;
    match method {
        0 => all.map(in_parallel).sum(),
        1 => all.map(by_nibbles).sum(),
        2 => all.map(by_bits).sum(),
        3 => all.map(by_ones).sum(),
        4 => all.map(by_bytes).sum(),
        _ => all.map(by_table).sum(),
    }
}

/// Adds neighbours: bits, pairs, nibbles, bytes.
fn in_parallel(x: u32) -> u32 {
    let x = x - (x >> 1 & 0x5555_5555);
    let x = (x & 0x3333_3333) + (x >> 2 & 0x3333_3333);
    ((x + (x >> 4)) & 0x0F0F_0F0F).wrapping_mul(0x0101_0101) >> 24
}

static NIBBLES: [u8; 16] = [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4];

/// The ones of a nibble.
fn nibble(x: u32) -> u32 {
    u32::from(NIBBLES[(x & 15) as usize])
}

/// The lowest nibble, then the others.
fn by_nibbles(x: u32) -> u32 {
    if x == 0 {
        0
    } else {
        nibble(x) + by_nibbles(x >> 4)
    }
}

/// One bit after the other.
fn by_bits(x: u32) -> u32 {
    (0..32).map(|i| x >> i & 1).sum()
}

/// As often as there is a lowest one to clear.
fn by_ones(mut x: u32) -> u32 {
    let mut n = 0;
    while x != 0 {
        x &= x - 1;
        n += 1;
    }
    n
}

/// The lowest byte, then the others.
fn by_bytes(x: u32) -> u32 {
    if x == 0 {
        0
    } else {
        nibble(x) + nibble(x >> 4) + by_bytes(x >> 8)
    }
}

/// All nibbles.
fn by_table(x: u32) -> u32 {
    (0..8).map(|i| nibble(x >> (4 * i))).sum()
}

/// One boot: runs the thread to its end. Returns the rounds, the ones of the last one by all
/// methods, and a hash of all counts.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, _) = threads.share().ok()?;
    let found = core::cell::Cell::new(None);
    let counted = |th: &mut Thread<Plan, Counts<'static>>| {
        found.set(Some(count(th)?));
        Ok(())
    };
    run!(machine, kernel, 1 threads, |port| {
        Plan::spawn(kernel, places, port, counted)
    });
    (kernel.ended(0) == Some(Ok(()))).then(|| found.get())?
}
