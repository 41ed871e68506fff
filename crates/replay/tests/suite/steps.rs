//! Loops of one step, and steps with a token, without cuts. How many sequence numbers each call
//! uses.

use nv_replay::nvmem::instrument::{Observer, observe};
use nv_replay::nvmem::{InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::Width;
use nv_replay::{
    Commit, Committed, Config, Error, Held, Message, Mismatch, NotNow, Options, Outlet, PBox, Port,
    Replay, Step, Token, Update, last_committed,
};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Rt<'m, M = InOrder32> = Replay<'m, u32, M>;

fn memory() -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); 512]
}
fn open<M: Model>(region: Region<'_, M>) -> Rt<'_, M>
where
    M::Unit: Width,
{
    Replay::open(region, Options::default(), |_| Ok(0)).unwrap()
}
fn reboot<M: Model>(rt: Rt<'_, M>) -> Rt<'_, M>
where
    M::Unit: Width,
{
    open(rt.close())
}
fn sum(rt: &mut Rt<'_>) -> u32 {
    rt.view(|tx, sum| *sum.get(tx)).unwrap().unwrap()
}

/// Counts the stores of the library.
#[derive(Default)]
struct Count(Cell<usize>);
impl Observer for Count {
    fn store(&self, _: *mut u8, _: &[u8]) {
        self.0.set(self.0.get() + 1);
    }
}
impl Count {
    fn of(f: impl FnOnce()) -> usize {
        let c = Count::default();
        observe(&c, f);
        c.0.get()
    }
}

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.each_step(3..6, (2u32, 1u16), |tx, sum, i, (k, one)| {
        *sum.get_mut(tx)? += i * k + u32::from(one);
        Ok(())
    })?;
    rt.named("empty")
        .each_step(5..5, (), |tx, _, _, ()| Err(tx.abort(1)))?;
    rt.each(0..2, |rt, i| {
        rt.step(i, |_, _, _| Ok(()))?;
        rt.each_step(0..2, i, |tx, sum, j, i| {
            *sum.get_mut(tx)? += 100 * i + 10 * j;
            Ok(())
        })?;
        rt.step(i, |_, _, i| Ok(i))?;
        Ok(())
    })?;
    Ok(())
}

#[test]
fn a_loop_of_one_step_runs_once() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m));
    for boot in 0..3 {
        let stores = Count::of(|| program(&mut rt).unwrap());
        assert_eq!(stores > 0, boot == 0);
        assert_eq!(sum(&mut rt), 24 + 3 + 220);
        rt = reboot(rt);
    }
}

/// One store for an iteration; nothing for a loop that has ended.
fn costs<M: Model>()
where
    M::Unit: Width,
{
    let run = |n: u32| {
        let mut m = memory();
        let mut rt = open::<M>(Region::new(&mut m));
        let turns = |rt: &mut Rt<'_, M>| rt.each_step(0..n, (), |_, _, _, ()| Ok(())).unwrap();
        let stores = Count::of(|| turns(&mut rt));
        let mut rt = reboot(rt);
        assert_eq!(Count::of(|| turns(&mut rt)), 0);
        stores
    };
    assert_eq!(run(1), 2 + 1, "state and record; the end");
    assert_eq!(run(101), 2 + 101);
    // With `each` and a step it is twice as much, and another unit of the table.
    let mut m = memory();
    let mut rt = open::<M>(Region::new(&mut m));
    let two = Count::of(|| {
        rt.each(0..101, |rt, _| Ok(rt.step((), |_, _, ()| Ok(()))?))
            .unwrap()
    });
    assert_eq!(two, 2 + 202);
}

#[test]
fn a_turn_is_one_store() {
    costs::<InOrder16>();
    costs::<InOrder32>();
}

#[test]
fn a_handle_is_lent_to_every_turn() {
    type H = Held<u32>;
    let mut m = memory();
    let mut rt = open(Region::new(&mut m));
    for _ in 0..2 {
        let mut h = rt
            .step_own::<_, H>((), |tx, _, ()| PBox::new(tx, 5))
            .unwrap();
        rt.each_step(0..3, (h.lend(), 7), |tx, sum, _, (mut h, k)| {
            *h.get_mut(tx)? += k;
            *sum.get_mut(tx)? = *h.get(tx);
            Ok(())
        })
        .unwrap();
        rt.step(h, |tx, _, h| h.into_inner(tx).map(drop)).unwrap();
        assert_eq!(sum(&mut rt), 26);
        rt = reboot(rt);
    }
    // A handle of an earlier opening: nothing is recorded, and the program goes on.
    let mut m = memory();
    let mut rt = open(Region::<InOrder32>::new(&mut m));
    let mut h = rt
        .step_own::<_, H>((), |tx, _, ()| PBox::new(tx, 5))
        .unwrap();
    let mut rt = reboot(rt);
    let again = rt.step_own::<_, H>((), |tx, _, ()| PBox::new(tx, 5));
    let refused = rt.each_step(0..3, h.lend(), |_, _, _, _| Ok(()));
    assert_eq!(refused, Err(Error::WrongPool));
    rt.each_step(0..3, again.unwrap().lend(), |_, _, _, _| Ok(()))
        .unwrap();
}

thread_local! {
    static FAILS: Cell<bool> = const { Cell::new(false) };
    static TURNS: Cell<u32> = const { Cell::new(0) };
}

fn fails_once(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.each_step(0..4, (), |tx, sum, i, ()| {
        *sum.get_mut(tx)? += 1;
        if i == 2 && FAILS.get() {
            return Err(tx.abort(9));
        }
        Ok(())
    })
}

/// A turn that fails is undone, the runtime stops, and the next boot tries the same turn.
#[test]
fn an_error_leaves_the_loop_in_its_turn() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m));
    FAILS.set(true);
    for _ in 0..3 {
        assert_eq!(fails_once(&mut rt), Err(Error::Aborted(9)));
        assert_eq!(rt.record(1u8), Err(Error::LoopInterrupted));
        assert_eq!(rt.view(|_, _| ()), Err(Error::LoopInterrupted));
        rt = reboot(rt);
    }
    FAILS.set(false);
    fails_once(&mut rt).unwrap();
    assert_eq!(sum(&mut rt), 4);
    // An error that is handled inside stops nothing.
    rt.each_step(0..2, 1, |tx, sum, _, k| {
        let part = tx.nested(sum, |tx, sum| {
            *sum.get_mut(tx)? = 99;
            Err::<(), _>(tx.abort(3))
        });
        assert!(part.is_err());
        *sum.get_mut(tx)? += k;
        Ok(())
    })
    .unwrap();
    assert_eq!(sum(&mut rt), 6);
}

#[test]
fn a_turn_that_unwinds_is_undone_and_stops_the_runtime() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m));
    let turns = |rt: &mut Rt<'_>| {
        rt.each_step(0..3, (), |tx, sum, i, ()| {
            *sum.get_mut(tx)? += 1;
            assert!(i != 1 || !FAILS.get(), "unwinds");
            Ok(())
        })
    };
    FAILS.set(true);
    catch_unwind(AssertUnwindSafe(|| turns(&mut rt))).unwrap_err();
    assert_eq!(turns(&mut rt), Err(Error::LoopInterrupted));
    assert_eq!(rt.record(1u8), Err(Error::LoopInterrupted));
    FAILS.set(false);
    let mut rt = reboot(rt);
    turns(&mut rt).unwrap();
    assert_eq!(sum(&mut rt), 3);
}

#[test]
fn a_loop_without_end_goes_on_in_its_turn() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m));
    TURNS.set(0);
    for n in 1..=3 {
        let stopped = rt.forever_step((), |tx, sum, i, ()| {
            if *sum.get(tx) != i {
                return Err(tx.abort(2));
            }
            *sum.get_mut(tx)? += 1;
            TURNS.set(TURNS.get() + 1);
            if TURNS.get() == 5 {
                TURNS.set(0);
                // Undone: four turns a boot.
                return Err(tx.abort(1));
            }
            Ok(())
        });
        assert_eq!(stopped.err(), Some(Error::Aborted(1)));
        let options = Options {
            start_over: n == 3,
            ..Options::default()
        };
        rt = Replay::open(rt.close(), options, |_| Ok(0)).unwrap();
    }
    assert_eq!(sum(&mut rt), 3 * 4);
}

/// Its counter carries every 64 turns. The first boot begins at 0, and some in a turn that carries.
#[test]
fn a_loop_without_end_carries() {
    for turns in [30, 64, 150] {
        let mut m = memory();
        let mut rt = open::<InOrder16>(Region::new(&mut m));
        for _ in 0..5 {
            TURNS.set(turns);
            let stopped = rt.forever_step((), |tx, sum, i, ()| {
                if *sum.get(tx) != i {
                    return Err(tx.abort(2));
                }
                if TURNS.get() == 0 {
                    return Err(tx.abort(1));
                }
                TURNS.set(TURNS.get() - 1);
                *sum.get_mut(tx)? += 1;
                Ok(())
            });
            assert_eq!(stopped.err(), Some(Error::Aborted(1)), "{turns}");
            rt = reboot(rt);
        }
    }
}

/// A record inside of a running loop of one step: another program's, whose loop has the same hash.
#[test]
fn records_in_the_loop_are_refused() {
    let mut remained = 0;
    for name in 0..2_000u32 {
        let mut m = memory();
        let mut rt = open::<InOrder16>(Region::new(&mut m));
        let stopped = rt.named(name).each(0..4, |rt, _| {
            rt.record(1u8)?;
            Err(Error::Other)
        });
        assert!(stopped.is_err());
        let mut rt = reboot(rt);
        let turns = rt.each_step(0..4, (), |_, _, _, ()| Ok(()));
        assert_eq!(turns, Err(Error::Diverged));
        match rt.divergence().unwrap().mismatch {
            Mismatch::RecordsRemain => remained += 1,
            other => assert_eq!(other, Mismatch::Call),
        }
    }
    // Eight bits are compared there.
    assert!(remained > 1, "{remained}");
}

static PORT: Port<u32> = Port::new(1);

struct Sent<'a>(&'a RefCell<Vec<u32>>);
impl Outlet for Sent<'_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        self.0.borrow_mut().push(m.get(&PORT).unwrap().unwrap());
        Ok(())
    }
}

#[test]
fn a_full_outbox_fails_the_turn() {
    let sent = RefCell::new(Vec::new());
    let mut m = memory();
    let options = Options {
        table: Config {
            outbox_bytes: 16,
            ..Config::DEFAULT
        },
        ..Options::default()
    };
    let region = Region::<InOrder32>::new(&mut m);
    let mut rt = Replay::<u32, _, _>::open_with(region, options, Sent(&sent), |_| Ok(0)).unwrap();
    let turns = rt.each_step(0..3, (), |tx, sum, i, ()| {
        *sum.get_mut(tx)? += 1;
        for k in 0..3 * i {
            // The turn fails, whatever its body makes of this error.
            let _ = tx.send(&PORT, k);
        }
        tx.send(&PORT, 7).or(Ok(()))
    });
    assert_eq!(turns, Err(Error::OutboxFull));
    assert_eq!(*sent.borrow(), [7]);
}

/// What a token has seen.
#[derive(Default)]
struct Log {
    wanted: Cell<u32>,
    joined: RefCell<Vec<(u32, u32)>>,
    undone: Cell<u32>,
    refuses: Cell<bool>,
}
impl Token for Log {
    fn join<'c>(&self, commit: Commit<'c>) -> Result<Committed<'c>, Error> {
        let wanted = self.wanted.take();
        if self.refuses.get() {
            return Err(Error::Aborted(8));
        }
        let number = commit.number().get();
        let done = commit.store();
        self.joined.borrow_mut().push((number, wanted));
        Ok(done)
    }
    fn undone(&self) {
        self.wanted.take();
        self.undone.set(self.undone.get() + 1);
    }
}
fn want(step: &Step<'_, '_, InOrder32, Log>, n: u32) {
    let wanted = &step.token().wanted;
    wanted.set(wanted.get() + n)
}

/// Each body that runs is followed by a join or by `undone`; a bypass by neither.
#[test]
fn a_token_is_joined_or_undone() {
    let log = Log::default();
    let mut m = memory();
    let mut rt = open(Region::new(&mut m));
    let n = rt
        .step_with(&log, 5, |step, sum, n| {
            want(step, n);
            *sum.get_mut(step)? += n;
            Ok(*sum.get(step))
        })
        .unwrap();
    let number = |i: usize| log.joined.borrow()[i].0;
    assert_eq!((n, log.joined.borrow()[0].1, log.undone.get()), (5, 5, 0));
    let failed = rt.step_with(&log, (), |step, _, ()| {
        want(step, 1);
        Err::<(), _>(step.abort(1))
    });
    assert_eq!(failed.unwrap_err().error, Error::Aborted(1));
    assert_eq!((log.undone.get(), log.wanted.get()), (1, 0));
    // The step is refused because of its messages, and its body knows nothing of it.
    let full = rt.named("full").step_with(&log, (), |step, _, ()| {
        want(step, 1);
        for _ in 0..100 {
            let _ = step.send(&PORT, 1);
        }
        Ok(())
    });
    assert_eq!(full.unwrap_err().error, Error::OutboxFull);
    assert_eq!((log.undone.get(), log.wanted.get()), (2, 0));
    log.refuses.set(true);
    let refused = rt.named("refused").step_with(&log, (), |step, _, ()| {
        want(step, 1);
        Ok(())
    });
    assert_eq!(refused.unwrap_err().error, Error::Aborted(8));
    assert_eq!((log.undone.get(), log.wanted.get()), (2, 0));
    log.refuses.set(false);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        rt.named("unwinds").step_with(&log, (), |step, _, ()| {
            want(step, 1);
            assert!(!FAILS.get(), "unwinds");
            Ok(())
        })
    }));
    assert!(unwound.is_ok());
    FAILS.set(true);
    catch_unwind(AssertUnwindSafe(|| {
        rt.named("unwinds again")
            .step_with(&log, (), |step, _, ()| {
                want(step, 1);
                assert!(!FAILS.get(), "unwinds");
                Ok(())
            })
    }))
    .unwrap_err();
    FAILS.set(false);
    assert_eq!((log.undone.get(), log.wanted.get()), (3, 0));
    // In a loop, with the number of each turn.
    rt.each_step_with(&log, 0..3, (), |step, _, i, ()| {
        want(step, i);
        Ok(())
    })
    .unwrap();
    let wanted: Vec<_> = log.joined.borrow().iter().map(|j| j.1).collect();
    assert_eq!(wanted, [5, 1, 0, 1, 2]);
    assert_eq!(number(3), number(2) + 1);
    assert_eq!(number(4), number(2) + 2);
    // The program again: no join, no undo.
    let mut rt = reboot(rt);
    let (joined, undone) = (log.joined.borrow().len(), log.undone.get());
    let n = rt.step_with(&log, 5u32, |_, _, _| Ok(0u32)).unwrap();
    assert_eq!(n, 5);
    let failed = rt.step_with(&log, (), |_, _, ()| Ok(()));
    assert_eq!(failed.unwrap_err().error, Error::Aborted(1));
    assert_eq!(
        (joined, undone),
        (log.joined.borrow().len(), log.undone.get())
    );
    // A step without the token is another call.
    let other = rt.named("full").step((), |_, _, ()| Ok(()));
    assert_eq!(other.unwrap_err().error, Error::Diverged);
}

/// A turn of a token that fails, and one that does not commit.
#[test]
fn a_token_is_undone_in_a_loop() {
    let log = Log::default();
    let mut m = memory();
    let mut rt = open(Region::new(&mut m));
    let turns = |rt: &mut Rt<'_>| {
        rt.each_step_with(&log, 0..3, (), |step, _, i, ()| {
            want(step, i + 1);
            match i {
                1 if FAILS.get() => Err(step.abort(4)),
                _ => Ok(()),
            }
        })
    };
    FAILS.set(true);
    assert_eq!(turns(&mut rt), Err(Error::Aborted(4)));
    assert_eq!((log.undone.get(), log.wanted.get()), (1, 0));
    FAILS.set(false);
    log.refuses.set(true);
    let mut rt = reboot(rt);
    assert_eq!(turns(&mut rt), Err(Error::Aborted(8)));
    assert_eq!(turns(&mut rt), Err(Error::LoopInterrupted));
    assert_eq!((log.undone.get(), log.wanted.get()), (1, 0));
    log.refuses.set(false);
    let mut rt = reboot(rt);
    turns(&mut rt).unwrap();
    let wanted: Vec<_> = log.joined.borrow().iter().map(|j| j.1).collect();
    assert_eq!(wanted, [1, 2, 3]);
}

/// The number that was committed last.
fn last(rt: Rt<'_>) -> (u32, Region<'_, InOrder32>) {
    let region = rt.close();
    let number = last_committed(&region).unwrap().get();
    (number, region)
}

/// How many numbers there are.
const NUMBERS: u32 = 0xffff;

/// How many numbers a call uses, as the documentation of [`Token`] says.
#[test]
fn each_call_uses_as_many_numbers_as_documented() {
    type Call = fn(&mut Rt<'_>);
    let calls: &[(&str, u32, Call)] = &[
        ("a step", 1, |rt| rt.step((), |_, _, ()| Ok(())).unwrap()),
        ("a step with a token", 1, |rt| {
            rt.step_with(&Log::default(), (), |_, _, ()| Ok(()))
                .unwrap()
        }),
        ("a step that fails", 1, |rt| {
            let r = rt.step((), |tx, _, ()| Err::<(), _>(tx.abort(1)));
            assert!(r.is_err())
        }),
        ("a step whose join fails", 1, |rt| {
            let r = rt.step_join((), |_, _, ()| Ok(()), |(), _| Err(Error::Aborted(1)));
            assert!(r.is_err())
        }),
        ("an input", 1, |rt| assert_eq!(rt.record(1u8), Ok(1))),
        ("a loop, opened and ended", 1 + 1, |rt| {
            rt.each(0..1, |_, _| Ok(())).unwrap()
        }),
        ("an iteration", 1 + 5, |rt| {
            rt.each(0..5, |_, _| Ok(())).unwrap()
        }),
        ("an iteration with a step", 1 + 2 * 5, |rt| {
            rt.each(0..5, |rt, _| Ok(rt.step((), |_, _, ()| Ok(()))?))
                .unwrap()
        }),
        ("a turn", 1 + 5, |rt| {
            rt.each_step(0..5, (), |_, _, _, ()| Ok(())).unwrap()
        }),
        ("a turn that fails", 1, |rt| {
            let r = rt.each_step(0..5, (), |tx, _, _, ()| Err(tx.abort(1)));
            assert!(r.is_err())
        }),
        ("a loop over nothing", 0, |rt| {
            rt.each_step(0..0, (), |_, _, _, ()| Ok(())).unwrap();
            rt.each(0..0, |_, _| Ok(())).unwrap();
        }),
        ("a view", 0, |rt| rt.view(|_, _| ()).map(drop).unwrap()),
    ];
    for (name, numbers, call) in calls {
        let mut m = memory();
        let (before, region) = last(open(Region::new(&mut m)));
        let mut rt = open(region);
        call(&mut rt);
        let (after, _) = last(rt);
        let used = (after + NUMBERS - before) % NUMBERS;
        assert_eq!(used, *numbers, "{name}: {before}, {after}");
    }
    // Opening uses none; keeping n records n + 1.
    for (n, keep) in [
        (0, Update::StartOver),
        (0, Update::Keep(0)),
        (2, Update::Keep(2)),
    ] {
        let mut m = memory();
        let mut rt = open(Region::new(&mut m));
        for i in 0..3u32 {
            rt.record(i).unwrap();
        }
        let (before, region) = last(rt);
        let (same, region) = last(open(region));
        assert_eq!(same, before);
        let options = Options {
            version: 1,
            update: keep,
            ..Options::default()
        };
        let (after, _) = last(Replay::open(region, options, |_| Ok(0)).unwrap());
        assert_eq!(after, before + n + 1, "{keep:?}");
    }
}

/// One number more where the first record of an iteration would count again.
#[test]
fn an_iteration_skips_a_number_that_a_stale_header_has() {
    let mut m = memory();
    let options = Options {
        table: Config {
            seq_bits: 3,
            ..Config::DEFAULT
        },
        ..Options::default()
    };
    let region = Region::<InOrder32>::new(&mut m);
    let mut rt = Rt::open(region, options, |_| Ok(0)).unwrap();
    // The record of iteration 0 has number 2, so after the iterations with the numbers 3 to 7 the
    // next one would take 1.
    let log = Log::default();
    thread_local!(static SEEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
    rt.each(0..8, |rt, i| {
        if i == 0 || i == 7 {
            let log = Log::default();
            rt.step_with(&log, (), |_, _, ()| Ok(()))?;
            SEEN.with_borrow_mut(|s| s.push(log.joined.borrow()[0].0));
        }
        Ok(())
    })
    .unwrap();
    assert!(log.joined.borrow().is_empty());
    // Numbers 1 to 7: the loop takes 1, the record 2, iterations 1 to 5 begin with 3 to 7.
    // Iteration 6 would begin with 1, before the stale 2: it takes 2. Iteration 7 begins with 3.
    assert_eq!(SEEN.take(), [2, 4]);
}
