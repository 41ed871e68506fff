//! The device of the demo: what its sensor sees, and how the program is started on its FRAM.

use crate::args::Job;
use crate::machine::{Machine, Meter};
use crate::recordings::Recording;
use anyhow::{Result, anyhow, ensure};
use example_activity::{
    Class, Features, Found, Fram, Learnt, Lesson, PAGE, Page, Sensor, Station, Steps, TOGETHER,
    Unprotected, learn, program, recognise,
};
use nvmem::Region;
use pmem_tx::{Error, PBox, Pool, Tx};
use std::cell::Cell;

/// The sensor's side: the recordings as the featurizer sees them.
pub struct Device {
    lessons: Vec<Lesson>,
    windows: Vec<Features>,
}

/// The sensor, and how far the program has come in reading it.
struct Wrist<'a> {
    device: &'a Device,
    reached: &'a Cell<u16>,
    meter: &'a Meter,
}

/// What a program that has ended leaves in FRAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// All of it but handles: statistics, model, log.
    pub bytes: Vec<u8>,
    /// The log.
    pub results: Vec<Found>,
}

impl Device {
    /// A device that will see these recordings.
    pub fn new(job: &Job) -> Result<Self> {
        let windows = |r: &Recording| r.windows().iter().map(Features::of).collect::<Vec<_>>();
        let device = Device {
            lessons: job
                .train
                .iter()
                .flat_map(|r| {
                    let lesson = |w: &[Features]| Lesson::new(r.class, w);
                    windows(r).chunks(TOGETHER).map(lesson).collect::<Vec<_>>()
                })
                .collect(),
            windows: job.recognize.iter().flat_map(windows).collect(),
        };
        let steps = device.lessons.len() + device.windows.len();
        ensure!(
            u16::try_from(steps).is_ok(),
            "{steps} steps are more than 65,535"
        );
        ensure!(
            device.fram() <= 1 << 16,
            "the recordings need {} bytes of FRAM, and 16 bits address 65,536",
            device.fram()
        );
        Ok(device)
    }

    /// Steps of the program.
    pub fn steps(&self) -> u16 {
        (self.lessons.len() + self.windows.len()) as u16
    }

    /// Steps before the first window is recognised.
    pub fn lessons(&self) -> u16 {
        self.lessons.len() as u16
    }

    /// What is learnt, lesson by lesson.
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        self.lessons.iter().map(|l| l.class)
    }

    /// Bytes of FRAM that it needs.
    fn fram(&self) -> usize {
        let pages = self.windows.len().div_ceil(PAGE);
        let heap = (self.lessons.len() + 2) * size_of::<Learnt<'_>>().next_multiple_of(8)
            + (pages + 2) * size_of::<Page<'_>>().next_multiple_of(8);
        // The journal takes an eighth, the walk at open a sixteenth.
        (heap + heap / 4 + 512).next_multiple_of(8)
    }
}

impl Sensor for Wrist<'_> {
    fn lessons(&self) -> u16 {
        self.device.lessons()
    }
    fn lesson(&self, i: u16) -> Lesson {
        self.read(i);
        self.device.lessons[usize::from(i)]
    }
    fn windows(&self) -> u16 {
        self.device.windows.len() as u16
    }
    fn window(&self, i: u16) -> Features {
        self.read(self.lessons() + i);
        self.device.windows[usize::from(i)]
    }
}

impl Wrist<'_> {
    fn read(&self, step: u16) {
        if step > self.reached.get() {
            self.meter.step();
            self.reached.set(step);
        }
    }
}

type Fails<T> = Result<T, String>;

/// The pool in this region, formatted if it is blank.
fn open(region: Region<'_, Fram>) -> Fails<Pool<'_, Station<'static>, Fram>> {
    Pool::open(region, |_| Ok(Station::new())).map_err(|e| e.error.to_string())
}

/// FRAM as it leaves the factory: formatted, nothing learnt.
pub fn factory(device: &Device) -> Result<Machine> {
    let mut machine = Machine::new(device.fram());
    let formatted = machine.boot(None, |region, _| open(region).map(drop));
    formatted
        .ok_or_else(|| anyhow!("cut"))?
        .map_err(|e| anyhow!(e))?;
    Ok(machine)
}

/// One boot of the device, from whatever its FRAM holds.
pub fn boot(
    device: &Device,
    machine: &mut Machine,
    stores: Option<u64>,
    reached: &Cell<u16>,
) -> Option<Fails<Left>> {
    machine.boot(stores, |region, meter| {
        let mut pool = open(region)?;
        meter.opened();
        let wrist = Wrist {
            device,
            reached,
            meter,
        };
        let (l, w) = pool
            .tx(|tx, r| Ok(r.get(tx).done(tx)))
            .map_err(|e| e.to_string())?;
        let mut logged = Logged {
            pool: &mut pool,
            skip: vec![w, l],
        };
        program(&mut logged, &wrist).map_err(|e| e.to_string())?;
        left(&mut pool)
    })
}

/// Executes each step as a transaction, and goes on where the station says that it stands.
struct Logged<'a, 'm> {
    pool: &'a mut Pool<'m, Station<'static>, Fram>,
    /// Iterations to leave out, of the last loop first.
    skip: Vec<u16>,
}

impl Steps for Logged<'_, '_> {
    type Error = Error;
    fn each(
        &mut self,
        n: u16,
        mut b: impl FnMut(&mut Self, u16) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let from = self.skip.pop().unwrap_or(0);
        (from..n).try_for_each(|i| b(self, i))
    }
    fn learn(&mut self, l: Lesson) -> Result<(), Error> {
        self.pool.tx(|tx, r| learn(tx, r.fields(tx), l))
    }
    fn recognise(&mut self, l: Features) -> Result<(), Error> {
        self.pool.tx(|tx, r| recognise(tx, r.fields(tx), l))
    }
}

fn left(pool: &mut Pool<'_, Station<'static>, Fram>) -> Fails<Left> {
    let left = pool.tx(|tx, root| Ok(Left::of(tx, root.get(tx))));
    left.map_err(|e| e.to_string())
}

impl Left {
    fn of<'p>(tx: &Tx<'p, Fram>, station: &Station<'p>) -> Self {
        let mut results = Vec::new();
        station.results(tx, |i, found| results.push((i, found)));
        results.sort_by_key(|(i, _)| *i);
        let mut bytes = Vec::new();
        station.bytes(tx, |b| bytes.extend_from_slice(b));
        Left {
            bytes,
            results: results.into_iter().map(|(_, found)| found).collect(),
        }
    }
}

/// The program without log and records, on a blank medium: what it leaves, and how many bytes it stored itself. What the allocator
/// stores for its own purposes does not count.
pub fn unprotected(device: &Device) -> Result<(Left, u64)> {
    let mut machine = Machine::new(device.fram());
    let reached = Cell::new(0);
    let left = machine.boot(None, |region, meter| {
        let wrist = Watched(Wrist {
            device,
            reached: &reached,
            meter,
        });
        let mut left = None;
        let pool = Pool::<PBox<'static, Station<'static>, u16>, Fram>::open(region, |tx| {
            let mut steps = Unprotected::new(tx)?;
            program(&mut steps, &wrist)?;
            meter.look();
            let station = steps.into_station();
            left = Some(Left::of(tx, station.get(tx)));
            Ok(station)
        });
        pool.map_err(|e| e.error.to_string())?;
        left.ok_or_else(|| "nothing was formatted".to_owned())
    });
    let left = left
        .ok_or_else(|| anyhow!("cut"))?
        .map_err(|e| anyhow!(e))?;
    Ok((left, machine.count().programs))
}
/// A sensor that has the meter look at what the program has written since the last reading: without a log nothing else tells.
struct Watched<'a>(Wrist<'a>);
impl Sensor for Watched<'_> {
    fn lessons(&self) -> u16 {
        self.0.lessons()
    }
    fn lesson(&self, i: u16) -> Lesson {
        self.0.meter.look();
        self.0.lesson(i)
    }
    fn windows(&self) -> u16 {
        self.0.windows()
    }
    fn window(&self, i: u16) -> Features {
        self.0.meter.look();
        self.0.window(i)
    }
}
