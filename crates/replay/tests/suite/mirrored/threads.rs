//! Threads that preempt each other over one mirror: each cut, at each schedule with one preemption.
//!
//! ```text
//!  logger  line, line    \                           .- lock -.
//!                         >-- pool in RAM -- save -->| mirror |--> medium
//!  meter   value, line   /    copied with            '--------'    written with
//!                             interrupts off                       interrupts on
//! ```
//!
//! A thread is preempted before each store to RAM, between the copy of a save and its writes, and
//! before each operation of the medium. So the other one commits while a save is under way, and a
//! save finds the other one's transaction open. The receiver checks that no message is lost and
//! that none comes again with other content.

use super::media::{HalfPages, config};
use core::cell::{Cell, RefCell, RefMut};
use core::mem::MaybeUninit;
use nv_mirror::{Config, Durability, Mirror};
use nv_replay::nvmem::at_rest::{AtRest, Save};
use nv_replay::nvmem::device::{Contract, Medium};
use nv_replay::nvmem::{InOrder32, Ram};
use nv_replay::pmem_tx::{self, Contexts, Preempted, Section, Shared, Sharing};
use nv_replay::{Error, Message, MirroredThread, NotNow, Options, Outlet, Port, Threads};
use powerfail::{Mram16, Simulated, SpiFram, World, explore_with, masked};

pub enum Masked {}
// SAFETY: the kit preempts nothing inside of `masked`, and there is one thread of the host.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        masked(f)
    }
}
type M = Preempted<InOrder32, Masked>;

/// A medium before whose operations another thread may run.
struct Interruptible<D>(D);

/// The kit preempts at the end of a critical section.
fn preemption_point() {
    masked(|| {});
}

impl<D: Medium> Medium for Interruptible<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.0.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        preemption_point();
        self.0.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        preemption_point();
        self.0.erase(from, to)
    }
    fn flush(&mut self) -> Result<(), D::Error> {
        preemption_point();
        self.0.flush()
    }
}

/// The mutex of what threads share: who finds it taken lets the others run.
struct Lock<T>(RefCell<T>);

impl<T> Lock<T> {
    fn lock(&self, wait: &dyn Fn()) -> RefMut<'_, T> {
        loop {
            match self.0.try_borrow_mut() {
                Ok(taken) => return taken,
                Err(_) => wait(),
            }
        }
    }
}

/// The mirror behind the mutex of this program.
struct Saver<'t, S> {
    mirror: &'t Lock<S>,
    wait: &'t dyn Fn(),
}

impl<S: Save> Save for Saver<'_, S> {
    type Error = S::Error;
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.mirror.lock(self.wait).committed(owner)
    }
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.mirror.lock(self.wait).durable_if_due(owner)
    }
    fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.mirror.lock(self.wait).durable(owner)
    }
}

/// Which message of the thread it is, the number of its line in the log or 0, and what was read.
type Line = [u16; 3];
static PORTS: [Port<Line>; 2] = [Port::new(1), Port::new(2)];

/// What is outside of the device.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
struct Air {
    /// How often the sensor was read.
    reads: u16,
    /// The messages of each thread, by their number.
    received: [Vec<Line>; 2],
}

struct Radio<'t, 'r> {
    me: usize,
    world: &'t World<'r, Air>,
}

impl Outlet for Radio<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let (me, number) = (self.me, m.number as usize);
        let line = m.get(&PORTS[me]).expect("its port").expect("a line");
        self.world.update(|air| match air.received[me].get(number) {
            Some(known) => assert_eq!(*known, line, "another message {number} of {me}"),
            None => {
                assert_eq!(number, air.received[me].len(), "a message is missing");
                air.received[me].push(line);
            }
        });
        Ok(())
    }
}

/// The log counts its lines, and each thread its messages.
type Roots = Sharing<(u32,), Contexts<(u32, u32)>>;
type Key<'c> = Shared<'c, u32, u32>;
type One<'c, 't, 'r, S> = MirroredThread<'c, u32, Saver<'t, S>, M, Radio<'t, 'r>>;

/// Enters a line in the log, and sends it.
fn log<S: Save>(
    rt: &mut One<'_, '_, '_, S>,
    read: u16,
    key: &Lock<Key<'_>>,
    wait: &dyn Fn(),
) -> Result<(), Error> {
    let me = rt.env().me as u16;
    let key = &mut *key.lock(wait);
    rt.step((key, me, read), |tx, sent, (mut log, me, read)| {
        *sent.get_mut(tx)? += 1;
        *log.get_mut(tx)? += 1;
        let line = [*sent.get(tx) as u16, *log.get(tx) as u16, read];
        tx.send(&PORTS[usize::from(me)], line)
    })
    .map_err(|failed| failed.error)
}

/// Reads a sensor, which never shows the same twice, sends that, and logs a line.
fn meter<S: Save>(
    rt: &mut One<'_, '_, '_, S>,
    key: &Lock<Key<'_>>,
    wait: &dyn Fn(),
) -> Result<(), Error> {
    let world = rt.env().world;
    let read = rt.record_with(|| {
        world.update(|air| air.reads += 1);
        world.with(|air| air.reads)
    })?;
    rt.step(read, |tx, sent, read| {
        *sent.get_mut(tx)? += 1;
        tx.send(&PORTS[1], [*sent.get(tx) as u16, 0, read])
    })
    .map_err(|failed| failed.error)?;
    log(rt, read, key, wait)
}

const WORDS: usize = 2 * 104;

fn life<D: Medium>(nv: D, world: &World<'_, Air>, config: &Config) {
    let all = 0..nv.capacity();
    let mut memory = [MaybeUninit::new(0); WORDS];
    let opened = Mirror::open::<M>(Interruptible(nv), all, config, &mut memory);
    let (mirror, region) = opened.expect("only a power cut stops it");
    let mirror = &Lock(RefCell::new(mirror));
    let table = nv_replay::Config {
        bytes: 56,
        outbox_bytes: 24,
        seq_bits: 4,
    };
    let pool = pmem_tx::Config {
        journal_entries: 4,
        journal_bytes: 32,
        seq_bits: 4,
    };
    let opened = Threads::<Roots, Ram<M>>::open(region, table, Some(pool), |_| Ok(((0,), (0, 0))));
    let mut threads = opened.unwrap_or_else(|r| panic!("open: {r}"));
    {
        let ((one, two), (key,)) = threads.share().unwrap();
        let key = &Lock(RefCell::new(key));
        let ended = &Cell::new(0);
        world.threads(|t| {
            t.spawn("logger", 0, move || {
                let wait: &dyn Fn() = &|| t.yield_now();
                let radio = Radio { me: 0, world };
                let rt = one.open_mirrored(Saver { mirror, wait }, Options::default(), radio);
                let mut rt = rt.unwrap();
                log(&mut rt, 0, key, wait).unwrap();
                log(&mut rt, 0, key, wait).unwrap();
                rt.durable().unwrap();
                ended.set(ended.get() + 1);
            });
            t.spawn("meter", 0, move || {
                let wait: &dyn Fn() = &|| t.yield_now();
                let radio = Radio { me: 1, world };
                let rt = two.open_mirrored(Saver { mirror, wait }, Options::default(), radio);
                let mut rt = rt.unwrap();
                meter(&mut rt, key, wait).unwrap();
                rt.durable().unwrap();
                ended.set(ended.get() + 1);
            });
        });
        assert_eq!(ended.get(), 2);
    }
    let audit = threads.audit().unwrap();
    assert_eq!(audit.unreachable, 0, "{audit:?}");
    let air = world.get();
    let mut lines: Vec<_> = air.received.iter().flatten().map(|line| line[1]).collect();
    lines.sort_unstable();
    assert_eq!(lines, [0, 1, 2, 3], "{air:?}");
    let [_, [value, line]] = &air.received.each_ref().map(|of| of.as_slice()) else {
        panic!("{air:?}");
    };
    assert_eq!(value[2], line[2], "one reading");
}

/// Whether this is a long run, in which no state is left out.
fn is_long() -> bool {
    std::env::var("POWERFAIL_SAMPLE").is_ok_and(|s| s == "all")
}

macro_rules! campaign {
    ($media:expr, $config:expr, $least:literal) => {{
        let s = explore_with($config, $media, |nv, w: &World<'_, Air>, config| {
            life(nv, w, config)
        })
        .depth(1)
        .preemptions(1)
        .sample(8)
        .one_in(4)
        .run();
        println!("{}: {s}", stringify!($media, $config));
        assert!(s.partial || s.cuts > $least && s.points > 100, "{s}");
    }};
}

const OUTPUT: Durability = Durability::BeforeOutput;
const EACH: Durability = Durability::EachCommit;

#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn preempted_over_fram() {
    let media = || Simulated::<SpiFram>::new(2 * 3072);
    campaign!(media(), config(2, OUTPUT), 10_000);
    if is_long() {
        campaign!(media(), config(2, EACH), 10_000);
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn preempted_over_mram() {
    let media = || Simulated::<Mram16>::new(2 * 3072);
    campaign!(media(), config(2, Durability::Every(2)), 1000);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn preempted_over_flash() {
    let media = || Simulated::<HalfPages>::new(3 * 2304).refusal_fails();
    campaign!(media(), config(3, OUTPUT), 1000);
}
