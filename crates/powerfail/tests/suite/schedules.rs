//! Schedules of threads: which are explored, and what is found with them.
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{Buffered32, InOrder32, Model, Region, mapped};
use powerfail::{Explore, Failure, Mapped, World, WorldState, explore, masked};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn get<M: Model>(nv: &Region<'_, M>, at: usize) -> u32 {
    unsafe { nv.load(at) }
}
fn put<M: Model>(nv: &Region<'_, M>, at: usize, v: u32) {
    unsafe { nv.store(at, v) }
}

type Toy<T> = Explore<Mapped<InOrder32>, T>;

fn toy<T: WorldState + Default>(
    program: impl for<'r, 'w> Fn(Region<'r, InOrder32>, &'w World<'r, T>) + Send + Sync + 'static,
) -> Toy<T> {
    explore(Mapped::<InOrder32>::new(64), program)
}

/// Expects a failure, and that its line repeats it.
fn fails<T: WorldState, M: powerfail::Media>(
    campaign: impl Fn() -> Explore<M, T>,
    why: &str,
) -> Failure {
    let f = campaign().try_run().expect_err("a failure");
    println!("{f}\n");
    assert!(f.report().contains(why), "{f}");
    let line = f.line().expect("a line");
    let again = campaign().replay(line).try_run().expect_err("the same");
    assert!(again.report().contains("replayed exactly"), "{again}");
    assert_eq!(again.line(), Some(line));
    f
}

/// The schedules of a failure: the parts of its line that begin with `~`.
fn schedules(f: &Failure) -> Vec<&str> {
    let cuts = f.line().and_then(|l| l.split('@').nth(3)).unwrap_or("");
    cuts.split('/').filter(|c| c.starts_with('~')).collect()
}

#[test]
fn a_lost_update_needs_one_preemption() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>, section: bool) {
        put(&nv, 0, 0);
        let add = || put(&nv, 0, get(&nv, 0) + 1);
        world.threads(|t| {
            for name in ["a", "b"] {
                t.spawn(name, 0, move || if section { masked(add) } else { add() });
            }
        });
        assert_eq!(get(&nv, 0), 2, "a lost update");
    }
    let f = fails(
        || toy(|nv, w| program(nv, w, false)).preemptions(1),
        "a lost update",
    );
    assert_eq!((f.cuts(), schedules(&f).len()), (0, 1), "{f}");
    toy(|nv, w| program(nv, w, false)).run();
    let s = toy(|nv, w| program(nv, w, true)).preemptions(2).run();
    // The end of a's section, and which of them begins.
    assert!(s.partial || s.points == 2, "{s}");
}

/// Only a preemption before the last store of the boot shows it.
#[test]
fn the_last_store_is_a_point() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        (0..3).for_each(|i| put(&nv, 4 * i, 0));
        let nv = &nv;
        world.threads(|t| {
            t.spawn("a", 0, move || (0..3).for_each(|i| put(nv, 4 * i, 1)));
            t.spawn("b", 0, move || {
                let n: u32 = masked(|| (0..3).map(|i| get(nv, 4 * i)).sum());
                assert_ne!(n, 2, "all but the last store");
            });
        });
    }
    let f = fails(|| toy(program).preemptions(1), "all but the last store");
    assert_eq!(schedules(&f), ["~3>1"], "{f}");
}

/// Peterson's lock with its lines in the wrong order: both enter after two preemptions, not after
/// one.
#[test]
fn some_bugs_need_two_preemptions() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        const VICTIM: usize = 8;
        const INSIDE: usize = 12;
        (0..4).for_each(|i| put(&nv, 4 * i, 0));
        let nv = &nv;
        world.threads(|t| {
            for (me, name) in ["a", "b"].into_iter().enumerate() {
                t.spawn(name, 0, move || {
                    put(nv, VICTIM, me as u32);
                    put(nv, 4 * me, 1);
                    while get(nv, 4 * (1 - me)) == 1 && get(nv, VICTIM) == me as u32 {
                        t.yield_now();
                    }
                    let n = get(nv, INSIDE);
                    assert_eq!(n, 0, "both are inside");
                    put(nv, INSIDE, 1);
                    put(nv, INSIDE, 0);
                    put(nv, 4 * me, 0);
                });
            }
        });
    }
    let s = toy(program).preemptions(1).run();
    assert!(s.partial || s.schedules > 10, "{s}");
    let f = fails(|| toy(program).preemptions(2), "both are inside");
    assert_eq!(schedules(&f)[0].matches('~').count(), 2, "{f}");
}

/// The preemption is in the boot after the cut.
#[test]
fn a_boot_after_a_cut_is_preempted() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        let begun = get(&nv, 0) == 1;
        let nv = &nv;
        put(nv, 0, 1);
        put(nv, 4, 0);
        world.threads(|t| {
            t.spawn("a", 0, move || {
                put(nv, 4, 1);
                put(nv, 4, 0);
            });
            t.spawn("b", 0, move || {
                assert!(!begun || get(nv, 4) == 0, "seen by b")
            });
        });
    }
    toy(program).depth(2).run();
    let f = fails(|| toy(program).preemptions(1), "seen by b");
    assert_eq!((f.cuts(), schedules(&f).len()), (1, 1), "{f}");
    let line = f.line().unwrap();
    assert!(
        line.contains("/~"),
        "the schedule of the second boot: {line}"
    );
}

/// What a thread stored without a fence is open, whoever runs then.
#[test]
fn buffered_stores_of_two_threads() {
    fn program(nv: Region<'_, Buffered32>, world: &World<'_, ()>, fence: bool) {
        // b copies the flag of a, so the copy may not come without the flag.
        assert!(get(&nv, 4) <= get(&nv, 0), "a copy without its original");
        let nv = &nv;
        world.threads(|t| {
            t.spawn("a", 0, move || {
                put(nv, 0, 1);
                mapped::fence::<Buffered32>();
            });
            t.spawn("b", 0, move || {
                let n = get(nv, 0);
                if fence {
                    mapped::fence::<Buffered32>();
                }
                put(nv, 4, n);
                mapped::fence::<Buffered32>();
            });
        });
    }
    let medium = || Mapped::<Buffered32>::new(64);
    let without = || explore(medium(), |nv, w| program(nv, w, false));
    without().depth(2).run();
    let f = fails(|| without().preemptions(1), "a copy without its original");
    assert_eq!((f.cuts(), schedules(&f).len()), (1, 1), "{f}");
    let with = explore(medium(), |nv, w| program(nv, w, true));
    let s = with.preemptions(2).depth(2).run();
    assert!(s.partial || s.cuts > 20, "{s}");
}

#[test]
fn the_clock_moves_when_all_wait() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        let order = RefCell::new(Vec::new());
        let say = |what: &'static str, now: u64| order.borrow_mut().push((what, now));
        world.threads(|t| {
            t.spawn("late", 0, || {
                t.sleep(20);
                say("late", t.now());
                assert!(!t.park_timeout(5), "nobody unparks it");
                say("timeout", t.now());
            });
            t.spawn("early", 0, || {
                t.sleep_until(10);
                say("early", t.now());
            });
            t.spawn("busy", 0, || {
                (0..5).for_each(|i| put(&nv, 0, i));
                say("busy", t.now());
            });
        });
        let order = order.into_inner();
        let all = [("busy", 0), ("early", 10), ("late", 20), ("timeout", 25)];
        assert_eq!(order, all);
    }
    toy(program).run();
}

/// With one preemption the clock moves at most once while a thread is ready.
#[test]
fn the_clock_moves_by_the_schedule() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>, early: bool) {
        world.threads(|t| {
            for (name, at) in [("ten", 10), ("twenty", 20)] {
                t.spawn(name, 1, move || t.sleep(at));
            }
            t.spawn("busy", 0, || {
                for i in 0..5 {
                    put(&nv, 0, i);
                    assert!(t.now() <= 10, "time ran while it was ready");
                }
                assert!(!early || t.now() == 0, "the first deadline has passed");
            });
        });
    }
    let s = toy(|nv, w| program(nv, w, false)).preemptions(1).run();
    assert!(s.partial || s.points == 5 + 1, "{s}");
    let f = fails(
        || toy(|nv, w| program(nv, w, true)).preemptions(1),
        "the first deadline has passed",
    );
    assert_eq!(schedules(&f), ["~1+"], "{f}");
    assert!(f.report().contains("the clock moves from 0 to 10"), "{f}");
    fails(
        || toy(|nv, w| program(nv, w, false)).preemptions(2),
        "time ran",
    );
}

#[test]
fn each_boot_starts_its_clock() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        world.threads(|t| {
            t.spawn("a", 0, || {
                assert_eq!(t.now(), 0, "RAM is lost, and the clock with it");
                put(&nv, 0, 1);
                t.sleep(3);
                put(&nv, 0, 2);
            });
        });
    }
    toy(program).depth(2).run();
}

/// Two super-loops: their stacks are lost at the end of the horizon, and nothing of them runs.
#[test]
fn no_destructor_of_a_stack_runs_at_a_cut() {
    static DROPPED: AtomicU32 = AtomicU32::new(0);
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Relaxed);
        }
    }
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        let nv = &nv;
        world.threads(|t| {
            for (i, name) in ["a", "b"].into_iter().enumerate() {
                t.spawn(name, 0, move || {
                    let _guard = Guard;
                    loop {
                        put(nv, 4 * i, (get(nv, 4 * i) + 1) % 3);
                        t.yield_now();
                    }
                });
            }
        });
    }
    let s = toy(program).horizon(6).preemptions(1).depth(2).run();
    assert!(s.partial || s.schedules > 0 && s.cuts > 20, "{s}");
    // Under Miri stacks are threads of the host, which must unwind.
    assert!(
        cfg!(miri) || DROPPED.load(Relaxed) == 0,
        "a destructor ran after the cut"
    );
}

#[test]
fn an_abandoned_thread_is_left_where_it_is() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        let nv = &nv;
        put(nv, 0, 0);
        let drops = Cell::new(0);
        struct Guard<'a>(&'a Cell<u32>);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let guards = &drops;
        world.threads(|t| {
            let waits = t.spawn("waits", 1, || {
                let _guard = Guard(guards);
                put(nv, 0, 1);
                t.park();
                put(nv, 0, 2);
            });
            t.spawn("abandons", 0, move || {
                let _guard = Guard(guards);
                t.abandon(waits);
                t.unpark(waits);
                masked(|| {
                    t.abandon(t.current());
                    put(nv, 4, 3);
                });
                put(nv, 4, 4);
            });
        });
        // All have ended, and those that are left do not unwind.
        assert!(cfg!(miri) || drops.get() == 0);
        assert_eq!((get(nv, 0), get(nv, 4)), (1, 3));
    }
    toy(program).run();
}

#[test]
fn an_interrupt_comes_at_any_point() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        put(&nv, 0, 0);
        let came = Cell::new(false);
        world.threads(|t| {
            t.spawn("a", 0, || {
                let n = get(&nv, 0);
                put(&nv, 0, n + 1);
                masked(|| {
                    put(&nv, 4, 1);
                    put(&nv, 4, 0);
                });
            });
            t.interrupt("irq", || {
                assert_eq!(get(&nv, 4), 0, "inside of a section");
                came.set(true);
                put(&nv, 0, 7);
            });
        });
        assert!(
            !came.get() || get(&nv, 0) != 1,
            "the interrupt's store is lost"
        );
    }
    // In the default schedule it does not come, as nobody waits for it.
    let s = toy(program).run();
    assert_eq!((s.points, s.schedules), (0, 0));
    let f = fails(
        || toy(program).preemptions(1),
        "the interrupt's store is lost",
    );
    assert_eq!(schedules(&f), ["~1*0"], "{f}");
    assert!(f.report().contains("irq interrupts"), "{f}");
}

#[test]
fn an_interrupt_wakes_a_thread() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        put(&nv, 0, 0);
        let seen = Cell::new(false);
        world.threads(|t| {
            let high = t.spawn("high", 2, || {
                t.park();
                seen.set(true);
                put(&nv, 0, 1);
            });
            t.spawn("low", 1, || {
                (0..3).for_each(|_| put(&nv, 4, 0));
                // It runs as soon as it is ready.
                let stored = get(&nv, 0) == 1;
                assert_eq!(seen.get(), stored);
            });
            t.interrupt("irq", move || t.unpark(high));
        });
        assert!(seen.get(), "while all wait, the interrupt comes");
    }
    let s = toy(program).preemptions(2).depth(2).run();
    assert!(s.partial || s.points > 3, "{s}");
}

#[test]
fn threads_that_wait_for_ever_are_a_failure() {
    let lonely = || {
        toy(|nv, world: &World<()>| {
            put(&nv, 0, 1);
            world.threads(|t| {
                t.spawn("waits", 0, || t.park());
            });
        })
    };
    let f = lonely().try_run().expect_err("a deadlock");
    assert!(f.report().contains("every thread waits"), "{f}");
    assert!(f.report().contains("waits ("), "its name: {f}");
    let f = toy(|nv, world: &World<()>| {
        put(&nv, 0, 1);
        world.threads(|t| {
            for name in ["a", "b"] {
                t.spawn(name, 0, || {
                    loop {
                        t.yield_now()
                    }
                });
            }
        });
    })
    .budget(1000)
    .try_run()
    .expect_err("a boot that does not end");
    assert!(f.report().contains("does not end"), "{f}");
}

#[test]
fn a_campaign_without_a_preemption_fails() {
    let f = toy(|nv, world: &World<()>| {
        world.threads(|t| {
            t.spawn("alone", 0, || put(&nv, 0, 1));
        });
    })
    .preemptions(2)
    .try_run()
    .expect_err("nothing to preempt");
    assert!(f.report().contains("nothing to preempt"), "{f}");
}

#[test]
fn what_depends_on_more_than_the_schedule_is_a_failure() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let f = toy(|nv, world: &World<()>| {
        let odd = RUNS.fetch_add(1, Relaxed) >= 7;
        let nv = &nv;
        world.threads(|t| {
            t.spawn("a", 0, move || {
                (0..4).for_each(|i| put(nv, 4 * i, odd.into()))
            });
            t.spawn("b", 0, move || put(nv, 20, 1));
        });
    })
    .preemptions(1)
    .threads(1)
    .try_run()
    .expect_err("a static");
    assert!(f.report().contains("something outlives the reboot"), "{f}");
}

/// A kernel under test has its own scheduler. Threads that it does not run are suspended.
struct Kernel<'k, 's, 'e> {
    t: &'s powerfail::Threads<'s, 'e>,
    /// Each thread, its priority, and whether it is ready.
    threads: &'k RefCell<Vec<(powerfail::Thread, u8, bool)>>,
    running: &'k Cell<Option<usize>>,
}

impl Kernel<'_, '_, '_> {
    fn set_ready(&self, i: usize, ready: bool) {
        let (thread, priority, is) = &mut self.threads.borrow_mut()[i];
        *is = ready;
        self.t.declare(*thread, ready.then_some(*priority));
    }
    /// Thread `i` ends: the next one runs.
    fn exit(&self, i: usize) {
        self.set_ready(i, false);
        let all = self.threads.borrow();
        let ready = (0..all.len()).filter(|i| all[*i].2);
        let next = ready.max_by_key(|i| all[*i].1);
        self.running.set(next);
        if let Some(next) = next {
            self.t.unpark(all[next].0);
        }
    }
    /// Runs the ready thread of the highest priority.
    fn switch(&self) {
        let (from, to) = {
            let all = self.threads.borrow();
            let ready = (0..all.len()).filter(|i| all[*i].2);
            let Some(next) = ready.max_by_key(|i| all[*i].1) else {
                return;
            };
            let from = self.running.replace(Some(next));
            if from == Some(next) {
                return;
            }
            (from.map(|from| all[from].0), all[next].0)
        };
        self.t.unpark(to);
        if let Some(from) = from {
            self.t.suspend(from);
        }
    }
}

fn kernel(nv: Region<'_, InOrder32>, world: &World<'_, ()>, forgets: bool) {
    let (threads, running) = (RefCell::new(Vec::new()), Cell::new(Some(0)));
    let ended = Cell::new(false);
    let (nv, threads, running, ended) = (&nv, &threads, &running, &ended);
    world.threads(|t| {
        let kernel = || Kernel {
            t,
            threads,
            running,
        };
        let low = t.spawn("low", 0, move || {
            for i in 0..3 {
                t.commit(1);
                put(nv, 0, i);
            }
            masked(|| kernel().exit(0));
        });
        let high = t.spawn("high", 0, move || {
            t.commit(2);
            put(nv, 4, 1);
            ended.set(true);
            masked(|| kernel().exit(1));
        });
        threads
            .borrow_mut()
            .extend([(low, 1, true), (high, 2, false)]);
        t.suspend(high);
        t.interrupt("give", move || {
            if !ended.get() {
                kernel().set_ready(1, true);
                if !forgets || running.get().is_none() {
                    kernel().switch();
                }
            }
        });
    });
}

/// A kernel that does not switch when a thread becomes ready loses nothing but time.
#[test]
fn priorities_are_asserted_at_each_commit() {
    let s = toy(|nv, w| kernel(nv, w, false))
        .preemptions(2)
        .depth(2)
        .run();
    assert!(s.partial || s.schedules > 10, "{s}");
    let f = fails(
        || toy(|nv, w| kernel(nv, w, true)).preemptions(1),
        "`low` commits at priority 1, while `high` is ready at priority 2",
    );
    assert_eq!(schedules(&f).len(), 1, "{f}");
}

/// The scheduler of this crate keeps priorities itself.
#[test]
fn the_highest_priority_runs() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        let order = RefCell::new(Vec::new());
        let say = |who: &'static str| order.borrow_mut().push(who);
        let (nv, say) = (&nv, &say);
        world.threads(|t| {
            t.spawn("low", 1, move || {
                let high = t.spawn("high", 3, move || {
                    say("high begins");
                    t.park();
                    say("high goes on");
                    t.commit(3);
                    put(nv, 0, 1);
                });
                say("low");
                masked(|| {
                    t.unpark(high);
                    say("low in its section");
                });
                say("low ends");
            });
            t.spawn("middle", 2, move || say("middle"));
        });
        let all = [
            "middle",
            "high begins",
            "low",
            "low in its section",
            "high goes on",
            "low ends",
        ];
        assert_eq!(*order.borrow(), all);
    }
    toy(program).run();
}

#[test]
fn a_section_cannot_wait() {
    let f = toy(|nv, world: &World<()>| {
        put(&nv, 0, 1);
        world.threads(|t| {
            t.spawn("a", 0, || masked(|| t.sleep(1)));
        });
    })
    .try_run()
    .expect_err("it waits");
    assert!(
        f.report().contains("a critical section cannot sleep"),
        "{f}"
    );
}

/// The first failure does not depend on the number of engines.
#[test]
fn the_line_is_the_same_with_any_number_of_threads() {
    fn program(nv: Region<'_, InOrder32>, world: &World<'_, ()>) {
        assert!(get(&nv, 16) < 2, "two at once, and then a cut");
        (0..5).for_each(|i| put(&nv, 4 * i, 0));
        let nv = &nv;
        world.threads(|t| {
            for name in ["a", "b", "c"] {
                t.spawn(name, 0, move || {
                    for i in 0..4 {
                        put(nv, 4 * i, get(nv, 4 * i) + 1);
                    }
                    let inside = get(nv, 16) + 1;
                    put(nv, 16, inside);
                    put(nv, 16, get(nv, 16) - 1);
                });
            }
        });
    }
    let line = |threads| {
        let f = toy(program).preemptions(2).threads(threads).try_run();
        f.expect_err("a failure").line().map(str::to_owned)
    };
    let one = line(1);
    println!("{one:?}");
    assert!(one.as_ref().is_some_and(|l| l.contains('~')));
    assert_eq!(one, line(3));
}

/// A thread panics, and the program catches it: no thread and no handler is left that a later store
/// could run.
#[test]
fn threads_that_unwind_leave_nothing_behind() {
    let s = toy::<()>(|nv, world| {
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let owned = [1u32];
            world.threads(|t| {
                t.interrupt("tick", || put(&nv, 4, owned[0]));
                t.spawn("a", 0, || put(&nv, 0, 1));
                t.spawn("b", 0, || {
                    put(&nv, 0, 2);
                    std::panic::resume_unwind(Box::new(()));
                });
            });
        }));
        // A cut unwinds, too, and is not to be swallowed.
        if let Err(e) = unwound
            && !e.is::<()>()
        {
            std::panic::resume_unwind(e);
        }
        put(&nv, 8, 3);
        put(&nv, 8, 4);
    })
    .preemptions(1)
    .run();
    assert!(s.points > 0, "{s}");
}

/// What a handler owns may use the threads' clock while it is dropped.
#[test]
fn a_handler_is_dropped_like_any_other_value() {
    struct Late<F: Fn()>(F);
    impl<F: Fn()> Drop for Late<F> {
        fn drop(&mut self) {
            (self.0)()
        }
    }
    let s = toy::<()>(|nv, world| {
        world.threads(|t| {
            let late = Late(|| {
                t.now();
            });
            t.interrupt("tick", move || {
                let _ = &late;
            });
            t.spawn("a", 0, || put(&nv, 0, 1));
        });
    })
    .preemptions(1)
    .run();
    assert!(s.points > 0, "{s}");
}

/// More states than the runs of each are shared out for: one after the other, each run begins with
/// the state and not with what the run before it has left.
#[test]
fn each_schedule_begins_with_the_state() {
    fn program(nv: Region<'_, Buffered32>, world: &World<'_, ()>) {
        let sum: u32 = (0..9).map(|i| get(&nv, 4 * i)).sum();
        let nv = &nv;
        world.threads(|t| {
            t.spawn("a", 0, move || (0..9).for_each(|i| put(nv, 4 * i, sum + 1)));
            t.spawn("b", 0, move || put(nv, 36, sum));
        });
    }
    let campaign = explore(Mapped::<Buffered32>::new(64), program);
    let s = campaign.preemptions(1).depth(2).max_depth(2).run();
    assert!(s.partial || s.boots > 100_000, "{s}");
}
