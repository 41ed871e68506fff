//! Owners of regions that can prove that nothing is under way in them, for crates that copy a
//! region while its owner keeps it, such as `nv-mirror`.

use crate::model::Model;
use crate::region::Region;
use core::ops::Range;

/// A region whose owner does nothing with it now. It may hold values: a reader takes their padding
/// as machine memory, by volatile loads.
#[derive(Debug, Clone)]
pub struct RestingRegion {
    /// The address of the region's first byte.
    pub base: *mut u8,
    /// Its length in bytes.
    pub len: usize,
    /// Offsets of bytes that do not matter now: if all of them were zero, the next open would find
    /// the same content. Empty while a transaction is open.
    pub scratch: Range<usize>,
}

/// A type that owns a region, such as a [`Region`] or a pool. Who has it as `&mut` knows that no
/// operation on the region is under way.
///
/// # Safety
/// While the returned borrow lives, nothing else reads or writes the region, and no reference into
/// it is used again before the owner is. `base` and `len` are those of the region. An owner whose
/// open finds other content if the bytes of `scratch` are zeros returns an empty range there.
pub unsafe trait AtRest {
    /// The region, which is at rest as long as `self` is borrowed.
    ///
    /// **Cost**: a few instructions, no store.
    fn at_rest(&mut self) -> RestingRegion;
}

// SAFETY: invariant "Sole region": nothing else uses the bytes of a region while it is borrowed
// mutably.
unsafe impl<M: Model> AtRest for Region<'_, M> {
    fn at_rest(&mut self) -> RestingRegion {
        RestingRegion {
            base: self.base(),
            len: self.len(),
            scratch: 0..0,
        }
    }
}
