//! What the device does: it opens its heap, goes on from the last commit, and logs.

use crate::record::{DAY, DAYS, Record, Statistics};
use nvmem::{Faithful, Medium};
use vnv_heap::collections::Chunked;
use vnv_heap::{Config, Error, Heap, OpenError, Predict, Snapshot, Unrooted};

/// Bytes of RAM for the heap.
pub const RAM: usize = 2048;

/// Room for every day.
pub const CONFIG: Config = Config {
    dirty_limit: 1024,
    objects: (DAYS + 8) as u16,
    ..Config::DEFAULT
};

/// The record's heap: after any cut it is as of the last commit.
type Store<'h, S> = Heap<'h, Record<'h>, S, Snapshot, Predict>;

/// Where the values come from, and who is told.
pub trait Station {
    /// The heap is open, with so many values.
    fn opened(&mut self, values: u32);
    /// The value of this hour; `None` when there is none yet.
    fn value(&mut self, hour: u32) -> Option<i16>;
    /// A commit of so many values begins.
    fn commits(&mut self, values: u32);
    /// It is done.
    fn committed(&mut self);
}

/// Why the device stopped.
#[derive(Debug)]
pub enum Stopped<E> {
    /// The heap cannot be opened.
    Open(OpenError<E>),
    /// An operation failed.
    Heap(Error<E>),
    /// There are no more values that it has room for.
    Full,
}

impl<E> From<Error<E>> for Stopped<E> {
    fn from(e: Error<E>) -> Self {
        Stopped::Heap(e)
    }
}

/// Logs until the station has no more values, with a commit every `every` values and at the end.
///
/// **Power loss**: what is committed stays, and the next call goes on from there. **Errors**: [`Stopped`].
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
            station.commits(hour);
            heap.commit()?;
            station.committed();
        }
    }
    station.commits(hour);
    heap.commit()?;
    station.committed();
    Ok(())
}

/// A record without values, with room for all of them.
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

/// Opens what was logged, gives `each` value in order, and returns the statistics.
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
        let Some(values) = root.series.chunk(&heap, day).filter(|_| left > 0) else {
            break;
        };
        values?.iter().take(left).for_each(|v| each(*v));
        left = left.saturating_sub(DAY);
    }
    Ok(root.statistics)
}
