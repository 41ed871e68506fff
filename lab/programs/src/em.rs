//! An event group: a monitor sets two flags, a hundred times. Two actors wait for one of them each,
//! read the time, and write 200 bytes.
//!
//! The actors have a higher priority than the monitor, so both have seen a flag before it is set
//! again: in each life, because priorities hold while threads replay.

use super::nv_rtos::nvmem::Region;
use super::nv_rtos::pmem_tx::Ptr;
use super::nv_rtos::{self, Error, Room, Thread, Until, now};
use crate::support::{Fram, Machine, SEQ_BITS, Unit, input, mix, rounds, run};

/// How often the flags are set.
pub const ROUNDS: u32 = 100;
/// 200 bytes: the time, a hash of the rounds, and what the round brings.
pub const WORDS: usize = 50;

/// What an actor writes: in two versions, so that the old one is not logged.
type Buffer = Option<Ptr<'static, [u32; WORDS], Unit>>;

nv_rtos::system! {
    /// A monitor and two actors.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 4, journal_bytes: 64, seq_bits: SEQ_BITS }
    objects {
        FLAGS: Events;
    }
    threads {
        monitor(u8 = 0): 1;
        first(Buffer = None): 2;
        second(Buffer = None): 2;
    }
}

fn monitor(th: &mut Thread<Plan, u8>) -> Result<(), Error> {
    th.each_step(0..rounds(ROUNDS), (), |sys, _, _, ()| FLAGS.set(sys, 1 | 2))
}

/// An actor. Returns the hash of all rounds, and the sum of what the last one has written.
fn actor(th: &mut Thread<Plan, Buffer>, flag: u8) -> Result<[u32; 2], Error> {
    th.step((), |sys, buffer, ()| {
        *buffer.get_mut(sys)? = Some(Ptr::new(sys, [0; WORDS])?);
        Ok(())
    })?;
    th.each_step(0..rounds(ROUNDS), flag, |sys, buffer, i, flag| {
        FLAGS.wait(sys, flag, Until::All)?;
        let time = now(sys) as u32;
        let [before, hash] = head(buffer.get(sys).as_ref().map(|b| b.get(sys)));
        if time < before {
            return Err(sys.abort(1));
        }
        let sample = input(i) ^ u32::from(flag);
        let mut words = [sample; WORDS];
        words[0] = time;
        words[1] = mix(hash, sample);
        buffer.slot(sys).write(words)
    })?;
    Ok(th.step((), |sys, buffer, ()| {
        let words = buffer.get(sys).as_ref().map(|b| b.get(sys));
        let content = words.map_or(&[][..], |w| &w[2..]);
        let sum = content.iter().fold(0, |sum: u32, w| sum.wrapping_add(*w));
        Ok([head(words)[1], sum])
    })?)
}

/// The time and the hash of a buffer.
fn head(words: Option<&[u32; WORDS]>) -> [u32; 2] {
    words.map_or([0; 2], |w| [w[0], w[1]])
}

/// One boot: runs the threads until all have ended. Returns what the actors have written.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, _) = threads.share().ok()?;
    let found = core::cell::Cell::new([0; 4]);
    let first = |th: &mut Thread<Plan, Buffer>| {
        let [a, b] = actor(th, 1)?;
        let [_, _, c, d] = found.get();
        found.set([a, b, c, d]);
        Ok(())
    };
    let second = |th: &mut Thread<Plan, Buffer>| {
        let [c, d] = actor(th, 2)?;
        let [a, b, _, _] = found.get();
        found.set([a, b, c, d]);
        Ok(())
    };
    run!(machine, kernel, 3 threads, |port| {
        Plan::spawn(kernel, places, port, monitor, first, second)
    });
    (0..3)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())
}
