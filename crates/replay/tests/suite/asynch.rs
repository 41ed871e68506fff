//! Tasks that wait: cuts at every store and every wait, futures that are dropped at every poll,
//! and what is refused.
#![cfg(feature = "async")]

use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Clock, Config, Error, Message, NotNow, Options, Outlet, Port, Replay};
use powerfail::{Mapped, World, explore};

/// A task may wait so many times in one boot. One that waits longer hangs.
const PATIENCE: u32 = 1_000;

/// Polls to the end, at most `polls` times; `None` if it was dropped before.
fn poll_some<T>(task: impl Future<Output = T>, polls: u32) -> Option<T> {
    let mut task = pin!(task);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(v) = task.as_mut().poll(&mut context) {
            return Some(v);
        }
    }
    None
}

fn block_on<T>(task: impl Future<Output = T>) -> T {
    poll_some(task, PATIENCE).expect("the task hangs")
}

/// Is pending once.
async fn yields() {
    let mut first = true;
    poll_fn(|_| match core::mem::replace(&mut first, false) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await
}

/// What is outside of the device.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
struct Outside {
    /// A clock with a battery.
    time: u64,
    /// A clock without one; it begins anew in each boot.
    uptime: u64,
    /// What the sensor has shown; a recorded input may be any of them.
    shown: Vec<u32>,
    /// The inputs of so many hours are recorded.
    recorded: u32,
    /// Values by message number.
    received: Vec<u32>,
    /// Messages that came again.
    again: u32,
    /// The first boot polls so many times, each later one once more.
    polls: u32,
}

/// The drivers of the node: all of them are the world.
struct Drivers<'a, 'r>(&'a World<'r, Outside>);

impl Drivers<'_, '_> {
    /// Waits, and each time shows another value.
    async fn adc(&mut self, hour: u32) -> u32 {
        assert!(self.0.with(|w| w.recorded) <= hour, "read again");
        yields().await;
        let v = self.0.with(|w| 10 * w.shown.len() as u32 + 7);
        self.0.update(|w| w.shown.push(v));
        yields().await;
        v
    }

    async fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let v = m.get(&SUMS).expect("the port").expect("a number");
        yields().await;
        match self.0.with(|w| w.received.get(m.number as usize).copied()) {
            Some(known) => {
                assert_eq!(known, v, "another message {}", m.number);
                self.0.update(|w| w.again += 1);
            }
            None => {
                let next = self.0.with(|w| w.received.len());
                assert_eq!(m.number as usize, next, "a message is missing");
                self.0.update(|w| w.received.push(v));
            }
        }
        yields().await;
        Ok(())
    }
}

/// All messages wait for [`Replay::drain_async`].
impl Outlet for Drivers<'_, '_> {
    fn send(&mut self, _: &Message<'_>) -> Result<(), NotNow> {
        Err(NotNow)
    }
}

/// The clock with a battery.
struct Rtc<'a, 'r>(&'a World<'r, Outside>);
impl Clock for Rtc<'_, '_> {
    const SURVIVES: bool = true;
    fn now(&mut self) -> u64 {
        self.0.with(|w| w.time)
    }
    async fn until(&mut self, at: u64) {
        while self.now() < at {
            self.0.update(|w| w.time += 1);
            yields().await;
        }
    }
}

/// The clock that begins anew in each boot.
struct Uptime<'a, 'r>(&'a World<'r, Outside>);
impl Clock for Uptime<'_, '_> {
    const SURVIVES: bool = false;
    fn now(&mut self) -> u64 {
        self.0.with(|w| w.uptime)
    }
    async fn until(&mut self, at: u64) {
        while self.now() < at {
            self.0.update(|w| w.uptime += 1);
            yields().await;
        }
    }
}

static SUMS: Port<u32> = Port::new(1);
type Node<'m, 'a, 'r, M> = Replay<'m, u32, M, Drivers<'a, 'r>>;

const HOURS: u32 = 3;
const EXTRA: u32 = 1000;

/// A node that sleeps, measures, adds up and sends: `n` sums, the last of which is returned.
async fn node<M: Model>(rt: &mut Node<'_, '_, '_, M>) -> Result<u32, Error>
where
    M::Unit: Width,
{
    rt.each_async(0..HOURS, async |rt, hour| {
        let world = rt.env().0;
        rt.named("pause").sleep(Rtc(world), 4).await?;
        let x = rt.input_async(async |d| d.adc(hour).await).await?;
        if world.with(|w| w.recorded) <= hour {
            world.update(|w| w.recorded = hour + 1);
        }
        rt.step(x, |tx, sum, x| {
            *sum.get_mut(tx)? += x;
            Ok(())
        })?;
        rt.step(hour, |tx, sum, hour| {
            tx.send(&SUMS, *sum.get(tx))?;
            // Two messages wait together.
            if hour == 1 {
                tx.send(&SUMS, EXTRA)
            } else {
                Ok(())
            }
        })?;
        rt.sleep(Uptime(world), 2).await?;
        while let Err(NotNow) = rt.drain_async(async |d, m| d.send(m).await).await {}
        Ok(())
    })
    .await?;
    Ok(rt.step((), |tx, sum, ()| Ok(*sum.get(tx)))?)
}

fn options<'m>() -> Options<'m> {
    Options {
        table: Config {
            outbox_bytes: 32,
            ..Config::SMALL
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    }
}

/// One boot of the node, at most `polls` polls long. Returns whether it came to its end.
fn boot<M: Model>(nv: Region<'_, M>, world: &World<'_, Outside>, polls: u32) -> bool
where
    M::Unit: Width,
{
    if world.with(|w| w.uptime) > 0 {
        world.update(|w| w.uptime = 0);
    }
    let drivers = Drivers(world);
    let mut rt = Replay::<u32, M, _>::open_with(nv, options(), drivers, |_| Ok(0)).unwrap();
    match poll_some(node(&mut rt), polls) {
        Some(sum) => {
            judge(&world.get(), sum.unwrap());
            true
        }
        None => {
            // Inside of the loop all calls are refused; before and after it there is no `await`.
            assert_eq!(rt.record(0_u32), Err(Error::Cancelled));
            assert_eq!(block_on(node(&mut rt)), Err(Error::Cancelled));
            assert_eq!(
                block_on(rt.record_async(async || 0_u32)),
                Err(Error::Cancelled)
            );
            false
        }
    }
}

/// What must be true when the node has ended.
fn judge(w: &Outside, sum: u32) {
    assert_eq!(w.received[2], EXTRA, "{w:?}");
    let mut before = 0;
    // Each sum is the one before and a value that the sensor has shown.
    for &sum in w.received.iter().filter(|v| **v != EXTRA) {
        assert!(w.shown.contains(&(sum - before)), "{w:?}");
        before = sum;
    }
    assert_eq!(
        (before, w.received.len()),
        (sum, HOURS as usize + 1),
        "{w:?}"
    );
    // Only sleeping lets the time go on, so no sleep was shorter or longer than asked for.
    assert_eq!(w.time, u64::from(HOURS) * 4);
}

fn cut<M: Model>(depth: u32)
where
    M::Unit: Width,
{
    let s = explore(Mapped::<M>::new(2048), |nv, world: &World<'_, Outside>| {
        assert!(boot(nv, world, PATIENCE), "the task hangs");
    })
    .world(Outside::default())
    .depth(depth)
    .run();
    assert!(s.partial || s.cuts > 1000, "{s}");
}

#[test]
fn in_order_16() {
    cut::<InOrder16>(2)
}
#[test]
fn in_order_32() {
    cut::<InOrder32>(2)
}
#[test]
fn buffered_32() {
    cut::<Buffered32>(2)
}

/// A boot that is not cut: nothing is read, sent or waited for twice.
#[test]
fn once() {
    let s = explore(
        Mapped::<InOrder32>::new(2048),
        |nv, world: &World<'_, Outside>| {
            assert!(boot(nv, world, PATIENCE));
            let w = world.get();
            assert_eq!((w.shown.len(), w.again), (HOURS as usize, 0));
            assert_eq!(w.uptime, u64::from(HOURS) * 2);
        },
    )
    .world(Outside::default())
    .depth(0)
    .run();
    assert_eq!(s.cuts, 0);
}

/// The future is dropped at each poll, in each boot after one poll more, and the power is cut.
#[test]
fn dropped_at_every_poll() {
    for polls in 1..40 {
        let s = explore(
            Mapped::<InOrder32>::new(2048),
            |nv, world: &World<'_, Outside>| {
                let (base, len) = (nv.base(), nv.len());
                let mut nv = Some(nv);
                let mut ended = false;
                for polls in world.with(|w| w.polls..w.polls + 40) {
                    // SAFETY: the region of this life; the runtime that owned it was dropped.
                    let again = || unsafe { Region::from_raw(base, base.add(len)).unwrap() };
                    ended = boot(nv.take().unwrap_or_else(again), world, polls);
                    if ended {
                        break;
                    }
                }
                assert!(ended, "no progress");
            },
        )
        .world(Outside {
            polls,
            ..Outside::default()
        })
        .depth(u32::from(polls % 13 == 5))
        .run();
        assert!(polls % 13 != 5 || s.cuts > 100, "{s}");
    }
}
