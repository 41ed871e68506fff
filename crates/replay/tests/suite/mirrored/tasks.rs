//! Tasks of one executor over one mirror whose medium is async: each has its table, and both share
//! a board behind an async lock. Cuts at every store, futures that are dropped at every poll.

use super::media::{HalfPages, config};
use crate::turns::is_chosen;
use core::future::poll_fn;
use core::mem::MaybeUninit;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::mutex::Mutex;
use nv_mirror::{Config, Durability, asynch};
use nv_replay::nvmem::at_rest;
use nv_replay::nvmem::device::{AsyncMedium, Contract};
use nv_replay::nvmem::{InOrder32, Persist, Ram, Region};
use nv_replay::pmem_tx::{self, Contexts, Shared, Sharing};
use nv_replay::{
    AsyncMirroredThread, Error, Message, NotNow, Options, Outlet, PBox, Port, Threads,
};
use powerfail::{Mram16, Simulated, SpiFram, World, explore_with};

/// The tasks may be polled so many times in one boot. Longer is hanging.
const PATIENCE: u32 = 100_000;

/// Is pending once.
async fn yields() {
    let mut first = true;
    poll_fn(|_| match core::mem::replace(&mut first, false) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await
}

/// A medium whose operations wait before they begin and after their end: other tasks run, and a
/// future may be dropped although the medium has done all of it.
struct Slow<D>(D);

impl<D: AsyncMedium> AsyncMedium for Slow<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.0.read(at, buf).await
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        yields().await;
        self.0.write(at, bytes).await?;
        yields().await;
        Ok(())
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        yields().await;
        self.0.erase(from, to).await
    }
    async fn flush(&mut self) -> Result<(), D::Error> {
        self.0.flush().await
    }
}

/// What is outside of the device.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
struct Outside {
    /// How often the sensor was read.
    reads: u32,
    /// How often the radio has waited for the first of two events.
    events: u32,
    /// Values by message number, of each task.
    received: [Vec<u32>; 2],
    /// Futures are dropped after so many polls; 0 for never.
    polls: u32,
}

#[derive(Persist)]
#[repr(C)]
struct Board<'p> {
    sum: u32,
    /// The newest value, on its way from task to task.
    letter: Option<PBox<'p, [u32; 2]>>,
}

type Roots = Sharing<(Board<'static>,), Contexts<(u32, u32)>>;
type Key<'c> = Shared<'c, Board<'static>, u32>;
type Saver<'m, D> = at_rest::SharedSaver<asynch::Mirror<'m, Slow<D>>>;
type Task<'c, 'm, 'r, D> =
    AsyncMirroredThread<'c, u32, &'c Saver<'m, D>, InOrder32, Drivers<'c, 'r>>;

struct Drivers<'c, 'r> {
    me: usize,
    world: &'c World<'r, Outside>,
    board: &'c Mutex<NoopRawMutex, Key<'c>>,
    /// The task is in its loop.
    inside: bool,
}

/// All messages wait for `drain_async`.
impl Outlet for Drivers<'_, '_> {
    fn send(&mut self, _: &Message<'_>) -> Result<(), NotNow> {
        panic!("a message is offered before it is saved")
    }
}

static PORT: Port<u32> = Port::new(1);

impl Drivers<'_, '_> {
    async fn sensor(&mut self) -> u32 {
        yields().await;
        self.world.update(|w| w.reads += 1);
        self.world.with(|w| 3 * w.reads)
    }
    /// The first of two events: another one each time.
    async fn first(&mut self) -> u32 {
        self.world.update(|w| w.events += 1);
        let (mut button, mut timer) = (self.world.with(|w| w.events % 2) * 2, 1);
        poll_fn(|_| {
            if button == 0 {
                return Poll::Ready(1);
            }
            if timer == 0 {
                return Poll::Ready(2);
            }
            button -= 1;
            timer -= 1;
            Poll::Pending
        })
        .await
    }
    async fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let (me, n) = (self.me, m.number as usize);
        let v = m.get(&PORT).expect("the port").expect("a number");
        match self.world.with(|w| w.received[me].get(n).copied()) {
            Some(known) => assert_eq!(known, v, "another message {n} of task {me}"),
            None => {
                let next = self.world.with(|w| w.received[me].len());
                assert_eq!(n, next, "a message of task {me} is missing");
                self.world.update(|w| w.received[me].push(v));
            }
        }
        yields().await;
        Ok(())
    }
}

const HOURS: u32 = 2;

/// Measures, and puts each value on the board.
async fn measures<D: AsyncMedium>(rt: &mut Task<'_, '_, '_, D>) -> Result<u32, Error> {
    rt.each_async(0..HOURS, async |rt, hour| {
        rt.env().inside = true;
        let x = rt.input_async(async |d| d.sensor().await).await?;
        let board = rt.env().board;
        rt.step((&mut *board.lock().await, x), |tx, mine, (mut board, x)| {
            *mine.get_mut(tx)? += x;
            let board = board.get_mut(tx)?;
            board.sum += x;
            if let Some(old) = board.letter.take() {
                old.into_inner(tx)?;
            }
            board.letter = Some(PBox::new(tx, [x, board.sum])?);
            Ok(())
        })
        .map_err(|e| e.error)?;
        if hour == 1 {
            rt.step((), |tx, mine, ()| tx.send(&PORT, *mine.get(tx)))?;
        }
        drain(rt).await
    })
    .await?;
    rt.env().inside = false;
    Ok(rt.step((), |tx, mine, ()| Ok(*mine.get(tx)))?)
}

/// Sends what is on the board, when the first of two events says so.
async fn reports<D: AsyncMedium>(rt: &mut Task<'_, '_, '_, D>) -> Result<u32, Error> {
    rt.each_async(0..HOURS, async |rt, _| {
        rt.env().inside = true;
        let why = rt.input_async(async |d| d.first().await).await?;
        let board = rt.env().board;
        rt.step(
            (&mut *board.lock().await, why),
            |tx, mine, (mut board, why)| {
                let board = board.get_mut(tx)?;
                let mut v = [0, board.sum];
                if let Some(letter) = board.letter.take() {
                    v = letter.into_inner(tx)?;
                }
                *mine.get_mut(tx)? += v[0];
                tx.send(&PORT, 100 * v[1] + 10 * v[0] + why)
            },
        )
        .map_err(|e| e.error)?;
        drain(rt).await
    })
    .await?;
    rt.env().inside = false;
    Ok(rt.step((), |tx, mine, ()| Ok(*mine.get(tx)))?)
}

async fn drain<D: AsyncMedium>(rt: &mut Task<'_, '_, '_, D>) -> Result<(), Error> {
    while rt.waits() {
        if rt.drain_async(async |d, m| d.send(m).await).await.is_err() {
            rt.durable_async().await?;
        }
    }
    Ok(())
}

/// Polls both until they end, at most `polls` times.
fn both<T>(
    mut a: Pin<&mut impl Future<Output = T>>,
    mut b: Pin<&mut impl Future<Output = T>>,
    polls: u32,
) -> Option<(T, T)> {
    let mut context = Context::from_waker(Waker::noop());
    let mut ends = (None, None);
    for _ in 0..polls {
        if ends.0.is_none()
            && let Poll::Ready(t) = a.as_mut().poll(&mut context)
        {
            ends.0 = Some(t);
        }
        if ends.1.is_none()
            && let Poll::Ready(t) = b.as_mut().poll(&mut context)
        {
            ends.1 = Some(t);
        }
        if let (Some(_), Some(_)) = &ends {
            return Some((ends.0?, ends.1?));
        }
    }
    None
}

fn done<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..PATIENCE {
        if let Poll::Ready(t) = future.as_mut().poll(&mut context) {
            return t;
        }
    }
    panic!("it hangs")
}

fn options<'m>() -> Options<'m> {
    Options::default()
}

/// Opens the tasks in this region, and polls them at most so often. Returns the region, and whether
/// they have ended.
fn tasks<'m, D: AsyncMedium>(
    region: Region<'m, Ram>,
    saver: &Saver<'_, D>,
    world: &World<'_, Outside>,
    polls: u32,
) -> (Region<'m, Ram>, bool) {
    let table = nv_replay::Config {
        bytes: 64,
        outbox_bytes: 16,
        seq_bits: 5,
    };
    let pool = Some(pmem_tx::Config::SMALL);
    let opened = Threads::<Roots, Ram>::open(region, table, pool, |_| {
        let board = Board {
            sum: 0,
            letter: None,
        };
        Ok(((board,), (0, 0)))
    });
    let mut threads = opened.map_err(|refused| refused.error).unwrap();
    let ended = {
        let ((first, second), (key,)) = threads.share().unwrap();
        let board = Mutex::new(key);
        let drivers = |me| Drivers {
            me,
            world,
            board: &board,
            inside: false,
        };
        let mut sensor = first
            .open_mirrored_async(saver, options(), drivers(0))
            .unwrap();
        let mut radio = second
            .open_mirrored_async(saver, options(), drivers(1))
            .unwrap();
        let ends = {
            // What waits since the last boot is sent first.
            let a = pin!(async {
                drain(&mut sensor).await?;
                measures(&mut sensor).await
            });
            let b = pin!(async {
                drain(&mut radio).await?;
                reports(&mut radio).await
            });
            both(a, b, polls)
        };
        for rt in [&mut sensor, &mut radio] {
            // Dropped in its loop, a runtime refuses all calls.
            if rt.env().inside {
                assert_eq!(rt.record(0u32), Err(Error::Cancelled));
            }
        }
        if let Some((a, b)) = ends {
            let (made, taken) = (a.unwrap(), b.unwrap());
            let mut key = done(board.lock());
            let (sum, left) = sensor
                .step(&mut *key, |tx, _, board| {
                    let board = board.get(tx);
                    let left = board.letter.as_ref().map_or(0, |l| l.get(tx)[0]);
                    Ok((board.sum, left))
                })
                .map_err(|e| e.error)
                .unwrap();
            assert_eq!(made, sum);
            assert!(taken + left <= made);
            done(sensor.durable_async()).unwrap();
            let w = world.get();
            assert_eq!(w.received[0], [made]);
            assert_eq!(w.received[1].len(), HOURS as usize);
        }
        ends.is_some()
    };
    (threads.close(), ended)
}

const WORDS: usize = 2 * 168;

/// One boot. Returns after how many polls the tasks ended, if they were dropped before.
fn life<D: AsyncMedium>(nv: D, world: &World<'_, Outside>, config: &Config) -> Option<u32> {
    let all = 0..nv.capacity();
    let mut memory = [MaybeUninit::new(0); WORDS];
    let opened = done(asynch::Mirror::open(Slow(nv), all, config, &mut memory));
    let (mirror, mut region) = opened.unwrap_or_else(|_| panic!("only a power cut stops it"));
    let saver = at_rest::SharedSaver::new(mirror);
    let first = world.with(|w| w.polls);
    if first == 0 {
        let (_, ended) = tasks(region, &saver, world, PATIENCE);
        assert!(ended, "the tasks hang");
        return None;
    }
    for polls in first..first + 200 {
        let ended;
        (region, ended) = tasks(region, &saver, world, polls);
        if ended {
            return Some(polls);
        }
    }
    panic!("no progress")
}

macro_rules! campaign {
    ($media:expr, $config:expr, polls $polls:expr, depth $depth:expr, sample $sample:literal) => {{
        let depth = $depth;
        let s = explore_with($config, $media, |nv, world: &World<'_, Outside>, config| {
            let polls = life(nv, world, config);
            // A save takes several polls. So the first rounds are too short, if no power cut has
            // left less to do.
            assert!($depth > 0 || polls > Some(8), "{polls:?}");
        })
        .world(Outside {
            polls: $polls,
            ..Outside::default()
        })
        .depth(depth)
        .max_depth(depth)
        .sample($sample)
        .run();
        println!("{}: {s}", stringify!($media, $config, polls $polls));
        assert!(s.partial || depth == 0 || s.cuts > 100, "{s}");
    }};
}

const OUTPUT: Durability = Durability::BeforeOutput;
const EACH: Durability = Durability::EachCommit;

#[test]
fn on_serial_fram() {
    let media = || Simulated::<SpiFram>::new(2 * 4096);
    campaign!(media(), config(2, OUTPUT), polls 0, depth 2, sample 8);
    campaign!(media(), config(2, EACH), polls 0, depth 1, sample 8);
}

#[test]
fn on_mram() {
    let media = || Simulated::<Mram16>::new(2 * 4096);
    campaign!(media(), config(2, OUTPUT), polls 0, depth 2, sample 8);
    campaign!(media(), config(2, Durability::Every(3)), polls 0, depth 2, sample 8);
}

#[test]
fn on_half_pages() {
    let media = || Simulated::<HalfPages>::new(3 * 4608).refusal_fails();
    campaign!(media(), config(3, OUTPUT), polls 0, depth 2, sample 8);
    campaign!(media(), config(3, EACH), polls 0, depth 2, sample 8);
}

/// Both futures are dropped at each poll, in each round after one poll more; then the tasks are
/// opened again in the same region. Everywhere the power is cut too: a run takes one of the two
/// promises for each number of polls.
#[test]
fn dropped_at_every_poll() {
    let media = || Simulated::<SpiFram>::new(2 * 4096);
    for polls in 1..12 {
        campaign!(media(), config(2, EACH), polls polls, depth 0, sample 8);
        if is_chosen(polls.into(), 2) {
            campaign!(media(), config(2, EACH), polls polls, depth 1, sample 8);
        }
        if is_chosen(u64::from(polls) + 1, 2) {
            campaign!(media(), config(2, OUTPUT), polls polls, depth 1, sample 8);
        }
    }
}
