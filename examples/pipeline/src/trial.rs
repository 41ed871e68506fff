//! A run of the pipeline, from a blank FRAM to its last record, through power cuts.

use anyhow::{Result, bail, ensure};
use example_programs::etl;
use example_programs::support::{DONE, Fram, Machine, RECORDED, ROUNDS};
use indicatif::ProgressBar;
use nv_rtos::nvmem::Region;
use powerfail::{EveryEvents, Mapped, World, endure};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock};

/// Bytes of the FRAM, and those that a record takes of it.
const BYTES: usize = 8192;
const RECORD: usize = 32;
/// More events than a round takes.
const EVENTS: u64 = 500;

/// What a run came to.
#[derive(Default, Clone)]
pub struct Run {
    /// For how many events the power lasts on average, if it is cut.
    pub power: Option<u64>,
    /// Power cuts until the end.
    pub cuts: u64,
    /// What was done: thread and turn, in order. The same turn again: a cut came before its commit.
    pub done: Vec<(usize, u32)>,
    /// Behind how many of them the power was cut.
    pub cut_at: Vec<usize>,
    /// Records, their sum, a hash of all, and the sum of what the sensors have read.
    pub table: Option<[u32; 4]>,
    lives: u64,
    /// Turns of all lives, also behind the end.
    turns: u64,
}

impl Run {
    /// How many turns were done again.
    pub fn again(&self) -> u64 {
        let mut next = [0; 5];
        let again = self.done.iter().filter(|(thread, turn)| {
            let is_new = *turn >= next[*thread];
            next[*thread] = next[*thread].max(turn + 1);
            !is_new
        });
        again.count() as u64
    }
}

/// What survives the cuts outside of the device.
static NOW: Mutex<Option<Run>> = Mutex::new(None);
static BAR: OnceLock<ProgressBar> = OnceLock::new();

fn with<R>(f: impl FnOnce(&mut Run) -> R) -> R {
    f(NOW
        .lock()
        .unwrap_or_else(|e| e.into_inner())
        .get_or_insert_default())
}

/// Once, before all runs.
pub fn begin(readings: Vec<u32>, rounds: u32, bar: ProgressBar) {
    RECORDED.get_or_init(|| readings);
    BAR.get_or_init(|| bar);
    ROUNDS.store(rounds, Relaxed);
    DONE.get_or_init(|| {
        |thread, turn| {
            with(|run| {
                run.turns += 1;
                if run.table.is_none() {
                    run.done.push((thread, turn));
                }
            });
        }
    });
}

/// A boot of the device.
fn boot(memory: Region<'_, Fram>, world: &World<'_, u32>) {
    with(|run| {
        if run.table.is_none() {
            if run.lives > 0 {
                run.cuts += 1;
                run.cut_at.push(run.done.len());
            }
            run.lives += 1;
            if let (Some(bar), Some(_)) = (BAR.get(), run.power) {
                bar.set_message(run.cuts.to_string());
            }
        }
    });
    let table = etl::boot(memory, &Machine { world });
    let table = table.expect("a thread has ended with an error");
    with(|run| {
        let first = *run.table.get_or_insert(table);
        assert_eq!(table, first, "a later life finds another table");
    });
    world.update(|ends| *ends += 1);
}

/// The content of a formatted FRAM.
fn formatted(bytes: usize) -> Result<Vec<u8>> {
    let mut words = vec![MaybeUninit::new(0u64); bytes / 8];
    ensure!(
        etl::format(Region::new(&mut words)),
        "it cannot be formatted"
    );
    // SAFETY: initialised above, and the format writes whole units.
    let words = words.iter().map(|w| unsafe { w.assume_init() });
    Ok(words.flat_map(u64::to_ne_bytes).collect())
}

/// Runs the pipeline until all records are in the table. The power lasts for `power` events on
/// average.
///
/// **Errors**: a thread has failed, or there is no end.
pub fn run(power: Option<u64>) -> Result<Run> {
    with(|run| {
        *run = Run {
            power,
            ..Run::default()
        }
    });
    let rounds = ROUNDS.load(Relaxed);
    let events = u64::from(rounds + 10) * EVENTS;
    let bytes = BYTES + rounds as usize * RECORD;
    let memory = Mapped::<Fram>::new(bytes);
    let lives = power.map_or(1, |power| 20 + 3 * events / power);
    let done = endure(memory, EveryEvents(power.unwrap_or(events)), boot, |n| {
        (*n, with(|run| run.turns))
    })
    .image(formatted(bytes)?)
    .budget(10 * events as usize)
    .boots(lives)
    .try_run();
    if let Err(failure) = done {
        bail!("{failure}");
    }
    let run = with(|run| run.clone());
    match run.table {
        Some(_) => Ok(run),
        None => bail!("no end in {lives} lives"),
    }
}
