//! Statistics: a source sends the readings of two sensors to three workers. One estimates how many
//! different ones there were. One smooths them with a Kalman filter, and finds the trend of the
//! last five. The third one finds the average of each five. A fifth thread collects the 300
//! results.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::{self, Error, Room, Thread};
use crate::support::{Fram, Machine, SEQ_BITS, input, mix, rounds, run};

/// Rounds, each with a reading of each sensor.
pub const ROUNDS: u32 = 50;
/// Sensors.
pub const SENSORS: u32 = 2;
/// Readings of an average.
pub const BLOCK: u32 = 5;
/// Readings of a trend.
pub const WINDOW: usize = 5;
/// All readings.
fn readings() -> u32 {
    rounds(ROUNDS) * SENSORS
}

/// The number of a reading, and its value.
type Reading = [u32; 2];

nv_rtos::system! {
    /// A source, three workers, and who collects what they find.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 4, journal_bytes: 64, seq_bits: SEQ_BITS }
    objects {
        TO_COUNT: Queue<Reading, 4>;
        TO_FILTER: Queue<Reading, 4>;
        TO_AVERAGE: Queue<Reading, 4>;
        /// Which kind of result, and the result.
        FOUND: Queue<[u32; 2], 4>;
    }
    threads {
        source(u8 = 0): 1;
        distinct(Seen = NOTHING): 2;
        trend(Filter = START): 2;
        average([u32; 3] = [0; 3]): 2;
        collect([u32; 4] = [0; 4]): 3;
    }
}

/// Which hashes of 6 bits were seen, and how many readings that means, in 256ths.
#[derive(Persist)]
#[repr(C)]
pub struct Seen {
    map: [u32; 2],
    estimate: u32,
}
const NOTHING: Seen = Seen {
    map: [0; 2],
    estimate: 0,
};

/// A Kalman filter of one value, in 256ths, and the last values that it gave.
#[derive(Persist)]
#[repr(C)]
pub struct Filter {
    value: i32,
    variance: i32,
    last: [i32; WINDOW],
}
const START: Filter = Filter {
    value: 0,
    variance: 256 * 64,
    last: [0; WINDOW],
};

fn source(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    th.each_step(0..rounds(ROUNDS), (), |sys, _, round, ()| {
        for sensor in 0..SENSORS {
            let i = round * SENSORS + sensor;
            let reading = [i, input(i) >> 23];
            TO_COUNT.send(sys, reading)?;
            TO_FILTER.send(sys, reading)?;
            TO_AVERAGE.send(sys, reading)?;
        }
        Ok(())
    })
}

/// Linear counting: of 64 bits one is set for each reading. A bit that is set newly while `n` are
/// clear stands for 64 / `n` readings.
fn distinct(th: &mut Thread<Plan, Seen>) -> Result<(), Error> {
    th.each_step(0..readings(), (), |sys, seen, _, ()| {
        let [_, x] = TO_COUNT.receive(sys)?;
        let hash = x.wrapping_mul(0x9E37_79B1) >> 26;
        let (word, bit) = ((hash / 32) as usize, 1 << (hash % 32));
        let old = seen.get(sys);
        let mut estimate = old.estimate;
        if old.map[word] & bit == 0 {
            let clear = old.map[0].count_zeros() + old.map[1].count_zeros();
            estimate += 64 * 256 / clear;
            let seen = seen.get_mut(sys)?;
            seen.map[word] |= bit;
            seen.estimate = estimate;
        }
        FOUND.send(sys, [0, estimate])
    })
}

fn trend(th: &mut Thread<Plan, Filter>) -> Result<(), Error> {
    th.each_step(0..readings(), (), |sys, filter, i, ()| {
        let [_, x] = TO_FILTER.receive(sys)?;
        let f = filter.get_mut(sys)?;
        f.variance += 16;
        // The gain, in 256ths: the noise of a reading has the variance 1024.
        let gain = 256 * f.variance / (f.variance + 1024);
        f.value += (gain * ((x << 8) as i32 - f.value)) >> 8;
        f.variance -= (gain * f.variance) >> 8;
        f.last[i as usize % WINDOW] = f.value;
        // The slope of a line through the last values, of which the oldest one is the next.
        let oldest = i as usize + 1;
        let at = |k: usize| f.last[(oldest + k) % WINDOW];
        let slope = (2 * (at(4) - at(0)) + at(3) - at(1)) / 10;
        FOUND.send(sys, [1, (f.value + slope) as u32])
    })
}

fn average(th: &mut Thread<Plan, [u32; 3]>) -> Result<(), Error> {
    th.each_step(0..readings(), (), |sys, block, _, ()| {
        let [_, x] = TO_AVERAGE.receive(sys)?;
        let [readings, sum, average] = block.get_mut(sys)?;
        (*readings, *sum) = (*readings + 1, *sum + x);
        if *readings == BLOCK {
            *average = *sum / BLOCK;
            (*readings, *sum) = (0, 0);
        }
        FOUND.send(sys, [2, *average])
    })
}

/// Returns how many results there were, and a hash of those of each worker.
fn collect(th: &mut Thread<Plan, [u32; 4]>) -> Result<[u32; 4], Error> {
    th.each_step(0..3 * readings(), (), |sys, found, _, ()| {
        let [kind, value] = FOUND.receive(sys)?;
        let found = found.get_mut(sys)?;
        let kind = (kind + 1) as usize % 4;
        found[0] += 1;
        found[kind] = mix(found[kind], value);
        Ok(())
    })?;
    Ok(th.step((), |sys, found, ()| Ok(*found.get(sys)))?)
}

/// One boot: runs the threads until all have ended. Returns what was collected.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, _) = threads.share().ok()?;
    let found = core::cell::Cell::new(None);
    let collected = |th: &mut Thread<Plan, [u32; 4]>| {
        found.set(Some(collect(th)?));
        Ok(())
    };
    run!(machine, kernel, 5 threads, |port| {
        Plan::spawn(kernel, places, port, source, distinct, trend, average, collected)
    });
    (0..5)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())?
}
