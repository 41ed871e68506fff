//! Two copies of a plain value, for code that counts instructions: the length is compared once.

use crate::mapped;
use crate::model::Model;
use crate::persist::Plain;
use crate::region::Region;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Two versions of a value at the start of a region, one of which counts: a unit elsewhere says
/// which. The other one is written without a look at it.
///
/// They lie as those of a cell of [`tagged::Cells`](crate::tagged::Cells), behind its word. Reading
/// them back after a boot is up to that type, or to [`Region::read_value`].
///
/// ```
/// # use nvmem::{InOrder32, Region, Units, Version, Versions};
/// # let mut memory = [core::mem::MaybeUninit::new(0u64); 3];
/// # let region = Region::<InOrder32>::new(&mut memory);
/// let (word, versions) = region.split_at(8).map_err(|(e, _)| e)?;
/// let which = Units::<InOrder32, 1>::new(word).ok_or("too short")?;
/// let versions = Versions::<InOrder32, [u32; 2]>::new(versions).ok_or("too short")?;
/// let counts = Version::FIRST;
/// versions.write(counts.other(), [3, 4]);
/// which.store(0, counts.other().bits(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Versions<'m, M, T> {
    first: NonNull<u8>,
    _region: PhantomData<Region<'m, M>>,
    _t: PhantomData<fn(T) -> T>,
}

/// One of two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(
    /// All bits are the same: then what depends on it is computed without a branch.
    usize,
);

impl Version {
    /// The first one.
    pub const FIRST: Version = Version(0);
    /// The second one.
    pub const SECOND: Version = Version(usize::MAX);

    /// The other one.
    #[inline(always)]
    pub const fn other(self) -> Version {
        Version(!self.0)
    }

    /// 0 for the first one, `second` for the second.
    #[inline(always)]
    pub const fn bits(self, second: u16) -> u32 {
        (self.0 as u16 & second) as u32
    }
}

impl<'m, M: Model, T: Plain> Versions<'m, M, T> {
    /// Bytes from a version to the next.
    const STRIDE: usize = crate::tagged::stride::<M, T>();

    /// Bytes of both.
    pub const BYTES: usize = 2 * Self::STRIDE;

    /// The versions at the start of this region. `None` if it is shorter.
    pub fn new(region: Region<'m, M>) -> Option<Self> {
        if region.len() < Self::BYTES {
            return None;
        }
        Some(Versions {
            first: NonNull::new(region.base())?,
            _region: PhantomData,
            _t: PhantomData,
        })
    }

    /// Writes a version, with zeros for its padding. It does not count yet: that the caller stores
    /// afterwards, behind a fence on a buffered medium.
    ///
    /// **Power loss**: some units of the version are new. **Cost**: the value.
    #[inline(always)]
    pub fn write(&self, version: Version, value: T) {
        let at = self.first.as_ptr().wrapping_add(version.0 & Self::STRIDE);
        mapped::lend(at, size_of::<T>());
        // SAFETY: invariants "Inside the region" and "Padding is not read": `new` has compared the
        // length, and a region and a stride are aligned; nobody borrows or reads a version, and
        // like a `Cell` this is not `Sync`; written whole, then its padding as zeros.
        unsafe {
            at.cast::<T>().write(value);
            T::clear_padding(at);
        }
        mapped::end_loan(at, size_of::<T>());
    }
}
