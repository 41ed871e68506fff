//! Reserved places: a thread that is spawned at run time, and a mutex that is made and deleted.
//!
//! ```text
//!   boss, in each turn      step   makes LATCH, and spawns a worker, which gets its handle
//!                           lock   step: counts
//!                           joins the worker
//!                           step   deletes LATCH
//!   worker                  lock   step: counts
//! ```
//!
//! Both are between the lock and its end one at a time, also across cuts. Each worker runs once:
//! its root has the number of those before. After a cut the boss has ended as many turns as the
//! mailbox says, or one more.

use super::TOLD;
use super::boot::{Core, Fram, Here, STACK, Stack, run, tell, tick};
use crate::{Mapped, Scene, check, ok};
use nv_rtos::nvmem::Persist;
use nv_rtos::{Error, Thread};

const ROUNDS: u16 = 2;
/// The mailbox's cells: turns of the boss that are ended, and workers before the last one.
const TURNS: u16 = 0;
const WORKERS: u16 = 1;
/// Who is in the lock, or 0.
const INSIDE: u16 = 2;
const BOSS: u16 = 1;
const WORKER: u16 = 2;

/// What a worker gets.
#[derive(Clone, Copy, Persist)]
#[persist(crate = nv_rtos::nvmem)]
#[repr(C)]
struct Job {
    turn: u16,
    latch: Latch,
}

nv_rtos::system! {
    /// What this scenario runs.
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: 8 }
    objects {
        LATCHES: [Mutex; 1] => Latch;
    }
    threads {
        boss(u32 = 0): 1;
    }
    reserve {
        worker(u32 = 0, Job): 1;
    }
}

/// Counts under the lock.
fn counts(th: &mut Thread<Plan, u32>, job: Job, me: u16) -> Result<(), Error> {
    let guard = th.lock(&LATCHES.at(job.latch))?;
    let scene = Here::anywhere();
    // A replay passes what another thread may be in by now.
    if th.is_live() {
        check!(scene, [0, me].contains(&scene.read_cell(INSIDE)));
        scene.write_cell(INSIDE, me);
    }
    th.step(job.turn, |sys, count, turn| {
        check!(Here::anywhere(), *count.get(sys) == u32::from(turn));
        *count.get_mut(sys)? += 1;
        Ok(())
    })?;
    if scene.read_cell(INSIDE) == me {
        scene.write_cell(INSIDE, 0);
    }
    drop(guard);
    Ok(())
}

fn boss(th: &mut Thread<Plan, u32>, turns: u32) -> Result<(), Error> {
    th.each(0..turns, (), |th, i, ()| {
        tell(TURNS, i);
        let turn = i as u16;
        let latch = th.step(turn, |sys, _, turn| {
            let latch = LATCHES.make(sys)?;
            Plan::worker().spawn(sys, Job { turn, latch })?;
            Ok(latch)
        })?;
        counts(th, Job { turn, latch }, BOSS)?;
        th.join(Plan::worker())?;
        th.step(latch, |sys, _, latch| LATCHES.delete(sys, latch))?;
        if Here::anywhere().argument() == TOLD {
            tell(TURNS, i + 1);
        }
        Ok(())
    })?;
    tell(TURNS, turns);
    Ok(())
}

fn worker(th: &mut Thread<Plan, u32>, job: Job) -> Result<(), Error> {
    tell(WORKERS, job.turn.into());
    counts(th, job, WORKER)
}

fn on_tick() {
    tick();
}

pub(super) fn places<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region_as::<Fram>();
    let turns: u32 = scene.rounds(ROUNDS).into();
    let (kernel, mut threads) = ok!(scene, Plan::open(region));
    let (places, _) = ok!(scene, threads.share());
    let mut stacks = [const { Stack::<STACK>::NEW }; 2];
    let mut port = Core::new(&mut stacks);
    Plan::spawn(&kernel, places, &mut port, |th| boss(th, turns), worker);
    run(scene, &kernel, port, on_tick);
    check!(scene, u32::from(scene.read_cell(TURNS)) == turns);
    check!(scene, u32::from(scene.read_cell(WORKERS)) + 1 == turns);
}
