//! What the probes do, for any memory of a kind.

use crate::Ram;
use checkpoint::{Images, Memory, Split};
use core::cell::RefCell;
use core::convert::Infallible;
use core::ops::Range;
use critical_section::Mutex;
use nv_device::{
    Apply, AsyncDevice, AsyncRestore, Committed, Device, Devices, Members, Own, Restore, Set,
    Staged, StagedDevice, open,
};
use nv_mirror::{Config, Mirror, asynch};
use nv_replay::{
    AsyncMirroredReplay, MirroredReplay, Options, Replay, Threads, last_committed, pmem_tx,
};
use nvlist::NodePool;
use nvmem::at_rest::{AtRest, Save};
use nvmem::device::{AsyncMedium, Contract};
use nvmem::level::WearLevelled;
use nvmem::{Faithful, InOrder32, Medium, Model, Record, Region};
use pmem_tx::{Contexts, Pool, Preempted, Section, Sharing, Width};
use vnv_heap::{Heap, Own as Object, Snapshot, brand};

/// Whether it went well.
pub type Done = Option<()>;
/// A range of a flash.
pub type Area = Range<u32>;

/// All interrupts are off, or the program's own way.
pub enum Masked {}
// SAFETY: `critical_section::with` calls it once, and lets no other thread or interrupt run one.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        critical_section::with(|_| f())
    }
}
/// The model of a memory whose threads preempt each other.
pub type Preempting<M> = Preempted<M, Masked>;

/// A medium with a driver that waits.
pub struct Waits<'a, D>(pub &'a mut D);
impl<D: Medium> AsyncMedium for Waits<'_, D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.0.read(at, buf)
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        self.0.write(at, bytes)
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        self.0.erase(from, to)
    }
}

pub fn keep<D: Medium>(medium: D, area: Area) -> Done {
    let mut boots = Record::open(medium, area, 0_u32).ok()?;
    boots.set(*boots.get() + 1).ok()
}

pub async fn keep_async<D: AsyncMedium>(medium: D, area: Area) -> Done {
    let mut boots = nvmem::asynch::Record::open(medium, area, 0_u32)
        .await
        .ok()?;
    boots.set(*boots.get() + 1).await.ok()
}

pub fn transactions<M: Model<Unit: Width>>(region: Region<'_, M>) -> Done {
    let mut pool = Pool::<u32, M>::open(region, |_| Ok(0)).ok()?;
    count(&mut pool)
}

fn count<M: Model<Unit: Width>>(pool: &mut Pool<'_, u32, M>) -> Done {
    pool.tx(|tx, boots| {
        *boots.get_mut(tx)? += 1;
        Ok(())
    })
    .ok()
}

pub fn transactions_threads<M: Model<Unit: Width>>(region: Region<'_, Preempting<M>>) -> Done {
    let opened = Pool::<Contexts<(u32, u32)>, Preempting<M>>::open(region, |_| Ok((0, 0)));
    let mut pool = opened.ok()?;
    let (mut first, mut second) = pool.contexts();
    first
        .tx(|tx, n| {
            *n.get_mut(tx)? += 1;
            Ok(())
        })
        .ok()?;
    second
        .tx(|tx, n| {
            *n.get_mut(tx)? += 1;
            Ok(())
        })
        .ok()
}

pub fn transactions_mirror<D: Medium>(medium: D, area: Area, ram: &mut Ram) -> Done {
    let (mut mirror, region) =
        Mirror::open_or_format::<InOrder32>(medium, area, &Config::DEFAULT, ram).ok()?;
    let mut pool = Pool::<u32, nvmem::Ram>::open(region, |_| Ok(0)).ok()?;
    count(&mut pool)?;
    mirror.durable(&mut pool).ok()
}

pub async fn transactions_mirror_async<D: AsyncMedium>(
    medium: D,
    area: Area,
    ram: &mut Ram,
) -> Done {
    let opened =
        asynch::Mirror::open_or_format::<InOrder32>(medium, area, &Config::DEFAULT, ram).await;
    let (mut mirror, region) = opened.ok()?;
    let mut pool = Pool::<u32, nvmem::Ram>::open(region, |_| Ok(0)).ok()?;
    count(&mut pool)?;
    mirror.durable(&mut pool).await.ok()
}

macro_rules! steps {
    ($rt:expr) => {
        $rt.each(0..3, |rt, i| {
            rt.step(i, |tx, sum, i| {
                *sum.get_mut(tx)? += i;
                Ok(())
            })?;
            Ok(())
        })
        .ok()
    };
}
macro_rules! steps_async {
    ($rt:expr) => {
        $rt.each_async(0..3, async |rt, i| {
            let x = rt.input_async(async |_| i).await?;
            rt.step(x, |tx, sum, x| {
                *sum.get_mut(tx)? += x;
                Ok(())
            })?;
            Ok(())
        })
        .await
        .ok()
    };
}

pub fn program<M: Model<Unit: Width>>(region: Region<'_, M>) -> Done {
    let mut rt = Replay::<u32, M>::open(region, Options::default(), |_| Ok(0)).ok()?;
    steps!(rt)
}

pub async fn program_async<M: Model<Unit: Width>>(region: Region<'_, M>) -> Done {
    let mut rt = Replay::<u32, M>::open(region, Options::default(), |_| Ok(0)).ok()?;
    steps_async!(rt)
}

type Two = Sharing<(u8,), Contexts<(u32, u32)>>;
const TABLE: nv_replay::Config = nv_replay::Config::SMALL;

pub fn program_threads<M: Model<Unit: Width>>(region: Region<'_, Preempting<M>>) -> Done {
    let opened = Threads::<Two, Preempting<M>>::open(region, TABLE, None, |_| Ok(((0,), (0, 0))));
    let mut threads = opened.ok()?;
    let ((first, second), _) = threads.share().ok()?;
    steps!(first.open(Options::default()).ok()?)?;
    steps!(second.open(Options::default()).ok()?)
}

pub fn program_mirror<D: Medium>(medium: D, area: Area, ram: &mut Ram) -> Done {
    let (mirror, region) =
        Mirror::open_or_format::<InOrder32>(medium, area, &Config::DEFAULT, ram).ok()?;
    let mut rt = MirroredReplay::<u32, Mirror<'_, D>, InOrder32, ()>::open_mirrored(
        region,
        mirror,
        Options::default(),
        (),
        |_| Ok(0),
    )
    .ok()?;
    steps!(rt)?;
    rt.durable().ok()
}

pub async fn program_mirror_async<D: AsyncMedium>(medium: D, area: Area, ram: &mut Ram) -> Done {
    let opened =
        asynch::Mirror::open_or_format::<InOrder32>(medium, area, &Config::DEFAULT, ram).await;
    let (mirror, region) = opened.ok()?;
    type Rt<'m, D> = AsyncMirroredReplay<'m, u32, asynch::Mirror<'m, D>, InOrder32, ()>;
    let mut rt =
        Rt::<D>::open_mirrored_async(region, mirror, Options::default(), (), |_| Ok(0)).ok()?;
    steps_async!(rt)?;
    rt.durable_async().await.ok()
}

/// A saver that threads share. A product takes the mutex of its kernel, which lets others run.
struct Locked<'l, S>(&'l Mutex<RefCell<S>>);
impl<S: Save> Save for Locked<'_, S> {
    type Error = S::Error;
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        critical_section::with(|cs| self.0.borrow(cs).borrow_mut().committed(owner))
    }
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        critical_section::with(|cs| self.0.borrow(cs).borrow_mut().durable_if_due(owner))
    }
    fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        critical_section::with(|cs| self.0.borrow(cs).borrow_mut().durable(owner))
    }
}

pub fn program_mirror_threads<D: Medium>(medium: D, area: Area, ram: &mut Ram) -> Done {
    type M = Preempting<InOrder32>;
    let (mirror, region) = Mirror::open_or_format::<M>(medium, area, &Config::DEFAULT, ram).ok()?;
    let mirror = Mutex::new(RefCell::new(mirror));
    let mut threads =
        Threads::<Two, nvmem::Ram<M>>::open(region, TABLE, None, |_| Ok(((0,), (0, 0)))).ok()?;
    let ((first, second), _) = threads.share().ok()?;
    for_each(
        first
            .open_mirrored(Locked(&mirror), Options::default(), ())
            .ok()?,
    )?;
    for_each(
        second
            .open_mirrored(Locked(&mirror), Options::default(), ())
            .ok()?,
    )
}

fn for_each<S: Save>(
    mut rt: nv_replay::MirroredThread<'_, u32, S, Preempting<InOrder32>, ()>,
) -> Done {
    steps!(rt)?;
    rt.durable().ok()
}

pub fn lists<M: Model>(region: Region<'_, M>) -> Done {
    let mut pool = NodePool::<u32, 2, M>::open(region).ok()?;
    pool.with(|mut lists, [first, _]| lists.push_back(first, 1).ok().map(drop))
}

pub fn lists_threads<M: Model>(region: Region<'_, M>) -> Done {
    let shared = nvlist::Shared::new(NodePool::<u32, 2, M>::open(region).ok()?);
    critical_section::with(|cs| {
        let push = shared.with(cs, |mut lists, [first, _]| {
            lists.push_back(first, 1).is_ok()
        });
        push.ok().map(drop)
    })
}

pub fn lists_mirror<D: Medium>(medium: D, area: Area, ram: &mut Ram) -> Done {
    let (mut mirror, region) =
        Mirror::open_or_format::<InOrder32>(medium, area, &Config::DEFAULT, ram).ok()?;
    let mut pool = NodePool::<u32, 2, nvmem::Ram>::open(region).ok()?;
    pool.with(|mut lists, [first, _]| lists.push_back(first, 1).ok().map(drop))?;
    mirror.durable(&mut pool).ok()
}

type Root<'h> = Option<Object<'h, u32>>;

pub fn heap<D: Faithful>(medium: D, ram: &mut [u8]) -> Done {
    brand!(b);
    let opened =
        Heap::<Root<'_>, D, Snapshot>::open(b, medium, ram, vnv_heap::Config::DEFAULT, |_| {
            Ok(None)
        });
    let mut heap = opened.ok()?;
    let object = heap.alloc(1).ok()?;
    *heap.root_mut().ok()? = Some(object);
    heap.commit().ok()
}

pub fn heap_levelled<D: Faithful>(flash: D, table: &mut [u16], ram: &mut [u8]) -> Done {
    heap(WearLevelled::<_, 248>::open(flash, table).ok()?, ram)
}

pub fn image<D: Medium>(medium: D, area: Area) -> Done {
    let mut images = Images::<_, 2>::open(medium, area, 1).ok()?;
    let (mut statics, mut heap, mut stack) = ([0; 64], [0; 64], [0; 64]);
    let mut memory = Memory::new(&mut statics, &mut heap, &mut stack);
    let context = images.restore(&mut memory).map_or(0, |r| r.context);
    images
        .checkpoint(&Split, &memory, context + 1)
        .ok()
        .map(drop)
}

/// A driver.
pub struct Lamp(u8);
impl Restore for Lamp {
    type Context = u8;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), lit: &u8) -> Result<Self, Infallible> {
        Ok(Lamp(*lit))
    }
    fn apply(&mut self, lit: &u8) -> Result<Apply, Infallible> {
        self.0 = *lit;
        Ok(Apply::Done)
    }
}

/// One that waits.
pub struct Radio(u8);
impl AsyncRestore for Radio {
    type Context = u8;
    type Parts = ();
    type Error = Infallible;
    async fn restore(_: &mut (), channel: &u8) -> Result<Self, Infallible> {
        Ok(Radio(*channel))
    }
}

struct Node<'m, M: Model>(StagedDevice<'m, Lamp, M>);
impl<M: Model> Devices for Node<'_, M> {
    fn list(&self) -> impl Members {
        (&self.0,)
    }
}

pub fn devices<M: Model<Unit: Width>>(region: Region<'_, M>) -> Done {
    let (contexts, rest) = region.split_at(256).ok()?;
    let number = last_committed(&rest).ok()?;
    let committed = Committed::of(number, &nv_replay::Config::DEFAULT);
    let (own, staged) = open::<(Own<u8>, Staged<u8>), _>(contexts, committed, (0, 0)).ok()?;
    let mut lamp = Device::<Lamp, _>::eager(own, ()).ok()?;
    lamp.change(1, |lit, lamp| *lit ^= lamp).ok()?;
    let set = Set::new(Node(StagedDevice::new(staged, ())));
    let mut rt = Replay::<u32, M>::open(rest, Options::default(), |_| Ok(0)).ok()?;
    rt.step_with(&set, (), |step, _, ()| {
        Ok(step.token().0.change(step, |lit| *lit ^= 1)?)
    })
    .ok()
}

pub async fn devices_async<M: Model>(region: Region<'_, M>) -> Done {
    let (own,) = open::<(Own<u8>,), _>(region, Committed::NOTHING, (0,)).ok()?;
    let mut radio = AsyncDevice::<Radio, _>::new(own, ());
    let called = radio.at_least_once(3, async |radio, by: u8| {
        radio.driver().0 += by;
        Ok(())
    });
    called.await.ok()
}

macro_rules! kernel {
    ($name:ident, $model:ty) => {
        pub mod $name {
            use super::*;
            use nv_rtos::{Error, Thread};

            type Model = Preempting<$model>;
            nv_rtos::system! {
                /// Two threads and a queue.
                pub Plan on Model;
                table { bytes: 64, outbox_bytes: 0, seq_bits: 8 }
                objects { VALUES: Queue<u32, 4>; }
                threads {
                    source(u32 = 0): 1;
                    sink(u32 = 0): 2;
                }
            }

            /// A thread's program.
            pub fn source(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
                th.each_step(0..9, (), |sys, _, i, ()| VALUES.send(sys, i))
            }

            pub fn open(region: Region<'_, Model>) -> Done {
                let (kernel, mut threads) = Plan::open(region).ok()?;
                let _places = threads.share().ok()?;
                // A port spawns them: `Plan::spawn(&kernel, places, machine, source, …)`.
                let _: fn(&mut Thread<Plan, u32>) -> _ = source;
                kernel.ended(Plan::sink().number()).map(drop)
            }

            /// A step of a thread that uses a device and a queue.
            fn lights(
                th: &mut Thread<Plan, u32>,
                set: &mut Set<Node<'_, Model>>,
            ) -> Result<(), Error> {
                th.each_step_with(set, 0..9, (), |step, n, _, ()| {
                    *n.get_mut(step)? += VALUES.receive(&step.inner())?;
                    Ok(step.token().0.change(step, |lit| *lit ^= 1)?)
                })
            }

            pub fn devices(region: Region<'_, Model>) -> Done {
                let (contexts, rest) = region.split_at(256).ok()?;
                let (kernel, mut threads) = Plan::open(rest).ok()?;
                let committed = Committed::of_thread(&threads, Plan::sink()).ok()?;
                let (lit,) = nv_device::open::<(Staged<u8>,), _>(contexts, committed, (0,)).ok()?;
                let node = Node(StagedDevice::eager(lit, ()).ok()?);
                let set = Set::new(node);
                let _places = threads.share().ok()?;
                // A port spawns it: `Plan::spawn(&kernel, places, machine, source, |th| …)`.
                let _: fn(&mut Thread<Plan, u32>, &mut Set<Node<'_, Model>>) -> _ = lights;
                let _ = (kernel, set);
                Some(())
            }
        }
    };
}
kernel!(kernel16, nvmem::InOrder16);
kernel!(kernel32, nvmem::InOrder32);
