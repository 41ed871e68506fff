//! What a boot does on any machine: it opens mirror and node, and gives each task its runtime.

use crate::{Averaged, Drivers, Links, Node, REGION, Radioed, Sensed, open};
use core::mem::MaybeUninit;
use core::ops::Range;
use embassy_time::{Instant, Timer};
use nv_mirror::asynch::Mirror;
use nv_mirror::{Config, Durability, MirrorError};
use nv_replay::nvmem::InOrder32;
use nv_replay::nvmem::at_rest::SharedSaver;
use nv_replay::nvmem::device::AsyncMedium;
use nv_replay::{AsyncMirroredThread, Clock, OpenError, Options};
use static_cell::{ConstStaticCell, StaticCell};

/// Words of the mirror's memory: the region and its shadow.
const WORDS: usize = 2 * REGION / 8;

/// Each commit is saved, and a save covers the commits of all tasks.
const CONFIG: Config = Config {
    durability: Durability::EachCommit,
    ..Config::DEFAULT
};

type Saver<D> = SharedSaver<Mirror<'static, D>>;

/// The runtime of a task on a station `S`, over a mirror on a medium `D`.
pub type Runtime<R, S, D> =
    AsyncMirroredThread<'static, R, &'static Saver<D>, InOrder32, Drivers<'static, S>>;

/// The runtimes of the three tasks.
pub struct Booted<S: 'static, D: AsyncMedium + 'static> {
    /// For [`sensor`](crate::sensor).
    pub sensor: Runtime<Sensed, S, D>,
    /// For [`average`](crate::average).
    pub average: Runtime<Averaged, S, D>,
    /// For [`radio`](crate::radio).
    pub radio: Runtime<Radioed, S, D>,
}

/// Why a node cannot boot.
#[derive(Debug)]
pub enum Refused<E> {
    /// The mirror's error.
    Mirror(MirrorError<E>),
    /// The runtime's error.
    Node(OpenError),
}

impl<E> From<MirrorError<E>> for Refused<E> {
    fn from(e: MirrorError<E>) -> Self {
        Refused::Mirror(e)
    }
}

impl<E> From<OpenError> for Refused<E> {
    fn from(e: OpenError) -> Self {
        Refused::Node(e)
    }
}

/// RAM that the tasks of a boot refer to until the reset: a `static` on a board.
pub struct Memory<D: AsyncMedium + 'static> {
    region: ConstStaticCell<[MaybeUninit<u64>; WORDS]>,
    saver: StaticCell<Saver<D>>,
    node: StaticCell<Node<'static>>,
    links: StaticCell<Links<'static>>,
}

impl<D: AsyncMedium> Memory<D> {
    /// Memory before a boot.
    pub const fn new() -> Self {
        Memory {
            region: ConstStaticCell::new([MaybeUninit::uninit(); WORDS]),
            saver: StaticCell::new(),
            node: StaticCell::new(),
            links: StaticCell::new(),
        }
    }

    /// Bytes of the medium that suit the node.
    pub const RANGE: u32 = CONFIG.range_bytes(REGION as u32, &D::CONTRACT);

    /// Opens the node on `range` of the medium. A range that was never formatted is formatted.
    ///
    /// **Panics** the second time. **Errors**: those of [`Mirror::open_or_format`] and of the
    /// runtimes.
    pub async fn boot<S>(
        &'static self,
        medium: D,
        range: Range<u32>,
        station: &'static S,
    ) -> Result<Booted<S, D>, Refused<D::Error>> {
        let region = self.region.take();
        let (mirror, region) =
            Mirror::open_or_format::<InOrder32>(medium, range, &CONFIG, region).await?;
        let saver: &'static _ = self.saver.init(SharedSaver::new(mirror));
        let node = open(region).map_err(|refused| refused.error)?;
        let ((sensor, average, radio), (board,)) = self.node.init(node).share()?;
        let drivers = Drivers {
            station,
            links: self.links.init(Links::new(board)),
        };
        Ok(Booted {
            sensor: sensor.open_mirrored_async(saver, Options::default(), drivers)?,
            average: average.open_mirrored_async(saver, Options::default(), drivers)?,
            radio: radio.open_mirrored_async(saver, Options::default(), drivers)?,
        })
    }
}

impl<D: AsyncMedium> Default for Memory<D> {
    fn default() -> Self {
        Self::new()
    }
}

/// embassy's clock in milliseconds, on a board without a battery: it begins anew in each boot.
#[derive(Clone, Copy)]
pub struct Uptime;

impl Clock for Uptime {
    const SURVIVES: bool = false;
    fn now(&mut self) -> u64 {
        Instant::now().as_millis()
    }
    async fn until(&mut self, at: u64) {
        Timer::at(Instant::from_millis(at)).await
    }
}
