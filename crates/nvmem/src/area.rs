//! Values in a region whose length is a constant, for code where each instruction matters.

use crate::device::Misuse;
use crate::model::{Model, Unit};
use crate::persist::Plain;
use crate::region::{Region, fits};
use core::marker::PhantomData;

/// How long an [`Area`] is.
pub trait AreaLength {
    /// Its bytes.
    const BYTES: usize;
}

/// The first bytes of a region, as many as `L` says. The length is compared once, so later checks
/// of an offset compare it with a constant.
///
/// ```
/// # use nvmem::{Area, AreaLength, InOrder32, Region};
/// # let mut memory = [core::mem::MaybeUninit::new(0u64); 2];
/// # let region = Region::<InOrder32>::new(&mut memory);
/// struct Readings;
/// impl AreaLength for Readings {
///     const BYTES: usize = 12;
/// }
/// let mut readings = Area::<InOrder32, Readings>::new(region).ok_or("the region is too short")?;
/// readings.write_value(4, &[7u32, 8]).unwrap();
/// assert_eq!(readings.read_value(8), Some(8u32));
/// assert_eq!(readings.read_value::<[u32; 2]>(8), None);
/// # Ok::<(), &str>(())
/// ```
pub struct Area<'m, M, L> {
    region: Region<'m, M>,
    _l: PhantomData<fn() -> L>,
}

impl<'m, M: Model, L: AreaLength> Area<'m, M, L> {
    /// `None` if the region is shorter, or holds typed values.
    pub fn new(region: Region<'m, M>) -> Option<Self> {
        let fits = region.len() >= L::BYTES && !region.holds_values();
        fits.then_some(Area {
            region,
            _l: PhantomData,
        })
    }

    /// [`Region::write_value`]. **Power loss**, **Cost**, **Errors**: as there.
    #[inline]
    pub fn write_value<T: Plain>(&mut self, at: usize, value: &T) -> Result<(), Misuse> {
        if !at.is_multiple_of(M::Unit::BYTES) {
            return Err(Misuse::Misaligned);
        }
        if !fits::<T, M>(at, L::BYTES) {
            return Err(Misuse::OutOfRange);
        }
        // SAFETY: invariant "Inside the region": inside of `L::BYTES`, which `new` has compared
        // with the length; no part of it is ever lent.
        unsafe { self.region.write_inside(at, value) }
        Ok(())
    }

    /// [`Region::read_value`].
    #[inline]
    pub fn read_value<T: Plain>(&self, at: usize) -> Option<T> {
        if !at.is_multiple_of(M::Unit::BYTES) || !fits::<T, M>(at, L::BYTES) {
            return None;
        }
        // SAFETY: invariant "Inside the region": as above. A region without typed values is read as
        // bytes.
        unsafe { self.region.read_inside(at) }
    }
}
