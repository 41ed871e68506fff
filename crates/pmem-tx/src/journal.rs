//! The undo journal: one for each context.
//!
//! Headers lie at fixed places, old content elsewhere, so that content is never taken for a header. An entry is valid
//! if its header carries the sequence number of the transaction in doubt and all entries before it are valid. Nothing is
//! cleared at commit: the number moves on. A rollback goes backwards and clears each header after its content is back.

use crate::error::{Error, Part};
use crate::layout::{Block, Kind, Tag, Undo};
use crate::state::{Core, CtxState};
use nvmem::{Model, mapped, planted};

impl<M: Model> Core<'_, M> {
    /// Appends an entry. Order: content and first word, fence, second word, fence.
    fn append(&self, ctx: usize, s: &CtxState, undo: Undo) -> Result<(), Error> {
        let unit = Self::UNIT;
        let (bytes, from) = match undo {
            Undo::Content { off, units } => (units as usize * unit, off),
            _ => (0, 0),
        };
        let i = s.count.get();
        if i >= self.geo.entries || bytes > (self.geo.bytes - s.used.get()) as usize {
            return Err(Error::JournalFull { bytes });
        }
        let h = self.geo.header(ctx, i, unit);
        let (first, second) = undo.encode(s.seq.get(), unit);
        // SAFETY: the entry's header and payload lie in this context's journal; `from` was checked by the caller.
        unsafe {
            if planted!("pmem-tx/header-before-content") {
                self.store(h + unit, second);
            }
            if bytes > 0 && !planted!("pmem-tx/log-without-content") {
                let to = self.geo.payload(ctx) + s.used.get() as usize;
                mapped::copy(
                    self.at(from as usize).cast::<M::Unit>(),
                    self.at(to).cast::<M::Unit>(),
                    bytes / unit,
                );
            }
            self.store(h, first);
            if !planted!("pmem-tx/no-fence-before-header") {
                self.fence();
            }
            self.store(h + unit, second);
            if !planted!("pmem-tx/no-fence-after-header") {
                self.fence();
            }
        }
        s.count.set(i + 1);
        s.used.set(s.used.get() + bytes as u32);
        Ok(())
    }

    /// The end of the range that begins at or before `at`, holds it, and needs no log: an entry of the innermost transaction
    /// keeps its old content, or its block is new.
    fn covered(&self, ctx: usize, s: &CtxState, at: u32) -> Option<(u32, u32)> {
        let unit = Self::UNIT;
        (s.base.get()..s.count.get()).find_map(|i| {
            let h = self.geo.header(ctx, i, unit);
            // SAFETY: an entry of the header area.
            let (first, second) = unsafe { (self.load(h), self.load(h + unit)) };
            let (start, end) = match Undo::decode(first, second, unit)? {
                Undo::Content { off, units } => (off, off + units * unit as u32),
                Undo::Alloc { off } => (off + unit as u32, off + self.block(off)?.granules * 8),
                Undo::Free { .. } => return None,
            };
            (start <= at && at < end).then_some((start, end))
        })
    }

    /// Logs `len` bytes at `off` once a transaction and lends them until it ends.
    ///
    /// `off..off + len` is inside the heap. Units at either end that are kept already are not even read: a neighbouring
    /// field that shares one may be borrowed mutably at this moment. No other unit is, because what is borrowed was logged.
    /// **Errors**: the journal is full; parts that were logged stay so, and are true.
    pub fn log(&self, ctx: usize, s: &CtxState, off: usize, len: usize) -> Result<(), Error> {
        let unit = Self::UNIT as u32;
        let mut from = off as u32 & !(unit - 1);
        let mut to = ((off + len) as u32).next_multiple_of(unit);
        if s.count.get() > s.base.get() {
            while from < to
                && let Some((_, end)) = self.covered(ctx, s, from)
            {
                from = end;
            }
            while from < to
                && let Some((start, _)) = self.covered(ctx, s, to - unit)
            {
                to = start;
            }
        }
        while from < to {
            let units = ((to - from) / unit).min(Undo::max_units(Self::UNIT));
            if !planted!("pmem-tx/never-log") {
                self.append(ctx, s, Undo::Content { off: from, units })?;
            }
            mapped::lend(self.at(from as usize), units as usize * Self::UNIT);
            from += units * unit;
        }
        Ok(())
    }

    /// Logs that the free block at `off` becomes an object.
    pub fn log_alloc(&self, ctx: usize, s: &CtxState, off: u32) -> Result<(), Error> {
        if planted!("pmem-tx/alloc-not-logged") {
            return Ok(());
        }
        self.append(ctx, s, Undo::Alloc { off })
    }

    /// Logs that the block at `off` becomes free at the commit.
    pub fn log_free(&self, ctx: usize, s: &CtxState, off: u32, kind: Kind) -> Result<(), Error> {
        self.append(ctx, s, Undo::Free { off, kind })
    }

    /// Everything but the commit store: ends the loans, frees what was freed, clears what would come round again.
    pub fn prepare(&self, ctx: usize, s: &CtxState) {
        let unit = Self::UNIT;
        for i in 0..s.count.get() {
            let h = self.geo.header(ctx, i, unit);
            // SAFETY: an entry of the header area.
            let (first, second) = unsafe { (self.load(h), self.load(h + unit)) };
            match Undo::decode(first, second, unit) {
                Some(Undo::Content { off, units }) => {
                    mapped::end_loan(self.at(off as usize), units as usize * unit)
                }
                Some(Undo::Alloc { off }) => {
                    if let Some(b) = self.block(off) {
                        mapped::end_loan(
                            self.at(off as usize + unit),
                            b.granules as usize * 8 - unit,
                        )
                    }
                }
                Some(Undo::Free { off, .. }) => {
                    if let Some(b) = self.block(off) {
                        let free = Block {
                            kind: Kind::Free,
                            ..b
                        };
                        // SAFETY: a block header.
                        unsafe { self.store(off as usize, free.encode()) }
                    }
                }
                None => {}
            }
        }
        if self.geo.sweeps(s.seq.get()) && !planted!("pmem-tx/no-sweep") {
            self.sweep(ctx, s);
        }
        if !planted!("pmem-tx/no-fence-before-commit") {
            self.fence();
        }
        s.prepared.set(true);
    }

    /// Clears stale headers and settles stale tags of this context, before their number comes round again. In the
    /// transaction in doubt, never after its commit: a cut here is rolled back and the sweep done again.
    fn sweep(&self, ctx: usize, s: &CtxState) {
        let (unit, seq) = (Self::UNIT, s.seq.get());
        for i in s.count.get()..self.geo.entries {
            let h = self.geo.header(ctx, i, unit) + unit;
            // SAFETY: an entry of the header area.
            unsafe {
                if self.load(h) != 0 {
                    self.store(h, 0)
                }
            }
        }
        self.tags(|off, tag| {
            if tag.ctx as usize == ctx && tag.seq != 0 && tag.seq != seq {
                // SAFETY: a cell's tag.
                unsafe { self.store(off, tag.settled().encode(unit)) }
            }
        });
    }

    /// Undoes the entries from `from` on, the newest first.
    ///
    /// **Power loss**: the entries that are still valid are undone at the next open.
    pub fn rollback_to(&self, ctx: usize, s: &CtxState, from: u32) {
        let unit = Self::UNIT;
        while s.count.get() > from {
            let i = s.count.get() - 1;
            let h = self.geo.header(ctx, i, unit);
            // SAFETY: an entry of the header area.
            let (first, second) = unsafe { (self.load(h), self.load(h + unit)) };
            if let Some(undo) = Undo::decode(first, second, unit) {
                self.undo(ctx, s, undo);
            }
            if !planted!("pmem-tx/no-fence-in-rollback") {
                self.fence();
            }
            if !planted!("pmem-tx/rollback-keeps-header") {
                // SAFETY: as above.
                unsafe { self.store(h + unit, 0) }
            }
            s.count.set(i);
        }
        self.fence();
    }

    fn undo(&self, ctx: usize, s: &CtxState, undo: Undo) {
        let unit = Self::UNIT;
        match undo {
            Undo::Content { off, units } => {
                let len = units * unit as u32;
                s.used.set(s.used.get() - len);
                let from = self.geo.payload(ctx) + s.used.get() as usize;
                mapped::end_loan(self.at(off as usize), len as usize);
                // SAFETY: the range was in the heap when it was logged, or was checked by `recover`.
                unsafe {
                    mapped::copy(
                        self.at(from).cast::<M::Unit>(),
                        self.at(off as usize).cast::<M::Unit>(),
                        units as usize,
                    )
                }
            }
            Undo::Alloc { off } => self.set_kind(off, Kind::Free),
            Undo::Free { off, kind } => self.set_kind(off, kind),
        }
    }

    fn set_kind(&self, off: u32, kind: Kind) {
        if let Some(b) = self.block(off) {
            if kind == Kind::Free {
                mapped::end_loan(
                    self.at(off as usize + Self::UNIT),
                    b.granules as usize * 8 - Self::UNIT,
                );
            }
            // SAFETY: `block` found a header there.
            unsafe { self.store(off as usize, Block { kind, ..b }.encode()) }
        }
    }

    /// Rolls the whole running transaction back, two-version cells included.
    pub fn rollback(&self, ctx: usize, s: &CtxState) {
        if planted!("pmem-tx/abort-keeps-changes") && s.level.get() > 0 {
            s.count.set(0);
        }
        self.rollback_to(ctx, s, 0);
        if s.cells.get() {
            self.revert_cells(ctx, s.seq.get());
        }
        self.reset(s);
    }

    /// Two-version cells of the transaction `seq` go back to the version before.
    pub fn revert_cells(&self, ctx: usize, seq: u32) {
        if planted!("pmem-tx/cell-not-reverted") {
            return;
        }
        self.tags(|off, tag| {
            if tag.ctx as usize == ctx && tag.seq == seq {
                // SAFETY: a cell's tag.
                unsafe { self.store(off, Tag::reverted(tag).encode(Self::UNIT)) }
            }
        });
        self.fence();
    }

    /// After a reboot: the cells of the transaction in doubt go back to the version before, and a tag of a transaction that
    /// has not been yet is settled: only a damaged image has it, and an abort would one day bring back a version that
    /// nobody has checked.
    pub fn mount_cells(&self, ctx: usize, next: u32) {
        self.revert_cells(ctx, next);
        self.tags(|off, tag| {
            if tag.ctx as usize == ctx && tag.seq != 0 && !self.geo.recent(tag.seq, next) {
                // SAFETY: a cell's tag.
                unsafe { self.store(off, tag.settled().encode(Self::UNIT)) }
            }
        });
    }

    /// The volatile state of a context without a transaction.
    pub fn reset(&self, s: &CtxState) {
        s.count.set(0);
        s.used.set(0);
        s.base.set(0);
        s.level.set(0);
        s.cells.set(false);
        s.prepared.set(false);
        s.failed.set(None);
    }

    /// After a reboot: undoes the transaction in doubt. The blocks are not to be trusted yet.
    ///
    /// **Errors**: an entry that no transaction writes; then nothing was changed.
    pub fn recover(&self, ctx: usize, s: &CtxState) -> Result<(), Part> {
        let unit = Self::UNIT;
        let (mut n, mut used) = (0, 0u32);
        while let Some((first, second)) = self.entry(ctx, n, s.seq.get()) {
            match Undo::decode(first, second, unit).ok_or(Part::Journal)? {
                Undo::Content { off, units } => {
                    let len = units * unit as u32;
                    used = used.saturating_add(len);
                    if used > self.geo.bytes || !self.undoable(off, len) {
                        return Err(Part::Journal);
                    }
                }
                Undo::Alloc { off } | Undo::Free { off, .. } => {
                    if self.block(off).is_none() {
                        return Err(Part::Journal);
                    }
                }
            }
            n += 1;
        }
        if planted!("pmem-tx/no-recovery") {
            return Ok(());
        }
        s.count.set(n);
        s.used.set(used);
        self.rollback_to(ctx, s, 0);
        self.reset(s);
        Ok(())
    }

    /// Content that is logged lies in the heap, or is a context's root word (a migration changes it).
    fn undoable(&self, off: u32, len: u32) -> bool {
        let Some(end) = off.checked_add(len) else {
            return false;
        };
        let in_heap = off >= self.geo.heap && end <= self.geo.end;
        let in_table = off >= self.geo.table && end <= self.geo.journals;
        off.is_multiple_of(Self::UNIT as u32) && (in_heap || in_table)
    }
}
