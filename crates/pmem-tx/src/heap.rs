//! The allocator: a chain of blocks without any free list.
//!
//! ```text
//!  heap                                                              end
//!  +--------+-----------+--------+-----+--------+------------------+
//!  | header | payload   | header | ... | header | free             |
//!  +--------+-----------+--------+-----+--------+------------------+
//!    one unit: size in bytes (multiple of 8) | kind (1 free, 2 object, 3 cell)
//!    next block = this header + size; payloads are aligned to 8
//!
//!  allocate `want` bytes from a run of free neighbours `A B` at `off`:
//!    1  journal entry "the block at off was free"; FENCE
//!    2  header of the remainder at off + want (inside free space: not reachable yet); FENCE
//!    3  header at off: kind, want                 <- one store: the block exists; FENCE
//!    4  the caller fills the payload
//!  free:
//!    1  journal entry "the block was an object"; the header does not change
//!    2  before the commit store: header becomes free
//! ```
//!
//! First fit, starting at a cursor in RAM. Free neighbours are joined only when an allocation needs
//! the space. Nothing else about free space is stored, so nothing can contradict the chain.
//!
//! Why this is safe: one atomic store changes a block's size or kind, so the blocks tile the heap
//! at every moment. The remainder's header is stored and fenced before the shortened block. Headers
//! of joined blocks lie inside the new block; its content may overwrite them only after the fence
//! behind that header. If the transaction is cut, the journal entry makes the block free again, and
//! a freed block is an object again. Another context does not take a block while an entry of a
//! transaction in doubt names it (`in_doubt`).
//!
//! Where contexts preempt each other, each step of a search runs in a critical section of at most
//! `HEADERS_PER_SECTION` headers. A section ends only where no free block lies before it. A block
//! that a search finds is read again in the section that takes it. The search restarts if another
//! context has joined blocks in between: at most once for each preemption, the bound of lock-free
//! structures on one core.
//!
//! Rejected: an owner and a sequence number in each header. They would spare the section for the
//! headers, not for the search, save a journal entry for each allocation, and cost a sweep over the
//! heap. A lock-free search is not possible: blocks may be joined under it, and it could take
//! somebody's content for a header. A position that the joining context moves along would be
//! wait-free, and cost each context a word of RAM, even where nothing is preempted.

use crate::context::{Core, CtxState, announced};
use crate::error::{Component, Error, JournalOverflow};
use crate::layout::{Block, BlockKind, GRANULE, Undo};
use crate::ptr::Width;
use crate::tx::Failure;
use nvmem::{Model, mapped, planted};

/// The result of an allocation: the payload's offset, or the number of bytes that did not fit. One
/// flat enum, so that it is returned in registers.
#[derive(Clone, Copy)]
pub(crate) enum AllocResult {
    JournalFull(usize),
    PoolFull(usize),
    At(usize),
}
impl AllocResult {
    /// The offset in the width of a handle.
    #[inline(always)]
    pub fn narrow<W: Width>(self) -> Result<W::Off, Self> {
        match self {
            // Cannot fail: a pool is no longer than its handles reach.
            AllocResult::At(off) => W::off(off).ok_or(self),
            _ => Err(self),
        }
    }
}

impl From<AllocResult> for Error {
    #[inline(always)]
    fn from(result: AllocResult) -> Self {
        match result {
            AllocResult::JournalFull(bytes) => Error::JournalFull { bytes },
            AllocResult::PoolFull(bytes) | AllocResult::At(bytes) => Error::PoolFull { bytes },
        }
    }
}
impl Failure for AllocResult {
    #[cold]
    #[inline(never)]
    fn mark_failed(self, s: &CtxState, level: usize) {
        Error::from(self).mark_failed(s, level)
    }
}

/// Where contexts preempt each other: how many headers one critical section looks at.
const HEADERS_PER_SECTION: usize = 4;

/// The progress of a search that is split over several critical sections.
struct Search {
    off: usize,
    /// It has reached the end of the heap once and started again at its beginning.
    wrapped: bool,
    /// It needs another section.
    unfinished: bool,
}

/// Free neighbours.
struct Run {
    off: usize,
    bytes: usize,
    /// There are several: to take them joins them.
    joined: bool,
}

impl<M: Model> Core<'_, M> {
    /// Whether `off` is an offset at which a block may begin.
    #[inline(always)]
    pub fn may_begin_block(&self, off: usize) -> bool {
        // An offset before the heap wraps around and fails the comparison.
        let from = off.wrapping_sub(self.geo.heap);
        from < self.geo.end - self.geo.heap && from.is_multiple_of(GRANULE)
    }

    /// The block whose header is at `off`. `None` if `off` or the word stored there cannot be a
    /// block header.
    #[inline(never)]
    pub fn block(&self, off: usize) -> Option<Block> {
        if !self.may_begin_block(off) {
            return None;
        }
        self.block_inside(off)
    }

    /// The block whose header is at `off`, where a block may begin. `None` if the word stored there
    /// cannot be a block header.
    #[inline(always)]
    pub fn block_inside(&self, off: usize) -> Option<Block> {
        debug_assert!(self.may_begin_block(off));
        // SAFETY: invariant "The chain is whole": inside the heap and aligned; blocks are only lent
        // behind their headers.
        let b = Block::decode(unsafe { self.load(off) })?;
        if planted!("pmem-tx/block-past-the-end") {
            return (b.bytes() <= self.geo.end - off + GRANULE).then_some(b);
        }
        (b.bytes() <= self.geo.end - off).then_some(b)
    }

    /// Calls `f` for each block until it returns an error. **Errors**: that error, or a broken
    /// chain.
    pub fn for_each_block(
        &self,
        mut f: impl FnMut(usize, Block) -> Result<(), Component>,
    ) -> Result<(), Component> {
        let mut off = self.geo.heap;
        while off < self.geo.end {
            // Blocks begin at multiples of a granule from the first one on.
            let b = self.block_inside(off).ok_or(Component::Heap)?;
            f(off, b)?;
            off += b.bytes();
        }
        Ok(())
    }

    // INVARIANT "Shared in sections": where contexts preempt each other, these are read and written
    // in critical sections only: block headers, tags of cells, the cursor, and what a context
    // announces to others. An allocation is one section from the last step of its search to its
    // last header. Also in `Core::alloc`, and in `settle_frees` and `rollback_to` (journal.rs).
    // Noticed by: planted `alloc-in-no-section`, `walk-in-no-section`; `contexts_go_to_threads`
    // under Miri.

    /// Like [`Core::for_each_block`], in critical sections of a few blocks each, because other
    /// contexts may change blocks in between. Starts again when another context has joined blocks:
    /// `f` may see a block twice and must be idempotent.
    pub fn for_each_block_preempted(
        &self,
        s: &CtxState,
        mut f: impl FnMut(usize, Block) -> Result<(), Component>,
    ) -> Result<(), Component> {
        if !M::PREEMPTED || planted!("pmem-tx/walk-in-no-section") {
            return self.for_each_block(f);
        }
        let mut off = self.geo.heap;
        let mut walk_some = || {
            if !s.announces(announced::CHAIN_STABLE) {
                s.announce(announced::CHAIN_STABLE);
                off = self.geo.heap;
            }
            for _ in 0..HEADERS_PER_SECTION {
                if off < self.geo.end {
                    // Blocks begin at multiples of a granule from the first one on.
                    let b = self.block_inside(off).ok_or(Component::Heap)?;
                    f(off, b)?;
                    off += b.bytes();
                }
            }
            Ok(off < self.geo.end)
        };
        loop {
            let unfinished = M::section(|| {
                let unfinished = walk_some();
                if unfinished != Ok(true) {
                    s.withdraw(announced::CHAIN_STABLE);
                }
                unfinished
            });
            if !unfinished? {
                return Ok(());
            }
        }
    }

    /// Allocates a block of `kind` for `size` bytes; returns the payload's offset. `log` is false
    /// only while formatting.
    ///
    /// **Power loss**: the block is free again. **Cost**: a journal entry, the header, and one more
    /// header if the free run is split.
    pub fn alloc(
        &self,
        s: &CtxState,
        others: &[CtxState],
        size: usize,
        kind: BlockKind,
        log: bool,
    ) -> AllocResult {
        let want = Block::bytes_for(size, Self::UNIT);
        let at_cursor = || self.alloc_at(s, others, want, kind, log);
        let result = if planted!("pmem-tx/alloc-in-no-section") {
            at_cursor()
        } else {
            M::section(at_cursor)
        };
        let result = result.unwrap_or_else(|| self.alloc_elsewhere(s, others, want, kind, log));
        let header = match result {
            AllocResult::At(header) => header,
            AllocResult::PoolFull(_) => return AllocResult::PoolFull(size),
            full => return full,
        };
        // The new block stays lent until `prepare` or `rollback`. Without an observer this is only
        // a compiler barrier.
        if !mapped::observed() {
            mapped::lend(self.at(0), 0);
        } else if log {
            mapped::lend(self.at(header + Self::UNIT), want - Self::UNIT);
        }
        AllocResult::At(header + Self::UNIT)
    }

    /// Takes the block at the cursor, which is the one after the last allocation, if it is free and
    /// large enough. Returns the header's offset. Call in a critical section.
    #[inline(always)]
    fn alloc_at(
        &self,
        s: &CtxState,
        others: &[CtxState],
        want: usize,
        kind: BlockKind,
        log: bool,
    ) -> Option<AllocResult> {
        let (off, end) = (self.cursor.get(), self.geo.end);
        if off >= end {
            return None;
        }
        // SAFETY: invariant "The chain is whole": inside the heap, and a header begins there.
        let header = unsafe { self.load(off) };
        let bytes = Block::bytes_in(header);
        let free = header == Block::word(BlockKind::Free, bytes);
        if !free || bytes < want || bytes > end - off || self.in_doubt(others, off) {
            return None;
        }
        let joined = false;
        Some(self.take(s, others, Run { off, bytes, joined }, want, kind, log))
    }

    /// Searches the heap for free space from the cursor on, and takes it. Returns the header's
    /// offset.
    #[inline(never)]
    fn alloc_elsewhere(
        &self,
        s: &CtxState,
        others: &[CtxState],
        want: usize,
        kind: BlockKind,
        log: bool,
    ) -> AllocResult {
        let mut search = Search {
            off: 0,
            wrapped: false,
            unfinished: false,
        };
        if planted!("pmem-tx/alloc-in-no-section") {
            return self.alloc_in_section(s, others, want, kind, log, &mut search);
        }
        loop {
            let result = M::section(|| {
                let resumes = search.unfinished;
                let result = self.alloc_in_section(s, others, want, kind, log, &mut search);
                // Only between two sections does it matter what is announced.
                if M::PREEMPTED && search.unfinished {
                    s.announce(announced::CHAIN_STABLE);
                } else if M::PREEMPTED && resumes {
                    s.withdraw(announced::CHAIN_STABLE);
                }
                result
            });
            if !search.unfinished {
                return result;
            }
        }
    }

    /// One critical section of a search: continues it and, if it finds space, takes that.
    #[inline(always)]
    fn alloc_in_section(
        &self,
        s: &CtxState,
        others: &[CtxState],
        want: usize,
        kind: BlockKind,
        log: bool,
        search: &mut Search,
    ) -> AllocResult {
        let mut resumes = M::PREEMPTED && search.unfinished && s.announces(announced::CHAIN_STABLE);
        if planted!("pmem-tx/search-goes-on-anywhere") {
            resumes = search.unfinished;
        }
        if !resumes {
            (search.off, search.wrapped) = (self.cursor.get(), false);
        }
        search.unfinished = false;
        match self.find_free(others, want, search) {
            Some(run) => self.take(s, others, run, want, kind, log),
            None => AllocResult::PoolFull(want),
        }
    }

    /// Logs that free neighbours become one block, makes it, and sets the cursor behind it. Call in
    /// a critical section.
    #[inline(always)]
    fn take(
        &self,
        s: &CtxState,
        others: &[CtxState],
        run: Run,
        want: usize,
        kind: BlockKind,
        log: bool,
    ) -> AllocResult {
        let Run { off, bytes, joined } = run;
        if log && let Err(JournalOverflow(bytes)) = self.log_alloc(s, off) {
            return AllocResult::JournalFull(bytes);
        }
        if M::PREEMPTED && joined && !planted!("pmem-tx/joins-unseen") {
            restart_searches(others);
        }
        self.split(off, want, bytes, kind);
        self.cursor.set(off + want);
        AllocResult::At(off)
    }

    /// Finds free neighbours of at least `want` bytes together.
    #[inline(always)]
    fn find_free(&self, others: &[CtxState], want: usize, search: &mut Search) -> Option<Run> {
        let mut off = search.off;
        // The run is from `start` to `off`.
        let mut start = off;
        let mut wrapped = search.wrapped;
        let mut steps = 0;
        loop {
            if off >= self.geo.end {
                if wrapped {
                    return None;
                }
                // Then once over the whole heap: a run of free blocks may begin before the cursor.
                wrapped = true;
                off = self.geo.heap;
                start = off;
            }
            if M::PREEMPTED {
                // Pause only between runs: a run of free blocks that is interrupted would have to
                // be read again.
                if start == off && steps >= HEADERS_PER_SECTION {
                    (search.off, search.wrapped, search.unfinished) = (off, wrapped, true);
                    return None;
                }
                steps += 1;
            }
            // Blocks begin at multiples of a granule from the first one on.
            let b = self.block_inside(off)?;
            let (at, next) = (off, off + b.bytes());
            off = next;
            if !b.is(BlockKind::Free) || self.in_doubt(others, at) {
                start = next;
            } else if next - start >= want {
                return Some(Run {
                    off: start,
                    bytes: next - start,
                    joined: at != start,
                });
            }
        }
    }

    // INVARIANT "Free means free": a block whose header says free has no owner, committed or in
    // doubt. Frees take effect in `prepare` (journal.rs), and an allocation asks here.
    // Noticed by: planted `free-at-once`, `reuse-before-commit`.

    /// Whether a transaction in doubt of another context has freed this block, or is giving it back
    /// by an abort. The block may change its kind again, so nobody else may take it.
    #[inline(always)]
    fn in_doubt(&self, others: &[CtxState], off: usize) -> bool {
        if planted!("pmem-tx/reuse-before-commit") {
            return false;
        }
        others
            .iter()
            .any(|s| s.in_doubt::<M>() && self.is_named(s, off))
    }

    /// Whether the journal of a transaction in doubt names this block.
    #[cold]
    #[inline(never)]
    fn is_named(&self, s: &CtxState, off: usize) -> bool {
        (0..s.count.get()).any(|i| {
            let (first, second) = self.words(s, i);
            // An entry for an allocation has kind 0. It matters only where an abort can be
            // preempted half way.
            let freed = first & !7 == off & !7 && (M::PREEMPTED || first & 7 != 0);
            freed && Undo::units(second, Self::UNIT) == 0
        })
    }

    // INVARIANT "The chain is whole": at every moment the blocks tile the heap. One store changes a
    // block, and a split stores the header of the remainder before it.
    // Noticed by: planted `split-in-wrong-order`, `no-fence-in-split`, `block-past-the-end`.

    /// Makes the first `want` of `free_bytes` free bytes at `off` a block of this kind.
    #[inline(always)]
    fn split(&self, off: usize, want: usize, free_bytes: usize, kind: BlockKind) {
        // SAFETY: invariant "The chain is whole": both headers lie in free space; the remainder's
        // is not reachable before the first is stored.
        unsafe {
            let remainder = Block::word(BlockKind::Free, free_bytes - want);
            let new = Block::word(kind, want);
            if planted!("pmem-tx/split-in-wrong-order") {
                self.store(off, new);
            }
            if free_bytes > want {
                self.store(off + want, remainder);
                if !planted!("pmem-tx/no-fence-in-split") {
                    self.fence();
                }
            }
            self.store(off, new);
        }
        // The headers of joined blocks lie inside the new block: its content may overwrite them
        // only after its own header persists.
        if !planted!("pmem-tx/no-fence-after-split") {
            self.fence();
        }
    }

    /// Logs that the block with its payload at `off` becomes free at the commit.
    #[inline(always)]
    pub fn free(&self, s: &CtxState, off: usize, kind: BlockKind) -> Result<(), JournalOverflow> {
        let header = off - Self::UNIT;
        if planted!("pmem-tx/free-at-once") {
            let b = self.block(header).ok_or(JournalOverflow(0))?;
            // SAFETY: invariant "The chain is whole": a block header.
            unsafe { self.store(header, b.becomes(BlockKind::Free)) }
            return Ok(());
        }
        self.log_free(s, header, kind)
    }
}

// INVARIANT "Steady or anew": a walk that lets other contexts run continues only where a block
// still begins. A context that joins blocks clears `announced::CHAIN_STABLE` of all others.
// Noticed by: planted `search-goes-on-anywhere`.

/// Blocks are joined: searches of other contexts start again, because they may be at the header of
/// one. Call in a critical section.
#[cold]
#[inline(never)]
fn restart_searches(all: &[CtxState]) {
    for s in all {
        s.withdraw(announced::CHAIN_STABLE);
    }
}
