//! Blocks: the heap is a chain of them, each with a header of one unit that tells its state and size.
//!
//! A block changes state by one store of its header, so the chain is whole at every moment. Free neighbours are joined
//! when an allocation wants them. Nothing about free space is kept elsewhere.

use crate::error::{Component, Error, JournalOverflow};
use crate::layout::{Block, BlockKind, GRANULE, Undo};
use crate::pbox::Width;
use crate::state::{Core, CtxState, announced};
use crate::tx::Failure;
use nvmem::{Model, mapped, planted};

/// What an allocation gives: a payload's offset, or why there is none. Flat, so that it is returned in registers.
#[derive(Clone, Copy)]
pub(crate) enum AllocResult {
    JournalFull(usize),
    PoolFull(usize),
    At(usize),
}
impl AllocResult {
    /// The offset as a handle has it.
    #[inline(always)]
    pub fn narrow<W: Width>(self) -> Result<W::Off, Self> {
        match self {
            // No pool is longer than its handles reach.
            AllocResult::At(off) => W::off(off).ok_or(self),
            _ => Err(self),
        }
    }
}

impl From<AllocResult> for Error {
    #[inline(always)]
    fn from(room: AllocResult) -> Self {
        match room {
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

/// Where contexts preempt each other: after how many headers a walk along the blocks lets the
/// others in.
const HEADERS_PER_SECTION: usize = 4;

/// How far a search has come that is interrupted.
struct Search {
    off: usize,
    /// It has come by the end once.
    wrapped: bool,
    /// It is not done.
    unfinished: bool,
}

impl<M: Model> Core<'_, M> {
    /// The block whose header is at `off`, if one can be there.
    #[inline(never)]
    pub fn block(&self, off: usize) -> Option<Block> {
        // Before the heap it wraps, and is too large.
        let from = off.wrapping_sub(self.geo.heap);
        if from >= self.geo.end - self.geo.heap || !from.is_multiple_of(GRANULE) {
            return None;
        }
        // SAFETY: invariant "The chain is whole": inside the heap and aligned; blocks are only lent
        // behind their headers.
        let b = Block::decode(unsafe { self.load(off) })?;
        let past = GRANULE * usize::from(planted!("pmem-tx/block-past-the-end"));
        (b.bytes() <= self.geo.end - off + past).then_some(b)
    }

    /// Calls `f` for each block, until it fails. **Errors**: what it says; the chain is broken.
    pub fn for_each_block(
        &self,
        mut f: impl FnMut(usize, Block) -> Result<(), Component>,
    ) -> Result<(), Component> {
        let mut off = self.geo.heap;
        while off < self.geo.end {
            let b = self.block(off).ok_or(Component::Heap)?;
            f(off, b)?;
            off += b.bytes();
        }
        Ok(())
    }

    /// Like [`Core::for_each_block`], for a context whose blocks may change hands meanwhile. It begins
    /// again when another one has joined blocks: what `f` does may be done twice.
    pub fn for_each_block_preempted(
        &self,
        s: &CtxState,
        mut f: impl FnMut(usize, Block) -> Result<(), Component>,
    ) -> Result<(), Component> {
        if !M::PREEMPTED || planted!("pmem-tx/walk-in-no-section") {
            return self.for_each_block(f);
        }
        let mut off = self.geo.heap;
        let mut some = || {
            if !s.announces(announced::CHAIN_STABLE) {
                s.announce(announced::CHAIN_STABLE);
                off = self.geo.heap;
            }
            for _ in 0..HEADERS_PER_SECTION {
                if off < self.geo.end {
                    let b = self.block(off).ok_or(Component::Heap)?;
                    f(off, b)?;
                    off += b.bytes();
                }
            }
            Ok(off < self.geo.end)
        };
        loop {
            let more = M::section(|| {
                let more = some();
                if more != Ok(true) {
                    s.withdraw(announced::CHAIN_STABLE);
                }
                more
            });
            if !more? {
                return Ok(());
            }
        }
    }

    /// A block for `size` bytes becomes `kind`; gives the payload's offset. `log` is false only while formatting.
    ///
    /// **Power loss**: the block is free again. **Cost**: a journal entry, the header, and one more header when a
    /// block is divided.
    pub fn alloc(
        &self,
        s: &CtxState,
        others: &[CtxState],
        size: usize,
        kind: BlockKind,
        log: bool,
    ) -> AllocResult {
        let want = Block::bytes_for(size, Self::UNIT);
        let mut search = Search {
            off: 0,
            wrapped: false,
            unfinished: false,
        };
        let room = if planted!("pmem-tx/alloc-in-no-section") {
            self.alloc_in_section(s, others, want, kind, log, &mut search)
        } else {
            loop {
                let room = M::section(|| {
                    let room = self.alloc_in_section(s, others, want, kind, log, &mut search);
                    if M::PREEMPTED && !search.unfinished {
                        s.withdraw(announced::CHAIN_STABLE);
                    }
                    room
                });
                if !search.unfinished {
                    break room;
                }
            }
        };
        let header = match room {
            AllocResult::At(header) => header,
            AllocResult::PoolFull(_) => return AllocResult::PoolFull(size),
            full => return full,
        };
        // Until the transaction ends: `prepare` and `rollback` end the loans of new blocks. Without an observer nobody asks for
        // which.
        if !mapped::observed() {
            mapped::lend(self.at(0), 0);
        } else if log {
            mapped::lend(self.at(header + Self::UNIT), want - Self::UNIT);
        }
        AllocResult::At(header + Self::UNIT)
    }

    /// What one section does for an allocation: goes on with the search, and when it has found
    /// room, takes it. Gives the header's offset.
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
        let steady =
            || s.announces(announced::CHAIN_STABLE) || planted!("pmem-tx/search-goes-on-anywhere");
        if !(M::PREEMPTED && search.unfinished && steady()) {
            (search.off, search.wrapped) = (self.cursor.get(), false);
            if M::PREEMPTED {
                s.announce(announced::CHAIN_STABLE);
            }
        }
        search.unfinished = false;
        let Some((off, room)) = self.find_free(others, want, search) else {
            return AllocResult::PoolFull(want);
        };
        if log && let Err(JournalOverflow(bytes)) = self.log_alloc(s, off) {
            return AllocResult::JournalFull(bytes);
        }
        if M::PREEMPTED && self.block(off).is_some_and(|b| b.bytes() < room) {
            for s in others
                .iter()
                .filter(|s| s.announces(announced::CHAIN_STABLE))
            {
                s.withdraw(announced::CHAIN_STABLE);
            }
        }
        self.split(off, want, room, kind);
        self.cursor.set(off + want);
        AllocResult::At(off)
    }

    /// Free neighbours of at least `want` bytes together: where they begin, and how many bytes they are.
    #[inline(always)]
    fn find_free(
        &self,
        others: &[CtxState],
        want: usize,
        search: &mut Search,
    ) -> Option<(usize, usize)> {
        let mut off = search.off;
        let (mut start, mut room) = (off, 0);
        let mut wrapped = search.wrapped;
        let mut steps = 0;
        while room < want {
            if off >= self.geo.end {
                if wrapped {
                    return None;
                }
                // Once from the beginning to the end, because joining may want to start before the cursor.
                wrapped = true;
                off = self.geo.heap;
                (start, room) = (off, 0);
            }
            if M::PREEMPTED {
                // Not among free blocks: what was found would have to be looked at again.
                if room == 0 && steps >= HEADERS_PER_SECTION {
                    (search.off, search.wrapped, search.unfinished) = (off, wrapped, true);
                    return None;
                }
                steps += 1;
            }
            let b = self.block(off)?;
            let next = off + b.bytes();
            room += b.bytes();
            if !b.is(BlockKind::Free) || self.in_doubt(others, off) {
                (start, room) = (next, 0);
            }
            off = next;
        }
        Some((start, room))
    }

    /// Whether another context has this block in a transaction that is in doubt: freed before the
    /// commit, or given back while the entry still counts. It may change hands again.
    fn in_doubt(&self, others: &[CtxState], off: usize) -> bool {
        if planted!("pmem-tx/reuse-before-commit") {
            return false;
        }
        others.iter().any(|s| {
            s.in_doubt::<M>()
                && (0..s.count.get()).any(|i| {
                    let (first, second) = self.words(s, i);
                    // What was allocated has no kind there; where nobody is preempted, it is not
                    // given back half.
                    let freed = first & !7 == off & !7 && (M::PREEMPTED || first & 7 != 0);
                    freed && Undo::units(second, Self::UNIT) == 0
                })
        })
    }

    /// The first `want` of `room` free bytes at `off` become a block of this kind.
    #[inline(never)]
    fn split(&self, off: usize, want: usize, room: usize, kind: BlockKind) {
        // SAFETY: invariant "The chain is whole": both headers lie in free space; the rest's is not
        // seen before the first is stored.
        unsafe {
            let rest = Block::word(BlockKind::Free, room - want);
            let new = Block::word(kind, want);
            if planted!("pmem-tx/split-in-wrong-order") {
                self.store(off, new);
            }
            if room > want {
                self.store(off + want, rest);
                if !planted!("pmem-tx/no-fence-in-split") {
                    self.fence();
                }
            }
            self.store(off, new);
        }
        // The headers of joined blocks are inside the new one: its content must not reach them before its own header counts.
        if !planted!("pmem-tx/no-fence-after-split") {
            self.fence();
        }
    }

    /// The block whose payload is at `off` is free from the commit on.
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
