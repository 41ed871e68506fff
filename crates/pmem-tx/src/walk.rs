//! The walk from the roots: checks everything reachable, and finds what is not.
//!
//! ```text
//!  scratch area: one mark (4 bits) for each granule of the heap, at the block's header
//!    (none)   behind the last block in use
//!    NONE     no block starts here, or a free one
//!    UNOWNED  a block in use without a known owner
//!    PENDING + i   has an owner; to be checked as type i
//!    DONE     has an owner; was checked, or stands in the list
//!
//!  begin         every block in use: UNOWNED
//!  roots         UNOWNED -> DONE, and into the list; PENDING + i, if the list is full
//!  check         the block listed last, or else a PENDING -> DONE; its handles as the roots
//!                from the roots, a block of a type without handles is checked at once
//!                a handle to any other mark: error (two owners, no block, or a free one)
//!  reclaim       what is still UNOWNED becomes free
//! ```
//!
//! Accepts any bytes. There is no recursion and no memory that grows: pending blocks are found by
//! their marks, and `MAX_TYPES` types fit into a nibble. The scratch area's content is ignored
//! after a cut.
//!
//! A block that was claimed stands in a short list, `recent`, until it is checked. The block that
//! was claimed last is checked first, so a chain of objects is followed without a search, in any
//! order of the heap. The mark of a listed block is DONE at once. If the list is full, a block is
//! marked PENDING and found later by a search over the marks, word by word. Marks alone are slow: a
//! list against the order of the heap took up to 1,300 instructions of a Cortex-M4 for each node,
//! and takes about 160 with the list of 16 words.
//!
//! Why this is safe: a handle is followed only to a block header that the chain contains, of the
//! exact size of its type. An object becomes a value only after `Persist::check` accepted its
//! bytes. A second owner finds the mark changed and is refused, so no two `&mut` can lead to one
//! object. The chain is finite, and each block is checked once.

use crate::context::Core;
use crate::error::{Component, OpenError};
use crate::layout::{Block, BlockKind, GRANULE, Tag};
use crate::pool::Roots;
use core::mem::MaybeUninit;
use nvmem::persist::{HandleKind, NoHandles, Target, Visit, family_id};
use nvmem::{Invalid, Model, Persist, mapped, planted};

/// How many different types handles in one pool may lead to. A type counts only if it may hold
/// handles itself.
pub const MAX_TYPES: usize = 13;

/// No block starts here, or a free one.
const NONE: u8 = 0;
/// A block in use without a known owner.
const UNOWNED: u8 = 1;
/// A block with an owner; its content was checked, or the block is in the list.
const DONE: u8 = 2;
/// A block with an owner that is not in the list; its content is still to be checked as the type of
/// this index.
const PENDING: u8 = 3;

/// The handle family name of a pool's handles.
pub(crate) const fn family(unit: usize, cell: bool) -> &'static str {
    match (unit, cell) {
        (2, false) => "pmem-tx/16",
        (2, true) => "pmem-tx/16/cell",
        (_, false) => "pmem-tx/32",
        (_, true) => "pmem-tx/32/cell",
    }
}

/// How many blocks are found without a search.
const RECENT: usize = 16;

/// A block that was claimed and is to be checked: its offset in the heap, which is a multiple of 8
/// below 2^31, times two, and the index of its type.
#[derive(Clone, Copy)]
struct Claimed(u32);

impl Claimed {
    fn new(from: usize, of: u8) -> Self {
        const { assert!(2 * GRANULE > MAX_TYPES) };
        Claimed((from as u32) << 1 | u32::from(of))
    }
    fn from(self) -> usize {
        (self.0 >> 4) as usize * GRANULE
    }
    fn of(self) -> usize {
        (self.0 & 15) as usize
    }
}

/// A word of marks: a mark for each of several granules, the first one in the lowest bits. The
/// scratch area consists of whole words, because it begins and ends at multiples of 8.
type Marks = usize;
/// The lowest bit of each mark in a word.
const LOWEST: Marks = Marks::MAX / 15;
/// Bytes of the heap that the marks of a word stand for.
const HEAP_BYTES: usize = 2 * size_of::<Marks>() * GRANULE;

/// The lowest bits of the marks that are `UNOWNED`.
fn unowned(marks: Marks) -> Marks {
    let other = marks ^ (LOWEST * UNOWNED as Marks);
    !(other | other >> 1 | other >> 2 | other >> 3) & LOWEST
}

/// The lowest bits of the marks that are `PENDING` or above.
fn pending(marks: Marks) -> Marks {
    const { assert!(PENDING == 3) };
    (marks >> 3 | marks >> 2 | (marks >> 1 & marks)) & LOWEST
}

/// A walk in progress.
pub(crate) struct Walk<'c, 'm, M> {
    core: &'c Core<'m, M>,
    /// The first byte of the scratch area.
    marks: *mut u8,
    /// The first `known` are initialised.
    types: [MaybeUninit<Target>; MAX_TYPES],
    known: usize,
    /// The list of blocks that are to be checked. The first `listed` are initialised.
    recent: [MaybeUninit<Claimed>; RECENT],
    listed: usize,
    /// How many blocks are pending and not in the list, and the word of marks where a search for
    /// them begins.
    unlisted: usize,
    low: usize,
    overflow: bool,
    /// A walk from the roots: what it has claimed it never gives back. So a block of a type without
    /// handles is checked when it is claimed.
    from_roots: bool,
}

impl<'c, 'm, M: Model> Walk<'c, 'm, M> {
    /// The family of its handles. Kind 0 leads to an object, 1 to a cell.
    const FAMILY: u32 = family_id(family(Core::<M>::UNIT, false));

    /// Begins a walk: marks all blocks in use as unowned. Returns whether a cell was written since
    /// the last open. With `join` it joins free blocks that lie side by side, so that the next boot
    /// passes fewer: no transaction may be open then. **Errors**: the chain of blocks is broken.
    ///
    /// **Power loss**: joined blocks are as free as before. **Cost**: a load for each block, and a
    /// store for each word of marks up to the last block in use: free space behind that takes no
    /// time. A store for each run of free blocks that is joined.
    pub fn begin(&mut self, join: bool) -> Result<bool, Component> {
        let core = self.core;
        let heap = core.geo.heap;
        mapped::scratch(self.marks, (heap - core.geo.scratch) & !7);
        let (mut written, mut unowned, mut end) = (false, 0, heap);
        // Marks are there for the blocks before this one; the next word of them is here.
        let (mut cleared, mut next) = (heap, self.marks.cast::<Marks>());
        let clear_to = |end, cleared: &mut usize, next: &mut *mut Marks| {
            while *cleared < end {
                // SAFETY: invariant "Sole region": the scratch area is this walk's alone, and
                // consists of words; a block in use begins before `end`.
                unsafe { next.write_volatile(0) }
                *next = next.wrapping_add(1);
                *cleared += HEAP_BYTES;
            }
        };
        // Where the current run of free blocks begins, and how many these are.
        let (mut free, mut run) = (heap, 0_usize);
        let join_run = |free, run, end| {
            if join && run > 1 && !planted!("pmem-tx/free-blocks-never-joined") {
                // SAFETY: invariant "The chain is whole": the header of a free block, whose
                // successors up to `end` are free.
                unsafe { core.store(free, Block::word(BlockKind::Free, end - free)) }
            }
        };
        core.for_each_block(|off, b| {
            if b.is(BlockKind::Free) {
                if run == 0 {
                    free = off;
                }
                run += 1;
                return Ok(());
            }
            join_run(free, run, off);
            run = 0;
            if b.is(BlockKind::Cell) {
                // A cell's payload starts with its tag, which takes a granule.
                if b.bytes() < Core::<M>::UNIT + GRANULE {
                    return Err(Component::Heap);
                }
                // SAFETY: invariant "One current version": the tag of a cell, which is never lent.
                let tag = unsafe { core.load(off + Core::<M>::UNIT) };
                written |= tag > Tag::SETTLED_MAX;
            }
            unowned += 1;
            end = off + b.bytes();
            clear_to(off + GRANULE, &mut cleared, &mut next);
            // Its mark is in the word that was cleared last, because blocks come in order. So one
            // pointer moves along, and no mark needs `mark_position`: a 16-bit machine shifts by
            // one bit at a time.
            let within = off + HEAP_BYTES - cleared;
            let byte = if size_of::<Marks>() == 2 {
                usize::from(within >= 2 * GRANULE)
            } else {
                within / (2 * GRANULE)
            };
            let p = next.wrapping_sub(1).cast::<u8>().wrapping_add(byte);
            debug_assert_eq!(p, self.mark_position(off).0);
            let mark = if within & GRANULE != 0 {
                UNOWNED << 4
            } else {
                UNOWNED
            };
            // SAFETY: invariant "Sole region": a byte of the scratch area, written above; this mark
            // of it is 0.
            unsafe { p.write(p.read() | mark) }
            Ok(())
        })?;
        join_run(free, run, core.geo.end);
        clear_to(end, &mut cleared, &mut next);
        core.marked.set(end);
        core.unowned.set(unowned);
        self.from_roots = true;
        Ok(written)
    }

    /// Continues with the marks of an earlier walk. Valid if nothing has changed since, or if only
    /// blocks with the mark `UNOWNED` are followed, as [`Walk::claim`] does.
    pub fn resume(core: &'c Core<'m, M>) -> Self {
        Walk {
            core,
            marks: core.at(core.geo.scratch),
            types: [const { MaybeUninit::uninit() }; MAX_TYPES],
            known: 0,
            recent: [const { MaybeUninit::uninit() }; RECENT],
            listed: 0,
            unlisted: 0,
            low: usize::MAX,
            overflow: false,
            from_roots: false,
        }
    }

    /// Bytes of the marks: whole words. Behind them the scratch area is not in use.
    fn bytes_of_marks(&self) -> usize {
        let marked = self.core.marked.get() - self.core.geo.heap;
        marked.div_ceil(HEAP_BYTES) * size_of::<Marks>()
    }

    /// Whether there is a mark for a header at this offset.
    #[inline(always)]
    fn has_mark(&self, header: usize) -> bool {
        if planted!("pmem-tx/marks-of-free-space-count") {
            return self.core.may_begin_block(header);
        }
        // An offset before the heap wraps around and fails the comparison.
        let from = header.wrapping_sub(self.core.geo.heap);
        from < self.core.marked.get() - self.core.geo.heap && from.is_multiple_of(GRANULE)
    }

    /// The byte that holds the mark of the block with its header at `header`, and whether the mark
    /// is the upper half.
    #[inline(always)]
    fn mark_position(&self, header: usize) -> (*mut u8, bool) {
        let from = header - self.core.geo.heap;
        let byte = self.marks.wrapping_add(from / (2 * GRANULE));
        (byte, from & GRANULE != 0)
    }
    /// The mark of the block with its header at `header`; `NONE` if no block starts there.
    #[inline(always)]
    fn mark(&self, header: usize) -> u8 {
        let (p, upper) = self.mark_position(header);
        // SAFETY: invariant "Sole region": a byte of the scratch area, written by `begin`.
        let b = unsafe { p.read() };
        if upper { b >> 4 } else { b & 15 }
    }
    #[inline(always)]
    fn set_mark(&mut self, header: usize, v: u8) {
        let (p, upper) = self.mark_position(header);
        let (keep, new) = if upper { (15, v << 4) } else { (0xF0, v) };
        // SAFETY: invariant "Sole region": a byte of the scratch area, written by `begin`.
        unsafe { p.write(p.read() & keep | new) }
    }

    /// Searches the words of marks, from `from` on, for one in which `wanted` finds marks: where
    /// the word is, and these marks.
    #[inline(always)]
    fn find(&self, from: usize, wanted: fn(Marks) -> Marks) -> Option<(usize, Marks)> {
        let len = self.bytes_of_marks();
        let mut at = from;
        while at < len {
            // SAFETY: invariant "Sole region": a word of the scratch area, written by `begin`.
            let marks = unsafe { self.marks.add(at).cast::<Marks>().read() };
            let found = wanted(Marks::from_le(marks));
            if found != 0 {
                return Some((at, found));
            }
            at += size_of::<Marks>();
        }
        None
    }

    /// The header of the block with the first mark of a word.
    fn header_of(&self, word: usize) -> usize {
        self.core.geo.heap + word / size_of::<Marks>() * HEAP_BYTES
    }

    fn types(&self) -> &[Target] {
        // SAFETY: invariant "Checked before it is a value": `index` has written the first `known`,
        // of at most `MAX_TYPES`.
        unsafe { core::slice::from_raw_parts(self.types.as_ptr().cast(), self.known) }
    }

    /// The index of a type, which becomes known. `None` if there are too many.
    #[inline(always)]
    fn type_index(&mut self, k: Target) -> Option<u8> {
        // Most objects of a chain are of the type that was met last.
        let newest = self.known.wrapping_sub(1);
        match self.types().get(newest) {
            Some(t) if t.same(&k) => Some(newest as u8),
            _ => self.search_type(k),
        }
    }

    #[cold]
    #[inline(never)]
    fn search_type(&mut self, k: Target) -> Option<u8> {
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

    /// Claims the object of type `T` at `off` for a root, to be checked; at once, if no root has
    /// handles: such a program contains no other check.
    #[inline(always)]
    pub fn claim_root<T: Persist, const HANDLES: bool>(
        &mut self,
        off: usize,
    ) -> Result<(), Invalid> {
        let kind = const { HandleKind::of::<T>(family(Core::<M>::UNIT, false), Self::FAMILY) };
        if HANDLES {
            return self.handle(off as u32, &kind);
        }
        self.leaf(off, false, &kind)
    }

    /// Claims an object or a cell whose type has no handles, and checks it: it leads nowhere, so it
    /// needs no place in the list, and its type no index.
    #[inline(never)]
    fn leaf(&mut self, off: usize, cell: bool, kind: &HandleKind) -> Result<(), Invalid> {
        let Target { size, check, .. } = kind.target;
        if !self.claim_by(off, cell, size, |_, _| Some(DONE)) {
            return Err(Invalid::Handle(kind.family));
        }
        let p = self.content(off, cell, size);
        // SAFETY: invariant "Checked before it is a value": inside a block of at least this size,
        // aligned to 8, of the region, and not lent.
        unsafe { check(p, &mut NoHandles) }
    }

    /// The value of an object of `size` bytes whose payload is at `off`, or of a cell the version
    /// that counts.
    #[inline(always)]
    fn content(&self, off: usize, cell: bool, size: usize) -> *const u8 {
        let mut at = off;
        if cell {
            // SAFETY: invariant "The chain is whole": the tag of a cell, whose block is large
            // enough for it and two versions.
            let tag = Tag::decode(unsafe { self.core.load(at) }, Core::<M>::UNIT);
            at += GRANULE + tag.current * size;
        }
        let p = self.core.at(at);
        mapped::will_read(p, size);
        p
    }

    /// Checks everything that is reachable from the roots. Inlined, because a program opens its
    /// pool at one call site.
    #[inline(always)]
    pub fn check_all<R: Roots>(&mut self) -> Result<(), OpenError> {
        let core = self.core;
        let found = if R::HANDLES {
            R::walk::<M, true>(self, core).and_then(|()| self.check_pending_inline())
        } else {
            R::walk::<M, false>(self, core)
        };
        match found {
            Ok(()) => Ok(()),
            Err(_) if self.overflow => Err(OpenError::TooManyTypes),
            Err(e) => Err(OpenError::Invalid(e)),
        }
    }

    /// Claims the object, or the cell, with its payload at `off` for an owner, to be checked as
    /// `k`. False if it cannot be claimed.
    ///
    /// The mark is tested before the header is loaded. A block that was in use at `begin` and has
    /// no owner stays as it is, because no transaction reaches it. At any other place contexts that
    /// run by now may have put a free block or an object's bytes.
    #[inline(always)]
    fn claim(&mut self, off: usize, cell: bool, k: Target) -> bool {
        self.claim_by(off, cell, k.size, |walk, from| {
            let Some(of) = walk.type_index(k) else {
                walk.overflow = true;
                return None;
            };
            match walk.recent.get_mut(walk.listed) {
                Some(free) => {
                    free.write(Claimed::new(from, of));
                    walk.listed += 1;
                    Some(DONE)
                }
                None => {
                    walk.leave_unlisted(from);
                    Some(PENDING + of)
                }
            }
        })
    }

    /// The same for a value of `size` bytes: `list` gets its offset in the heap, and returns its
    /// mark, or `None` if it cannot be claimed.
    #[inline(always)]
    fn claim_by(
        &mut self,
        off: usize,
        cell: bool,
        size: usize,
        list: impl FnOnce(&mut Self, usize) -> Option<u8>,
    ) -> bool {
        let header = off.wrapping_sub(Core::<M>::UNIT);
        if !self.has_mark(header) {
            return false;
        }
        let from = header - self.core.geo.heap;
        let (p, upper) = self.mark_position(header);
        // SAFETY: invariant "Sole region": a byte of the scratch area, written by `begin`.
        let marks = unsafe { p.read() };
        let mark = if upper { marks >> 4 } else { marks & 15 };
        let mut owned = mark != UNOWNED;
        if planted!("pmem-tx/walk-allows-two-owners") {
            owned = mark == NONE;
        }
        if owned && !planted!("pmem-tx/walk-trusts-handles") {
            return false;
        }
        // A handle to a cell must lead to a cell, and a handle to an object to an object, both of
        // the size of the type: then the header is this word.
        let (kind, payload) = if cell {
            (BlockKind::Cell, 2 * size + GRANULE)
        } else {
            (BlockKind::Object, size)
        };
        let bytes = Block::bytes_for(payload, Core::<M>::UNIT);
        // SAFETY: invariant "The chain is whole": inside the heap, at a multiple of a granule.
        let other = unsafe { self.core.load(header) } != Block::word(kind, bytes);
        if planted!("pmem-tx/walk-trusts-handles") {
            self.set_mark(header, DONE);
            return true;
        }
        if other || bytes > self.core.geo.end - header {
            return false;
        }
        let Some(new) = list(self, from) else {
            return false;
        };
        let new = if upper { new << 4 } else { new };
        // SAFETY: invariant "Sole region": as above.
        unsafe { p.write(marks & if upper { 15 } else { 0xF0 } | new) }
        let unowned = &self.core.unowned;
        unowned.set(unowned.get().wrapping_sub(1));
        true
    }

    /// The same for a handle. Not inlined: most handles lead to leaves, which need no such frame.
    #[inline(never)]
    fn claim_kind(&mut self, off: usize, cell: bool, f: &HandleKind) -> Result<(), Invalid> {
        if self.claim(off, cell, f.target) {
            Ok(())
        } else {
            Err(Invalid::Handle(f.family))
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_unlisted(&mut self, from: usize) {
        let word = from / HEAP_BYTES * size_of::<Marks>();
        if self.low == usize::MAX || !planted!("pmem-tx/search-begins-too-late") {
            self.low = self.low.min(word);
        }
        if !planted!("pmem-tx/unlisted-is-forgotten") {
            self.unlisted += 1;
        }
    }

    /// Takes a block that is to be checked: the one that was listed last.
    #[inline(always)]
    fn next_claimed(&mut self) -> Option<Claimed> {
        if let Some(last) = self.listed.checked_sub(1)
            && let Some(&claimed) = self.recent.get(last)
        {
            self.listed = last;
            // SAFETY: invariant "Checked before it is a value": the first `listed` are initialised.
            return Some(unsafe { claimed.assume_init() });
        }
        if self.unlisted == 0 {
            return None;
        }
        self.search_pending()
    }

    /// Finds a block that is marked as pending.
    #[cold]
    #[inline(never)]
    fn search_pending(&mut self) -> Option<Claimed> {
        let (word, mut found) = self.find(self.low, pending)?;
        (self.low, self.unlisted) = (word, self.unlisted - 1);
        let mut header = self.header_of(word);
        while found & 1 == 0 {
            found >>= 4;
            header += GRANULE;
        }
        let of = self.mark(header) - PENDING;
        self.set_mark(header, DONE);
        Some(Claimed::new(header - self.core.geo.heap, of))
    }

    /// Checks all pending blocks.
    #[inline(never)]
    pub fn check_pending(&mut self) -> Result<(), Invalid> {
        self.check_pending_inline()
    }

    #[inline(always)]
    fn check_pending_inline(&mut self) -> Result<(), Invalid> {
        while let Some(claimed) = self.next_claimed() {
            if let Some(&k) = self.types().get(claimed.of()) {
                self.check(self.core.geo.heap + claimed.from(), k)?;
            }
        }
        Ok(())
    }

    /// Makes the blocks that were not checked unowned again after a failed walk, so that another
    /// walk can start.
    pub fn forget_pending(&mut self) {
        while let Some(claimed) = self.next_claimed() {
            self.set_mark(self.core.geo.heap + claimed.from(), UNOWNED);
            if !planted!("pmem-tx/forgotten-block-not-counted") {
                self.core.unowned.set(self.core.unowned.get() + 1);
            }
        }
        self.low = usize::MAX;
    }

    fn check(&mut self, header: usize, k: Target) -> Result<(), Invalid> {
        // SAFETY: invariant "The chain is whole": a block's header.
        let cell = unsafe { self.core.load(header) } & 7 == BlockKind::Cell as usize;
        let p = self.content(header + Core::<M>::UNIT, cell, k.size);
        // SAFETY: invariant "Checked before it is a value": inside a block of at least this size,
        // aligned to 8, of the region, and not lent.
        unsafe { (k.check)(p, self) }
    }

    // INVARIANT "Nothing leaks": after an open, every block that is not free is reachable from a
    // root or adopted. The walk finds the others, and this frees them.
    // Noticed by: `audit` after every cut; planted `no-reclaim`.

    /// Frees the blocks without an owner; returns their number. Other contexts may run meanwhile,
    /// but nobody adopts a block any more.
    ///
    /// Finds them by their marks, not by the chain, which other contexts change meanwhile.
    ///
    /// **Power loss**: the next walk frees the others. **Cost**: one store a block, each in a
    /// section where contexts preempt each other; a load of all words of marks, if there is one.
    pub fn reclaim(&mut self) -> usize {
        let n = match self.core.unowned.get() {
            0 => 0,
            _ => self.reclaim_unowned(),
        };
        self.core.fence();
        n
    }

    #[cold]
    #[inline(never)]
    fn reclaim_unowned(&mut self) -> usize {
        let core = self.core;
        core.unowned.set(0);
        let (mut n, mut from) = (0, 0);
        while let Some((word, mut found)) = self.find(from, unowned) {
            let mut header = self.header_of(word);
            while found != 0 {
                if found & 1 != 0 {
                    // Once the block is free, other bytes may lie at its header.
                    self.set_mark(header, NONE);
                    M::section(|| {
                        if let Some(b) = core.block(header) {
                            n += 1;
                            // SAFETY: invariant "Sole owner": a block header; no root leads to it,
                            // and no handle of this session.
                            unsafe { core.store(header, b.becomes(BlockKind::Free)) }
                        }
                    });
                }
                found >>= 4;
                header += GRANULE;
            }
            from = word + size_of::<Marks>();
        }
        n
    }

    /// Counts blocks and bytes.
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
    fn handle(&mut self, value: u32, f: &HandleKind) -> Result<(), Invalid> {
        // Report a foreign family before looking at the offset.
        let cell = f.kind(Self::FAMILY);
        if cell > 1 {
            return Err(Invalid::Family(f.family));
        }
        if self.from_roots && !f.handles {
            return self.leaf(value as usize, cell == 1, f);
        }
        self.claim_kind(value as usize, cell == 1, f)
    }
}

/// The counts of a walk over the whole pool. Bytes include headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Audit {
    /// Objects and cells.
    pub blocks: usize,
    /// Bytes in use.
    pub used: usize,
    /// Blocks that no root leads to: leaked, or owned by a handle outside of the pool.
    pub unreachable: usize,
    /// Free bytes.
    pub free: usize,
    /// The size of the largest object that could be allocated.
    pub largest_free: usize,
}
