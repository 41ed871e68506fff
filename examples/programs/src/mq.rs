//! Message queues: a producer sends 150 samples to two workers, through a queue each. The workers
//! keep the last ten samples, and find the average and the maximum of these. A fourth thread
//! reports what they have found.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::{self, Error, Thread};
use crate::support::{Fram, Machine, SEQ_BITS, input, mix, run};

/// Messages to each worker.
pub const MESSAGES: u32 = 150;
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
        average(Window = Window::EMPTY): 2;
        maximum(Window = Window::EMPTY): 2;
        report([u32; 4] = [0; 4]): 3;
    }
}

/// What a worker keeps.
#[derive(Persist)]
#[repr(C)]
pub struct Window {
    samples: [u32; WINDOW],
    /// The last average or maximum, and a hash of all of them.
    found: [u32; 2],
}

impl Window {
    const EMPTY: Self = Window {
        samples: [0; WINDOW],
        found: [0; 2],
    };
}

fn producer(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    th.each_step(0..MESSAGES, (), |sys, _, i, ()| {
        let sample = input(i) >> 16;
        AVERAGES.send(sys, [i, sample])?;
        MAXIMA.send(sys, [i, sample])
    })
}

fn average(th: &mut Thread<Plan, Window>) -> Result<(), Error> {
    th.each_step(0..MESSAGES, (), |sys, window, _, ()| {
        let [i, sample] = AVERAGES.receive(sys)?;
        let mut w = window.fields(sys);
        *w.samples.at_mut(i as usize % WINDOW)? = sample;
        let sum: u32 = w.samples.get().iter().sum();
        let average = sum / (i + 1).min(WINDOW as u32);
        let hash = mix(w.found.get()[1], average);
        w.found.set([average, hash])
    })?;
    th.step((), |sys, window, ()| {
        let [average, hash] = window.get(sys).found;
        FOUND.send(sys, [0, average, hash])
    })?;
    Ok(())
}

fn maximum(th: &mut Thread<Plan, Window>) -> Result<(), Error> {
    th.each_step(0..MESSAGES, (), |sys, window, _, ()| {
        let [i, sample] = MAXIMA.receive(sys)?;
        let mut w = window.fields(sys);
        *w.samples.at_mut(i as usize % WINDOW)? = sample;
        let maximum = w.samples.get().iter().fold(0, |max, s| max.max(*s));
        let hash = mix(w.found.get()[1], maximum);
        w.found.set([maximum, hash])
    })?;
    th.step((), |sys, window, ()| {
        let [maximum, hash] = window.get(sys).found;
        FOUND.send(sys, [2, maximum, hash])
    })?;
    Ok(())
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
    let (kernel, mut threads) = Plan::open(memory).ok()?;
    let (places, _) = threads.share().ok()?;
    let found = core::cell::Cell::new(None);
    let reported = |th: &mut Thread<Plan, [u32; 4]>| {
        found.set(Some(report(th)?));
        Ok(())
    };
    run!(machine, kernel, 4 threads, |port| {
        Plan::spawn(&kernel, places, port, producer, average, maximum, reported)
    });
    (0..4)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())?
}
