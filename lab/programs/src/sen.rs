//! Sensing by a software timer: it expires five times. Each time its daemon fills a buffer of 400
//! bytes and counts. Another thread starts the timer, and waits for what the daemon has found.

use super::nv_rtos::nvmem::Region;
use super::nv_rtos::pmem_tx::Ptr;
use super::nv_rtos::{self, Error, Room, Thread, expired};
use crate::support::{Fram, Machine, SEQ_BITS, Unit, input, mix, rounds, run};

/// How often the timer expires.
pub const ROUNDS: u32 = 5;
/// Samples of a round: 400 bytes.
pub const SAMPLES: usize = 100;

/// The samples: in two versions, so that the old ones are not logged.
type Buffer = Option<Ptr<'static, [u32; SAMPLES], Unit>>;

nv_rtos::system! {
    /// A timer, its daemon, and who wants the samples.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 4, journal_bytes: 64, seq_bits: SEQ_BITS }
    objects {
        SAMPLE: Timer = periodic(10);
        /// How many rounds there were, and a hash of each.
        FOUND: Queue<[u32; 2], 2>;
    }
    threads {
        control([u32; 4] = [0; 4]): 1;
        daemon(Buffer = None): 2;
    }
}

fn control(th: &mut Thread<Plan, [u32; 4]>) -> Result<[u32; 4], Error> {
    th.step((), |sys, _, ()| SAMPLE.start(sys))?;
    th.each_step(0..rounds(ROUNDS), (), |sys, found, _, ()| {
        let [round, hash] = FOUND.receive(sys)?;
        let found = found.get_mut(sys)?;
        *found = [round + 1, hash, mix(found[2], hash), 0];
        Ok(())
    })?;
    Ok(th.step((), |sys, found, ()| {
        SAMPLE.stop(sys)?;
        Ok(*found.get(sys))
    })?)
}

fn daemon(th: &mut Thread<Plan, Buffer>) -> Result<(), Error> {
    th.step((), |sys, buffer, ()| {
        *buffer.get_mut(sys)? = Some(Ptr::new(sys, [0; SAMPLES])?);
        Ok(())
    })?;
    th.each_step(0..rounds(ROUNDS), (), |sys, buffer, round, ()| {
        if !SAMPLE.is(expired(sys)?) {
            return Err(sys.abort(1));
        }
        let samples: [u32; SAMPLES] =
            core::array::from_fn(|i| input(round * SAMPLES as u32 + i as u32));
        let hash = samples.iter().fold(0, |hash, s| mix(hash, *s));
        buffer.slot(sys).write(samples)?;
        FOUND.send(sys, [round, hash])
    })
}

/// One boot: runs the threads until both have ended. Returns the rounds, the hash of the last one,
/// and that of all.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, _) = threads.share().ok()?;
    let found = core::cell::Cell::new(None);
    let control = |th: &mut Thread<Plan, [u32; 4]>| {
        found.set(Some(self::control(th)?));
        Ok(())
    };
    run!(machine, kernel, 2 threads, |port| {
        Plan::spawn(kernel, places, port, control, daemon)
    });
    (0..2)
        .all(|t| kernel.ended(t) == Some(Ok(())))
        .then(|| found.get())?
}
