//! Predictions: a source sends the readings of two sensors to three workers. One classifies them by
//! a decision tree. One predicts a value by a linear model. The third one finds the average of each
//! five readings, and how far the predictions are from it. A fifth thread collects the 200 results.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::{self, Error, Room, Thread};
use crate::model::{COEFFICIENTS, Split, TREE};
use crate::support::{Fram, Machine, SEQ_BITS, hidden, input, mix, rounds, run};

/// Rounds, each with a reading of each sensor.
pub const ROUNDS: u32 = 50;
/// Sensors.
pub const SENSORS: u32 = 2;
/// Readings of an average.
pub const BLOCK: u32 = 5;
/// All readings.
fn readings() -> u32 {
    rounds(ROUNDS) * SENSORS
}

/// The number of a reading, and three values.
type Reading = [u32; 4];

nv_rtos::system! {
    /// A source, three workers, and who collects what they find.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 4, journal_bytes: 64, seq_bits: SEQ_BITS }
    objects {
        TO_TREE: Queue<Reading, 4>;
        TO_MODEL: Queue<Reading, 4>;
        TO_AVERAGE: Queue<Reading, 4>;
        /// The number of a reading, and what the model predicts.
        PREDICTED: Queue<[u32; 2], 4>;
        /// Which kind of result, and the result.
        FOUND: Queue<[u32; 2], 4>;
    }
    threads {
        source(u8 = 0): 1;
        classify(u8 = 0): 2;
        predict(u8 = 0): 2;
        average(Block = EMPTY): 2;
        collect([u32; 4] = [0; 4]): 3;
    }
}

/// The readings of a block, and the last average.
#[derive(Persist)]
#[repr(C)]
pub struct Block {
    readings: u32,
    sum: u32,
    average: u32,
}
const EMPTY: Block = Block {
    readings: 0,
    sum: 0,
    average: 0,
};

fn source(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    th.each_step(0..rounds(ROUNDS), (), |sys, _, round, ()| {
        for sensor in 0..SENSORS {
            let i = round * SENSORS + sensor;
            let x = input(i);
            let reading = [i, x & 127, x >> 7 & 127, x >> 14 & 127];
            TO_TREE.send(sys, reading)?;
            TO_MODEL.send(sys, reading)?;
            TO_AVERAGE.send(sys, reading)?;
        }
        Ok(())
    })
}

/// The class that a tree of 15 nodes gives to a reading.
fn class(reading: Reading) -> u32 {
    let tree = hidden(&TREE);
    let mut node = 0;
    while let Split::At { value, above } = tree[node] {
        node = 2 * node + 1 + usize::from(reading[1 + usize::from(value)] > above);
    }
    node as u32
}

fn classify(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    th.each_step(0..readings(), (), |sys, _, _, ()| {
        let reading = TO_TREE.receive(sys)?;
        FOUND.send(sys, [0, class(reading)])
    })
}

fn predict(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    th.each_step(0..readings(), (), |sys, _, _, ()| {
        let [i, x, y, z] = TO_MODEL.receive(sys)?;
        let [a, b, c, d] = *hidden(&COEFFICIENTS);
        PREDICTED.send(sys, [i, (a + b * x + c * y + d * z) >> 4])
    })
}

fn average(th: &mut Thread<Plan, Block>) -> Result<(), Error> {
    th.each_step(0..readings(), (), |sys, block, _, ()| {
        let [i, x, ..] = TO_AVERAGE.receive(sys)?;
        let [of, predicted] = PREDICTED.receive(sys)?;
        if of != i {
            return Err(sys.abort(1));
        }
        let block = block.get_mut(sys)?;
        block.sum += x;
        block.readings += 1;
        if block.readings == BLOCK {
            *block = Block {
                average: block.sum / BLOCK,
                ..EMPTY
            };
        }
        FOUND.send(sys, [2, predicted.abs_diff(block.average)])
    })
}

/// Returns how many classes and errors there were, each with a hash of them.
fn collect(th: &mut Thread<Plan, [u32; 4]>) -> Result<[u32; 4], Error> {
    th.each_step(0..2 * readings(), (), |sys, found, _, ()| {
        let [kind, value] = FOUND.receive(sys)?;
        let found = found.get_mut(sys)?;
        let kind = (kind & 2) as usize;
        found[kind] += 1;
        found[kind + 1] = mix(found[kind + 1], value);
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
        Plan::spawn(kernel, places, port, source, classify, predict, average, collected)
    });
    (0..5)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())?
}
