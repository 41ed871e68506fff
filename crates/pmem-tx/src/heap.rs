//! Blocks: the heap is a chain of them, each with a header of one unit that tells its state and size.
//!
//! A block changes state by one store of its header, so the chain is whole at every moment. Free neighbours are joined
//! when an allocation wants them. Nothing about free space is kept elsewhere.

use crate::error::{Error, NoEntry, Part};
use crate::layout::{Block, GRANULE, Kind, Undo};
use crate::pbox::Width;
use crate::state::{Core, CtxState, seen};
use crate::tx::Failure;
use nvmem::{Model, mapped, planted};

/// What an allocation gives: a payload's offset, or why there is none. Flat, so that it is returned in registers.
#[derive(Clone, Copy)]
pub(crate) enum Room {
    NoEntry(usize),
    NoBlock(usize),
    At(usize),
}
impl Room {
    /// The offset as a handle has it.
    #[inline(always)]
    pub fn narrow<W: Width>(self) -> Result<W::Off, Self> {
        match self {
            // No pool is longer than its handles reach.
            Room::At(off) => W::off(off).ok_or(self),
            _ => Err(self),
        }
    }
}

impl From<Room> for Error {
    #[inline(always)]
    fn from(room: Room) -> Self {
        match room {
            Room::NoEntry(bytes) => Error::JournalFull { bytes },
            Room::NoBlock(bytes) | Room::At(bytes) => Error::PoolFull { bytes },
        }
    }
}
impl Failure for Room {
    #[cold]
    #[inline(never)]
    fn tell(self, s: &CtxState, level: usize) {
        Error::from(self).tell(s, level)
    }
}

/// Where contexts preempt each other: after how many headers a walk along the blocks lets the
/// others in.
const STEPS: usize = 4;

/// How far a search has come that is interrupted.
struct Search {
    off: usize,
    /// It has come by the end once.
    again: bool,
    /// It is not done.
    more: bool,
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
    pub fn blocks(&self, mut f: impl FnMut(usize, Block) -> Result<(), Part>) -> Result<(), Part> {
        let mut off = self.geo.heap;
        while off < self.geo.end {
            let b = self.block(off).ok_or(Part::Heap)?;
            f(off, b)?;
            off += b.bytes();
        }
        Ok(())
    }

    /// Like [`Core::blocks`], for a context whose blocks may change hands meanwhile. It begins
    /// again when another one has joined blocks: what `f` does may be done twice.
    pub fn blocks_between(
        &self,
        s: &CtxState,
        mut f: impl FnMut(usize, Block) -> Result<(), Part>,
    ) -> Result<(), Part> {
        if !M::PREEMPTED || planted!("pmem-tx/walk-in-no-section") {
            return self.blocks(f);
        }
        let mut off = self.geo.heap;
        let mut some = || {
            if !s.shows(seen::STEADY) {
                s.show(seen::STEADY);
                off = self.geo.heap;
            }
            for _ in 0..STEPS {
                if off < self.geo.end {
                    let b = self.block(off).ok_or(Part::Heap)?;
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
                    s.hide(seen::STEADY);
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
        kind: Kind,
        log: bool,
    ) -> Room {
        let want = Block::bytes_for(size, Self::UNIT);
        let mut search = Search {
            off: 0,
            again: false,
            more: false,
        };
        let room = if planted!("pmem-tx/alloc-in-no-section") {
            self.take(s, others, want, kind, log, &mut search)
        } else {
            loop {
                let room = M::section(|| {
                    let room = self.take(s, others, want, kind, log, &mut search);
                    if M::PREEMPTED && !search.more {
                        s.hide(seen::STEADY);
                    }
                    room
                });
                if !search.more {
                    break room;
                }
            }
        };
        let header = match room {
            Room::At(header) => header,
            Room::NoBlock(_) => return Room::NoBlock(size),
            full => return full,
        };
        // Until the transaction ends: `prepare` and `rollback` end the loans of new blocks. Without an observer nobody asks for
        // which.
        if !mapped::observed() {
            mapped::lend(self.at(0), 0);
        } else if log {
            mapped::lend(self.at(header + Self::UNIT), want - Self::UNIT);
        }
        Room::At(header + Self::UNIT)
    }

    /// What one section does for an allocation: goes on with the search, and when it has found
    /// room, takes it. Gives the header's offset.
    #[inline(always)]
    fn take(
        &self,
        s: &CtxState,
        others: &[CtxState],
        want: usize,
        kind: Kind,
        log: bool,
        search: &mut Search,
    ) -> Room {
        let steady = || s.shows(seen::STEADY) || planted!("pmem-tx/search-goes-on-anywhere");
        if !(M::PREEMPTED && search.more && steady()) {
            (search.off, search.again) = (self.cursor.get(), false);
            if M::PREEMPTED {
                s.show(seen::STEADY);
            }
        }
        search.more = false;
        let Some((off, room)) = self.find(others, want, search) else {
            return Room::NoBlock(want);
        };
        if log && let Err(NoEntry(bytes)) = self.log_alloc(s, off) {
            return Room::NoEntry(bytes);
        }
        if M::PREEMPTED && self.block(off).is_some_and(|b| b.bytes() < room) {
            for s in others.iter().filter(|s| s.shows(seen::STEADY)) {
                s.hide(seen::STEADY);
            }
        }
        self.split(off, want, room, kind);
        self.cursor.set(off + want);
        Room::At(off)
    }

    /// Free neighbours of at least `want` bytes together: where they begin, and how many bytes they are.
    #[inline(always)]
    fn find(
        &self,
        others: &[CtxState],
        want: usize,
        search: &mut Search,
    ) -> Option<(usize, usize)> {
        let mut off = search.off;
        let (mut start, mut room) = (off, 0);
        let mut again = search.again;
        let mut steps = 0;
        while room < want {
            if off >= self.geo.end {
                if again {
                    return None;
                }
                // Once from the beginning to the end, because joining may want to start before the cursor.
                again = true;
                off = self.geo.heap;
                (start, room) = (off, 0);
            }
            if M::PREEMPTED {
                // Not among free blocks: what was found would have to be looked at again.
                if room == 0 && steps >= STEPS {
                    (search.off, search.again, search.more) = (off, again, true);
                    return None;
                }
                steps += 1;
            }
            let b = self.block(off)?;
            let next = off + b.bytes();
            room += b.bytes();
            if !b.is(Kind::Free) || self.in_doubt(others, off) {
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
    fn split(&self, off: usize, want: usize, room: usize, kind: Kind) {
        // SAFETY: invariant "The chain is whole": both headers lie in free space; the rest's is not
        // seen before the first is stored.
        unsafe {
            let rest = Block::word(Kind::Free, room - want);
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
    pub fn free(&self, s: &CtxState, off: usize, kind: Kind) -> Result<(), NoEntry> {
        let header = off - Self::UNIT;
        if planted!("pmem-tx/free-at-once") {
            let b = self.block(header).ok_or(NoEntry(0))?;
            // SAFETY: invariant "The chain is whole": a block header.
            unsafe { self.store(header, b.becomes(Kind::Free)) }
            return Ok(());
        }
        self.log_free(s, header, kind)
    }
}
