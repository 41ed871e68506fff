//! A list operation and a transaction commit in one step: their regions lie in one mirror.

use super::media::{HalfPages, config};
use super::node::receive;
use super::node::{Outside, PORT, W};
use core::mem::MaybeUninit;
use nv_mirror::{Config, Durability, Mirror};
use nv_replay::nvmem::at_rest::{Beside, Save};
use nv_replay::nvmem::device::Medium;
use nv_replay::nvmem::ram::RamFram;
use nv_replay::nvmem::{InOrder32, Ram, Region};
use nv_replay::{Error, Message, MirroredReplay, NotNow, Options, Outlet, last_committed, pmem_tx};
use nvlist::NodePool;
use powerfail::{Mram16, Simulated, SpiFram, explore_with};

/// The bytes of the lists.
const LISTS: usize = 192;
const WORDS: usize = 2 * 112;

struct Sink<'a, 'r>(&'a W<'r>);
impl Outlet for Sink<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let v = m.get(&PORT).expect("the port").expect("a number");
        receive(self.0, m.number, v);
        Ok(())
    }
}

type Rt<'m, 'a, 'r, S> = MirroredReplay<'m, u32, S, InOrder32, Sink<'a, 'r>>;

/// Opens lists and runtime, and appends numbers. Each is sent.
fn program<S: Save>(lists: Region<'_, Ram>, table: Region<'_, Ram>, saver: S, world: &W<'_>) {
    let number = last_committed(&table).expect("a table");
    let mut pool = NodePool::<u32, 2, Ram>::open_resolved(lists, 1, |_| number)
        .map_err(|refused| refused.error)
        .expect("the lists are whole");
    let options = Options {
        table: nv_replay::Config {
            bytes: 96,
            outbox_bytes: 16,
            // Sequence numbers wrap.
            seq_bits: 4,
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    let mut rt = Rt::open_mirrored(table, saver, options, Sink(world), |_| Ok(0))
        .map_err(|refused| refused.error)
        .unwrap();
    for k in 1..4u32 {
        rt.step_join(
            k,
            |tx, n, k| {
                *n.get_mut(tx)? += k;
                tx.send(&PORT, *n.get(tx))?;
                Ok(*n.get(tx))
            },
            |n, commit| {
                pool.with(|mut lists, [first, _]| {
                    let node = lists.alloc(*n).map_err(|_| Error::Aborted(1))?;
                    let context = lists.context(0).ok_or(Error::Aborted(2))?;
                    let staged =
                        lists.stage_back(context.stage_seq(commit.number()).unwrap(), first, node);
                    let done = commit.store();
                    staged.committed();
                    Ok(done)
                })
            },
        )
        .map_err(Error::from)
        .unwrap();
    }
    // Moves one node, and counts it.
    rt.step_join(
        (),
        |tx, n, ()| {
            *n.get_mut(tx)? += 100;
            tx.send(&PORT, *n.get(tx))
        },
        |(), commit| {
            pool.with(|mut lists, [first, second]| {
                let context = lists.context(0).ok_or(Error::Aborted(2))?;
                let number = context.stage_seq(commit.number()).unwrap();
                let staged = lists.cursor_front(first).stage_shift_back(number, second);
                let done = commit.store();
                if let Some(staged) = staged {
                    staged.committed();
                }
                Ok(done)
            })
        },
    )
    .unwrap();
    rt.durable().unwrap();
    let found = pool.with(|lists, all| all.map(|l| lists.iter(l).copied().collect::<Vec<u32>>()));
    assert_eq!(found, [vec![3, 6], vec![1]]);
    let audit = pool.audit().unwrap();
    assert_eq!(audit.linked, 3, "{audit:?}");
    assert_eq!(world.get().received, [1, 3, 6, 106]);
}

/// Both in one mirror.
fn together<D: Medium>(mut nv: D, world: &W<'_>, config: &Config) {
    let all = 0..nv.capacity();
    let mut memory = [MaybeUninit::new(0); WORDS];
    let (mirror, region) =
        Mirror::open(&mut nv, all, config, &mut memory).expect("only a power cut stops it");
    let (lists, table) = region.split_at(LISTS).ok().unwrap();
    // SAFETY: the lists lie before the table, in one region; `pool.with` has returned whenever the
    // runtime saves.
    let saver = unsafe { Beside::new(mirror, LISTS, 0) };
    program(lists, table, saver, world);
}

/// The lists in a mirror of their own, which is saved when the program is at an end: so they are
/// not part of the runtime's saves.
fn apart<D: Medium>(nv: &mut D, world: &W<'_>, config: &Config)
where
    for<'a> &'a mut D: Medium,
{
    let half = nv.capacity() / 2;
    let mut memory = [[MaybeUninit::new(0); WORDS]; 2];
    let [first, second] = &mut memory;
    let shared = core::cell::RefCell::new(nv);
    let lent = || Lent(&shared);
    let (mut beside, lists) = Mirror::open(lent(), 0..half, config, first).unwrap();
    let (mirror, table) = Mirror::open(lent(), half..2 * half, config, second).unwrap();
    let (base, len) = (lists.base(), lists.len());
    program(lists, table, mirror, world);
    // SAFETY: the region of the lists, whose owner is gone.
    let mut lists = unsafe { Region::<Ram>::from_raw(base, base.add(len)) }.unwrap();
    beside.durable(&mut lists).unwrap();
}

/// One chip for two mirrors.
struct Lent<'a, D>(&'a core::cell::RefCell<&'a mut D>);
impl<D: Medium> Medium for Lent<'_, D> {
    type Error = D::Error;
    const CONTRACT: nv_replay::nvmem::device::Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.borrow().capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.0.borrow_mut().read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        self.0.borrow_mut().write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        self.0.borrow_mut().erase(from, to)
    }
    fn flush(&mut self) -> Result<(), D::Error> {
        self.0.borrow_mut().flush()
    }
}

macro_rules! campaign {
    ($media:expr, $config:expr, depth $depth:literal) => {{
        let s = explore_with($config, $media, |nv, world: &W<'_>, config: &Config| {
            together(nv, world, config)
        })
        .world(Outside::default())
        .depth($depth)
        .max_depth($depth)
        .sample(8)
        .run();
        println!("{}: {s}", stringify!($media, $config));
        assert!(s.partial || s.cuts > 100, "{s}");
    }};
}

const EACH: Durability = Durability::EachCommit;
const OUTPUT: Durability = Durability::BeforeOutput;

#[test]
fn in_one_mirror() {
    campaign!(Simulated::<SpiFram>::new(2 * 2700), config(2, OUTPUT), depth 2);
    campaign!(Simulated::<Mram16>::new(2 * 2720), config(2, EACH), depth 2);
    campaign!(Simulated::<HalfPages>::new(3 * 4608).refusal_fails(), config(3, OUTPUT), depth 2);
}

/// The reason for the rule: what is joined by a number, but saved by itself, is torn apart.
#[test]
fn in_two_mirrors_fails() {
    let campaign = |depth| {
        explore_with(
            config(2, OUTPUT),
            Simulated::<SpiFram>::new(4 * 2700),
            |mut nv, world: &W<'_>, config: &Config| apart(&mut nv, world, config),
        )
        .world(Outside::default())
        .depth(depth)
        .max_depth(depth)
        .try_run()
    };
    campaign(0).unwrap();
    campaign(1).unwrap_err();
}

/// Lists alone in a mirror.
#[test]
fn lists_alone() {
    let mut chip = RamFram::<4096>::filled(0);
    for boot in 0..3 {
        let mut memory = [MaybeUninit::new(0); 2 * 32];
        let (mut mirror, region) =
            Mirror::open(&mut chip, 0..4096, &config(2, OUTPUT), &mut memory).unwrap();
        let pool = NodePool::<u32, 1, Ram>::open(region);
        let mut pool = pool.map_err(|refused| refused.error).unwrap();
        let found = pool.with(|mut lists, [list]| {
            let found: Vec<u32> = lists.iter(list).copied().collect();
            lists.push_back(list, boot).unwrap();
            found
        });
        assert_eq!(found, (0..boot).collect::<Vec<_>>());
        mirror.durable(&mut pool).unwrap();
    }
}
