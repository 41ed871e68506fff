//! Misuse by safe code. Each misuse does not compile (tests/ui), or is an error here and clean
//! under Miri.

use nv_replay::nvmem::{InOrder32, Region};
use nv_replay::{
    Config, Error, Held, Message, Mismatch, NotNow, Options, Outlet, PBox, Port, Postcard, Replay,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::AtomicPtr;

type Rt = Replay<'static, u32>;

/// Memory that is never freed, as on a device.
fn region(words: usize) -> Region<'static, InOrder32> {
    // Keeps it reachable, so that Miri reports no leak.
    static ALL: Mutex<Vec<AtomicPtr<MaybeUninit<u64>>>> = Mutex::new(Vec::new());
    let words = vec![MaybeUninit::new(0u64); words].leak();
    (ALL.lock().unwrap()).push(AtomicPtr::new(words.as_mut_ptr()));
    Region::new(words)
}
fn open(region: Region<'static, InOrder32>) -> Rt {
    reopen(region, false)
}
fn reopen(region: Region<'static, InOrder32>, start_over: bool) -> Rt {
    let options = Options {
        // Used if the region is blank.
        table: match region.len() {
            0..1048 => Config::SMALL,
            _ => Config::DEFAULT,
        },
        start_over,
        ..Options::default()
    };
    Replay::open(region, options, |_| Ok(0)).unwrap()
}
fn runtime(words: usize) -> Rt {
    open(region(words))
}
fn add(rt: &mut Rt, n: u32) -> Result<(), Error> {
    rt.step(n, |tx, sum, n| {
        *sum.get_mut(tx)? += n;
        Ok(())
    })?;
    Ok(())
}
fn sum(rt: &mut Rt) -> u32 {
    rt.view(|tx, sum| *sum.get(tx)).unwrap().unwrap()
}

thread_local! {
    static OTHER: RefCell<Option<Rt>> = const { RefCell::new(None) };
    static TIMES: Cell<u32> = const { Cell::new(0) };
}
fn swap_with_other(rt: &mut Rt) {
    OTHER.with_borrow_mut(|o| std::mem::swap(rt, o.as_mut().unwrap()))
}

/// A loop that has lost its runtime reports it, and the runtime in its place has stopped.
fn replaced(rt: &mut Rt, r: Result<(), Error>) {
    assert_eq!(r, Err(Error::Diverged));
    assert_eq!(rt.divergence().unwrap().mismatch, Mismatch::Runtime);
    assert_eq!(add(rt, 1), Err(Error::Diverged));
}

#[test]
fn a_body_swaps_its_runtime_with_another() {
    // Another size: offsets inside of one table lie outside of the other.
    for (mine, others) in [(256, 64), (64, 256), (256, 256)] {
        let mut rt = runtime(mine);
        OTHER.set(Some(runtime(others)));
        for _ in 0..10 {
            add(&mut rt, 1).unwrap();
        }
        let r = rt.each(0..3, |rt, i| {
            add(rt, i)?;
            swap_with_other(rt);
            add(rt, 100)
        });
        replaced(&mut rt, r);
        // Both are intact.
        assert_eq!(sum(&mut reopen(rt.close(), true)), 100);
        let mine = OTHER.take().unwrap();
        assert_eq!(sum(&mut reopen(mine.close(), true)), 10);
    }
}

/// The same for a loop of a value that has two runtimes, and names each of them in turn.
#[test]
fn a_value_names_another_runtime_in_its_loop() {
    for (mine, others) in [(256, 64), (64, 256), (256, 256)] {
        let mut both = (runtime(mine), runtime(others), 0);
        let r = Replay::each_of(
            &mut both,
            |b| if b.2 == 0 { &mut b.0 } else { &mut b.1 },
            0..3,
            (),
            |b, i, ()| {
                add(&mut b.0, i)?;
                b.2 = 1 - b.2;
                add(&mut b.1, 100)
            },
        );
        replaced(&mut both.1, r);
        let (mine, others, _) = both;
        assert_eq!(sum(&mut reopen(mine.close(), true)), 0);
        assert_eq!(sum(&mut reopen(others.close(), true)), 100);
    }
}

#[test]
fn a_body_overwrites_its_runtime() {
    let mut rt = runtime(256);
    let r = rt.each(0..3, |rt, i| {
        add(rt, i)?;
        *rt = runtime(64);
        Ok(())
    });
    replaced(&mut rt, r);
    let mut rt = runtime(64);
    let r = rt.forever(|rt, i| {
        if i == 2 {
            for _ in 0..10 {
                add(rt, 1)?;
            }
            *rt = runtime(256);
        }
        Ok(())
    });
    replaced(&mut rt, r.map(|_| ()));
}

/// Each loop checks its own runtime: here an inner body takes the runtime of an outer loop.
#[test]
fn an_inner_body_swaps_the_runtime() {
    let mut rt = runtime(256);
    OTHER.set(Some(runtime(64)));
    let r = rt.each(0..3, |rt, _| {
        let r = rt.each(0..2, |rt, _| {
            swap_with_other(rt);
            Ok(())
        });
        assert_eq!(r, Err(Error::Diverged));
        // The error is dropped.
        Ok(())
    });
    replaced(&mut rt, r);

    // The runtime comes back in the middle of a loop that no longer exists.
    let mut rt = runtime(256);
    OTHER.set(Some(runtime(64)));
    let r = rt.each(0..3, |rt, _| {
        let _ = rt.each(0..2, |rt, _| {
            swap_with_other(rt);
            Ok(())
        });
        swap_with_other(rt);
        add(rt, 1)
    });
    assert_eq!(r, Err(Error::Diverged));
    assert_eq!(rt.divergence().unwrap().mismatch, Mismatch::Runtime);
}

#[test]
fn a_body_that_swaps_back_has_changed_nothing() {
    let mut rt = runtime(256);
    OTHER.set(Some(runtime(64)));
    rt.each(0..3, |rt, i| {
        swap_with_other(rt);
        add(rt, 100)?;
        rt.each(0..2, add)?;
        swap_with_other(rt);
        add(rt, i)
    })
    .unwrap();
    assert_eq!(sum(&mut rt), 3);
    assert_eq!(sum(&mut OTHER.take().unwrap()), 303);
}

/// A runtime in the same region that did not enter the loop.
#[test]
fn a_body_opens_its_region_again() {
    fn again(rt: &mut Rt, start_over: bool) {
        let mine = std::mem::replace(rt, runtime(64));
        *rt = reopen(mine.close(), start_over);
    }
    for over in [false, true] {
        let mut rt = runtime(256);
        let body: fn(&mut Rt, u32) -> Result<(), Error> = if over {
            |rt, i| {
                add(rt, i)?;
                again(rt, true);
                Ok(())
            }
        } else {
            |rt, i| {
                add(rt, i)?;
                again(rt, false);
                Ok(())
            }
        };
        let r = rt.each(0..3, body);
        replaced(&mut rt, r);
    }

    // The replacement is in a loop too, in the same iteration.
    TIMES.set(0);
    fn body(rt: &mut Rt, _: u32) -> Result<(), Error> {
        match TIMES.replace(TIMES.get() + 1) {
            0 => {
                again(rt, false);
                let r = program(rt);
                assert_eq!(r, Err(Error::Diverged));
                swap_with_other(rt);
                Ok(())
            }
            _ => {
                OTHER.set(Some(runtime(64)));
                swap_with_other(rt);
                Ok(())
            }
        }
    }
    fn program(rt: &mut Rt) -> Result<(), Error> {
        rt.each(0..3, body)
    }
    let mut rt = runtime(256);
    let r = program(&mut rt);
    replaced(&mut rt, r);
}

/// Runs a closure that unwinds.
fn unwinds(f: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(f)).unwrap_err();
}

/// A body that unwinds stops the runtime, as an error from the body does.
#[test]
fn a_loops_body_unwinds() {
    let mut rt = runtime(256);
    unwinds(|| {
        let _ = rt.each(0..3, |rt, i| {
            add(rt, i + 1)?;
            if i == 1 {
                panic!("in a body");
            }
            Ok(())
        });
    });
    assert_eq!(add(&mut rt, 100), Err(Error::LoopInterrupted));
    assert_eq!(rt.each(0..2, add), Err(Error::LoopInterrupted));
    assert_eq!(sum(&mut reopen(rt.close(), true)), 3);
}

/// A step that unwinds is undone and can be repeated.
#[test]
fn a_steps_body_unwinds() {
    let mut rt = runtime(256);
    for _ in 0..2 {
        unwinds(|| {
            let _ = rt.step((), |tx, sum, ()| -> Result<(), nv_replay::pmem_tx::Error> {
                *sum.get_mut(tx)? = 77;
                panic!("in a step")
            });
        });
        unwinds(|| {
            let _ = rt.record_with(|| -> u32 { panic!("in an input") });
        });
        unwinds(|| {
            let _ = rt.view(|_, _| panic!("in a look"));
        });
    }
    add(&mut rt, 5).unwrap();
    assert_eq!(sum(&mut rt), 5);
}

static PORT: Port<u32> = Port::new(1);
/// An outlet that panics on demand.
#[derive(Default)]
struct Bomb {
    got: Vec<(u32, u32)>,
    live: u32,
    armed: bool,
    armed_live: bool,
}
impl Outlet for Bomb {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        assert!(!self.armed, "in an outlet");
        self.got.push((m.number, m.get(&PORT).unwrap().unwrap()));
        Ok(())
    }
    fn live(&mut self) {
        self.live += 1;
        assert!(!self.armed_live, "in an outlet");
    }
}
fn with_outlet(region: Region<'static, InOrder32>, outlet: &'static mut Bomb) -> Rt {
    let options = Options {
        outlet: Some(outlet),
        ..Options::default()
    };
    Replay::open(region, options, |_| Ok(0)).unwrap()
}
fn send(rt: &mut Rt, n: u32) -> Result<(), Error> {
    rt.step(n, |tx, sum, n| {
        *sum.get_mut(tx)? += n;
        tx.send(&PORT, n)
    })?;
    Ok(())
}
fn bomb() -> &'static mut Bomb {
    static ALL: Mutex<Vec<AtomicPtr<Bomb>>> = Mutex::new(Vec::new());
    let bomb = Box::leak(Box::<Bomb>::default());
    ALL.lock().unwrap().push(AtomicPtr::new(bomb));
    bomb
}

/// Messages of a committed step are not lost: the runtime stops, and the next open sends them
/// again.
#[test]
fn an_outlet_unwinds() {
    let broken = bomb();
    broken.armed = true;
    let mut rt = with_outlet(region(256), broken);
    unwinds(|| send(&mut rt, 5).unwrap());
    assert_eq!(send(&mut rt, 6), Err(Error::LoopInterrupted));
    assert_eq!(add(&mut rt, 7), Err(Error::LoopInterrupted));
    assert_eq!(rt.view(|_, _| ()), Err(Error::LoopInterrupted));
    let region = rt.close();
    let mut whole = Bomb::default();
    let options = Options {
        outlet: Some(&mut whole),
        ..Options::default()
    };
    let mut rt = Replay::<u32, _>::open(region, options, |_| Ok(0)).unwrap();
    rt.named("another")
        .step(5, |_, _, _: u32| Ok(()))
        .unwrap_err();
    let _ = rt.close();
    assert_eq!(whole.got, [(0, 5)]);
}

#[test]
fn an_outlet_unwinds_when_the_program_is_live() {
    let mut rt = runtime(256);
    add(&mut rt, 5).unwrap();
    let broken = bomb();
    broken.armed_live = true;
    let mut rt = with_outlet(rt.close(), broken);
    unwinds(|| add(&mut rt, 5).unwrap());
    assert_eq!(add(&mut rt, 6), Err(Error::LoopInterrupted));
    assert_eq!(sum(&mut reopen(rt.close(), true)), 5);
}

/// A panic before the commit undoes the step. After it, the next open sends the step's messages.
#[test]
fn who_joins_a_step_unwinds() {
    for stored in [false, true] {
        let outlet = bomb();
        let mut rt = with_outlet(region(256), outlet);
        unwinds(|| {
            let _ = rt.step_join(
                (),
                |tx, sum, ()| {
                    *sum.get_mut(tx)? += 5;
                    tx.send(&PORT, 5)
                },
                |(), commit| {
                    if stored {
                        let _ = commit.store();
                    }
                    panic!("in a join")
                },
            );
        });
        let then = send(&mut rt, 6);
        let mut whole = Bomb::default();
        let options = Options {
            outlet: Some(&mut whole),
            start_over: true,
            ..Options::default()
        };
        let mut rt = Replay::<u32, _>::open(rt.close(), options, |_| Ok(0)).unwrap();
        let sum = rt.view(|tx, sum| *sum.get(tx)).unwrap().unwrap();
        let _ = rt.close();
        if stored {
            assert_eq!((then, sum), (Err(Error::LoopInterrupted), 5));
            assert_eq!(whole.got, [(0, 5)]);
        } else {
            assert_eq!((then, sum), (Ok(()), 6));
            assert_eq!(whole.got, []);
        }
    }
}

/// A join that does not commit, or that commits and returns an error.
#[test]
fn who_joins_a_step_does_not_store() {
    let mut rt = runtime(256);
    let r = rt.step_join(
        (),
        |tx, sum, ()| sum.get_mut(tx).map(|s| *s += 5),
        |(), _| Err(Error::Aborted(3)),
    );
    assert_eq!(r.unwrap_err().error, Error::Aborted(3));
    let r = rt.step_join(
        (),
        |tx, sum, ()| sum.get_mut(tx).map(|s| *s += 6),
        |(), commit| {
            let _ = commit.store();
            Err(Error::Aborted(4))
        },
    );
    r.unwrap();
    assert_eq!(sum(&mut rt), 6);
}

/// A join forgets its commit: nobody knows whether its word is stored, so no step runs until the
/// next open, which undoes it.
#[test]
fn who_joins_a_step_forgets_it() {
    for panics in [false, true] {
        let mut rt = runtime(256);
        add(&mut rt, 3).unwrap();
        let mut join = || {
            let r = rt.step_join(
                (),
                |tx, sum, ()| sum.get_mut(tx).map(|s| *s += 5),
                |(), commit| {
                    std::mem::forget(commit);
                    assert!(!panics, "in a join");
                    Err(Error::Aborted(3))
                },
            );
            assert_eq!(r.unwrap_err().error, Error::Other);
        };
        if panics {
            unwinds(join);
        } else {
            join();
        }
        assert_eq!(add(&mut rt, 7), Err(Error::Other));
        assert_eq!(sum(&mut reopen(rt.close(), true)), 3);
    }
}

/// Its second encoding has another length than its first.
struct Fickle(Cell<usize>, usize);
impl serde::Serialize for Fickle {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeTuple;
        let n = self.0.replace(self.1);
        let mut t = s.serialize_tuple(n)?;
        for _ in 0..n {
            t.serialize_element(&0xffu8)?;
        }
        t.end()
    }
}
impl<'de> serde::Deserialize<'de> for Fickle {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Ok(Fickle(Cell::new(0), 0))
    }
}

/// The free room is checked against the first encoding's length.
#[test]
fn a_result_tells_other_bytes_the_second_time() {
    for (first, then) in [(4, 8), (4, 1200), (40, 1300), (4, 3), (300, 0)] {
        let mut rt = runtime(256);
        let r = rt.record(Postcard(Fickle(Cell::new(first), then)));
        assert_eq!(r.err(), Some(Error::Other), "{first} {then}");
        add(&mut rt, 5).unwrap();
        assert_eq!(sum(&mut rt), 5);
        let mut rt = open(rt.close());
        let r = rt
            .named("another")
            .record(Postcard(Fickle(Cell::new(1), 1)));
        assert_eq!(r.err(), Some(Error::Diverged));
    }
}

/// A zero-sized type can encode to bytes.
#[test]
fn a_result_of_no_size_is_recorded() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    enum Only {
        One,
    }
    let mut rt = runtime(256);
    for _ in 0..2 {
        let r = rt.step((), |tx, sum, ()| {
            *sum.get_mut(tx)? += 1;
            Ok(Postcard(Only::One))
        });
        assert_eq!(r.unwrap().0, Only::One);
        assert_eq!(sum(&mut rt), 1);
        rt = open(rt.close());
    }
}

/// `open_in` into one place: refused, unwound, then successful.
#[test]
fn a_place_is_opened_again() {
    let mut place = MaybeUninit::<Rt>::uninit();
    let options = || Options {
        table: Config::SMALL,
        ..Options::default()
    };
    let refused = Rt::open_in(&mut place, region(20), options(), |_| Ok(0));
    assert!(refused.is_err());
    unwinds(|| {
        let _ = Rt::open_in(&mut place, region(64), options(), |_| panic!("in init"));
    });
    let broken = bomb();
    let mut rt = with_outlet(region(256), broken);
    unwinds(|| {
        let _ = rt.step_join(
            (),
            |tx, _, ()| tx.send(&PORT, 1),
            |(), commit| {
                let _ = commit.store();
                panic!("before it has left")
            },
        );
    });
    let armed = bomb();
    armed.armed = true;
    unwinds(|| {
        let options = Options {
            outlet: Some(armed),
            ..Options::default()
        };
        let _ = Rt::open_in(&mut place, rt.close(), options, |_| Ok(0));
    });
    let rt = Rt::open_in(&mut place, region(64), options(), |_| Ok(0)).unwrap();
    add(rt, 5).unwrap();
    assert_eq!(sum(rt), 5);
}

/// An outlet calls other runtimes: each has its own table.
#[test]
fn an_outlet_runs_another_runtime() {
    struct Relay(Rt, u32);
    impl Outlet for Relay {
        fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
            let n = m.get(&PORT).unwrap().unwrap();
            send(&mut self.0, n).unwrap();
            OTHER
                .with_borrow_mut(|o| add(o.as_mut().unwrap(), n))
                .unwrap();
            self.1 += 1;
            Ok(())
        }
    }
    OTHER.set(Some(runtime(256)));
    let mut relay = Relay(with_outlet(region(256), bomb()), 0);
    let mut memory = vec![MaybeUninit::new(0u64); 512];
    let options = Options {
        outlet: Some(&mut relay),
        ..Options::default()
    };
    let mut rt =
        Replay::<u32, InOrder32>::open(Region::new(&mut memory), options, |_| Ok(0)).unwrap();
    for n in 1..=3 {
        rt.step(n, |tx, _, n| tx.send(&PORT, n)).unwrap();
    }
    let _ = rt.close();
    assert_eq!((relay.1, sum(&mut relay.0)), (3, 6));
    assert_eq!(sum(&mut OTHER.take().unwrap()), 6);
}

/// A handle of one runtime is refused by every other one, in steps and in loops, and comes back
/// intact.
#[test]
fn a_handle_goes_to_another_runtime() {
    let mut one = runtime(256);
    let mut two = runtime(256);
    let make = |rt: &mut Rt, n: u32| {
        rt.step_own::<_, Held<u32>>(n, |tx, _, n| PBox::new(tx, n))
            .unwrap()
    };
    let (mut mine, mut others) = (make(&mut one, 7), make(&mut two, 8));
    std::mem::swap(&mut mine, &mut others);
    let take = |rt: &mut Rt, held| rt.step(held, |tx, _, h: PBox<'_, u32>| h.into_inner(tx));
    let Err(back) = take(&mut one, mine) else {
        panic!("taken")
    };
    assert_eq!(back.error, Error::WrongPool);
    let mut mine = back.args;
    let r = one.each_with(0..2, &mut mine, |rt, _, mut loan| {
        rt.step(loan.lend(), |tx, _, h| Ok(*h.get(tx)))?;
        Ok(())
    });
    assert_eq!(r, Err(Error::WrongPool));
    assert_eq!(take(&mut two, mine).ok(), Some(8));
    // In the other runtime, inside a loop of this one that swaps it in and back.
    let mut two = runtime(256);
    let mut lent = make(&mut two, 9);
    OTHER.set(Some(runtime(64)));
    let r = two.each_with(0..2, &mut lent, |rt, _, mut loan| {
        swap_with_other(rt);
        let r = rt.step(loan.lend(), |tx, _, h| Ok(*h.get(tx)));
        assert_eq!(r.map_err(|f| f.error), Err(Error::WrongPool));
        swap_with_other(rt);
        rt.step(loan.lend(), |tx, _, h| Ok(*h.get(tx)))?;
        Ok(())
    });
    assert_eq!(r, Ok(()));
    assert_eq!(take(&mut two, lent).ok(), Some(9));
}

/// A program that awaits between its steps is dropped there; another one continues.
#[test]
fn a_future_is_dropped_between_two_steps() {
    async fn program(rt: &mut Rt) -> Result<u32, Error> {
        let r = rt.each(0..2, add);
        add(rt, 10)?;
        std::future::pending::<()>().await;
        add(rt, 100)?;
        r.map(|()| 1)
    }
    let mut rt = runtime(256);
    for _ in 0..3 {
        {
            let mut run = std::pin::pin!(program(&mut rt));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(run.as_mut().poll(&mut cx).is_pending());
        }
        rt = open(rt.close());
    }
    assert_eq!(sum(&mut reopen(rt.close(), true)), 11);
}
