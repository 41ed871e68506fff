//! An open pool without its types: links, records, and nothing that allocates or checks.
//!
//! **Links are checked**: every link that is loaded here was checked by `recovery` and `walk` when the pool was opened, or
//! stored here since; the region has one owner. So a place stays a place, and loads follow it without looking twice.

use crate::layout::{At, FREE, Geometry, HELD, Kind};
use core::cell::Cell;
use nvmem::{Model, Region, Unit, mapped, planted};

/// Bits of a link where two are one unit. (Where `usize` has no room for both, none are.)
const HALF: u32 = if usize::BITS > 16 { 16 } else { 0 };

/// An open pool, without its types.
pub(crate) struct Core<'m, M> {
    pub region: Region<'m, M>,
    pub geo: Geometry,
    /// Where the search for a free node begins.
    pub hint: Cell<At>,
    /// An operation was staged, and neither committed nor abandoned.
    pub staged: Cell<bool>,
}

impl<'m, M: Model> Core<'m, M> {
    /// Whether both links of a node are one unit.
    pub const PACKED: bool = M::Unit::BYTES == 4;
    pub const SHIFT: usize = Geometry::shift::<M>();

    pub fn new(region: Region<'m, M>, geo: Geometry) -> Self {
        Core {
            hint: Cell::new(geo.first >> Self::SHIFT),
            region,
            geo,
            staged: Cell::new(false),
        }
    }

    /// The first byte of a place.
    #[inline(always)]
    pub fn address(&self, at: At) -> *mut u8 {
        self.region.base().wrapping_add(at << Self::SHIFT)
    }

    /// # Safety
    /// `off` is the offset of a unit of the records, or of links.
    #[inline(always)]
    pub unsafe fn load(&self, off: usize) -> usize {
        debug_assert!(off + M::Unit::BYTES <= self.region.len());
        let at = self.region.base().wrapping_add(off);
        // SAFETY: forwarded; such units are never lent.
        unsafe { mapped::load(at.cast::<M::Unit>()).widen() as usize }
    }

    /// # Safety
    /// As [`Core::load`].
    #[inline(always)]
    pub unsafe fn store(&self, off: usize, v: usize) {
        debug_assert!(off + M::Unit::BYTES <= self.region.len());
        let at = self.region.base().wrapping_add(off);
        // SAFETY: forwarded; such units are never lent.
        unsafe { mapped::store(at.cast::<M::Unit>(), M::Unit::truncate(v as u32)) }
    }

    #[inline(always)]
    pub fn fence(&self) {
        mapped::fence::<M>()
    }

    /// The links that begin at a byte offset: the previous place and the next.
    ///
    /// # Safety
    /// `off` is the offset of links.
    #[inline(always)]
    pub unsafe fn pair(&self, off: usize) -> (At, At) {
        // SAFETY: forwarded.
        unsafe {
            let first = self.load(off);
            if Self::PACKED {
                (first & 0xffff, first >> HALF)
            } else {
                (first, self.load(off + 2))
            }
        }
    }

    /// Stores links, the previous place last where that takes two stores.
    ///
    /// # Safety
    /// As [`Core::pair`].
    #[inline(always)]
    pub unsafe fn set_pair(&self, off: usize, prev: At, next: At) {
        // SAFETY: forwarded.
        unsafe {
            if Self::PACKED {
                self.store(off, prev | next << HALF);
            } else if planted!("nvlist/previous-link-first") {
                self.store(off, prev);
                self.store(off + 2, next);
            } else {
                self.store(off + 2, next);
                self.store(off, prev);
            }
        }
    }

    /// # Safety
    /// `at` is a place of this pool, or lies in the region, at a multiple of four bytes.
    #[inline(always)]
    pub unsafe fn links(&self, at: At) -> (At, At) {
        // SAFETY: forwarded.
        unsafe { self.pair(at << Self::SHIFT) }
    }

    /// # Safety
    /// As [`Core::links`].
    #[inline(always)]
    pub unsafe fn prev(&self, at: At) -> At {
        // SAFETY: forwarded.
        unsafe {
            let first = self.load(at << Self::SHIFT);
            if Self::PACKED { first & 0xffff } else { first }
        }
    }

    /// # Safety
    /// As [`Core::links`].
    #[inline(always)]
    pub unsafe fn next(&self, at: At) -> At {
        // SAFETY: forwarded.
        unsafe {
            if Self::PACKED {
                self.load(at << Self::SHIFT) >> HALF
            } else {
                self.load((at << Self::SHIFT) + 2)
            }
        }
    }

    /// # Safety
    /// As [`Core::links`], and `at` is a place.
    #[inline(always)]
    pub unsafe fn set_prev(&self, at: At, prev: At) {
        let off = at << Self::SHIFT;
        // SAFETY: forwarded.
        unsafe {
            if Self::PACKED {
                self.store(off, self.load(off) & !0xffff | prev);
            } else {
                self.store(off, prev);
            }
        }
    }

    /// # Safety
    /// As [`Core::set_prev`].
    #[inline(always)]
    pub unsafe fn set_next(&self, at: At, next: At) {
        let off = at << Self::SHIFT;
        // SAFETY: forwarded.
        unsafe {
            if Self::PACKED {
                self.store(off, self.load(off) & 0xffff | next << HALF);
            } else {
                self.store(off + 2, next);
            }
        }
    }

    /// The word of a record.
    #[inline(always)]
    pub fn word(x: At, kind: Kind) -> usize {
        if Self::PACKED {
            x << HALF | kind as usize
        } else {
            x & !7 | kind as usize
        }
    }

    /// What the word of a record says.
    pub fn parse(word: usize) -> Option<(At, Kind)> {
        if Self::PACKED {
            Some((word >> HALF, Kind::decode(word & 0xffff)?))
        } else {
            Some((word & !7 | 4, Kind::decode(word & 7)?))
        }
    }

    /// The offset of a move's target links.
    #[inline(always)]
    pub fn target(&self, kind: Kind) -> usize {
        self.geo.record
            + if kind as usize == Kind::MoveB as usize {
                8
            } else {
                4
            }
    }

    /// The offsets of a context's sequence number and of its record.
    pub fn context(&self, ctx: usize) -> (usize, usize) {
        let at = self.geo.staged + ctx * 2 * M::Unit::BYTES;
        (at, at + M::Unit::BYTES)
    }

    /// Takes a node that is in no list into use: its links lead nowhere, and it is not free.
    ///
    /// # Safety
    /// `x` is a node that is in no list.
    #[inline]
    pub unsafe fn hold(&self, x: At) {
        // SAFETY: forwarded.
        unsafe { self.store(x << Self::SHIFT, HELD) }
    }

    /// Returns a node.
    ///
    /// # Safety
    /// As [`Core::hold`], and nobody uses it after this.
    #[inline]
    pub unsafe fn release(&self, x: At) {
        // SAFETY: forwarded. Where links are two units the first alone says that it is free.
        unsafe { self.store(x << Self::SHIFT, FREE) }
        self.hint.set(x);
    }

    /// A free node. **Cost**: loads.
    pub fn find(&self) -> Option<At> {
        let stride = self.geo.stride >> Self::SHIFT;
        let first = self.geo.first >> Self::SHIFT;
        let mut at = self.hint.get();
        for _ in 0..self.geo.nodes {
            // SAFETY: a node's links.
            if unsafe { self.prev(at) } == FREE {
                self.hint.set(at);
                return Some(at);
            }
            at = if at == first + stride * (self.geo.nodes - 1) {
                first
            } else {
                at + stride
            };
        }
        None
    }
}
