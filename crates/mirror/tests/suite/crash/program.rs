//! The program of the campaigns.

use core::mem::MaybeUninit;
use nv_mirror::{Config, Mirror, MirrorError};
use nvmem::device::Medium;
use nvmem::{Persist, Ram, Region};
use pmem_tx::{PBox, Pool};
use powerfail::World;

/// What the world has seen, and the highest number that the device has begun to save.
#[derive(Clone, Hash, Debug, Default)]
pub struct Promise {
    pub seen: u32,
    pub tried: u32,
}

#[derive(Persist)]
#[repr(C)]
pub struct Item<'p> {
    n: u32,
    next: Option<PBox<'p, Item<'p>>>,
}

#[derive(Persist)]
#[repr(C)]
pub struct Node<'p> {
    count: u32,
    sum: u32,
    /// The last two numbers, the newest first.
    queue: Option<PBox<'p, Item<'p>>>,
}

/// What each number adds to the sum, which wraps in a long life.
const EACH: u32 = 0x9E37_79B9;

/// Twice the words of the image.
pub const WORDS: usize = 2 * 52;

pub type Memory = [MaybeUninit<u64>; WORDS];
pub const MEMORY: Memory = [MaybeUninit::new(0); WORDS];

pub type Nodes<'m> = Pool<'m, Node<'static>, Ram>;

/// The number of the pool, whose content is checked.
pub fn look(pool: &mut Nodes<'_>) -> u32 {
    let n = pool
        .tx(|tx, node| {
            let node = node.get(tx);
            let n = node.count;
            assert_eq!(node.sum, n.wrapping_mul(EACH), "a mixture");
            let mut at = node.queue.as_ref();
            for k in (n.saturating_sub(1).max(1)..=n).rev() {
                let item = at.expect("two numbers").get(tx);
                assert_eq!(item.n, k, "a mixture");
                at = item.next.as_ref();
            }
            assert!(at.is_none(), "two numbers");
            Ok(n)
        })
        .unwrap();
    let audit = pool.audit().unwrap();
    assert_eq!(audit.unreachable, 0);
    n
}

/// One more.
pub fn step(pool: &mut Nodes<'_>) {
    pool.tx(|tx, node| {
        let node = node.get_mut(tx)?;
        node.count += 1;
        node.sum = node.sum.wrapping_add(EACH);
        let new = Item {
            n: node.count,
            next: node.queue.take(),
        };
        node.queue = Some(PBox::new(tx, new)?);
        if let Some(first) = &mut node.queue
            && let Some(second) = &mut first.get_mut(tx)?.next
            && let Some(third) = second.get_mut(tx)?.next.take()
        {
            third.into_inner(tx)?;
        }
        Ok(())
    })
    .unwrap();
}

/// The pool in this region. Its sequence numbers wrap after seven transactions.
pub fn open_pool(region: Region<'_, Ram>) -> Nodes<'_> {
    let small = pmem_tx::Config {
        seq_bits: 3,
        ..pmem_tx::Config::SMALL
    };
    let pool = Nodes::open_with(region, &small, |_| {
        Ok(Node {
            count: 0,
            sum: 0,
            queue: None,
        })
    });
    pool.expect("only a power cut stops it")
}

/// Opens mirror and pool, checks them, and counts up to `last`. Saves after every `every`-th step.
pub fn run<D: Medium>(
    mut nv: D,
    world: &World<'_, Promise>,
    config: Config,
    last: u32,
    every: u32,
) {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let opened = Mirror::open(&mut nv, all, &config, &mut memory);
    let (mirror, region) = opened.expect("only a power cut stops it");
    count(mirror, region, world, last, every);
}

/// The same on a range that holds other data at first, saved after every step.
pub fn run_or_format<D: Medium>(mut nv: D, world: &World<'_, Promise>, config: Config, last: u32) {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let opened = Mirror::open_or_format(&mut nv, all, &config, &mut memory);
    let (mirror, region) = opened.expect("only a power cut stops it");
    count(mirror, region, world, last, 1);
}

fn count<D: Medium>(
    mut mirror: Mirror<'_, D>,
    region: Region<'_, Ram>,
    world: &World<'_, Promise>,
    last: u32,
    every: u32,
) {
    let mut pool = open_pool(region);
    let n = look(&mut pool);
    let p = world.get();
    assert!(p.seen <= n && n <= p.tried, "{n} is there, {p:?}");
    save(&mut mirror, &mut pool);
    // The device acts on this value: from here on it must not revert.
    world.set(Promise { seen: n, tried: n });
    for n in n + 1..=last {
        step(&mut pool);
        world.update(|p| p.tried = n);
        if n.is_multiple_of(every) || n == last {
            save(&mut mirror, &mut pool);
            world.update(|p| p.seen = n);
        }
    }
    assert_eq!(look(&mut pool), last.max(n));
}

fn save<D: Medium>(mirror: &mut Mirror<'_, D>, pool: &mut Nodes<'_>) {
    match mirror.durable(pool) {
        Ok(()) => {}
        Err(MirrorError::Medium(e)) => panic!("the chip refused: {e:?}"),
        Err(_) => panic!("only a power cut stops it"),
    }
}
