//! Message queues: a producer sends 150 samples to two workers, through a queue each. The workers
//! keep the last ten samples, and find the average and the maximum of these. A fourth thread
//! reports what they have found.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::{self, Error, Room, Thread};
use crate::support::{Fram, Machine, SEQ_BITS, input, mix, rounds, run};

/// Messages to each worker.
pub const MESSAGES: u32 = 150;
/// The same, unless the host asks for another number.
fn messages() -> u32 {
    rounds(MESSAGES)
}
/// Samples that a worker keeps.
pub const WINDOW: usize = 10;

nv_rtos::system! {
    /// Samples, and what the workers find in them.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 4, journal_bytes: 64, seq_bits: SEQ_BITS }
    objects {
        /// Numbers of samples, and samples.
        AVERAGES: Queue<[u32; 2], 8>;
        MAXIMA: Queue<[u32; 2], 8>;
        /// A worker's number and what it has found.
        FOUND: Queue<[u32; 3], 2>;
    }
    threads {
        producer(u8 = 0): 1;
        average(Window = EMPTY): 2;
        maximum(Window = EMPTY): 2;
        report([u32; 4] = [0; 4]): 3;
    }
}

/// What a worker keeps: the last samples, each with what was found when it came.
type Window = [Kept; WINDOW];

/// A sample, and what was found with it: the last average or maximum, and a hash of all of them.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Kept {
    sample: u32,
    found: u32,
    hash: u32,
}

const EMPTY: Window = [Kept {
    sample: 0,
    found: 0,
    hash: 0,
}; WINDOW];

fn producer(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    th.each_step(0..messages(), (), |sys, _, i, ()| {
        let sample = input(i) >> 16;
        AVERAGES.send(sys, [i, sample])?;
        MAXIMA.send(sys, [i, sample])
    })
}

fn average(th: &mut Thread<Plan, Window>) -> Result<(), Error> {
    th.each_step(0..messages(), (), |sys, window, _, ()| {
        let [i, sample] = AVERAGES.receive(sys)?;
        let [at, before] = places(i);
        let mut last = window.slot(sys);
        let sum: u32 = last.get().iter().map(|k| k.sample).sum();
        let sum = sum - last.get()[at].sample + sample;
        let found = sum / (i + 1).min(WINDOW as u32);
        let hash = mix(last.get()[before].hash, found);
        *last.at_mut(at)? = Kept {
            sample,
            found,
            hash,
        };
        Ok(())
    })?;
    th.step((), |sys, window, ()| {
        let Kept { found, hash, .. } = window.get(sys)[last()];
        FOUND.send(sys, [0, found, hash])
    })?;
    Ok(())
}

fn maximum(th: &mut Thread<Plan, Window>) -> Result<(), Error> {
    th.each_step(0..messages(), (), |sys, window, _, ()| {
        let [i, sample] = MAXIMA.receive(sys)?;
        let [at, before] = places(i);
        let mut last = window.slot(sys);
        let mut samples = last.get().map(|k| k.sample);
        samples[at] = sample;
        let found = samples.into_iter().fold(0, u32::max);
        let hash = mix(last.get()[before].hash, found);
        *last.at_mut(at)? = Kept {
            sample,
            found,
            hash,
        };
        Ok(())
    })?;
    th.step((), |sys, window, ()| {
        let Kept { found, hash, .. } = window.get(sys)[last()];
        FOUND.send(sys, [2, found, hash])
    })?;
    Ok(())
}

/// The place of a message's sample in the window, and that of the one before.
fn places(i: u32) -> [usize; 2] {
    let at = i as usize % WINDOW;
    [at, if at == 0 { WINDOW - 1 } else { at - 1 }]
}

/// The place of the last message.
fn last() -> usize {
    (messages() as usize - 1) % WINDOW
}

/// Returns the last average, the hash of all averages, and the same of the maxima.
fn report(th: &mut Thread<Plan, [u32; 4]>) -> Result<[u32; 4], Error> {
    th.each_step(0..2, (), |sys, found, _, ()| {
        let [at, last, hash] = FOUND.receive(sys)?;
        let mut found = found.slot(sys);
        *found.at_mut(at as usize)? = last;
        *found.at_mut(at as usize + 1)? = hash;
        Ok(())
    })?;
    Ok(th.step((), |sys, found, ()| Ok(*found.get(sys)))?)
}

/// One boot: runs the threads until all have ended. Returns what they have found.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, _) = threads.share().ok()?;
    let found = core::cell::Cell::new(None);
    let reported = |th: &mut Thread<Plan, [u32; 4]>| {
        found.set(Some(report(th)?));
        Ok(())
    };
    run!(machine, kernel, 4 threads, |port| {
        Plan::spawn(kernel, places, port, producer, average, maximum, reported)
    });
    (0..4)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())?
}
