//! A sensor node of three async tasks that continue after power cuts, on any medium.
//!
//! ```text
//! sensor    sleep -> measure -> step: reading to the board ----+
//!                                                              v
//! average   wait for a window -> step: board -> report to the board
//!                                                              |
//! radio     wait for a report -> step: message <---------------+      drain -> air
//! ```
//!
//! Each task has a table, a context and a root of its own. They share the [`Board`], behind an
//! async lock. All of it lies in RAM, and one `nv-mirror` keeps it on the medium. A save covers
//! what all tasks have committed until then.
//!
//! What the tasks tell each other, [`Links`], is volatile. It is told again in each boot: a task
//! says at the top of each iteration how many are behind it, and the runtime knows that number.
#![no_std]

#[cfg(feature = "boot")]
mod boot;

#[cfg(feature = "boot")]
pub use boot::{Booted, Memory, Refused, Runtime, Uptime};

use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::mutex::Mutex;
use embassy_sync::watch::Watch;
use nv_replay::nvmem::{Persist, Ram, Region};
use nv_replay::pmem_tx::{self, Contexts, Shared, Sharing};
use nv_replay::{Clock, Config, Error, Message, NotNow, OpenFailure};
use nv_replay::{Outlet, PoolAccess, Port, Replay, Threads};

/// Readings of a window.
pub const WINDOW: u32 = 8;
/// Readings that the board has room for.
const ROOM: u32 = 2 * WINDOW;
/// Reports that the board has room for.
const REPORTS: u32 = 2;

/// What the tasks share.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Board {
    /// The last readings: number `n` at `n % ROOM`.
    readings: [i16; ROOM as usize],
    /// The last reports.
    reports: [Report; REPORTS as usize],
}

/// What a window of readings comes to.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Report {
    /// Which window, counted from 0.
    pub window: u32,
    /// The sum of its readings.
    pub sum: i32,
    /// The lowest one.
    pub lowest: i16,
    /// The highest one.
    pub highest: i16,
}

/// What the sensor's task keeps.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Sensed {
    /// Readings so far.
    pub readings: u32,
}

/// What the averaging task keeps.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Averaged {
    /// Windows so far.
    pub windows: u32,
    /// The sum of all their readings.
    pub sum: i32,
}

/// What the radio's task keeps.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Radioed {
    /// Reports that were handed to the radio.
    pub reports: u32,
}

/// The roots: one that is shared, and one of each task.
pub type Roots = Sharing<(Board,), Contexts<(Sensed, Averaged, Radioed)>>;
/// The node's region.
pub type Node<'m> = Threads<'m, Roots, Ram>;
/// Bytes of the region.
pub const REGION: usize = 1664;

/// The reports that the radio sends.
pub static REPORT: Port<Report> = Port::new(1);

/// The tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// [`sensor`]: an iteration is a reading.
    Sensor,
    /// [`average`]: an iteration is a window.
    Average,
    /// [`radio`]: an iteration is a report.
    Radio,
}

/// The drivers of a station.
#[allow(async_fn_in_trait)] // An executor of one thread.
pub trait Station {
    /// The clock that the sensor's task sleeps by.
    type Clock: Clock;
    /// Its ticks between two readings.
    const PERIOD: u64;
    /// That clock.
    fn clock(&self) -> Self::Clock;
    /// Measures. `n` is the number of the reading.
    async fn measure(&self, n: u32) -> i16;
    /// Sends a report; `number` is the same when it is sent again.
    async fn send(&self, number: u32, report: Report);
    /// A task is at the top of its iteration `n`; it says so again after a power cut.
    fn at(&self, _task: Who, _n: u32) {}
}

/// The lock of the board, and how far each task is. A task waits for the others by it.
pub struct Links<'c> {
    board: Mutex<NoopRawMutex, Shared<'c, Board>>,
    sensed: Watch<NoopRawMutex, u32, 1>,
    averaged: Watch<NoopRawMutex, u32, 2>,
    radioed: Watch<NoopRawMutex, u32, 1>,
}

impl<'c> Links<'c> {
    /// Links of the tasks that share this board.
    pub fn new(board: Shared<'c, Board>) -> Self {
        Links {
            board: Mutex::new(board),
            sensed: Watch::new_with(0),
            averaged: Watch::new_with(0),
            radioed: Watch::new_with(0),
        }
    }
}

/// Waits until a task is so far.
async fn reached<const N: usize>(how_far: &Watch<NoopRawMutex, u32, N>, least: u32) {
    // There are as many receivers as tasks that wait.
    if let Some(mut receiver) = how_far.receiver() {
        receiver.get_and(|n| *n >= least).await;
    }
}

/// What a task's calls have at hand.
pub struct Drivers<'c, S> {
    /// The station.
    pub station: &'c S,
    /// The other tasks.
    pub links: &'c Links<'c>,
}

impl<S> Clone for Drivers<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Drivers<'_, S> {}

/// Messages wait for the radio's task.
impl<S> Outlet for Drivers<'_, S> {
    fn send(&mut self, _: &Message<'_>) -> Result<(), NotNow> {
        Err(NotNow)
    }
}

/// A task's runtime; `P` says where its region lies.
pub type Task<'t, 'c, R, S, P> = Replay<'t, R, Ram, Drivers<'c, S>, P>;

/// Measures `readings` values, one in each period.
///
/// **Errors**: the runtime's.
pub async fn sensor<S: Station, P: PoolAccess<Sensed, Ram>>(
    rt: &mut Task<'_, '_, Sensed, S, P>,
    readings: u32,
) -> Result<(), Error> {
    rt.each_async(0..readings, async |rt, n| {
        let Drivers { station, links } = *rt.env();
        station.at(Who::Sensor, n);
        links.sensed.sender().send(n);
        // The place must be free.
        let windows = (n + 1).saturating_sub(ROOM).div_ceil(WINDOW);
        rt.named("room")
            .input_async(async |d| reached(&d.links.averaged, windows).await)
            .await?;
        // The deadline is kept, if the clock goes on without power.
        rt.sleep(station.clock(), S::PERIOD).await?;
        let value = rt.input_async(async |d| d.station.measure(n).await).await?;
        let mut board = links.board.lock().await;
        rt.step(
            (&mut *board, n, value),
            |tx, sensed, (mut board, n, value)| {
                *board.fields(tx).readings.at_mut((n % ROOM) as usize)? = value;
                sensed.get_mut(tx)?.readings = n + 1;
                Ok(())
            },
        )?;
        Ok(())
    })
    .await?;
    rt.env().links.sensed.sender().send(readings);
    Ok(())
}

/// Makes a report of each of `windows` windows.
///
/// **Errors**: the runtime's.
pub async fn average<S: Station, P: PoolAccess<Averaged, Ram>>(
    rt: &mut Task<'_, '_, Averaged, S, P>,
    windows: u32,
) -> Result<(), Error> {
    rt.each_async(0..windows, async |rt, window| {
        let Drivers { station, links } = *rt.env();
        station.at(Who::Average, window);
        links.averaged.sender().send(window);
        rt.input_async(async |d| {
            reached(&d.links.sensed, (window + 1) * WINDOW).await;
            reached(&d.links.radioed, (window + 1).saturating_sub(REPORTS)).await;
        })
        .await?;
        let mut board = links.board.lock().await;
        rt.step(
            (&mut *board, window),
            |tx, averaged, (mut board, window)| {
                let all = *board.get(tx);
                let from = (window * WINDOW % ROOM) as usize;
                let mine = all.readings.iter().skip(from).take(WINDOW as usize);
                let report = mine.fold(
                    Report {
                        window,
                        sum: 0,
                        lowest: i16::MAX,
                        highest: i16::MIN,
                    },
                    |r, value| Report {
                        sum: r.sum + i32::from(*value),
                        lowest: r.lowest.min(*value),
                        highest: r.highest.max(*value),
                        ..r
                    },
                );
                let place = (window % REPORTS) as usize;
                *board.fields(tx).reports.at_mut(place)? = report;
                let averaged = averaged.get_mut(tx)?;
                averaged.windows = window + 1;
                averaged.sum = averaged.sum.wrapping_add(report.sum);
                Ok(())
            },
        )?;
        Ok(())
    })
    .await?;
    rt.env().links.averaged.sender().send(windows);
    Ok(())
}

/// Sends `reports` reports.
///
/// **Errors**: the runtime's.
pub async fn radio<S: Station, P: PoolAccess<Radioed, Ram>>(
    rt: &mut Task<'_, '_, Radioed, S, P>,
    reports: u32,
) -> Result<(), Error> {
    // What a cut has left.
    send(rt).await?;
    rt.each_async(0..reports, async |rt, n| {
        let Drivers { station, links } = *rt.env();
        station.at(Who::Radio, n);
        links.radioed.sender().send(n);
        rt.input_async(async |d| reached(&d.links.averaged, n + 1).await)
            .await?;
        let mut board = links.board.lock().await;
        rt.step((&mut *board, n), |tx, radioed, (board, n)| {
            let report = board.get(tx).reports.get((n % REPORTS) as usize).copied();
            radioed.get_mut(tx)?.reports = n + 1;
            tx.send(&REPORT, report.unwrap_or_default())
        })?;
        drop(board);
        send(rt).await
    })
    .await?;
    rt.env().links.radioed.sender().send(reports);
    Ok(())
}

/// Saves, and sends what waits. The radio takes every message.
async fn send<S: Station, P: PoolAccess<Radioed, Ram>>(
    rt: &mut Task<'_, '_, Radioed, S, P>,
) -> Result<(), Error> {
    let sent = rt
        .drain_async(async |drivers, message| {
            if let Some(Ok(report)) = message.get(&REPORT) {
                drivers.station.send(message.number, report).await;
            }
            Ok(())
        })
        .await;
    match sent {
        Ok(()) => Ok(()),
        // Only the save before it fails; the runtime says why.
        Err(NotNow) => rt.durable_async().await,
    }
}

/// Opens the node in its region, or formats it.
///
/// **Errors**: those of [`Threads::open`].
pub fn open<'m>(region: Region<'m, Ram>) -> Result<Node<'m>, OpenFailure<'m, Ram>> {
    let table = Config {
        outbox_bytes: 64,
        ..Config::SMALL
    };
    Node::open(region, table, Some(pmem_tx::Config::SMALL), |_| {
        Ok((
            (Board::default(),),
            (Sensed::default(), Averaged::default(), Radioed::default()),
        ))
    })
}
