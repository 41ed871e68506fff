//! A key-value store: two threads use one hash table, under its mutex. Each inserts 20 keys, looks
//! all of them up, removes half of them, and looks all of them up again.

use super::hashes::{Table, insert, remove};
use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::{self, Error, Room, Thread};
use crate::support::{Fram, Machine, SEQ_BITS, input, mix, rounds, run};

/// So many keys are inserted, or removed, in a step.
pub const FEW: u32 = 5;
/// The same, unless the host asks for another number.
fn few() -> u32 {
    rounds(FEW)
}
/// Keys of each thread.
fn keys() -> u32 {
    4 * few()
}
/// So many are looked up in a step.
fn many() -> u32 {
    2 * few()
}

nv_rtos::system! {
    /// Two clients of a table.
    Plan on Fram;
    table { bytes: 128, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 12, journal_bytes: 128, seq_bits: SEQ_BITS }
    objects {}
    shared {
        TABLE: Table<'static> = Table::EMPTY;
    }
    threads {
        first(Seen = NOTHING): 1;
        second(Seen = NOTHING): 1;
    }
}

/// What a thread has found: how many keys, and a hash of their values.
#[derive(Persist)]
#[repr(C)]
pub struct Seen {
    keys: u32,
    hash: u32,
}
const NOTHING: Seen = Seen { keys: 0, hash: 0 };

/// The `n`-th key of a thread.
fn key(me: u32, n: u32) -> u32 {
    (me << 8) + n * 7
}

fn client(th: &mut Thread<Plan, Seen>, me: u32) -> Result<[u32; 2], Error> {
    th.each(0..keys() / few(), me, |th, turn, me| {
        let mut table = th.lock(&TABLE)?;
        th.step(
            (table.data(), [me, turn]),
            |sys, _, (mut table, [me, turn])| {
                for n in turn * few()..turn * few() + few() {
                    insert(sys, &mut table, key(me, n), input(me * keys() + n))?;
                }
                Ok(())
            },
        )?;
        Ok(())
    })?;
    look_up(th, me)?;
    th.each(0..keys() / 2 / few(), me, |th, turn, me| {
        let mut table = th.lock(&TABLE)?;
        th.step(
            (table.data(), [me, turn]),
            |sys, _, (mut table, [me, turn])| {
                for n in turn * few()..turn * few() + few() {
                    if remove(sys, &mut table, key(me, 2 * n))?.is_none() {
                        return Err(sys.abort(1));
                    }
                }
                Ok(())
            },
        )?;
        Ok(())
    })?;
    look_up(th, me)?;
    Ok(th.step((), |sys, seen, ()| {
        let Seen { keys, hash } = *seen.get(sys);
        Ok([keys, hash])
    })?)
}

/// Looks all keys up.
fn look_up(th: &mut Thread<Plan, Seen>, me: u32) -> Result<(), Error> {
    th.each(0..keys() / many(), me, |th, turn, me| {
        let mut table = th.lock(&TABLE)?;
        th.step(
            (table.data(), [me, turn]),
            |sys, seen, (table, [me, turn])| {
                let seen = seen.get_mut(sys)?;
                for n in turn * many()..turn * many() + many() {
                    if let Some(value) = table.get(sys).find(sys, key(me, n)) {
                        seen.keys += 1;
                        seen.hash = mix(seen.hash, value);
                    }
                }
                Ok(())
            },
        )?;
        Ok(())
    })
}

/// One boot: runs the threads until both have ended. Returns how many keys each has found, and a
/// hash of their values.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, data) = Plan::share(threads).ok()?;
    let found = core::cell::Cell::new([0; 4]);
    let first = |th: &mut Thread<Plan, Seen>| {
        let [a, b] = client(th, 0)?;
        let [_, _, c, d] = found.get();
        found.set([a, b, c, d]);
        Ok(())
    };
    let second = |th: &mut Thread<Plan, Seen>| {
        let [c, d] = client(th, 1)?;
        let [a, b, _, _] = found.get();
        found.set([a, b, c, d]);
        Ok(())
    };
    run!(machine, kernel, 2 threads, |port| {
        Plan::spawn(kernel, places, &data, port, first, second)
    });
    (0..2)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())
}
