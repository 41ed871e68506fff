//! Blocks: the heap is a chain of them, each with a header of one unit that tells its state and size.
//!
//! A block changes state by one store of its header, so the chain is whole at every moment. Free neighbours are joined
//! when an allocation wants them. Nothing about free space is kept elsewhere.

use crate::error::{Error, Part};
use crate::layout::{Block, GRANULE, Kind, Tag, Undo};
use crate::state::{Core, CtxState, flag};
use nvmem::{Model, mapped, planted};

impl<M: Model> Core<'_, M> {
    /// The block whose header is at `off`, if one can be there.
    pub fn block(&self, off: u32) -> Option<Block> {
        if off < self.geo.heap
            || off >= self.geo.end
            || !(off - self.geo.heap).is_multiple_of(GRANULE as u32)
        {
            return None;
        }
        // SAFETY: inside the heap and aligned; blocks are only lent behind their headers.
        let b = Block::decode(unsafe { self.load(off as usize) })?;
        (b.granules <= (self.geo.end - off) / GRANULE as u32).then_some(b)
    }

    /// Calls `f` for each block. **Errors**: the chain is broken.
    pub fn blocks(&self, mut f: impl FnMut(u32, Block)) -> Result<(), Part> {
        let mut off = self.geo.heap;
        while off < self.geo.end {
            let b = self.block(off).ok_or(Part::Heap)?;
            f(off, b);
            off += b.granules * GRANULE as u32;
        }
        Ok(())
    }

    /// Calls `f` with the place and content of the tag of each two-version cell.
    pub fn tags(&self, mut f: impl FnMut(usize, Tag)) {
        // The chain was checked at open and is whole at every moment since.
        let _ = self.blocks(|off, b| {
            if b.kind == Kind::Cell {
                let at = off as usize + Self::UNIT;
                // SAFETY: a cell's payload starts with its tag.
                f(at, Tag::decode(unsafe { self.load(at) }, Self::UNIT));
            }
        });
    }

    /// A block for `size` bytes becomes `kind`; gives the payload's offset. `log` is false only while formatting.
    ///
    /// **Power loss**: the block is free again. **Cost**: a journal entry, the header, and one more header when a
    /// block is divided.
    pub fn alloc(
        &self,
        s: &CtxState,
        all: &[CtxState],
        size: usize,
        kind: Kind,
        log: bool,
    ) -> Result<u32, Error> {
        let full = Error::PoolFull { bytes: size };
        let want = Block::granules_for(size, Self::UNIT).ok_or(full)?;
        let total = (self.geo.end - self.geo.heap) / GRANULE as u32;
        let mut off = self.cursor.get();
        let mut seen = 0;
        // Twice round, because joining may want to start before the cursor.
        while seen < 2 * total {
            if off >= self.geo.end {
                off = self.geo.heap;
            }
            let b = self.block(off).ok_or(full)?;
            let room = self.room(all, off, want);
            if room >= want {
                if log {
                    self.log_alloc(s, off)?;
                }
                self.split(off, want, room, kind);
                if log {
                    // Until the transaction ends: `prepare` and `rollback` end the loans of new blocks.
                    let payload = self.at(off as usize + Self::UNIT);
                    mapped::lend(payload, want as usize * GRANULE - Self::UNIT);
                }
                self.cursor.set(off + want * GRANULE as u32);
                return Ok(off + Self::UNIT as u32);
            }
            let step = room.max(b.granules);
            seen += step;
            off += step * GRANULE as u32;
        }
        Err(full)
    }

    /// Granules from the free block at `off` on that are free, at least `want` if there are as many.
    fn room(&self, all: &[CtxState], off: u32, want: u32) -> u32 {
        let mut room = 0;
        let mut at = off;
        while room < want {
            match self.block(at) {
                Some(b) if b.kind == Kind::Free && !self.freed_in_doubt(all, at) => {
                    room += b.granules;
                    at += b.granules * GRANULE as u32;
                }
                _ => break,
            }
        }
        room
    }

    /// Whether a transaction that is prepared and not committed has freed this block: it may come back.
    fn freed_in_doubt(&self, all: &[CtxState], off: u32) -> bool {
        if planted!("pmem-tx/reuse-before-commit") {
            return false;
        }
        all.iter().any(|s| {
            s.is(flag::PREPARED)
                && (0..s.count.get()).any(|i| {
                    self.entry(s, i).is_some_and(|(a, b)| {
                        matches!(Undo::decode(a, b, Self::UNIT), Some(Undo::Free { off: o, .. }) if o == off)
                    })
                })
        })
    }

    /// The first `want` of `room` free granules at `off` become a block of this kind.
    fn split(&self, off: u32, want: u32, room: u32, kind: Kind) {
        // SAFETY: both are places of headers inside free space; the rest's is not seen before the first is stored.
        unsafe {
            let rest = Block {
                kind: Kind::Free,
                granules: room - want,
            };
            let new = Block {
                kind,
                granules: want,
            };
            if planted!("pmem-tx/split-in-wrong-order") {
                self.store(off as usize, new.encode());
            }
            if room > want {
                self.store((off + want * GRANULE as u32) as usize, rest.encode());
                if !planted!("pmem-tx/no-fence-in-split") {
                    self.fence();
                }
            }
            self.store(off as usize, new.encode());
        }
        // The headers of joined blocks are inside the new one: its content must not reach them before its own header counts.
        if !planted!("pmem-tx/no-fence-after-split") {
            self.fence();
        }
    }

    /// The block whose payload is at `off` is free from the commit on.
    pub fn free(&self, s: &CtxState, off: u32, kind: Kind) -> Result<(), Error> {
        let header = off - Self::UNIT as u32;
        if planted!("pmem-tx/free-at-once") {
            let b = self.block(header).ok_or(Error::WrongPool)?;
            // SAFETY: a block header.
            unsafe {
                self.store(
                    header as usize,
                    Block {
                        kind: Kind::Free,
                        ..b
                    }
                    .encode(),
                )
            }
            return Ok(());
        }
        self.log_free(s, header, kind)
    }
}
