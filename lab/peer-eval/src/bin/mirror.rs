//! What a step costs that survives, on media that are not mapped: a struct of 64 bytes, of which
//! each of 1,000 steps changes 8. Prints lines `key value`.
//!
//! - `nv-replay` over a mirror: each commit, and on flash also each tenth, is saved. Bytes written
//!   and erases are without those of the first save.
//! - sequential-storage and ekv: each step stores the whole struct under one key, on flash with
//!   words of 4 bytes and sectors of 4 KiB. Bytes programmed and erases are without those of the
//!   first step.

use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use nv_mirror::{Config, Durability, Mirror};
use nv_replay::{MirroredReplay, Options, pmem_tx};
use nvmem::InOrder32;
use nvmem::device::{Contract, Medium};
use nvmem::ram::{RamFram, RamMram, RamNor};
use peer_eval::{Pages, SECTOR, WordNor, now};
use powerfail::{Simulated, measure};
use sequential_storage::cache::Cache;
use sequential_storage::map::{MapConfig, MapStorage};
use std::collections::BTreeMap;

const STEPS: u32 = 1000;

/// The struct.
type Value = [u32; 16];

/// Which words step `n` changes, and to what.
fn change(n: u32) -> (usize, [u32; 2]) {
    (n as usize % 8 * 2, [n + 1, !n])
}

/// What went to and from a medium.
#[derive(Default)]
struct Counts {
    written: Cell<u64>,
    read: Cell<u64>,
    erases: Cell<u64>,
    /// How often a write had so many bytes.
    lengths: RefCell<BTreeMap<usize, u32>>,
}

/// A medium that counts.
struct Counting<'c, D>(&'c mut D, &'c Counts);

impl<D: Medium> Medium for Counting<'_, D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.1.read.set(self.1.read.get() + buf.len() as u64);
        self.0.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        let written = self.1.written.get() + bytes.len() as u64;
        self.1.written.set(written);
        *self.1.lengths.borrow_mut().entry(bytes.len()).or_default() += 1;
        self.0.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        let n = u64::from((to - from) / D::CONTRACT.erase_size());
        self.1.erases.set(self.1.erases.get() + n);
        self.0.erase(from, to)
    }
}

/// Region and shadow.
const MEMORY: [MaybeUninit<u64>; 2 * 96] = [MaybeUninit::new(0); 2 * 96];

/// The steps, and then another open. The first result is what the steps cost, the second one the
/// open.
fn steps<D: Medium<Error: core::fmt::Debug>>(
    mut nv: D,
    config: Config,
    steps: u32,
) -> (Counts, Counts) {
    let all = 0..nv.capacity();
    let first = Counts::default();
    let mut memory = MEMORY;
    let chip = Counting(&mut nv, &first);
    let (mirror, region) =
        Mirror::format::<InOrder32>(chip, all.clone(), &config, &mut memory).expect("formats");
    let options = Options {
        table: nv_replay::Config::SMALL,
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    let mut rt =
        MirroredReplay::<Value, _>::open_mirrored(region, mirror, options, None, |_| Ok([0; 16]))
            .map_err(|refused| refused.error)
            .expect("opens");
    rt.durable().expect("is saved");
    let before = (first.written.get(), first.erases.get());
    first.lengths.borrow_mut().clear();
    rt.each(0..steps, |rt, n| {
        rt.step(n, |tx, value, n| {
            let (at, new) = change(n);
            let mut value = value.slot(tx);
            *value.at_mut(at)? = new[0];
            *value.at_mut(at + 1)? = new[1];
            Ok(())
        })?;
        Ok(())
    })
    .expect("runs");
    rt.durable().expect("is saved");
    drop(rt);
    first.written.set(first.written.get() - before.0);
    first.erases.set(first.erases.get() - before.1);
    let second = Counts::default();
    let mut memory = MEMORY;
    let chip = Counting(&mut nv, &second);
    Mirror::open::<InOrder32>(chip, all, &config, &mut memory).expect("opens");
    (first, second)
}

fn per_step(counts: &Counts) -> f64 {
    counts.written.get() as f64 / f64::from(STEPS)
}

fn mirror() {
    let config = |segments, durability| Config {
        segments,
        durability,
    };
    let each = Durability::EachCommit;
    let (fram, _) = steps(RamFram::<16384>::filled(0), config(2, each), STEPS);
    let lengths = fram.lengths.borrow();
    let (record, _) = lengths.iter().max_by_key(|(_, n)| **n).expect("records");
    println!("mirror.record_bytes {record}");
    println!("mirror.fram.bytes_per_step {}", per_step(&fram));
    let (mram, _) = steps(RamMram::<16384>::filled(0), config(2, each), STEPS);
    println!("mirror.mram16.bytes_per_step {}", per_step(&mram));
    let nrf52 = || RamNor::<3, SECTOR, 4>::new();
    let (flash, open) = steps(nrf52(), config(3, each), STEPS);
    println!("mirror.nrf52.bytes_per_step {}", per_step(&flash));
    println!("mirror.nrf52.erases_1000 {}", flash.erases.get());
    let (twice, _) = steps(nrf52(), config(3, each), 2 * STEPS);
    let later = twice.erases.get() - flash.erases.get();
    println!("mirror.nrf52.erases_1000_later {later}");
    println!("mirror.open_bytes {}", open.read.get());
    let (tenth, _) = steps(nrf52(), config(3, Durability::Every(10)), STEPS);
    println!("mirror.nrf52.bytes_per_step_every_10 {}", per_step(&tenth));
    println!("mirror.nrf52.erases_1000_every_10 {}", tenth.erases.get());
}

/// The struct after step `n`.
fn store(value: &mut Value, n: u32) -> [u8; 64] {
    let (at, new) = change(n);
    value[at..at + 2].copy_from_slice(&new);
    let mut bytes = [0; 64];
    for (to, word) in bytes.chunks_mut(4).zip(&*value) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Prints what 1,000 steps cost after the first one.
fn peer(name: &str, sectors: usize, run: fn(&mut powerfail::Device<'_, WordNor>, u32)) {
    let cost = |steps: u32| {
        let flash = Simulated::<WordNor>::new(sectors * SECTOR);
        measure(flash, |mut nv, _| run(&mut nv, steps))
    };
    let cost = [cost(1), cost(STEPS + 1)].map(totals);
    let [bytes, erases, read] = [0, 1, 2].map(|i| cost[1][i] - cost[0][i]);
    println!("mirror.{name}.bytes_per_step {}", bytes / f64::from(STEPS));
    println!("mirror.{name}.erases_1000 {erases}");
    println!("mirror.{name}.read_per_step {}", read / f64::from(STEPS));
}

fn totals(c: powerfail::Cost) -> [f64; 3] {
    [c.bytes, c.erases, c.reads].map(|n| n as f64)
}

fn sequential_storage(flash: &mut powerfail::Device<'_, WordNor>, steps: u32) {
    let config = MapConfig::new(0..3 * SECTOR as u32);
    let mut map = MapStorage::<u8, _, _>::new(flash, config, Cache::new_uncached());
    let (mut value, mut buffer) = ([0; 16], [0; 128]);
    for n in 0..steps {
        let bytes = store(&mut value, n);
        now(map.store_item(&mut buffer, &1, &&bytes[..])).expect("is written");
    }
}

/// The fewest sectors that ekv can be configured for.
const EKV: usize = 32;

fn ekv(flash: &mut powerfail::Device<'_, WordNor>, steps: u32) {
    let pages = Pages::<_, EKV>(flash);
    let database = ekv::Database::<_, NoopRawMutex>::new(pages, ekv::Config::default());
    now(database.format()).expect("formats");
    let mut value = [0; 16];
    for n in 0..steps {
        let bytes = store(&mut value, n);
        now(async {
            let mut transaction = database.write_transaction().await;
            let written = transaction.write(b"value", &bytes).await;
            written.expect("is written");
            transaction.commit().await.expect("is committed");
        });
    }
}

fn main() {
    mirror();
    peer("sequential_storage", 3, sequential_storage);
    peer("ekv", EKV, ekv);
}
