//! The undo journal: one for each context.
//!
//! Headers lie at fixed places, old content elsewhere, so that content is never taken for a header. An entry is valid
//! if its header carries the sequence number of the transaction in doubt and all entries before it are valid. Nothing is
//! cleared at commit: the number moves on. A rollback goes backwards and clears each header after its content is back.

use crate::error::{Component, JournalOverflow};
use crate::layout::{BlockKind, GRANULE, Tag, Undo};
use crate::state::{Core, CtxState, announced, flag};
use nvmem::{Model, Unit, mapped, planted};

/// Which tags are changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionUpdate {
    /// A rollback: the version before counts again in the cells of the transaction in doubt.
    Revert,
    /// After a reboot: that, and all others are settled. An abort never brings back a version that the walk has not checked,
    /// and no number that comes round finds a tag from before the reboot.
    Mount,
    /// All but those of the transaction in doubt are settled, before their number comes round again.
    Sweep,
}

impl<M: Model> Core<'_, M> {
    /// Logs `from..to` once a transaction and lends it until it ends.
    ///
    /// The range is whole units inside the heap. Units at either end that are kept already are not even read: a neighbouring
    /// field that shares one may be borrowed mutably at this moment. No other unit is, because what is borrowed was logged.
    /// **Errors**: the journal is full; parts that were logged stay so, and are true.
    pub fn log(&self, s: &CtxState, from: usize, to: usize) -> Result<(), JournalOverflow> {
        // The first entry of a transaction finds nothing that is kept, and every journal has room for one of 8 bytes.
        if s.count.get() == 0 && to - from <= GRANULE {
            self.append(s, from, to - from, 0, 0);
            Ok(())
        } else {
            self.log_slow(s, from, to)
        }
    }

    #[cold]
    #[inline(never)]
    fn log_slow(
        &self,
        s: &CtxState,
        mut from: usize,
        mut to: usize,
    ) -> Result<(), JournalOverflow> {
        // What is kept at either end is left out, until no entry reaches over one of them.
        let mut i = s.base.get();
        while from < to && i < s.count.get() {
            let (start, end) = self.covered_range(s, i);
            i += 1;
            if start <= from && from < end {
                from = end;
            } else if start < to && to <= end {
                to = start;
            } else {
                continue;
            }
            i = s.base.get();
        }
        while from < to {
            let bytes = (to - from).min(Undo::max_units(Self::UNIT) * Self::UNIT);
            self.log_entry(s, from, bytes)?;
            from += bytes;
        }
        Ok(())
    }

    /// Appends an entry if there is room for it: its first word, and the length of the content, which is where the first word
    /// says; none for what happens to a block.
    #[inline(never)]
    fn log_entry(&self, s: &CtxState, first: usize, bytes: usize) -> Result<(), JournalOverflow> {
        let (i, used) = (s.count.get(), s.used.get());
        if i >= self.geo.entries || bytes > self.geo.bytes - used {
            return Err(JournalOverflow(bytes));
        }
        self.append(s, first, bytes, i, used);
        Ok(())
    }

    /// Appends entry `i` and lends what it keeps. Order: content and first word, fence, second word, fence.
    #[inline(always)]
    fn append(&self, s: &CtxState, first: usize, bytes: usize, i: usize, used: usize) {
        let (unit, base) = (Self::UNIT, self.at(0));
        if bytes == 0 || !planted!("pmem-tx/never-log") {
            let h = self.at(s.header(i, unit)).cast::<M::Unit>();
            let second = Undo::second(s.seq.get(), bytes / unit, unit);
            let second = M::Unit::truncate(second as u32);
            // SAFETY: invariant "Headers are never content": a header in this context's journal,
            // and the place of content, which has room; `first` was checked by the caller if there
            // is content.
            unsafe {
                if planted!("pmem-tx/header-before-content") {
                    mapped::store(h.add(1), second);
                }
                if !planted!("pmem-tx/log-without-content") {
                    mapped::copy(
                        base.wrapping_add(first).cast::<M::Unit>(),
                        base.add(s.payload.get() + used).cast::<M::Unit>(),
                        bytes / unit,
                    )
                }
                mapped::store(h, M::Unit::truncate(first as u32));
                if !planted!("pmem-tx/no-fence-before-header") {
                    self.fence();
                }
                mapped::store(h.add(1), second);
                if !planted!("pmem-tx/no-fence-after-header") {
                    self.fence();
                }
            }
            s.count.set(i + 1);
            s.used.set(used + bytes);
        }
        // What happens to a block lends nothing; without an observer nobody asks.
        if bytes > 0 || !mapped::observed() {
            mapped::lend(base.wrapping_add(first), bytes);
        }
    }

    /// The range that needs no log because of this entry, if any: it keeps the old content, or the block is new.
    #[inline(always)]
    fn covered_range(&self, s: &CtxState, i: usize) -> (usize, usize) {
        let (first, second) = self.words(s, i);
        let units = Undo::units(second, Self::UNIT);
        if units > 0 {
            return (first, first + units * Self::UNIT);
        }
        match Undo::block(first, Self::UNIT) {
            (off, BlockKind::Free) => {
                let bytes = self.block(off).map_or(0, |b| b.bytes());
                (off + Self::UNIT, off + bytes)
            }
            _ => (0, 0),
        }
    }

    /// Logs that the free block at `off` becomes an object.
    pub fn log_alloc(&self, s: &CtxState, off: usize) -> Result<(), JournalOverflow> {
        if planted!("pmem-tx/alloc-not-logged") {
            return Ok(());
        }
        self.log_entry(
            s,
            Undo::Block {
                off,
                was: BlockKind::Free,
            }
            .first(),
            0,
        )
    }

    /// Logs that the block at `off` becomes free at the commit.
    pub fn log_free(
        &self,
        s: &CtxState,
        off: usize,
        kind: BlockKind,
    ) -> Result<(), JournalOverflow> {
        s.set_flag(flag::FREES);
        self.log_entry(s, Undo::Block { off, was: kind }.first(), 0)
    }

    /// Everything before the fence before the commit store: ends the loans, frees what was freed, clears what would come
    /// round again.
    pub fn prepare(&self, s: &CtxState) {
        if s.is(flag::FREES) && !planted!("pmem-tx/free-never-settled") {
            if M::PREEMPTED && !planted!("pmem-tx/free-not-announced") {
                M::section(|| s.announce(announced::DOUBT));
            }
            self.settle_frees(s);
        }
        self.end_loans(s);
        if s.seq.get() == s.sweep_seq.get() {
            self.sweep(s);
        }
    }

    /// Ends the loans of a transaction. They end together: without an observer nobody asks which they were.
    #[inline(always)]
    pub fn end_loans(&self, s: &CtxState) {
        if mapped::observed() {
            self.settle_frees(s);
        }
        mapped::end_loans(self.at(0));
    }

    /// Ends the loans one by one, and frees what was freed.
    fn settle_frees(&self, s: &CtxState) {
        self.finish_entries(s, 0, false)
    }

    fn end_block_loan(&self, off: usize) {
        if let Some(b) = self.block(off) {
            let payload = off + Self::UNIT;
            mapped::end_loan(self.at(payload), b.bytes() - Self::UNIT)
        }
    }

    /// The transaction whose number is in `s` is committed.
    pub fn committed(&self, s: &CtxState) {
        s.set_seq_after(&self.geo, s.seq.get());
        self.reset(s);
    }

    /// Clears stale headers and settles stale tags of this context, before their number comes round again. In the
    /// transaction in doubt, never after its commit: a cut here is rolled back and the sweep done again.
    #[cold]
    fn sweep(&self, s: &CtxState) {
        let (unit, seq) = (Self::UNIT, s.seq.get());
        let half = planted!("pmem-tx/sweep-once-a-round") && seq != self.geo.seq_max;
        if half || planted!("pmem-tx/no-sweep") {
            return;
        }
        let last = planted!("pmem-tx/last-header-not-swept");
        for i in s.count.get()..self.geo.entries - usize::from(last) {
            let h = s.header(i, unit) + unit;
            // SAFETY: invariant "Headers are never content": an entry of the header area.
            unsafe {
                if self.load(h) != 0 {
                    self.store(h, 0)
                }
            }
        }
        if !planted!("pmem-tx/cells-not-swept") {
            self.revert_versions(s, VersionUpdate::Sweep);
        }
    }

    /// Undoes the entries from `from` on, the newest first.
    ///
    /// **Power loss**: the entries that are still valid are undone at the next open.
    pub fn rollback_to(&self, s: &CtxState, from: usize) {
        self.finish_entries(s, from, true)
    }

    /// Undoes the entries from `from` on, or does what a commit leaves to do for them; the newest first.
    #[inline(never)]
    fn finish_entries(&self, s: &CtxState, from: usize, undo: bool) {
        let unit = Self::UNIT;
        let mut i = s.count.get();
        if M::PREEMPTED && undo && !planted!("pmem-tx/undo-not-announced") {
            M::section(|| s.announce(announced::DOUBT));
        }
        while i > from {
            i -= 1;
            let header = s.header(i, unit);
            // SAFETY: invariant "Headers are never content": an entry of the header area.
            let (first, second) = unsafe { (self.load(header), self.load(header + unit)) };
            let units = Undo::units(second, unit);
            if units > 0 {
                let (to, len) = (self.at(first), units * unit);
                if undo {
                    s.used.set(s.used.get() - len);
                    let from = self.at(s.payload.get() + s.used.get());
                    mapped::end_loan(to, len);
                    let (from, to) = (from.cast::<M::Unit>(), to.cast::<M::Unit>());
                    if M::PREEMPTED {
                        // It may be a cell with its tag, at which others look.
                        for i in 0..units {
                            let (from, to) = (from.wrapping_add(i), to.wrapping_add(i));
                            // SAFETY: invariant "Valid entries are a prefix": as for the whole
                            // range below.
                            M::section(|| unsafe { mapped::copy(from, to, 1) })
                        }
                    } else {
                        // SAFETY: invariant "Valid entries are a prefix": the range was in the heap
                        // when it was logged, or was checked by `recover`.
                        unsafe { mapped::copy(from, to, units) }
                    }
                } else if mapped::observed() {
                    mapped::end_loan(to, len);
                }
            } else {
                let (off, was) = Undo::block(first, unit);
                let new = was == BlockKind::Free;
                if mapped::observed() && new {
                    self.end_block_loan(off);
                }
                if undo {
                    mapped::end_loans(self.at(0));
                }
                // To whom it belonged, or to nobody.
                if undo || !new {
                    let kind = if undo { was } else { BlockKind::Free };
                    M::section(|| self.set_kind(off, kind));
                }
            }
            if undo {
                if !planted!("pmem-tx/no-fence-in-rollback") {
                    self.fence();
                }
                M::section(|| {
                    if !planted!("pmem-tx/rollback-keeps-header") {
                        // SAFETY: invariant "Headers are never content": an entry of the header
                        // area.
                        unsafe { self.store(header + unit, 0) }
                    }
                    // From here on others may take the block. Before they do, their own entry is
                    // fenced, and this with it.
                    s.count.set(i);
                })
            }
        }
        if undo {
            self.fence();
            if M::PREEMPTED {
                M::section(|| s.withdraw(announced::DOUBT));
            }
        }
    }

    #[inline(never)]
    fn set_kind(&self, off: usize, kind: BlockKind) {
        if let Some(b) = self.block(off) {
            // SAFETY: invariant "The chain is whole": `block` found a header there.
            unsafe { self.store(off, b.becomes(kind)) }
        }
    }

    /// Rolls the whole running transaction back, two-version cells included.
    #[cold]
    pub fn rollback(&self, s: &CtxState) {
        if planted!("pmem-tx/abort-keeps-changes") && s.level() > 0 {
            s.count.set(0);
        }
        self.rollback_to(s, 0);
        if s.is(flag::CELLS) {
            self.revert_versions(s, VersionUpdate::Revert);
        }
        self.reset(s);
    }

    /// Changes the tags that this context has left in two-version cells.
    #[inline(never)]
    pub fn revert_versions(&self, s: &CtxState, why: VersionUpdate) {
        let (ctx, doubt) = (s.index::<M>(), s.seq.get());
        // The chain was checked at open and is whole at every moment since.
        let _ = self.for_each_block_preempted(s, |off, b| {
            let at = off + Self::UNIT;
            if !b.is(BlockKind::Cell) {
                return Ok(());
            }
            // SAFETY: invariant "One current version": a cell's payload starts with its tag, which
            // is never lent.
            let tag = Tag::decode(unsafe { self.load(at) }, Self::UNIT);
            let other = tag.ctx != ctx && !planted!("pmem-tx/cells-of-every-context");
            if other || tag.seq == 0 {
                return Ok(());
            }
            let new = if tag.seq == doubt {
                if why == VersionUpdate::Sweep || planted!("pmem-tx/cell-not-reverted") {
                    return Ok(());
                }
                tag.reverted()
            } else {
                if why == VersionUpdate::Revert {
                    return Ok(());
                }
                tag.settled()
            };
            // SAFETY: invariant "One current version": a cell's payload starts with its tag, which
            // is never lent.
            unsafe { self.store(at, new.encode(Self::UNIT)) }
            Ok(())
        });
        self.fence();
    }

    /// The volatile state of a context without a transaction.
    #[inline(always)]
    pub fn reset(&self, s: &CtxState) {
        if M::PREEMPTED && s.announces(announced::DOUBT) {
            // What was freed is free now.
            M::section(|| s.withdraw(announced::DOUBT));
        }
        s.count.set(0);
        s.used.set(0);
        s.base.set(0);
        s.flags.set(s.flags.get() & flag::EXTERNAL);
    }

    /// After a reboot: undoes the transaction in doubt. The blocks are not to be trusted yet.
    ///
    /// **Errors**: an entry that no transaction writes; then nothing was changed.
    pub fn recover(&self, s: &CtxState) -> Result<(), Component> {
        let unit = Self::UNIT;
        let (mut n, mut used) = (0, 0);
        while let Some((first, second)) = self.entry(s, n) {
            match Undo::decode(first, second, unit).ok_or(Component::Journal)? {
                Undo::Content { off, units } => {
                    let len = units * unit;
                    if len > self.geo.bytes - used || !self.may_be_undone(off, len) {
                        return Err(Component::Journal);
                    }
                    used += len;
                }
                Undo::Block { off, .. } => {
                    if self.block(off).is_none() {
                        return Err(Component::Journal);
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
        self.rollback_to(s, 0);
        self.reset(s);
        Ok(())
    }

    /// Content that is logged lies in the heap, or is the root word that a migration changes.
    fn may_be_undone(&self, off: usize, len: usize) -> bool {
        let root = self.geo.root(0, Self::UNIT);
        // Before the heap it wraps, and is too large.
        let from = off.wrapping_sub(self.geo.heap);
        let heap = self.geo.end - self.geo.heap;
        let inside = off.is_multiple_of(Self::UNIT)
            && from <= heap
            && (len <= heap - from || planted!("pmem-tx/undo-behind-the-heap"));
        inside || off == root && len == Self::UNIT
    }
}
