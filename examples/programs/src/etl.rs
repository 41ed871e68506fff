//! Extract, transform, load: readings of two sensors go through a pipeline of five threads. The
//! second one marks those that are out of range, and those that are new. The third one puts the
//! mean of the last four into the place of those out of range. The fourth one joins the readings of
//! a round, and says what the sensors are. The last one inserts a record into a table, under its
//! mutex.

use super::hashes::{Table, insert};
use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::{self, Error, Room, Thread, Until};
use crate::model::{NOTES, OLD};
use crate::support::{Fram, Machine, SEQ_BITS, done, hidden, mix, reading, rounds, run};

/// Rounds, each with a reading of each sensor.
pub const ROUNDS: u32 = 50;
/// Sensors.
pub const SENSORS: u32 = 2;
/// The largest reading in range.
pub const LARGEST: u32 = 120;
/// All readings.
fn readings() -> u32 {
    rounds(ROUNDS) * SENSORS
}

/// A reading on its way.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Reading {
    round: u32,
    sensor: u32,
    value: u32,
    in_range: u32,
    is_new: u32,
    /// The sum of the values before this one, for who checks that none is lost.
    sum: u32,
}

nv_rtos::system! {
    /// The pipeline, and the table at its end.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 6, journal_bytes: 96, seq_bits: SEQ_BITS }
    objects {
        READ: Queue<Reading, 4>;
        CHECKED: Queue<Reading, 4>;
        FILLED: Queue<Reading, 4>;
        /// The round, the values, a note on the sensors, how many were new, how many out of range.
        JOINED: Queue<[u32; 6], 4>;
        LOADED: Events;
    }
    shared {
        RECORDS: Table<'static> = Table::EMPTY;
    }
    threads {
        extract(u32 = 0): 1;
        check(Bloom = UNSEEN): 2;
        fill([[u32; 4]; SENSORS as usize] = [[0; 4]; SENSORS as usize]): 3;
        join([u32; 4] = [0; 4]): 4;
        load(u8 = 0): 5;
    }
}

/// Bloom filters of the values of each sensor, and of their changes: 64 bits each.
type Bloom = [[u32; 2]; 3];
const UNSEEN: Bloom = [[0; 2]; 3];

/// Reads the sensors. Returns how many records there are at the end, their sum, a hash of the sums
/// of each bucket, and the sum of all readings.
fn extract(th: &mut Thread<Plan, u32>) -> Result<[u32; 4], Error> {
    th.each_step(0..rounds(ROUNDS), (), |sys, sum, round, ()| {
        let sum = sum.get_mut(sys)?;
        for sensor in 0..SENSORS {
            let value = reading(round, sensor);
            READ.send(
                sys,
                Reading {
                    round,
                    sensor,
                    value,
                    in_range: 0,
                    is_new: 0,
                    sum: *sum,
                },
            )?;
            *sum = sum.wrapping_add(value);
        }
        done(0, round);
        Ok(())
    })?;
    th.step((), |sys, _, ()| LOADED.wait(sys, 1, Until::All))?;
    let mut records = th.lock(&RECORDS)?;
    Ok(th.step(records.data(), |sys, read, records| {
        let (mut n, mut sum, mut hash) = (0, 0u32, 0);
        records.get(sys).fold(sys, |key, value| {
            n += 1;
            sum = sum.wrapping_add(key ^ value);
            hash = mix(hash, sum);
        });
        Ok([n, sum, hash, *read.get(sys)])
    })?)
}

/// Sets two bits for a value. Whether one was not set.
fn bloom(bits: &mut [u32; 2], value: u32) -> u32 {
    let hash = value.wrapping_mul(0x9E37_79B1);
    let [a, b] = [1 << (hash >> 27), 1 << (hash >> 22 & 31)];
    let is_new = bits[0] & a == 0 || bits[1] & b == 0;
    (bits[0], bits[1]) = (bits[0] | a, bits[1] | b);
    is_new.into()
}

fn check(th: &mut Thread<Plan, Bloom>) -> Result<(), Error> {
    th.each_step(0..readings(), (), |sys, filters, i, ()| {
        let mut r = READ.receive(sys)?;
        let [first, second, both] = filters.get_mut(sys)?;
        let own = if r.sensor == 0 { first } else { second };
        r.in_range = u32::from(r.value <= LARGEST);
        r.is_new = bloom(own, r.value) + bloom(both, r.value) + bloom(both, r.value ^ r.sum);
        done(1, i);
        CHECKED.send(sys, r)
    })
}

fn fill(th: &mut Thread<Plan, [[u32; 4]; 2]>) -> Result<(), Error> {
    th.each_step(0..readings(), (), |sys, last, i, ()| {
        let mut r = CHECKED.receive(sys)?;
        let mut all = last.slot(sys);
        let last = all.at_mut(r.sensor as usize)?;
        if r.in_range == 0 {
            r.value = last.iter().sum::<u32>() / 4;
        }
        *last = [last[1], last[2], last[3], r.value];
        done(2, i);
        FILLED.send(sys, r)
    })
}

fn join(th: &mut Thread<Plan, [u32; 4]>) -> Result<(), Error> {
    th.each_step(0..rounds(ROUNDS), (), |sys, _, round, ()| {
        let [a, b] = [FILLED.receive(sys)?, FILLED.receive(sys)?];
        if [a.round, a.sensor, b.round, b.sensor] != [round, 0, round, 1] {
            return Err(sys.abort(OLD));
        }
        done(3, round);
        let note = hidden(&NOTES)[(a.value > b.value) as usize];
        let out = 2 - a.in_range - b.in_range;
        JOINED.send(
            sys,
            [round, a.value, b.value, note, a.is_new + b.is_new, out],
        )
    })
}

fn load(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    th.each(0..rounds(ROUNDS), (), |th, _, ()| {
        let mut records = th.lock(&RECORDS)?;
        th.step(records.data(), |sys, _, mut records| {
            let [round, a, b, note, new, out] = JOINED.receive(sys)?;
            done(4, round);
            let value = a | b << 8 | new << 16 | out << 20 | note << 24;
            insert(sys, &mut records, round, value)
        })?;
        Ok(())
    })?;
    th.step((), |sys, _, ()| LOADED.set(sys, 1))?;
    Ok(())
}

/// Formats the memory, if that is not done yet. Whether it is now.
pub fn format(memory: Region<'_, Fram>) -> bool {
    Plan::open(memory).is_ok()
}

/// One boot: runs the threads until all have ended. Returns what is in the table.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, data) = Plan::share(threads).ok()?;
    let found = core::cell::Cell::new(None);
    let extracted = |th: &mut Thread<Plan, u32>| {
        found.set(Some(extract(th)?));
        Ok(())
    };
    run!(machine, kernel, 5 threads, |port| {
        Plan::spawn(kernel, places, &data, port, extracted, check, fill, join, load)
    });
    (0..5)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())?
}
