//! A run of the node, from a blank flash to its last report, through power cuts.

use crate::clock::clock;
use crate::flash::{Flash, PAGES};
use crate::random::Random;
use anyhow::{Result, bail};
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::pin::pin;
use core::task::{Poll, Waker};
use embassy_executor::raw::TaskStorage;
use embassy_executor::{Executor, Spawner};
use embassy_time::{Instant, Timer};
use example_node::{
    Averaged, Booted, Memory, Radioed, Report, Sensed, Station, WINDOW, Who, average, radio, sensor,
};
use nv_mirror::nvmem::device::AsyncMedium;
use nv_replay::Clock;

/// Microseconds between two readings.
pub const PERIOD: u64 = 20_000;
/// What the radio takes for a report.
const AIR: u64 = 3_000;
/// What the sensor takes for a reading.
const MEASURES: u64 = 400;
/// The power is off for so long on average.
const OFF: u64 = 10_000;
/// No task came on for so long: something hangs.
const PATIENCE: u64 = 5_000_000;

/// What a run came to.
#[derive(Default)]
pub struct Run {
    /// The mean time that the power lasts, if it is cut.
    pub power: Option<u64>,
    /// Power cuts.
    pub cuts: u64,
    /// Of these, while the flash was being written or erased.
    pub caught: u64,
    /// Reports that were sent again.
    pub again: u64,
    /// Words that were programmed, and erases of each page.
    pub words: u64,
    pub erases: [u64; PAGES],
    /// Microseconds in all.
    pub time: u64,
    /// The reports that have arrived, each once.
    pub reports: Vec<Report>,
    /// What the tasks have kept.
    pub kept: (Sensed, Averaged, Radioed),
    /// When which task was where, and when the power was cut.
    pub places: Vec<(u64, Who, u32)>,
    pub cut_at: Vec<u64>,
}

/// Everything outside of the node's power domain.
struct World {
    run: RefCell<Run>,
    /// Tasks that have come to their end in this boot.
    ended: Cell<u32>,
    wrong: RefCell<Option<String>>,
    /// The last time that something happened.
    last: Cell<u64>,
    /// How often a task was polled.
    polls: Cell<u64>,
    /// Wakes the executor, so that it looks again for tasks that are ready.
    look: RefCell<Option<Waker>>,
}

impl World {
    fn arrived(&self, number: usize, report: Report) {
        let run = &mut *self.run.borrow_mut();
        match run.reports.get(number) {
            Some(known) if *known == report => run.again += 1,
            Some(_) => self.wrong(format!("report {number} came again as another one")),
            None if number == run.reports.len() => run.reports.push(report),
            None => self.wrong(format!("report {number} came before the ones before it")),
        }
    }

    fn wrong(&self, why: impl ToString) {
        self.wrong.borrow_mut().get_or_insert(why.to_string());
    }
}

/// A clock with a battery.
#[derive(Clone, Copy)]
pub struct Rtc;

impl Clock for Rtc {
    const SURVIVES: bool = true;
    fn now(&mut self) -> u64 {
        Instant::now().as_micros()
    }
    async fn until(&mut self, at: u64) {
        Timer::at(Instant::from_micros(at)).await
    }
}

/// The temperature of that moment in tenths of a degree: a day, and what a cloud does.
fn temperature(n: u32) -> i16 {
    let day = (f64::from(n) / 200.0 * core::f64::consts::TAU).sin() * 80.0;
    (150.0 + day) as i16 + (n.wrapping_mul(2_654_435_761) >> 28) as i16
}

impl Station for World {
    type Clock = Rtc;
    const PERIOD: u64 = PERIOD;

    fn clock(&self) -> Rtc {
        Rtc
    }

    async fn measure(&self, n: u32) -> i16 {
        Timer::after_micros(MEASURES).await;
        temperature(n)
    }

    async fn send(&self, number: u32, report: Report) {
        // The first half of it is in the air when it has arrived.
        Timer::after_micros(AIR / 2).await;
        self.arrived(number as usize, report);
        Timer::after_micros(AIR / 2).await;
    }

    fn at(&self, task: Who, n: u32) {
        let now = clock().time();
        self.last.set(now);
        self.run.borrow_mut().places.push((now, task, n));
    }
}

/// A boot's RAM is given up with all its tasks, as a reset does.
fn leak<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

fn begin<F: Future<Output = ()> + 'static>(spawner: Spawner, world: &World, future: F) {
    let storage: &'static TaskStorage<F> = leak(TaskStorage::new());
    match storage.spawn(|| future) {
        Ok(task) => spawner.spawn(task),
        Err(e) => world.wrong(format!("a task cannot begin: {e:?}")),
    }
}

/// Begins a task whose polls are counted.
fn spawn(spawner: Spawner, world: &'static World, future: impl Future<Output = ()> + 'static) {
    let counted = async move {
        let mut future = pin!(future);
        poll_fn(|context| {
            world.polls.set(world.polls.get() + 1);
            future.as_mut().poll(context)
        })
        .await
    };
    begin(spawner, world, counted);
}

/// The idle task: its waker makes the executor look again.
async fn idle(world: &'static World) {
    poll_fn(|context| {
        *world.look.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}

/// Opens mirror and node, and begins the tasks: what `main` does on a board.
async fn start(
    spawner: Spawner,
    flash: &'static Flash,
    world: &'static World,
    windows: u32,
) -> Result<(), String> {
    let memory: &'static Memory<&'static Flash> = leak(Memory::new());
    let booted = memory.boot(flash, 0..flash.capacity(), world).await;
    let Booted {
        sensor: mut sensing,
        average: mut averaging,
        radio: mut radioing,
    } = booted.map_err(|e| format!("{e:?}"))?;
    macro_rules! task {
        ($rt:ident, $program:ident, $n:expr, $kept:tt) => {
            spawn(spawner, world, async move {
                let mut done = $program(&mut $rt, $n).await;
                if done.is_ok() {
                    match $rt.step((), |tx, mine, ()| Ok(*mine.get(tx))) {
                        Ok(mine) => world.run.borrow_mut().kept.$kept = mine,
                        Err(e) => done = Err(e.error),
                    }
                }
                if let Err(e) = done {
                    world.wrong(format!("{}: {e}", stringify!($program)));
                }
                world.ended.set(world.ended.get() + 1);
            });
        };
    }
    task!(sensing, sensor, windows * WINDOW, 0);
    task!(averaging, average, windows, 1);
    task!(radioing, radio, windows, 2);
    Ok(())
}

/// Without it a node that waits for nothing would wait for ever.
async fn watch(world: &'static World) {
    loop {
        Timer::after_micros(PATIENCE).await;
        let last = world.last.get();
        if clock().time().saturating_sub(last) > PATIENCE {
            world.wrong("the tasks hang");
        }
    }
}

/// Runs the node until it has sent the reports of all windows. The power lasts for `power`
/// microseconds on average. `said` gets the cuts and the reports so far, after each cut.
///
/// **Errors**: a task has failed, or a report was wrong.
pub fn run(
    windows: u32,
    power: Option<u64>,
    seed: u64,
    mut said: impl FnMut(u64, usize),
) -> Result<Run> {
    clock().reset();
    let mut random = Random(seed);
    let flash: &'static Flash = leak(Flash::blank(seed ^ 0x5EED));
    let world: &'static World = leak(World {
        run: RefCell::default(),
        ended: Cell::default(),
        wrong: RefCell::default(),
        last: Cell::default(),
        polls: Cell::default(),
        look: RefCell::default(),
    });
    loop {
        let end = match power {
            Some(mean) => clock().time() + random.after(mean),
            None => u64::MAX,
        };
        world.ended.set(0);
        let mut was_cut = false;
        let started = move |spawner: Spawner| {
            begin(spawner, world, idle(world));
            spawn(spawner, world, watch(world));
            spawn(spawner, world, async move {
                if let Err(e) = start(spawner, flash, world, windows).await {
                    world.wrong(format!("boot: {e}"));
                }
            });
        };
        leak(Executor::new()).run_until(started, || {
            if world.ended.get() == 3 || world.wrong.borrow().is_some() {
                return true;
            }
            // The time stands still while a task has something to do.
            let polled = world.polls.replace(0) > 0;
            if let Some(look) = world.look.borrow().as_ref().filter(|_| polled) {
                look.wake_by_ref();
                return false;
            }
            was_cut = clock().go_on(end);
            was_cut
        });
        if let Some(why) = world.wrong.borrow_mut().take() {
            bail!("{why}");
        }
        if !was_cut {
            break;
        }
        flash.cut();
        let cuts = {
            let run = &mut *world.run.borrow_mut();
            run.cuts += 1;
            run.cut_at.push(end);
            run.cuts
        };
        said(cuts, world.run.borrow().reports.len());
        clock().off(random.after(OFF));
    }
    let mut run = world.run.take();
    (run.erases, run.words, run.caught) = flash.work();
    run.power = power;
    run.time = clock().time();
    Ok(run)
}
