//! Generated programs under power cuts and preemptions, judged by a model without a kernel.
//!
//! ```text
//!  from_seed.rs   makes a program from a seed:      thread 0: lock, step { give; send }, ...
//!  stories.rs     the same for short programs about one thing each
//!  program.rs     programs as data
//!  boot.rs        the judge and the handlers of the boot that runs
//!  machine.rs     a system at its limits, and threads that do what a program says
//!  judge.rs       the states in which the system may be; judge/*.rs: what each object does
//!  shrink.rs      the shortest program that fails, as a test
//!  found.rs       what was found, each as a program of its own
//! ```
//!
//! `GENERATED_PROGRAMS=100` makes a hundred times as many programs. A failure prints its seed, and
//! a test for found.rs.

mod boot;
mod found;
mod from_seed;
mod judge;
mod program;
mod shrink;
mod stories;

use crate::runs::{programs, seed};
use judge::Seen;
use powerfail::{Explore, Mapped, Media, Summary, explore_with};
use program::*;

macro_rules! machines {
    ($($(#[$when:meta])? $name:ident =
       $model:ty, $seq:literal, $priority:expr, $lives:literal;)+) => {$(
        $(#[$when])?
        mod $name {
            use super::judge::{ERR, Ended, Judge, Seen};
            use super::program::*;
            use super::boot::{Judged, judge, set_handler, set_judge, software_interrupt};
            use super::boot::{set_unpark, unpark, work};
            use crate::support::*;
            use nv_rtos::nv_replay::{Commit, Committed};
            use nv_rtos::nvmem::{Model, Region};
            use nv_rtos::pmem_tx::{self, Preempted};
            use nv_rtos::{Error, Event, Guard, Isr, Made, Port, Spawn, Step, Thread, ThreadId};
            use nv_rtos::{Joiner, Locks, Mutex, Until, code};
            use nv_rtos::{wait_notification, wait_notification_timeout};
            use nv_rtos::{wait_until, wait_until_timeout};
            use powerfail::World;
            use std::cell::Cell;
            use std::mem::MaybeUninit;
            pub type Fram = Preempted<$model, super::boot::Checked>;
            const SEQ: u8 = $seq;
            const PRIORITY: [u8; THREADS] = $priority;
            /// After how many long boots without progress a thread is parked.
            const LIVES: u8 = $lives;
            /// How long such a boot is.
            const TICKS: u32 = if LIVES == 0 { 0 } else { LONG as u32 };
            include!("generated/machine.rs");

            /// A formatted region.
            pub fn image() -> Vec<u8> {
                let mut words = vec![MaybeUninit::new(0u64); super::BYTES / 8];
                let _ = Plan::open(Region::new(&mut words)).expect("an open");
                // SAFETY: initialised above; padding of roots is zero.
                let words = words.iter().map(|w| unsafe { w.assume_init() });
                words.flat_map(u64::to_ne_bytes).collect()
            }
        }
    )+};
}

// Each takes long to build.
machines! {
    mixed = nv_rtos::nvmem::InOrder32, 4, [2, 1, 3, 2, 252, 1, 0, 4], 0;
    halves = Buffered16, 3, [1, 2, 2, 3, 4, 1, 0, 1], 0;
    parking = nv_rtos::nvmem::InOrder32, 4, [1, 2, 2, 3, 4, 1, 0, 1], 1;
    #[cfg(feature = "media")]
    equal = nv_rtos::nvmem::Buffered32, 3, [1, 1, 1, 1, 1, 1, 0, 1], 0;
}

const BYTES: usize = 16 * 1024;

/// What is done with each program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Runs without a cut.
    Uncut,
    /// Each cut.
    Cuts,
    /// Each cut, from the first boot of a blank region on.
    First,
    /// One cut in 20.
    Some,
    /// Some pairs of cuts.
    Twice,
    /// Each preemption and interrupt, with some cuts.
    Preempt,
}

/// Runs a program on a machine, if it is there, or on `mixed`. The failure, if there is one.
fn campaign(machine: u64, program: &Program, mode: Mode) -> Result<Summary, String> {
    macro_rules! on {
        ($name:ident) => {{
            let e = explore_with(
                program.clone(),
                Mapped::<$name::Fram>::new(BYTES),
                $name::life,
            );
            match mode {
                Mode::First => run(e, mode),
                _ => run(e.image($name::image()), mode),
            }
        }};
    }
    match machine {
        #[cfg(feature = "media")]
        0 => on!(equal),
        2 => on!(halves),
        3 => on!(parking),
        _ => on!(mixed),
    }
}

fn run<M: Media>(e: Explore<M, Seen>, mode: Mode) -> Result<Summary, String> {
    let e = e.name(&format!("generated::{mode:?}")).threads(1).limit(8);
    let e = match mode {
        Mode::Uncut => e.depth(0),
        Mode::Cuts | Mode::First => e,
        Mode::Some => e.one_in(20),
        Mode::Twice => e.depth(2).one_in(50),
        Mode::Preempt => e.preemptions(1).one_in(200),
    };
    e.try_run().map_err(|f| f.report().to_owned())
}

/// So many programs, from the run's seed on. The machines take turns.
fn campaigns(n: u32, mode: Mode, make: impl Fn(u64) -> Program) {
    campaigns_on(|seed| seed % 3, n, mode, make);
}

/// So many programs, each on the machine that its seed names.
fn campaigns_on(machine: impl Fn(u64) -> u64, n: u32, mode: Mode, make: impl Fn(u64) -> Program) {
    for seed in seed()..seed() + u64::from(programs(n)) {
        let (program, machine) = (make(seed), machine(seed));
        if let Err(first) = campaign(machine, &program, mode) {
            eprintln!("seed {seed} fails; a shorter program is searched: {first}");
            let fails = |p: &Program| campaign(machine, p, mode).err();
            let (program, why) = shrink::shrink(program, fails);
            let test = shrink::as_test(machine, &format!("{mode:?}"), &program);
            panic!("seed {seed}, {mode:?}: {why}\nthe shortest program:\n{test}");
        }
    }
}

/// The program of a failure: the acts of some threads.
#[track_caller]
fn again<const N: usize>(machine: u64, mode: Mode, threads: [(usize, Vec<Act>); N]) {
    let mut program = Program {
        threads: Default::default(),
        preempted: mode == Mode::Preempt,
    };
    for (t, acts) in threads {
        program.threads[t] = acts;
    }
    if let Err(why) = campaign(machine, &program, mode) {
        panic!("{why}");
    }
}

#[test]
fn runs_without_a_cut() {
    campaigns(40, Mode::Uncut, from_seed::any);
}

#[test]
fn each_cut() {
    campaigns(3, Mode::Cuts, from_seed::any);
}

#[test]
fn from_the_first_boot_on() {
    campaigns(1, Mode::First, from_seed::any);
}

#[test]
fn pairs_of_cuts() {
    campaigns(1, Mode::Twice, from_seed::any);
}

#[test]
fn each_preemption() {
    campaigns(1, Mode::Preempt, from_seed::preempted);
}

#[test]
fn locks() {
    campaigns(30, Mode::Uncut, from_seed::locks);
    campaigns(6, Mode::Cuts, from_seed::locks);
}

#[test]
fn timers() {
    campaigns(40, Mode::Uncut, from_seed::timers);
    campaigns(3, Mode::Cuts, from_seed::timers);
}

#[test]
fn handlers() {
    campaigns(10, Mode::Uncut, from_seed::handlers);
    campaigns(3, Mode::Cuts, from_seed::handlers);
}

#[test]
fn aborted_threads() {
    campaigns(40, Mode::Uncut, from_seed::aborts);
    campaigns(3, Mode::Cuts, from_seed::aborts);
}

#[test]
fn spawned_threads() {
    campaigns(40, Mode::Uncut, from_seed::spawns);
    campaigns(3, Mode::Cuts, from_seed::spawns);
}

#[test]
fn made_objects() {
    campaigns(60, Mode::Uncut, from_seed::makes);
    campaigns(3, Mode::Cuts, from_seed::makes);
}

#[test]
fn made_mutexes() {
    campaigns(30, Mode::Uncut, from_seed::latches);
    campaigns(3, Mode::Cuts, from_seed::latches);
}

#[test]
fn parked_threads() {
    campaigns_on(|_| 3, 6, Mode::Cuts, from_seed::works);
}

#[test]
fn laps_of_tickets() {
    campaigns(2, Mode::Some, |seed| {
        from_seed::laps(60 + 10 * (seed % 8) as u32)
    });
}

/// Short programs, each cut on a machine in order or on one with a write buffer.
fn stories(n: u32, make: impl Fn(u64) -> Program) {
    let machines = if cfg!(feature = "media") { 3 } else { 2 };
    campaigns_on(|seed| 2 - seed / 2 % machines, n, Mode::Cuts, make);
}

macro_rules! stories {
    ($($name:ident: $n:literal of $make:ident;)+) => {$(
        #[test]
        fn $name() {
            stories($n, stories::$make);
        }
    )+};
}

stories! {
    stories_of_locks: 24 of contended;
    stories_of_tries: 8 of tries;
    stories_of_made_mutexes: 8 of latches;
    stories_of_made_objects: 16 of deletes;
    stories_of_daemons: 24 of daemons;
    stories_of_workers: 8 of workers;
    stories_of_messages: 8 of messages;
}

/// What a boot sends, and the next one receives.
#[test]
fn stories_of_two_boots() {
    campaigns(6, Mode::Twice, stories::messages);
}

#[test]
fn stories_of_records() {
    // That with the fewest numbers.
    campaigns_on(|_| 2, 6, Mode::Cuts, stories::records);
}
