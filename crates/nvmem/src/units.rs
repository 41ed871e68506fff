//! Some units of a region, for code where each instruction matters: the length is compared once.

use crate::mapped;
use crate::model::{Model, Unit};
use crate::region::Region;

/// `N` units at the start of a region. Where the compiler knows that an index is less than `N`, a
/// store is one instruction.
///
/// ```
/// # use nvmem::{InOrder32, Region, Units};
/// # let mut memory = [core::mem::MaybeUninit::new(0u64); 2];
/// # let region = Region::<InOrder32>::new(&mut memory);
/// let flags = Units::<InOrder32, 3>::new(region).ok_or("the region is too short")?;
/// flags.store(2, 7);
/// assert_eq!(flags.load(2), Some(7));
/// assert_eq!(flags.load(3), None);
/// # Ok::<(), &str>(())
/// ```
pub struct Units<'m, M, const N: usize>(Region<'m, M>);

impl<'m, M: Model, const N: usize> Units<'m, M, N> {
    /// The first units of this region. `None` if it has fewer, or if it holds typed values.
    pub fn new(region: Region<'m, M>) -> Option<Self> {
        let long_enough = region.len() / M::Unit::BYTES >= N;
        (long_enough && !region.holds_values()).then_some(Units(region))
    }

    /// The unit `index`. `None` if there is none.
    #[inline(always)]
    pub fn load(&self, index: usize) -> Option<u32> {
        if index >= N {
            return None;
        }
        // SAFETY: invariant "Inside the region": `new` has compared the length with `N`; the region
        // holds no typed values, and nothing of it is lent.
        Some(unsafe { self.0.load(index * M::Unit::BYTES) })
    }

    /// Stores the unit `index`, and fences. Nothing happens if there is none.
    ///
    /// **Power loss**: the old unit or the new one. **Cost**: one store, and a fence.
    #[inline(always)]
    pub fn store(&self, index: usize, value: u32) {
        if index >= N {
            return;
        }
        // SAFETY: invariant "Inside the region": as in `load`. Like a `Cell`, this is not `Sync`.
        unsafe { self.0.store(index * M::Unit::BYTES, value) }
        mapped::fence::<M>();
    }
}
