//! The walk from the roots: what is reachable is valid and has one owner; what is not is reclaimed.
//!
//! Works on any bytes whatever. No recursion and no volatile memory that grows: one nibble for each granule, in a scratch
//! area of the medium whose content means nothing after a cut.

use crate::error::{Component, OpenError};
use crate::layout::{Block, BlockKind, GRANULE, Tag};
use crate::roots::Roots;
use crate::state::Core;
use core::mem::MaybeUninit;
use nvmem::persist::{Found, Target, Visit, family_id};
use nvmem::{Invalid, Model, Persist, mapped, planted};

/// How many different types may be reached through handles in one pool.
pub const MAX_TYPES: usize = 13;

/// No block starts here, or a free one.
const NONE: u8 = 0;
/// A block that nobody has shown to own yet.
const UNOWNED: u8 = 1;
/// A block with an owner, checked.
const DONE: u8 = 2;
/// A block with an owner, to be checked as the type of this index.
const PENDING: u8 = 3;

/// The name under which a pool's handles are shown to a walk.
pub(crate) const fn family(unit: usize, cell: bool) -> &'static str {
    match (unit, cell) {
        (2, false) => "pmem-tx/16",
        (2, true) => "pmem-tx/16/cell",
        (_, false) => "pmem-tx/32",
        (_, true) => "pmem-tx/32/cell",
    }
}

/// A walk in progress.
pub(crate) struct Walk<'c, 'm, M> {
    core: &'c Core<'m, M>,
    /// The first `known` are initialised.
    types: [MaybeUninit<Target>; MAX_TYPES],
    known: usize,
    /// The lowest header of a block that may be pending.
    low: usize,
    overflow: bool,
}

impl<'c, 'm, M: Model> Walk<'c, 'm, M> {
    /// The family of its handles: 0 leads to an object, 1 to a cell.
    const FAMILY: u32 = family_id(family(Core::<M>::UNIT, false));

    /// Begins: all blocks are unowned. **Errors**: the chain of blocks is broken.
    pub fn begin(&mut self) -> Result<(), Component> {
        let core = self.core;
        let g = &core.geo;
        // The heap begins so that its payloads are aligned.
        let len = g.heap + Core::<M>::UNIT - GRANULE - g.scratch;
        mapped::scratch(core.at(g.scratch), len);
        for i in 0..len {
            // SAFETY: invariant "Sole region": the scratch area is this walk's alone.
            unsafe { core.at(g.scratch + i).write_volatile(0) }
        }
        core.for_each_block(|off, b| {
            // A cell has a tag, which takes a granule.
            if b.is(BlockKind::Cell) && b.bytes() < Core::<M>::UNIT + GRANULE {
                return Err(Component::Heap);
            }
            if !b.is(BlockKind::Free) {
                self.set_mark(off, UNOWNED);
            }
            Ok(())
        })
    }

    /// Goes on with the marks of a walk that has ended, if nothing has changed since.
    pub fn resume(core: &'c Core<'m, M>) -> Self {
        Walk {
            core,
            types: [const { MaybeUninit::uninit() }; MAX_TYPES],
            known: 0,
            low: usize::MAX,
            overflow: false,
        }
    }

    /// Where the mark of the block is whose header is at `header`, and whether it is the upper half of the byte.
    #[inline(always)]
    fn mark_position(&self, header: usize) -> (*mut u8, bool) {
        let g = (header - self.core.geo.heap) / GRANULE;
        let byte = self.core.at(self.core.geo.scratch + g / 2);
        (byte, !g.is_multiple_of(2))
    }
    /// The mark of the block whose header is at `header`; of no block, if none is there.
    #[inline(never)]
    fn mark(&self, header: usize) -> u8 {
        let (p, upper) = self.mark_position(header);
        // SAFETY: invariant "Sole region": a byte of the scratch area, written by `begin`.
        let b = unsafe { p.read() };
        if upper { b >> 4 } else { b & 15 }
    }
    #[inline(never)]
    fn set_mark(&mut self, header: usize, v: u8) {
        let (p, upper) = self.mark_position(header);
        let (keep, new) = if upper { (15, v << 4) } else { (0xF0, v) };
        // SAFETY: invariant "Sole region": a byte of the scratch area, written by `begin`.
        unsafe { p.write(p.read() & keep | new) }
        if v >= PENDING {
            self.low = self.low.min(header);
        }
    }

    fn types(&self) -> &[Target] {
        // SAFETY: invariant "Checked before it is a value": `index` has written the first `known`,
        // of at most `MAX_TYPES`.
        unsafe { core::slice::from_raw_parts(self.types.as_ptr().cast(), self.known) }
    }

    fn type_index(&mut self, k: Target) -> Option<u8> {
        let i = match self.types().iter().position(|t| t.same(&k)) {
            Some(i) => i,
            None => {
                self.types.get_mut(self.known)?.write(k);
                self.known += 1;
                self.known - 1
            }
        };
        Some(i as u8)
    }

    /// `off` leads to an object of type `T`, which is to be checked.
    #[inline(always)]
    pub fn claim_root<T: Persist>(&mut self, off: usize) -> Result<(), Invalid> {
        match self.core.block(off.wrapping_sub(Core::<M>::UNIT)) {
            Some(b) if b.is(BlockKind::Object) && self.claim(off, b, Target::of::<T>()) => Ok(()),
            _ => Err(Invalid::Handle(family(Core::<M>::UNIT, false))),
        }
    }

    /// Checks everything that is reachable from the roots. Inlined: a program opens its pool in one place.
    #[inline(always)]
    pub fn check_all<R: Roots>(&mut self) -> Result<(), OpenError> {
        let core = self.core;
        match R::walk(self, core).and_then(|()| self.check_pending_inline()) {
            Ok(()) => Ok(()),
            Err(_) if self.overflow => Err(OpenError::TooManyTypes),
            Err(e) => Err(OpenError::Invalid(e)),
        }
    }

    /// The block `b` with the payload at `off`, to be checked as `k`, has an owner now. Gives whether it is one that can have.
    #[inline(never)]
    fn claim(&mut self, off: usize, b: Block, k: Target) -> bool {
        let header = off - Core::<M>::UNIT;
        if planted!("pmem-tx/walk-trusts-handles") {
            self.set_mark(header, DONE);
            return true;
        }
        let payload = if b.is(BlockKind::Cell) {
            2 * k.size + GRANULE
        } else {
            k.size
        };
        if b.bytes() != Block::bytes_for(payload, Core::<M>::UNIT) {
            return false;
        }
        let owned = self.mark(header) != UNOWNED;
        if owned && !(planted!("pmem-tx/walk-allows-two-owners") && self.mark(header) != NONE) {
            return false;
        }
        let Some(i) = self.type_index(k) else {
            self.overflow = true;
            return false;
        };
        self.set_mark(header, PENDING + i);
        true
    }

    /// Checks all that is pending.
    #[inline(never)]
    pub fn check_pending(&mut self) -> Result<(), Invalid> {
        self.check_pending_inline()
    }

    #[inline(always)]
    fn check_pending_inline(&mut self) -> Result<(), Invalid> {
        while self.low < self.core.geo.end {
            let header = self.low;
            // What is checked may make others pending before this one.
            self.low = header + GRANULE;
            let i = self.mark(header).wrapping_sub(PENDING);
            if let Some(&k) = self.types().get(usize::from(i)) {
                self.set_mark(header, DONE);
                self.check(header, k)?;
            }
        }
        Ok(())
    }

    /// What is still to be checked has no owner after all: a walk that failed ends, and another one may begin here.
    pub fn forget_pending(&mut self) {
        let mut header = self.core.geo.heap;
        while header < self.core.geo.end {
            if self.mark(header) >= PENDING {
                self.set_mark(header, UNOWNED);
            }
            header += GRANULE;
        }
        self.low = usize::MAX;
    }

    fn check(&mut self, header: usize, k: Target) -> Result<(), Invalid> {
        let mut at = header + Core::<M>::UNIT;
        // SAFETY: invariant "The chain is whole": a block's header.
        if unsafe { self.core.load(header) } & 7 == BlockKind::Cell as usize {
            // SAFETY: invariant "The chain is whole": the tag of a cell, whose block is large
            // enough for it and two versions.
            let tag = Tag::decode(unsafe { self.core.load(at) }, Core::<M>::UNIT);
            at += GRANULE + tag.current * k.size;
        }
        let p = self.core.at(at);
        mapped::will_read(p, k.size);
        // SAFETY: invariant "Checked before it is a value": inside a block of at least this size,
        // aligned to 8, of the region, and not lent.
        unsafe { (k.check)(p, self) }
    }

    /// Frees what has no owner; gives the number of blocks.
    ///
    /// **Power loss**: the rest is freed by the next walk. **Cost**: one store a block.
    #[inline(never)]
    pub fn reclaim(&mut self) -> usize {
        let mut n = 0;
        let _ = self.core.for_each_block(|off, b| {
            if !b.is(BlockKind::Free) && self.mark(off) == UNOWNED {
                n += 1;
                // SAFETY: invariant "Sole owner": a block header; no root leads to it, and no
                // handle of this session.
                unsafe { self.core.store(off, b.becomes(BlockKind::Free)) }
            }
            Ok(())
        });
        self.core.fence();
        n
    }

    /// Blocks and bytes, counted.
    pub fn count(&self) -> Audit {
        let mut a = Audit::default();
        let mut run = 0;
        let _ = self.core.for_each_block(|off, b| {
            let bytes = b.bytes();
            if b.is(BlockKind::Free) {
                run += bytes;
                a.free += bytes;
                a.largest_free = a.largest_free.max(run - Core::<M>::UNIT);
            } else {
                run = 0;
                a.blocks += 1;
                a.used += bytes;
                a.unreachable += (self.mark(off) != DONE) as usize;
            }
            Ok(())
        });
        a
    }
}

impl<M: Model> Visit for Walk<'_, '_, M> {
    fn handle(&mut self, value: u32, f: &Found) -> Result<(), Invalid> {
        // A foreign family is named as such wherever it leads.
        let cell = f.kind(Self::FAMILY);
        if cell > 1 {
            return Err(Invalid::Family(f.family));
        }
        let off = value as usize;
        match self.core.block(off.wrapping_sub(Core::<M>::UNIT)) {
            // A handle to a cell leads to a cell.
            Some(b) if b.is(BlockKind::Cell) == (cell == 1) && self.claim(off, b, f.target) => {
                Ok(())
            }
            _ => Err(Invalid::Handle(f.family)),
        }
    }
}

/// What a walk over the whole pool found. Bytes count headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Audit {
    /// Objects and cells.
    pub blocks: usize,
    /// Bytes in them.
    pub used: usize,
    /// Blocks that cannot be reached from a root: leaked, or held by a handle outside of the pool.
    pub unreachable: usize,
    /// Free bytes.
    pub free: usize,
    /// The largest object that could be allocated.
    pub largest_free: usize,
}
