//! The same work for three crates that keep a value in NOR flash: a settings value of 16 bytes.
//! Prints lines `key value`.
//!
//! - Costs: 1,000 boots with one update each, and one boot with 1,000 updates, in 4 sectors of
//!   4 KiB (ekv needs 32): sectors erased, bytes programmed and bytes read.
//! - Cuts: up to three updates; each boot reads the value first. Power is cut at every write and
//!   erase, once, and then twice. The value may never be older than one that was acknowledged, and
//!   no operation may fail. Three chips: words that are written whole or not at all; words with any
//!   bytes that read the same each time; words that may read differently each time.

use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use nvmem::Record;
use nvmem::device::{Contract, Torn};
use peer_eval::{Pages, SECTOR, WordNor, now};
use powerfail::{Chip, Device, Explore, Simulated, SpiNor, World, explore, measure};
use sequential_storage::cache::Cache;
use sequential_storage::map::{MapConfig, MapStorage};

/// The value that is kept. The first word counts the updates.
type Value = [u32; 4];

fn value(n: u32) -> Value {
    [n, !n, n ^ 0x5555, 7]
}

fn bytes(v: &Value) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, word) in bytes.chunks_mut(4).zip(v) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The number of updates that stored bytes state.
fn number(stored: &[u8]) -> u32 {
    let n = stored.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    assert_eq!(stored, bytes(&value(n)), "a mixture");
    n
}

/// The flash of [`SpiNor`] in which a torn word stays as it is.
enum StableNor {}
impl Chip for StableNor {
    const CONTRACT: Contract = Contract {
        name: "spi-nor-stable",
        torn: Torn::Arbitrary,
        ..SpiNor::CONTRACT
    };
}

/// One boot: opens the store, says which value it has, and does updates as long as `more` says so.
trait Store {
    const NAME: &'static str;
    /// Sectors of the flash. The fewest that ekv can be configured for are 32.
    const SECTORS: usize = 4;
    const BYTES: u32 = (Self::SECTORS * SECTOR) as u32;
    fn boot<C: Chip>(flash: &mut Device<'_, C>, updates: impl FnMut(u32) -> bool);
}

struct OwnRecord;
impl Store for OwnRecord {
    const NAME: &'static str = "record";
    fn boot<C: Chip>(flash: &mut Device<'_, C>, mut next: impl FnMut(u32) -> bool) {
        let mut record = Record::open(flash, 0..Self::BYTES, value(0)).expect("opens");
        while next(number(&bytes(record.get()))) {
            let n = record.get()[0] + 1;
            record.set(value(n)).expect("is written");
        }
    }
}

struct SequentialStorage;
impl Store for SequentialStorage {
    const NAME: &'static str = "sequential_storage";
    fn boot<C: Chip>(flash: &mut Device<'_, C>, mut next: impl FnMut(u32) -> bool) {
        let config = MapConfig::new(0..Self::BYTES);
        let mut map = MapStorage::<u8, _, _>::new(flash, config, Cache::new_uncached());
        let mut buffer = [0; 64];
        let stored = now(map.fetch_item::<&[u8]>(&mut buffer, &1)).expect("is read");
        let mut n = stored.map_or(0, number);
        while next(n) {
            n += 1;
            let new = bytes(&value(n));
            now(map.store_item(&mut buffer, &1, &&new[..])).expect("is written");
        }
    }
}

struct Ekv;

impl Store for Ekv {
    const NAME: &'static str = "ekv";
    const SECTORS: usize = 32;
    fn boot<C: Chip>(flash: &mut Device<'_, C>, mut next: impl FnMut(u32) -> bool) {
        // The seed chooses the first page; the same one in each boot, so that runs repeat.
        let config = ekv::Config::default();
        let database =
            ekv::Database::<_, NoopRawMutex>::new(Pages::<_, { Ekv::SECTORS }>(flash), config);
        if now(database.mount()).is_err() {
            // What its documentation tells to do with a blank flash.
            now(database.format()).expect("formats");
        }
        let mut buffer = [0; 16];
        let read = now(async {
            let transaction = database.read_transaction().await;
            transaction.read(b"settings", &mut buffer).await
        });
        let mut n = match read {
            Ok(len) => number(&buffer[..len]),
            Err(ekv::ReadError::KeyNotFound) => 0,
            Err(e) => panic!("is read: {e:?}"),
        };
        while next(n) {
            n += 1;
            now(async {
                let mut transaction = database.write_transaction().await;
                let new = bytes(&value(n));
                transaction
                    .write(b"settings", &new)
                    .await
                    .expect("is written");
                transaction.commit().await.expect("is committed");
            });
        }
    }
}

fn costs<S: Store>() {
    let boots = measure(Simulated::<SpiNor>::new(S::BYTES as usize), |mut nv, _| {
        for boot in 1..=1000 {
            S::boot(&mut nv, |n| n < boot);
        }
    });
    let updates = measure(Simulated::<SpiNor>::new(S::BYTES as usize), |mut nv, _| {
        S::boot(&mut nv, |n| n < 1000);
    });
    for (what, cost) in [("1000_boots", boots), ("1000_updates", updates)] {
        println!("peer.{}.{what}.erases {}", S::NAME, cost.erases);
        println!("peer.{}.{what}.bytes {}", S::NAME, cost.bytes);
        println!("peer.{}.{what}.read {}", S::NAME, cost.reads);
    }
}

fn campaign<S: Store, C: Chip>() -> Explore<Simulated<C>, u32> {
    explore(
        Simulated::<C>::new(S::BYTES as usize),
        |mut nv, world: &World<u32>| {
            S::boot(&mut nv, |n| {
                assert!(
                    n >= world.last_acknowledged(),
                    "{n} is older than what was told"
                );
                world.acknowledge(n);
                n < 3
            });
        },
    )
    .name(S::NAME)
}

fn cuts<S: Store>() {
    let words = |depth| campaign::<S, WordNor>().depth(depth).try_run();
    let stable = |depth| campaign::<S, StableNor>().depth(depth).try_run();
    let unstable = |depth| campaign::<S, SpiNor>().depth(depth).try_run();
    for (chip, depth, result) in [
        ("words", 1, words(1)),
        ("words", 2, words(2)),
        ("stable", 1, stable(1)),
        ("stable", 2, stable(2)),
        ("unstable", 1, unstable(1)),
        ("unstable", 2, unstable(2)),
    ] {
        let survives = match result {
            Ok(summary) => {
                eprintln!("{} {chip} {depth}: {summary}", S::NAME);
                1
            }
            Err(failure) => {
                eprintln!("{} {chip} {depth}: {failure}", S::NAME);
                0
            }
        };
        println!("peer.{}.survives_{depth}_{chip} {survives}", S::NAME);
    }
}

fn main() {
    costs::<OwnRecord>();
    costs::<SequentialStorage>();
    costs::<Ekv>();
    cuts::<OwnRecord>();
    cuts::<SequentialStorage>();
    cuts::<Ekv>();
}
