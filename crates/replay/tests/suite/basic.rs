//! Programs without cuts: executions, reboots, bypasses.

use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
use nv_replay::pmem_tx::{Error as TxError, Width};
use nv_replay::{
    Config, Error, Held, Message, Mismatch, NotNow, Options, Outlet, PBox, Port, Replay,
};
use std::mem::MaybeUninit;

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    v: u32,
    next: Option<PBox<'p, Node<'p>>>,
}
#[derive(Persist)]
#[repr(C)]
struct Station<'p> {
    n: u32,
    sum: u32,
    list: Option<PBox<'p, Node<'p>>>,
}
type S = Station<'static>;
type Rt<'m> = Replay<'m, S>;

fn memory() -> Vec<MaybeUninit<u64>> {
    vec![MaybeUninit::new(0); 512]
}
fn open<'m>(region: Region<'m, InOrder32>, options: Options<'m>) -> Rt<'m> {
    Replay::open(region, options, |_| {
        Ok(Station {
            n: 0,
            sum: 0,
            list: None,
        })
    })
    .unwrap()
}
fn reboot<'m>(rt: Rt<'m>) -> Rt<'m> {
    open(rt.close(), Options::default())
}
/// Starts over, to read the pool's contents.
fn pool_contents(rt: Rt<'_>) -> (u32, u32) {
    let options = Options {
        start_over: true,
        ..Options::default()
    };
    let mut rt = open(rt.close(), options);
    rt.step((), |tx, st, ()| Ok((st.get(tx).n, st.get(tx).sum)))
        .unwrap()
}

fn program(rt: &mut Rt<'_>) -> Result<u32, Error> {
    let a = rt.step((), |tx, st, ()| {
        st.fields(tx).n.set(1)?;
        Ok(7u32)
    })?;
    let b = rt.step((a, 2u8), |tx, st, (a, k)| {
        *st.fields(tx).n.get_mut()? += 1;
        Ok(a + u32::from(k))
    })?;
    rt.step((), |tx, st, ()| {
        *st.fields(tx).n.get_mut()? += 1;
        Ok(())
    })?;
    Ok(a + b)
}

#[test]
fn a_program_runs_once() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), Options::default());
    assert!(rt.is_live());
    assert_eq!(program(&mut rt), Ok(16));
    for _ in 0..3 {
        rt = reboot(rt);
        assert!(!rt.is_live());
        assert_eq!(program(&mut rt), Ok(16));
        assert!(rt.is_live());
    }
    assert_eq!(pool_contents(rt), (3, 0));
}

#[test]
fn handles_cross_steps_and_reboots() {
    fn program(rt: &mut Rt<'_>, until: u32) -> Result<u32, Error> {
        let mut a =
            rt.step_own::<_, Held<Node>>((), |tx, _, ()| PBox::new(tx, Node { v: 3, next: None }))?;
        let b =
            rt.step_own::<_, Held<Node>>((), |tx, _, ()| PBox::new(tx, Node { v: 4, next: None }))?;
        let v = rt.step(a.lend(), |tx, _, mut a| {
            a.get_mut(tx)?.v += 10;
            Ok(a.get(tx).v)
        })?;
        if until == 0 {
            return Ok(v);
        }
        let a = rt.step_own::<_, Held<Node>>((a, b), |tx, _, (mut a, b)| {
            a.get_mut(tx)?.next = Some(b);
            Ok(a)
        })?;
        if until == 1 {
            return Ok(v);
        }
        rt.step(a, |tx, st, a| {
            st.get_mut(tx)?.list = Some(a);
            Ok(())
        })?;
        rt.step((), |tx, st, ()| {
            let a = st.get(tx).list.as_ref().ok_or(tx.abort(1))?.get(tx);
            Ok(a.v + a.next.as_ref().ok_or(tx.abort(2))?.get(tx).v)
        })
        .map_err(Error::from)
    }
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), Options::default());
    for (until, v) in [(0, 13), (0, 13), (1, 13), (1, 13), (2, 17), (2, 17)] {
        assert_eq!(program(&mut rt, until), Ok(v));
        rt = reboot(rt);
    }
    assert_eq!(program(&mut rt, 2), Ok(17));
}

fn loops(rt: &mut Rt<'_>) -> Result<u32, Error> {
    let k = rt.record(5u32)?;
    rt.each_with(10..14, k, |rt, i, k| {
        let x = rt.step(i, |_, _, i| Ok(i * 2))?;
        rt.each_with(0..3, x, |rt, _, x| {
            rt.step(x, |tx, st, x| {
                *st.fields(tx).sum.get_mut()? += x;
                Ok(())
            })?;
            Ok(())
        })?;
        rt.step((i, k), |tx, st, (_, k)| {
            *st.fields(tx).n.get_mut()? += k;
            Ok(())
        })?;
        Ok(())
    })?;
    Ok(rt.step((), |tx, st, ()| Ok(st.get(tx).n))?)
}

#[test]
fn loops_fast_forward() {
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), Options::default());
    for _ in 0..3 {
        assert_eq!(loops(&mut rt), Ok(20));
        rt = reboot(rt);
    }
    assert_eq!(pool_contents(rt), (20, 3 * 2 * (10 + 11 + 12 + 13)));
}

#[test]
fn a_failed_step_is_recorded() {
    fn program(rt: &mut Rt<'_>) -> Result<u32, Error> {
        let r = rt.step((), |tx, st, ()| {
            st.get_mut(tx)?.n += 1;
            Err::<(), _>(tx.abort(77))
        });
        let e = Error::from(r.unwrap_err());
        assert_eq!(e, Error::Aborted(77));
        let r = rt.step((), |tx, _, ()| {
            let _ = PBox::new(tx, [0u64; 1000])?;
            Ok(())
        });
        let e = Error::from(r.unwrap_err());
        assert_eq!(e, Error::PoolFull);
        Ok(rt.step((), |tx, st, ()| Ok(st.get(tx).n))?)
    }
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), Options::default());
    for _ in 0..3 {
        assert_eq!(program(&mut rt), Ok(0));
        rt = reboot(rt);
    }
}

#[derive(Default)]
struct Radio {
    sent: Vec<(u32, u32)>,
    live: u32,
}
static PORT: Port<u32> = Port::new(3);
impl Outlet for Radio {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        assert_eq!(m.port, 3);
        self.sent.push((m.number, m.get(&PORT).unwrap().unwrap()));
        Ok(())
    }
    fn live(&mut self) {
        self.live += 1;
    }
}

#[test]
fn outputs_leave_after_the_commit() {
    fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
        rt.each(0..3, |rt, i| {
            rt.step(i, |tx, _, i| {
                tx.send(&PORT, i)?;
                tx.send(&PORT, i + 100)
            })?;
            let r = rt.step((), |tx, _, ()| {
                tx.send(&PORT, 9)?;
                Err::<(), _>(tx.abort(1))
            });
            assert!(r.is_err());
            Ok(())
        })
    }
    let mut m = memory();
    let mut region = Region::new(&mut m);
    let mut radio = Radio::default();
    for _ in 0..2 {
        let mut rt = open(
            region,
            Options {
                outlet: Some(&mut radio),
                ..Options::default()
            },
        );
        program(&mut rt).unwrap();
        let r = rt.close();
        // SAFETY: the same range; its previous owner was just dropped.
        region = unsafe { Region::from_raw(r.base(), r.base().add(r.len())).unwrap() };
    }
    let want: Vec<_> = [0, 100, 1, 101, 2, 102]
        .into_iter()
        .enumerate()
        .map(|(i, v)| (i as u32, v))
        .collect();
    assert_eq!((radio.sent, radio.live), (want, 2));
}

#[test]
fn another_way_is_divergence() {
    fn program(rt: &mut Rt<'_>, x: u32, other: bool) -> Result<u32, Error> {
        if other {
            Ok(rt.step((), |_, _, ()| Ok(2u32))?)
        } else {
            Ok(rt.step(x, |_, _, x| Ok(x))?)
        }
    }
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), Options::default());
    program(&mut rt, 1, false).unwrap();
    let mut rt = reboot(rt);
    let e = program(&mut rt, 2, false).unwrap_err();
    assert_eq!(e, Error::Diverged);
    assert_eq!(rt.divergence().unwrap().mismatch, Mismatch::Arguments);
    assert_eq!(program(&mut rt, 1, false).unwrap_err(), e);
    let mut rt = reboot(rt);
    let e = program(&mut rt, 1, true).unwrap_err();
    assert_eq!(e, Error::Diverged);
    assert_eq!(rt.divergence().unwrap().mismatch, Mismatch::Call);
    let mut rt = reboot(rt);
    assert_eq!(program(&mut rt, 1, false), Ok(1));
}

#[test]
fn a_full_table_says_so() {
    let mut m = memory();
    // Three headers, and room for an error.
    let table = Config {
        bytes: 16,
        ..Config::DEFAULT
    };
    let options = || Options {
        table,
        ..Options::default()
    };
    let mut rt = open(Region::new(&mut m), options());
    for _ in 0..2 {
        for i in 0..4 {
            let r = rt.step((), |_, _, ()| Ok(())).map_err(Error::from);
            match i {
                3 => assert_eq!(r, Err(Error::TableFull)),
                _ => r.unwrap(),
            }
        }
        rt = open(rt.close(), options());
    }
}

/// A step runs only if its error could be recorded.
#[test]
fn an_error_needs_a_unit() {
    fn program(rt: &mut Rt<'_>) -> [Result<(), Error>; 2] {
        let abort = rt.step((), |tx, _, ()| Err::<(), _>(tx.abort(0xfffe)));
        let index = rt.step((), |_, _, ()| {
            Err::<(), _>(TxError::Index { index: 1, len: 0 })
        });
        [abort, index].map(|r| r.map_err(Error::from))
    }
    let aborted = Err(Error::Aborted(0xfffe));
    let full = Err(Error::TableFull);
    for (bytes, want) in [
        (0, [full, full]),
        (8, [aborted, full]),
        (16, [aborted, Err(Error::Index)]),
    ] {
        let table = Config {
            bytes,
            ..Config::DEFAULT
        };
        let options = || Options {
            table,
            ..Options::default()
        };
        let mut m = memory();
        let mut rt = open(Region::new(&mut m), options());
        for _ in 0..2 {
            assert_eq!(program(&mut rt), want, "{bytes}");
            rt = open(rt.close(), options());
        }
    }
}

/// More iterations than one byte can count.
const LONG: u32 = if cfg!(miri) { 10 } else { 300 };

fn any_medium<M: Model>()
where
    M::Unit: Width,
{
    fn program<M: Model>(rt: &mut Replay<'_, [u32; 2], M>) -> Result<[u32; 2], Error>
    where
        M::Unit: Width,
    {
        rt.each(0..LONG, |rt, i| {
            rt.step(i, |tx, r, i| {
                r.get_mut(tx)?[0] += i;
                Ok(())
            })?;
            Ok(())
        })?;
        Ok(rt.step((), |tx, r, ()| Ok(*r.get(tx)))?)
    }
    let mut m = memory();
    let mut region = Region::<M>::new(&mut m);
    for _ in 0..3 {
        let mut rt = Replay::open(region, Options::default(), |_| Ok([0; 2])).unwrap();
        assert_eq!(program(&mut rt), Ok([LONG * (LONG - 1) / 2, 0]));
        region = rt.close();
    }
}

#[test]
fn every_medium() {
    any_medium::<InOrder16>();
    any_medium::<InOrder32>();
    any_medium::<Buffered32>();
}

/// A blank region may be smaller than the default table. Nothing is committed there, and `inspect`
/// lists nothing.
#[test]
fn a_small_blank_region_can_be_asked() {
    let mut m = vec![MaybeUninit::<u64>::new(0); 32];
    let region = Region::<InOrder32>::new(&mut m);
    let number = nv_replay::last_committed(&region).unwrap();
    assert_eq!(number.get(), 0);
    assert!(nv_replay::inspect(&region, &mut |e| panic!("{e:?}")).is_ok());
}

/// A loop that is too long leaves no record, and a replay gives the same error.
#[test]
fn a_loop_that_is_too_long_is_so_in_every_life() {
    let mut m = memory();
    let mut region = Region::<InOrder16>::new(&mut m);
    for _ in 0..3 {
        let mut rt = Replay::<u32, InOrder16>::open(region, Options::default(), |_| Ok(0))
            .ok()
            .unwrap();
        let long = rt.each(0..1 << 24, |_, _| Ok(()));
        assert_eq!(long, Err(Error::LoopTooLong));
        assert_eq!(rt.record(7u32), Ok(7));
        region = rt.close();
    }
}

/// The messages that a program sends in three lives: number and content.
fn sent<M: Model>(program: fn(&mut Replay<'_, u32, M>)) -> Vec<(u32, u32)>
where
    M::Unit: Width,
{
    struct Keep(Vec<(u32, u32)>);
    impl Outlet for Keep {
        fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
            self.0.push((m.number, m.get(&OUT).unwrap().unwrap()));
            Ok(())
        }
    }
    let mut m = memory();
    let mut lives = [const { Keep(Vec::new()) }; 3];
    let mut region = Region::<M>::new(&mut m);
    for keep in &mut lives {
        let options = Options {
            table: Config {
                outbox_bytes: 16,
                ..Config::DEFAULT
            },
            outlet: Some(keep),
            ..Options::default()
        };
        let mut rt = Replay::<u32, M>::open(region, options, |_| Ok(0)).unwrap();
        program(&mut rt);
        region = rt.close();
    }
    lives.into_iter().flat_map(|l| l.0).collect()
}
static OUT: Port<u32> = Port::new(1);

/// A step that sent more than the outbox holds must fail, even if its body returns `Ok`. Its
/// changes and messages are undone.
#[test]
fn an_outputs_error_cannot_be_swallowed() {
    fn program<M: Model>(rt: &mut Replay<'_, u32, M>)
    where
        M::Unit: Width,
    {
        rt.step((), |tx, _, ()| tx.send(&OUT, 1)).unwrap();
        for i in 0..4 {
            let r = rt.step(i, |tx, n, i| {
                *n.get_mut(tx)? += 100;
                let mut full = Ok(());
                for k in 0..9 {
                    full = full.and(tx.send(&OUT, 1000 + k));
                }
                match i {
                    0 => Ok(()),
                    1 => full,
                    2 => Err(tx.abort(7)),
                    _ => Err(TxError::Unfinished),
                }
            });
            assert_eq!(r.unwrap_err().error, Error::OutboxFull, "body {i}");
        }
        rt.step((), |tx, n, ()| tx.send(&OUT, 2 + *n.get(tx)))
            .unwrap();
    }
    let want = [(0, 1), (1, 2)];
    assert_eq!(sent::<InOrder16>(program), want);
    assert_eq!(sent::<InOrder32>(program), want);
    assert_eq!(sent::<Buffered32>(program), want);
}

/// A program whose environment says that it sends nothing. A step that sends fails, also in a turn,
/// with an outbox and without, and even if its body ignores the error and returns `Ok`.
#[test]
fn a_silent_program_sends() {
    struct Silent;
    impl Outlet for Silent {
        fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
            panic!("{m:?}")
        }
        fn sends_nothing() -> bool {
            true
        }
    }
    for outbox_bytes in [0, 64] {
        let mut m = memory();
        let options = Options {
            table: Config {
                outbox_bytes,
                ..Config::DEFAULT
            },
            ..Options::default()
        };
        let region = Region::<InOrder32>::new(&mut m);
        let opened = Replay::<u32, InOrder32, _>::open_with(region, options, Silent, |_| Ok(0));
        let mut rt = opened.unwrap();
        for i in 0..2 {
            let r = rt.step(i, |tx, n, i| {
                *n.get_mut(tx)? += 100;
                let full = tx.send(&OUT, 1);
                if i == 0 { Ok(()) } else { full }
            });
            assert_eq!(r.unwrap_err().error, Error::OutboxFull);
        }
        assert_eq!(rt.step((), |tx, n, ()| Ok(*n.get(tx))).unwrap(), 0);
        let r = rt.each_step(0..3, (), |tx, n, i, ()| {
            *n.get_mut(tx)? += 1;
            if i == 1 {
                let _ = tx.send(&OUT, 1);
            }
            Ok(())
        });
        assert_eq!(r.unwrap_err(), Error::OutboxFull);
    }
}

/// Messages of a step that fails are not sent.
#[test]
fn a_step_that_fails_has_sent_nothing() {
    fn program<M: Model>(rt: &mut Replay<'_, u32, M>)
    where
        M::Unit: Width,
    {
        for i in 0..3 {
            let r = rt.step(i, |tx, _, i| {
                tx.send(&OUT, i)?;
                if i == 1 {
                    return Err(tx.abort(9));
                }
                Ok(())
            });
            assert_eq!(r.is_err(), i == 1);
        }
    }
    let want = [(0, 0), (1, 2)];
    assert_eq!(sent::<InOrder16>(program), want);
    assert_eq!(sent::<InOrder32>(program), want);
    assert_eq!(sent::<Buffered32>(program), want);
}

/// If a body returns an error that only the runtime gives, it is recorded as `Other`.
#[test]
fn a_body_makes_up_an_error_of_the_runtime() {
    const MADE_UP: [TxError; 4] = [
        TxError::Unfinished,
        TxError::CallersCommitWord,
        TxError::PoolsCommitWord,
        TxError::Sessions,
    ];
    let mut m = memory();
    let mut rt = open(Region::new(&mut m), Options::default());
    for _ in 0..3 {
        for i in 0..MADE_UP.len() as u32 {
            let r = rt.step(i, |tx, st, i| -> Result<(), TxError> {
                st.fields(tx).n.set(9)?;
                Err(MADE_UP[i as usize])
            });
            assert_eq!(
                r.unwrap_err().error,
                Error::Other,
                "{:?}",
                MADE_UP[i as usize]
            );
        }
        let n = rt.step((), |tx, st, ()| Ok(st.get(tx).n)).unwrap();
        assert_eq!(n, 0);
        rt = reboot(rt);
    }
}

/// Messages that wait are offered again after an iteration without a step, and after the last one.
#[test]
fn an_iteration_offers_the_messages_that_wait() {
    /// Refuses so many times, then takes every message.
    struct Busy(u32, Vec<u32>);
    impl Outlet for Busy {
        fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
            if self.0 > 0 {
                self.0 -= 1;
                return Err(NotNow);
            }
            self.1.push(m.get(&OUT).unwrap().unwrap());
            Ok(())
        }
    }
    for refusals in 1..7 {
        let mut m = memory();
        let busy = Busy(refusals, Vec::new());
        let options = Options::default();
        let region = Region::<InOrder32>::new(&mut m);
        let mut rt = Replay::<u32, _, _>::open_with(region, options, busy, |_| Ok(0)).unwrap();
        rt.step((), |tx, _, ()| tx.send(&OUT, 5)).unwrap();
        let ended = rt.each(0..3, |rt, i| {
            // Offered by the step, by the loop's record, and by each iteration before this one.
            assert_eq!(rt.waits(), rt.env().0 > 0 || rt.env().1.is_empty(), "{i}");
            Ok(())
        });
        ended.unwrap();
        assert_eq!(rt.env().0, refusals.saturating_sub(5));
        assert_eq!(rt.waits(), refusals > 4);
        assert_eq!(rt.env().1.len(), usize::from(refusals < 5));
    }
}
