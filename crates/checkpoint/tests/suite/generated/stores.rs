//! The stores that a script can use.

use super::program::{HEAP, STACK, STATICS, UPDATE, UPDATES};
use checkpoint::{
    Archive, CopyIfChange, Cost, Error, Images, KeepLast, Landmarks, Log, Memory, Mode, Retention,
    Slots, Split, Store,
};
use nvmem::Medium;
use std::marker::PhantomData;

/// Cells and units of the tables of a log.
const CELLS: usize = 32;
const UNITS: usize = 64;

/// A store in all of a medium.
pub trait Layout: 'static {
    type In<D: Medium>: Store<Error = D::Error>;
    /// Whether checkpoints have names, and the program can roll back.
    const ARCHIVES: bool = false;
    /// Whether a save spares the newest checkpoint of another program.
    const SHARED: bool = true;

    fn open<D: Medium>(nv: D, build: u64, adaptive: bool) -> Result<Self::In<D>, Error<D::Error>>;

    /// The contexts and sequence numbers of its checkpoints, the newest first.
    fn list<D: Medium>(_: &mut Self::In<D>) -> Result<Vec<(u32, u32)>, Error<D::Error>> {
        Ok(vec![])
    }
    fn roll_back<D: Medium>(
        _: &mut Self::In<D>,
        _sequence: u32,
        _: &Memory<'_>,
    ) -> Result<(), Error<D::Error>> {
        unreachable!("only archives have names")
    }
    fn delete<D: Medium>(_: &mut Self::In<D>, _sequence: u32) -> Result<(), Error<D::Error>> {
        unreachable!("only archives have names")
    }
}

/// A log with cells of this size.
pub enum InLog<const CELL: usize> {}

impl<const CELL: usize> Layout for InLog<CELL> {
    type In<D: Medium> = Log<D, CELLS, UNITS, CELL>;
    const SHARED: bool = false;

    fn open<D: Medium>(nv: D, build: u64, adaptive: bool) -> Result<Self::In<D>, Error<D::Error>> {
        let all = 0..nv.capacity();
        let most = (STATICS + UPDATE * UPDATES + HEAP + STACK) as u32;
        let needed = Log::<D, CELLS, UNITS, CELL>::bytes(most);
        assert!(needed <= all.end, "{} bytes, and {needed} needed", all.end);
        let log = Log::open(nv, all, build)?;
        Ok(if adaptive {
            log.with_cost(&Cost::STM32L1)
        } else {
            log
        })
    }
}

/// So many slots for whole images of this mode.
pub struct InSlots<M, const N: usize>(PhantomData<fn() -> M>);

impl<M: Mode + Default + 'static, const N: usize> Layout for InSlots<M, N> {
    type In<D: Medium> = Slots<D, M, N>;

    fn open<D: Medium>(nv: D, build: u64, _: bool) -> Result<Self::In<D>, Error<D::Error>> {
        let all = 0..nv.capacity();
        Ok(Slots::new(Images::open(nv, all, build)?, M::default()))
    }
}

/// Which checkpoints an archive keeps.
pub enum Policy {
    Last,
    Landmarks,
}

impl Retention for Policy {
    fn victim(&self, ages: &[Option<u32>]) -> usize {
        match self {
            Policy::Last => KeepLast.victim(ages),
            Policy::Landmarks => Landmarks(2).victim(ages),
        }
    }
}

/// An archive of four checkpoints.
pub enum InArchive {}

impl Layout for InArchive {
    type In<D: Medium> = Archive<D, CopyIfChange<Split>, Policy, 4>;
    const ARCHIVES: bool = true;

    fn open<D: Medium>(nv: D, build: u64, adaptive: bool) -> Result<Self::In<D>, Error<D::Error>> {
        let all = 0..nv.capacity();
        let policy = if adaptive {
            Policy::Landmarks
        } else {
            Policy::Last
        };
        Archive::open(nv, all, build, CopyIfChange(Split), policy)
    }

    fn list<D: Medium>(a: &mut Self::In<D>) -> Result<Vec<(u32, u32)>, Error<D::Error>> {
        let entries = a.list()?.into_iter().flatten();
        Ok(entries.map(|e| (e.context, e.sequence)).collect())
    }
    fn roll_back<D: Medium>(
        a: &mut Self::In<D>,
        sequence: u32,
        memory: &Memory<'_>,
    ) -> Result<(), Error<D::Error>> {
        a.roll_back(sequence, memory)
    }
    fn delete<D: Medium>(a: &mut Self::In<D>, sequence: u32) -> Result<(), Error<D::Error>> {
        a.delete(sequence)
    }
}
