//! What generated programs, and reading for more of its kind, have found: each as a program of its
//! own, without model and judge. None needs a power cut.

use crate::support::*;
use nv_rtos::nvmem::Region;
use nv_rtos::{Error, Thread, code};
use powerfail::{Mapped, World, explore};

/// The first boot of a program, of which each instant is known: no thread is preempted, and no
/// later boot does anything.
macro_rules! first_boot {
    ($nv:ident, $w:ident, $kernel:ident: $($thread:expr),+ $(,)?) => {
        let ($kernel, mut threads) = Plan::open($nv).unwrap();
        let (places, _) = threads.share().unwrap();
        let machine = Machine::default();
        if $w.with(|s| s.lives == 0) {
            $w.update(|s| s.lives += 1);
            $w.threads(|t| {
                machine.start(t, &$kernel, |kit| {
                    Plan::spawn(&$kernel, places, kit, $($thread),+);
                });
            });
        }
    };
}

/// The first findings as the programs that found them. Each has its program without a judge below.
mod programs {
    use crate::generated::program::{Act::Step, Op::*};
    use crate::generated::{Mode, again};

    #[test]
    fn an_aborted_thread_never_runs() {
        again(
            0,
            Mode::Uncut,
            [
                (0, vec![Step(vec![Set(0, 1), Abort(1)], false)]),
                (1, vec![Step(vec![Flags(0, 2, true, None)], false)]),
            ],
        );
    }

    #[test]
    fn one_step_has_an_expiry() {
        again(
            0,
            Mode::Uncut,
            [
                (0, vec![Step(vec![Expired, Start(0), Expired], true)]),
                (
                    2,
                    vec![Step(vec![Expired, Take(2, Some(22)), Expired], false)],
                ),
            ],
        );
    }
}

mod aborted_waiter {
    use super::*;
    nv_rtos::system! {
        Plan on Plain;
        table { bytes: 64, outbox_bytes: 0, seq_bits: 8 }
        objects { GO: Semaphore = (0, 1); }
        threads { boss(u32 = 0): 2; victim(u32 = 0): 1; }
        control { change: true }
    }

    fn boss(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.delay(1)?; // the victim waits
        th.step((), |sys, _, ()| {
            GO.give(sys)?;
            Plan::victim().abort(sys)
        })?;
        th.delay(1)?;
        Ok(())
    }

    fn victim(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.step((), |sys, _, ()| GO.take(sys))?;
        unreachable!("it was aborted")
    }

    pub fn life(nv: Region<'_, Plain>, w: &World<'_, Seen>) {
        first_boot!(nv, w, kernel: boss, victim);
    }
}

/// A step that aborts a thread, and gives what this one waits for, does not wake it.
#[test]
fn an_aborted_thread_is_not_woken_by_the_step_that_aborts_it() {
    explore(Mapped::<Plain>::new(4096), aborted_waiter::life).run();
}

mod claimed_twice {
    use super::*;
    nv_rtos::system! {
        Plan on Plain;
        table { bytes: 128, outbox_bytes: 0, seq_bits: 8 }
        objects {
            ALARM: Timer = one_shot(5);
            NEVER: Semaphore = (0, 1);
        }
        threads {
            fails(u32 = 0): 1;
            starts(u32 = 0): 1;
            handles(u32 = 0): 1;
            waits(u32 = 0): 1;
        }
    }

    fn fails(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.step(0, |sys, _, _| ALARM.start(sys))?;
        let failed = th.step(1, |sys, _, _| {
            nv_rtos::expired(sys)?; // at 5
            ALARM.start(sys)?;
            NEVER.take_timeout(sys, 20)?;
            Err::<(), _>(sys.abort(7)) // at 25
        });
        assert!(failed.is_err());
        th.delay(35)?;
        th.step(2, |sys, _, _| ALARM.start(sys))?; // at 60
        Ok(())
    }

    fn starts(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.delay(6)?;
        th.step(0, |sys, _, _| ALARM.start(sys))?;
        Ok(())
    }

    /// Has the expiry at 11, and works until 51.
    fn handles(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.delay(7)?;
        th.step(0, |sys, _, _| {
            nv_rtos::expired(sys)?;
            assert_eq!(nv_rtos::now(sys), 11);
            NEVER.take_timeout(sys, 40)?;
            Ok(())
        })?;
        Ok(())
    }

    fn waits(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.delay(12)?;
        th.step(0, |sys, _, _| {
            nv_rtos::expired(sys)?;
            assert_eq!(nv_rtos::now(sys), 65, "another step has the expiry");
            Ok(())
        })?;
        Ok(())
    }

    pub fn life(nv: Region<'_, Plain>, w: &World<'_, Seen>) {
        first_boot!(nv, w, kernel: fails, starts, handles, waits);
    }
}

/// A step that has an expiry and starts the timer itself fails: the expiry that another step got
/// since stays with that one.
#[test]
fn an_expiry_is_claimed_once() {
    explore(Mapped::<Plain>::new(4096), claimed_twice::life).run();
}

mod refused_start {
    use super::*;
    nv_rtos::system! {
        Plan on Plain;
        table { bytes: 128, outbox_bytes: 0, seq_bits: 8 }
        objects {
            TICK: Timer = periodic(5);
            NEVER: Semaphore = (0, 1);
            LOCK: Mutex;
        }
        threads { boss(u32 = 0): 1; victim(u32 = 0): 1; daemon(u32 = 0): 1; }
        control { change: true }
    }

    fn boss(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.step(0, |sys, _, _| TICK.start(sys))?;
        th.delay(6)?; // the daemon has the expiry at 5
        let refused = th.step(1, |sys, _, _| {
            TICK.start(sys)?;
            Plan::victim().abort(sys)?;
            NEVER.take_timeout(sys, 3)?; // meanwhile it locks
            Ok(())
        });
        assert_eq!(
            refused.map_err(Error::from),
            Err(Error::Aborted(code::REFUSED))
        );
        Ok(())
    }

    fn victim(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.delay(7)?;
        let guard = th.lock(&LOCK)?;
        th.delay(5)?;
        drop(guard);
        Ok(())
    }

    fn daemon(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.each_step(0..6, (), |sys, _, i, ()| {
            nv_rtos::expired(sys)?;
            if i == 0 {
                NEVER.take_timeout(sys, 20)?; // until 25
            }
            // Those at 5, 10, 15, 20, 25; and at 30.
            assert!(i < 5 || nv_rtos::now(sys) == 30, "one was handled twice");
            Ok(())
        })
    }

    pub fn life(nv: Region<'_, Plain>, w: &World<'_, Seen>) {
        first_boot!(nv, w, kernel: boss, victim, daemon);
    }
}

/// A step that starts a timer and aborts a thread is refused at its commit: the expiry that another
/// step has stays with that one.
#[test]
fn a_refused_start_changes_no_expiry() {
    explore(Mapped::<Plain>::new(4096), refused_start::life).run();
}

mod next_thread {
    use super::*;
    nv_rtos::system! {
        Plan on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 8 }
        objects { NEVER: Semaphore = (0, 1); }
        threads { killer(u32 = 0): 3; lowers(u32 = 0): 3; boss(u32 = 0): 2; }
        reserve { worker(u32 = 0, u32): 1; }
    }

    fn killer(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.delay(1)?; // the first worker runs
        th.step((), |sys, _, ()| {
            Plan::worker().abort(sys)?;
            NEVER.take_timeout(sys, 10)?;
            Ok(())
        })?;
        Ok(())
    }

    fn lowers(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.delay(1)?;
        th.step((), |sys, _, ()| {
            Plan::worker().set_priority(sys, 0)?;
            NEVER.take_timeout(sys, 10)?;
            Ok(())
        })?;
        Ok(())
    }

    fn boss(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.step(0, |sys, _, _| Plan::worker().spawn(sys, 0))?;
        th.step(1, |sys, _, _| Plan::worker().spawn(sys, 1))?; // at 5
        th.join(Plan::worker())
    }

    pub fn life(nv: Region<'_, Plain>, w: &World<'_, Seen>) {
        first_boot!(nv, w, kernel: killer, lowers, boss, |th, number| {
            th.delay(if number == 0 { 5 } else { 10 })?;
            w.update(|s| s.progress += 1);
            assert_eq!(kernel.priority(3), 1, "the other steps have called for the first worker");
            Ok(())
        });
        assert_eq!(w.with(|s| s.progress), 2, "both workers come to their ends");
    }
}

/// An abort and a change of priority were called for a thread in a reserved place. It ends before
/// they commit, and the next thread there is neither aborted nor changed.
#[test]
fn the_next_thread_in_a_place_is_another_one() {
    explore(Mapped::<Plain>::new(4096), next_thread::life)
        .depth(0)
        .run();
}

mod before_the_spawn {
    use super::*;
    nv_rtos::system! {
        Plan on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 8 }
        objects { NEVER: Semaphore = (0, 1); }
        threads { lowers(u32 = 0): 3; boss(u32 = 0): 2; }
        reserve { worker(u32 = 0, u32): 1; }
    }

    fn lowers(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.step((), |sys, _, ()| {
            Plan::worker().set_priority(sys, 0)?;
            NEVER.take_timeout(sys, 5)?;
            Ok(())
        })?;
        Ok(())
    }

    fn boss(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.step((), |sys, _, ()| Plan::worker().spawn(sys, 0))?;
        th.join(Plan::worker())
    }

    pub fn life(nv: Region<'_, Plain>, w: &World<'_, Seen>) {
        first_boot!(nv, w, kernel: lowers, boss, |th, _| {
            th.delay(10)?;
            assert_eq!(kernel.priority(2), 1, "there was no thread when it was called");
            Ok(())
        });
    }
}

/// A change of priority for a place without a thread is none of the next thread there.
#[test]
fn a_place_without_a_thread_has_no_priority() {
    explore(Mapped::<Plain>::new(4096), before_the_spawn::life)
        .depth(0)
        .run();
}

mod parked_and_aborted {
    use super::*;
    nv_rtos::system! {
        pub(super) Plan on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 8 }
        objects { NEVER: Semaphore = (0, 1); }
        threads { boss(u32 = 0): 2; stuck(u32 = 0): 1; }
        control { change: true, lives: 1, ticks: 10 }
    }
}

/// A parked thread that is aborted is not parked any more: nothing makes it run again.
#[test]
fn an_aborted_thread_is_not_unparked() {
    use parked_and_aborted::*;
    let life = |nv: Region<'_, Plain>, w: &World<'_, ()>| {
        for boot in 0..4 {
            // SAFETY: the one before is gone.
            let (kernel, mut threads) = Plan::open(unsafe { nv.tail(0) }).unwrap();
            let (places, _) = threads.share().unwrap();
            let machine = Machine::default();
            assert_eq!(kernel.parked(1), boot == 2);
            w.threads(|t| {
                let (machine, kernel) = (&machine, &kernel);
                let kit = machine.start(t, kernel, |kit| {
                    Plan::spawn(
                        kernel,
                        places,
                        kit,
                        move |th| {
                            if boot < 2 {
                                th.step(0, |sys, _, _| NEVER.take(sys))?;
                            }
                            th.step(1, |sys, _, _| Plan::stuck().abort(sys))?;
                            th.delay(1)?;
                            let end = th.join(Plan::stuck());
                            assert_eq!(end, Err(Error::Aborted(code::ABORTED)));
                            Ok(())
                        },
                        |th| {
                            th.step((), |_, _, ()| Ok(()))?;
                            t.sleep(80); // more than a boot has
                            Ok(())
                        },
                    );
                });
                t.spawn("power", 3, move || {
                    t.sleep(20);
                    assert_eq!(kernel.unpark(1, &kit), Ok(false));
                    t.sleep(25);
                    machine.power_off(t);
                });
            });
            assert_eq!(
                boot >= 2,
                kernel.ended(1) == Some(Err(Error::Aborted(code::ABORTED)))
            );
        }
    };
    explore(Mapped::<Plain>::new(2048), life).depth(0).run();
}

/// A program may have types and functions with the names that the macro needs.
mod names {
    #![allow(dead_code, non_snake_case, non_upper_case_globals)]
    use super::{Plain, code};
    use nv_rtos::nvmem::Persist;

    type Result<T> = core::result::Result<T, ()>;
    enum Option {}
    enum Clone {}
    enum Copy {}
    enum PartialEq {}
    trait FnOnce {}
    trait FnMut {}
    fn Ok() {}
    fn Err() {}
    fn Some() {}
    const None: u16 = code::FULL;
    /// Data of a mutex, with the name of a type that the macro makes.
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Cells(u32);
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Unit(u32);

    nv_rtos::system! {
        Plan on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 8 }
        pool { journal_entries: 8, journal_bytes: 64, seq_bits: 8 }
        objects {
            SEM: Semaphore = (0, 1);
            QUEUES: [Queue<u32, 1>; 2] => Letters;
        }
        shared {
            FIRST: Cells = Cells(1);
            SECOND: Unit = Unit(2);
        }
        threads { one(u32 = 0): 1; }
        reserve { two(u32 = 0, u32): 1; }
        control { notify: true, lives: 2, ticks: 9 }
    }

    nv_rtos::system! {
        Small on Plain;
        table { bytes: 96, outbox_bytes: 0, seq_bits: 8 }
        objects { ONLY: Mutex; }
        threads { only(u32 = 0): 1; }
    }
}

/// A thread of a reserved place is parked: the host's machine waited for its end.
#[test]
fn a_parked_thread_in_a_reserved_place() {
    use super::program::{Act::*, Op::*};
    let threads = [
        (2, vec![Step(vec![Spawn(false)], false)]),
        (7, vec![Work(25)]),
    ];
    super::again(3, super::Mode::Cuts, threads);
}

/// The judge of a boot was preempted while it noted an unlock.
#[test]
fn a_slice_ends_at_an_unlock() {
    use super::program::Act::*;
    let acts = vec![Lock(2), Step(vec![], false)];
    super::again(2, super::Mode::Preempt, [(0, acts)]);
}
