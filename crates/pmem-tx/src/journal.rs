//! The undo journal. Each context has one: a header area, and a payload area for old content.
//!
//! ```text
//!  header area (fixed offsets)                  payload area
//!  entry 0        entry 1        entry 2
//! +------+------+------+------+------+------+   +------------+------------+---------
//! | first|second| first|second| first|second|   | old bytes  | old bytes  | unused
//! +------+------+------+------+------+------+   | of entry 0 | of entry 1 |
//!    |      |                                   +------------+------------+---------
//!    |      `-- sequence number | length in units   (0: a block changed its kind)
//!    `--------- offset of the range, or of a block header with its old kind
//!
//!  log        old content -> payload; first; FENCE; second; FENCE; now the object is lent
//!  commit     end loans, apply frees; FENCE; commit word = sequence number; FENCE
//!  roll back  newest entry first: payload -> object; FENCE; second = 0; next entry; FENCE
//! ```
//!
//! An entry is valid if its `second` word holds the sequence number of the transaction in doubt and
//! all entries before it are valid. The transaction in doubt is the one after the last committed
//! number.
//!
//! Why this is safe:
//!
//! - `second` is stored last, in one atomic unit. A cut before it leaves an entry that does not
//!   count, and the object is not changed yet.
//! - The commit stores one word and clears nothing. All entries become stale together, because the
//!   number in doubt moves on. `sweep` clears stale headers before their number can repeat.
//! - A header lies at a fixed offset and old content lies elsewhere, so user bytes are never read
//!   as a header.
//! - A rollback clears a header only after the old content is back. A cut inside a rollback leaves
//!   a shorter valid prefix, and the next open undoes the remaining entries. Undoing an entry twice
//!   changes nothing.

use crate::context::{Core, CtxState, announced, flag};
use crate::error::{Component, JournalOverflow};
use crate::layout::{Block, BlockKind, GRANULE, Tag, Undo};
use nvmem::{Model, Unit, mapped, planted};

/// How [`Core::revert_versions`] changes the tags of two-version cells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionUpdate {
    /// Rollback: cells that the transaction in doubt wrote go back to their previous version.
    Revert,
    /// Open: as `Revert`, and all other tags lose their number. So an abort never brings back a
    /// version that the walk has not checked, and no repeated number matches a tag from before the
    /// reboot.
    Mount,
    /// Sweep: clears old sequence numbers from tags before they are used again. Leaves those of the
    /// transaction in doubt.
    Sweep,
}

impl<M: Model> Core<'_, M> {
    // INVARIANT "Logged before lent": while a `&mut` to a part of an object exists, a persisted
    // entry of the innermost transaction has the old content, or the object is new in that
    // transaction. Here, in `PBox::get_mut` (ptr.rs) and in `FieldSlot` (tx.rs).
    // Noticed by: planted `never-log`, `no-fence-after-header`.

    /// Logs the bytes `from..to`, at most once in a transaction, and lends them until the
    /// transaction ends.
    ///
    /// The range consists of whole units inside the heap. Units at either end that an earlier entry
    /// covers are not read: a neighbouring field in the same unit may be borrowed mutably now. All
    /// other units are free of `&mut`, because a range is logged before it is borrowed. **Errors**:
    /// the journal is full. Parts that were logged already stay logged; undoing them is harmless.
    pub fn log(&self, s: &CtxState, from: usize, to: usize) -> Result<(), JournalOverflow> {
        // An entry of no bytes is one for a block.
        debug_assert!(from < to);
        let len = to - from;
        // Fast path, for few units that the compiler copies without a loop: no earlier entry can
        // cover the range, and every journal has space for one entry of 8 bytes.
        let fits = len <= GRANULE || len <= 4 * GRANULE && len <= self.geo.bytes;
        if fits && s.count.get() == 0 {
            self.append::<true>(s, from, len, 0, 0);
            Ok(())
        } else {
            self.log_uncovered(s, from, to)
        }
    }

    /// Logs what no earlier entry covers. Most ranges overlap with none.
    #[inline(never)]
    fn log_uncovered(&self, s: &CtxState, from: usize, to: usize) -> Result<(), JournalOverflow> {
        let most = Undo::max_units(Self::UNIT) * Self::UNIT;
        let found = (s.base.get()..s.count.get()).find_map(|i| self.overlaps(s, i, from, to));
        match found {
            Some((start, end)) if start <= from && to <= end => Ok(()),
            None if to - from <= most => self.log_entry(s, from, to - from),
            _ => self.log_in_parts(s, from, to),
        }
    }

    /// What entry `i` covers of a range, or of its surroundings.
    #[inline(always)]
    fn overlaps(&self, s: &CtxState, i: usize, from: usize, to: usize) -> Option<(usize, usize)> {
        let (first, second) = self.words(s, i);
        // Most entries are of something else. A range begins where `first` says, or behind.
        if first >= to {
            return None;
        }
        let (start, end) = self.covered_range(first, second);
        (end > from && start < to).then_some((start, end))
    }

    /// [`log_uncovered`](Core::log_uncovered) for a range that earlier entries may cover in part,
    /// and that may take several entries.
    #[cold]
    #[inline(never)]
    fn log_in_parts(
        &self,
        s: &CtxState,
        mut from: usize,
        mut to: usize,
    ) -> Result<(), JournalOverflow> {
        let count = s.count.get();
        // Trim covered units at both ends, and start over after each trim, until no entry covers an
        // end.
        let mut i = s.base.get();
        while i < count {
            let found = self.overlaps(s, i, from, to);
            i += 1;
            let Some((start, end)) = found else {
                continue;
            };
            if start <= from {
                from = end;
            } else if to <= end {
                to = start;
            } else {
                continue;
            }
            if from >= to {
                return Ok(());
            }
            i = s.base.get();
        }
        let mut most = Undo::max_units(Self::UNIT) * Self::UNIT;
        if planted!("pmem-tx/long-range-in-one-entry") {
            most = usize::MAX;
        }
        while from < to {
            let part = most.min(to - from);
            self.log_entry(s, from, part)?;
            from += part;
        }
        Ok(())
    }

    /// Appends an entry for content, if it fits.
    #[inline(always)]
    fn log_entry(&self, s: &CtxState, from: usize, bytes: usize) -> Result<(), JournalOverflow> {
        let (i, used) = (s.count.get(), s.used.get());
        if i >= self.geo.entries || bytes > self.geo.bytes - used {
            return Err(JournalOverflow(bytes));
        }
        self.append::<false>(s, from, bytes, i, used);
        Ok(())
    }

    /// Appends an entry for a block that changes its kind. `first` is its first word.
    #[inline(always)]
    fn log_block(&self, s: &CtxState, first: usize) -> Result<(), JournalOverflow> {
        let i = s.count.get();
        if i >= self.geo.entries {
            return Err(JournalOverflow(0));
        }
        self.append::<true>(s, first, 0, i, 0);
        Ok(())
    }

    // INVARIANT "Valid entries are a prefix": entry i counts if and only if it and all entries
    // before it carry the number in doubt, and it restores only bytes of the heap. Also in
    // `rollback_to` and `recover`.
    // Noticed by: planted `header-before-content`, `rollback-keeps-header`, `undo-behind-the-heap`;
    // guard words around every region in tests/suite/hostile/image.rs.

    /// Appends entry `i` and lends the logged range. `first` is its first word: the offset of the
    /// content, or the change of a block (then `bytes` is 0). Order of stores: content and first
    /// word, fence, second word, fence. `FEW`: the compiler knows the number of units, and it is
    /// small.
    #[inline(always)]
    fn append<const FEW: bool>(
        &self,
        s: &CtxState,
        first: usize,
        bytes: usize,
        i: usize,
        used: usize,
    ) {
        let (unit, base) = (Self::UNIT, self.at(0));
        if bytes == 0 || !planted!("pmem-tx/never-log") {
            let h = self.at(s.header(i, unit)).cast::<M::Unit>();
            let second = Undo::second(s.seq.get(), bytes / unit, unit);
            let second = M::Unit::truncate(second as u32);
            // SAFETY: invariant "Headers are never content": a header in this context's journal,
            // and payload space, which was checked; the caller checked `first` if there is content.
            unsafe {
                if planted!("pmem-tx/header-before-content") {
                    mapped::store(h.add(1), second);
                }
                if !planted!("pmem-tx/log-without-content") {
                    let from = base.wrapping_add(first).cast::<M::Unit>();
                    let to = base.add(s.payload.get() + used).cast::<M::Unit>();
                    if FEW {
                        mapped::copy(from, to, bytes / unit)
                    } else {
                        mapped::copy_in_pairs(from, to, bytes / unit)
                    }
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
            if bytes > 0 {
                s.used.set(used + bytes);
            }
        }
        // An entry for a block lends nothing. Without an observer the call is only a compiler
        // barrier.
        if bytes > 0 {
            mapped::lend(base.wrapping_add(first), bytes);
        } else if !mapped::observed() {
            mapped::lend(base, 0);
        }
    }

    /// The range that needs no further log because of an entry of the running transaction: its old
    /// content is in the payload, or its block is new. Empty for other entries.
    #[inline(always)]
    fn covered_range(&self, first: usize, second: usize) -> (usize, usize) {
        let units = Undo::units(second, Self::UNIT);
        if units > 0 {
            return (first, first + units * Self::UNIT);
        }
        match Undo::block(first, Self::UNIT) {
            (off, BlockKind::Free) => {
                // SAFETY: invariant "The chain is whole": this transaction has made the block.
                let header = unsafe { self.load(off) };
                (off + Self::UNIT, off + Block::bytes_in(header))
            }
            _ => (0, 0),
        }
    }

    /// Logs that the free block at `off` becomes an object.
    #[inline(always)]
    pub fn log_alloc(&self, s: &CtxState, off: usize) -> Result<(), JournalOverflow> {
        if planted!("pmem-tx/alloc-not-logged") {
            return Ok(());
        }
        let was = BlockKind::Free;
        self.log_block(s, Undo::Block { off, was }.first())
    }

    /// Logs that the block at `off` becomes free at the commit.
    #[inline(never)]
    pub fn log_free(
        &self,
        s: &CtxState,
        off: usize,
        kind: BlockKind,
    ) -> Result<(), JournalOverflow> {
        s.set_flag(flag::FREES);
        self.log_block(s, Undo::Block { off, was: kind }.first())
    }

    /// Does all work that comes before the commit store and its fence: applies frees, ends the
    /// loans, and clears stale headers and tags when their number is about to repeat.
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

    /// Ends the loans of the transaction. Without an observer one call ends all of them.
    #[inline(always)]
    pub fn end_loans(&self, s: &CtxState) {
        if mapped::observed() {
            self.settle_frees(s);
        }
        mapped::end_loans(self.at(0));
    }

    /// Goes through all entries, newest first: ends each loan, and marks the freed blocks as free.
    #[inline(never)]
    fn settle_frees(&self, s: &CtxState) {
        let unit = Self::UNIT;
        let from = self.at(s.header(0, unit)).cast::<M::Unit>();
        let mut at = self.at(s.header(s.count.get(), unit)).cast::<M::Unit>();
        while at != from {
            at = at.wrapping_sub(2);
            // SAFETY: invariant "Headers are never content": an entry of the header area.
            let words = unsafe { (mapped::load(at), mapped::load(at.wrapping_add(1))) };
            let (first, second) = (words.0.widen() as usize, words.1.widen() as usize);
            let units = Undo::units(second, unit);
            if units > 0 {
                if mapped::observed() {
                    mapped::end_loan(self.at(first), units * unit);
                }
                continue;
            }
            let (off, was) = Undo::block(first, unit);
            if was != BlockKind::Free {
                // SAFETY: invariant "The chain is whole": the header of an object that this
                // transaction owns. Nobody else changes it.
                M::section(|| unsafe {
                    let header = self.load(off);
                    self.store(off, Block::word(BlockKind::Free, Block::bytes_in(header)))
                })
            } else if mapped::observed() {
                self.end_block_loan(off);
            }
        }
    }

    fn end_block_loan(&self, off: usize) {
        if let Some(b) = self.block(off) {
            let payload = off + Self::UNIT;
            mapped::end_loan(self.at(payload), b.bytes() - Self::UNIT)
        }
    }

    /// Resets the context after its commit word was stored: the next transaction gets the next
    /// number.
    pub fn committed(&self, s: &CtxState) {
        s.set_seq_after(&self.geo, s.seq.get());
        self.reset(s);
    }

    // INVARIANT "No number twice": when a sequence number comes round, no header and no tag has it.
    // Noticed by: planted `no-sweep`, `sweep-once-a-round`, `last-header-not-swept`,
    // `cells-not-swept` in tests/suite/rounds.rs.

    /// Clears stale headers and stale tags of this context before their number repeats. Runs inside
    /// the transaction in doubt, before its commit: after a cut the transaction is rolled back and
    /// the sweep runs again.
    #[cold]
    fn sweep(&self, s: &CtxState) {
        let (unit, seq) = (Self::UNIT, s.seq.get());
        if planted!("pmem-tx/no-sweep") {
            return;
        }
        if seq != self.geo.seq_max && planted!("pmem-tx/sweep-once-a-round") {
            return;
        }
        let mut end = self.geo.entries;
        if planted!("pmem-tx/last-header-not-swept") {
            end -= 1;
        }
        for i in s.count.get()..end {
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

    /// Undoes the entries from index `from` on, newest first.
    ///
    /// **Power loss**: the next open undoes the entries that are still valid.
    #[inline(never)]
    pub fn rollback_to(&self, s: &CtxState, from: usize) {
        let unit = Self::UNIT;
        let mut i = s.count.get();
        if M::PREEMPTED && !planted!("pmem-tx/undo-not-announced") {
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
                s.used.set(s.used.get() - len);
                let from = self.at(s.payload.get() + s.used.get());
                mapped::end_loan(to, len);
                let (from, to) = (from.cast::<M::Unit>(), to.cast::<M::Unit>());
                if M::PREEMPTED {
                    // The range may hold a cell's tag, which other contexts read: copy each
                    // unit in a section.
                    for i in 0..units {
                        let (from, to) = (from.wrapping_add(i), to.wrapping_add(i));
                        // SAFETY: invariant "Valid entries are a prefix": as for the whole range
                        // below.
                        M::section(|| unsafe { mapped::copy(from, to, 1) })
                    }
                } else {
                    // SAFETY: invariant "Valid entries are a prefix": the range was in the heap
                    // when it was logged, or was checked by `recover`.
                    unsafe { mapped::copy(from, to, units) }
                }
            } else {
                let (off, was) = Undo::block(first, unit);
                if mapped::observed() && was == BlockKind::Free {
                    self.end_block_loan(off);
                }
                mapped::end_loans(self.at(0));
                M::section(|| self.set_kind(off, was));
            }
            if !planted!("pmem-tx/no-fence-in-rollback") {
                self.fence();
            }
            M::section(|| {
                if !planted!("pmem-tx/rollback-keeps-header") {
                    // SAFETY: invariant "Headers are never content": an entry of the header
                    // area.
                    unsafe { self.store(header + unit, 0) }
                }
                // From here on other contexts may allocate the block. Their journal entry is
                // fenced before they use it, and that fence covers this store too.
                s.count.set(i);
            })
        }
        self.fence();
        if M::PREEMPTED {
            M::section(|| s.withdraw(announced::DOUBT));
        }
    }

    #[inline(always)]
    fn set_kind(&self, off: usize, kind: BlockKind) {
        if let Some(b) = self.block(off) {
            // SAFETY: invariant "The chain is whole": `block` found a header there.
            unsafe { self.store(off, b.becomes(kind)) }
        }
    }

    /// Rolls the whole running transaction back, including its writes to two-version cells.
    #[cold]
    pub fn rollback(&self, s: &CtxState) {
        if s.level() > 0 && planted!("pmem-tx/abort-keeps-changes") {
            s.count.set(0);
        }
        self.rollback_to(s, 0);
        if s.is(flag::CELLS) {
            self.revert_versions(s, VersionUpdate::Revert);
        }
        self.reset(s);
    }

    /// Updates the tags that this context wrote into two-version cells, as `why` says.
    #[inline(never)]
    pub fn revert_versions(&self, s: &CtxState, why: VersionUpdate) {
        // The chain was checked at open and stays whole, so the walk cannot fail.
        let _ = self.for_each_block_preempted(s, |off, b| {
            if b.is(BlockKind::Cell) {
                self.update_version(s, why, off + Self::UNIT);
            }
            Ok(())
        });
        self.fence();
    }

    /// The same at open, for all contexts at once. The chain of blocks was checked.
    #[cold]
    #[inline(never)]
    pub fn mount_versions(&self, all: &[CtxState]) {
        let _ = self.for_each_block(|off, b| {
            // SAFETY: invariant "One current version": the tag of a cell, which is never lent.
            let is_settled = |off| unsafe { self.load(off) } <= Tag::SETTLED_MAX;
            if b.is(BlockKind::Cell) && !is_settled(off + Self::UNIT) {
                for s in all {
                    self.update_version(s, VersionUpdate::Mount, off + Self::UNIT);
                }
            }
            Ok(())
        });
    }

    /// Updates the tag at `at` of a cell, if this context has written it.
    #[inline(always)]
    fn update_version(&self, s: &CtxState, why: VersionUpdate, at: usize) {
        let (ctx, doubt) = (s.index::<M>(), s.seq.get());
        // SAFETY: invariant "One current version": a cell's payload starts with its tag, which is
        // never lent.
        let tag = Tag::decode(unsafe { self.load(at) }, Self::UNIT);
        if tag.ctx != ctx && !planted!("pmem-tx/cells-of-every-context") {
            return;
        }
        if tag.seq == 0 {
            return;
        }
        let new = if tag.seq == doubt {
            if why == VersionUpdate::Sweep || planted!("pmem-tx/cell-not-reverted") {
                return;
            }
            tag.reverted()
        } else {
            if why == VersionUpdate::Revert {
                return;
            }
            tag.settled()
        };
        // SAFETY: invariant "One current version": a cell's payload starts with its tag, which is
        // never lent.
        unsafe { self.store(at, new.encode(Self::UNIT)) }
    }

    /// Sets the volatile state of a context without a running transaction.
    #[inline(never)]
    pub fn reset(&self, s: &CtxState) {
        if M::PREEMPTED && s.announces(announced::DOUBT) {
            // The freed blocks are available to other contexts from now on.
            M::section(|| s.withdraw(announced::DOUBT));
        }
        s.count.set(0);
        s.used.set(0);
        s.base.set(0);
        s.flags.set(s.flags.get() & flag::EXTERNAL);
    }

    /// Undoes the transaction in doubt after a reboot. Runs before the chain of blocks is checked.
    ///
    /// All entries are validated before the first one is undone. **Errors**: an entry that no
    /// transaction writes; then nothing was changed.
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
        if n == 0 || planted!("pmem-tx/no-recovery") {
            return Ok(());
        }
        s.count.set(n);
        s.used.set(used);
        self.rollback_to(s, 0);
        self.reset(s);
        Ok(())
    }

    /// Whether an entry may undo this range: it lies inside the heap, or it is the table from
    /// the first root word to the last, which a migration changes.
    fn may_be_undone(&self, off: usize, len: usize) -> bool {
        let roots = self.geo.root(0, Self::UNIT);
        let all_roots = off == roots
            && len % (2 * Self::UNIT) == Self::UNIT
            && len <= self.geo.journals - roots;
        // An offset before the heap wraps around and fails the comparison.
        let from = off.wrapping_sub(self.geo.heap);
        let heap = self.geo.end - self.geo.heap;
        let mut inside = off.is_multiple_of(Self::UNIT) && from <= heap && len <= heap - from;
        if planted!("pmem-tx/undo-behind-the-heap") {
            inside = off.is_multiple_of(Self::UNIT) && from <= heap;
        }
        inside || all_roots
    }
}
