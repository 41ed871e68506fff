//! The device: opens its heap, continues from the last commit, and logs.

use crate::record::{DAY, DAYS, Record, Statistics};
use nvmem::{Faithful, Medium};
use vnv_heap::collections::Chunked;
use vnv_heap::{Config, Error, Heap, OpenError, Predict, Snapshot, Unrooted};

/// Bytes of RAM for the heap.
pub const RAM: usize = 2048;

/// The heap's configuration: one object per day, and a few more.
pub const CONFIG: Config = Config {
    dirty_limit: 1024,
    objects: (DAYS + 8) as u16,
    ..Config::DEFAULT
};

/// The record's heap: after a cut it has the state of the last commit.
type Store<'h, S> = Heap<'h, Record<'h>, S, Snapshot, Predict>;

/// Provides the values and observes the commits.
pub trait Station {
    /// The heap is open and holds this many values.
    fn opened(&mut self, values: u32);
    /// The value of this hour; `None` if there is none yet.
    fn value(&mut self, hour: u32) -> Option<i16>;
    /// A commit of this many values begins.
    fn commit_begins(&mut self, values: u32);
    /// The commit is complete.
    fn commit_done(&mut self);
}

/// Why the device stopped.
#[derive(Debug)]
pub enum Stopped<E> {
    /// The heap cannot be opened.
    Open(OpenError<E>),
    /// An operation failed.
    Heap(Error<E>),
    /// The record is full.
    Full,
}

impl<E> From<Error<E>> for Stopped<E> {
    fn from(e: Error<E>) -> Self {
        Stopped::Heap(e)
    }
}

/// Logs until the station has no more values. Commits after every `every` values and at the end.
///
/// **Power loss**: committed values are safe, and the next call continues after them. **Errors**:
/// [`Stopped`].
pub fn log<S: Faithful>(
    storage: S,
    ram: &mut [u8; RAM],
    station: &mut impl Station,
    every: u32,
) -> Result<(), Stopped<S::Error>> {
    vnv_heap::brand!(b);
    let mut heap = Store::open(b, storage, ram, CONFIG, empty).map_err(Stopped::Open)?;
    let mut hour = heap.root()?.statistics.values;
    station.opened(hour);
    while let Some(value) = station.value(hour) {
        append(&heap, hour, value)?;
        hour += 1;
        if hour % every == 0 {
            station.commit_begins(hour);
            heap.commit()?;
            station.commit_done();
        }
    }
    station.commit_begins(hour);
    heap.commit()?;
    station.commit_done();
    Ok(())
}

/// An empty record with room for all values.
fn empty<'h, S: Medium>(
    heap: &Heap<'h, Unrooted, S, Snapshot, Predict>,
) -> Result<Record<'h>, Error<S::Error>> {
    Ok(Record {
        statistics: Statistics::default(),
        series: Chunked::alloc(heap, DAYS as u16, |_| Ok([0; DAY]))?,
        spare: [0; 2],
    })
}

fn append<'h, S: Medium>(
    heap: &Store<'h, S>,
    hour: u32,
    value: i16,
) -> Result<(), Stopped<S::Error>> {
    let mut root = heap.root_mut()?;
    if !root.series.set(heap, hour, value)? {
        return Err(Stopped::Full);
    }
    root.statistics.add(value);
    Ok(())
}

/// Opens the record, passes each value to `each` in order, and returns the statistics.
///
/// **Errors**: [`Stopped`].
pub fn read<S: Faithful>(
    storage: S,
    ram: &mut [u8; RAM],
    each: &mut impl FnMut(i16),
) -> Result<Statistics, Stopped<S::Error>> {
    vnv_heap::brand!(b);
    let heap = Store::open(b, storage, ram, CONFIG, empty).map_err(Stopped::Open)?;
    let root = heap.root()?;
    let mut left = root.statistics.values as usize;
    for day in 0..root.series.chunks() {
        if left == 0 {
            break;
        }
        if let Some(values) = root.series.chunk(&heap, day)? {
            values.iter().take(left).for_each(|v| each(*v));
        }
        left = left.saturating_sub(DAY);
    }
    Ok(root.statistics)
}
