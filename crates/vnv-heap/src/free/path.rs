//! The way to where freeing has got to: only a few objects of it are remembered.

use nvmem::persist::CheckFn;
use nvmem::planted;

/// Objects of a path that are remembered.
const MAX_LEVELS: usize = 16;
/// Of these, so many may be the last children of owners that are gone, and so cannot be forgotten.
const MAX_ORPHANS: usize = 4;

/// `count` objects of one kind from number `id` on.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) id: u16,
    pub(super) count: u16,
    pub(super) len: u16,
    pub(super) handles: bool,
    pub(super) check: CheckFn,
}

impl Batch {
    /// Whether `new` is the object after this batch, and freed alike.
    pub(super) fn follows(&self, new: &Batch) -> bool {
        self.id.checked_add(self.count) == Some(new.id)
            && self.len == new.len
            && self.handles == new.handles
            && (!self.handles || core::ptr::fn_addr_eq(self.check, new.check))
    }

    /// The last object.
    pub(super) fn last(&self) -> Option<u16> {
        self.id.checked_add(self.count.checked_sub(1)?)
    }
}

/// Objects that are to be freed, the last one first.
#[derive(Clone, Copy)]
pub(super) struct Level {
    pub(super) batch: Batch,
    /// The last object's handles before this one lead to what is freed already; those before `to` to what is being freed.
    pub(super) from: u32,
    pub(super) to: u32,
    /// The last object was looked into, and what it owns without handles is freed.
    pub(super) scanned: bool,
    /// It owns more with handles than what is before `to`.
    pub(super) has_more: bool,
    /// Objects of the path behind this one were forgotten.
    pub(super) gap: bool,
    /// The owner is gone.
    pub(super) orphan: bool,
    /// Owners above it, but for those that went before.
    pub(super) depth: u32,
}

impl Level {
    pub(super) fn new(batch: Batch, orphan: bool) -> Self {
        Level {
            batch,
            from: 0,
            to: 0,
            scanned: false,
            has_more: true,
            gap: false,
            orphan,
            depth: 0,
        }
    }

    /// What comes after the last object, which is freed.
    pub(super) fn next(&self) -> Self {
        let mut batch = self.batch;
        batch.count -= 1;
        Level {
            depth: self.depth,
            ..Level::new(batch, self.orphan)
        }
    }

    /// All that the frames behind this one were about is freed.
    pub(super) fn child_done(&mut self) {
        if self.gap && !planted!("vnv-heap/gap-unnoticed") {
            self.has_more = true;
        } else {
            self.from = self.to;
        }
        self.gap = false;
    }
}

pub(super) struct Path {
    pub(super) levels: [Option<Level>; MAX_LEVELS],
    pub(super) len: usize,
}

impl Path {
    pub(super) fn new(first: Batch) -> Self {
        let mut path = Path {
            levels: [None; MAX_LEVELS],
            len: 0,
        };
        path.push(first);
        path
    }

    pub(super) fn last(&mut self) -> Option<&mut Level> {
        let last = self.len.checked_sub(1)?;
        self.levels.get_mut(last)?.as_mut()
    }

    pub(super) fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        if let Some(below) = self.last() {
            below.child_done();
        }
    }

    /// Whether the last object may be freed before its last child.
    pub(super) fn can_orphan(&mut self) -> bool {
        let already = self.last().is_some_and(|f| f.orphan);
        let all = self.levels.iter().take(self.len).flatten();
        already || all.filter(|f| f.orphan).count() < MAX_ORPHANS
    }

    /// Goes on with what the last object owns.
    pub(super) fn push(&mut self, inner: Batch) {
        if self.len == MAX_LEVELS {
            self.forget();
        }
        let mut level = Level::new(inner, self.len == 0);
        level.depth = self.last().map_or(0, |below| below.depth + 1);
        if let Some(place) = self.levels.get_mut(self.len) {
            *place = Some(level);
            self.len += 1;
        }
    }

    /// Forgets a frame that can be found again from the one before it: neither the first nor the last, and no orphan. Those that
    /// stay are the farther apart the longer it takes until they are needed: then little is looked into again, however long the path
    /// is.
    pub(super) fn forget(&mut self) {
        let Some(end) = self.last().map(|last| last.depth + 1) else {
            return;
        };
        let far = |f: &Option<Level>| f.map_or(0, |f| u64::from(end - f.depth));
        let mut least = (1, 0, 1);
        for (i, three) in self.levels.array_windows().enumerate() {
            let [before, it, after] = three;
            // How much farther away what comes back first will be.
            let (up, down) = (far(before), far(after));
            let less = least.1 == 0 || up * least.2 < least.1 * down;
            if less && it.is_some_and(|f| !f.orphan) {
                least = (i + 1, up, down);
            }
        }
        let (goes, ..) = least;
        if let Some(Some(below)) = self.levels.get_mut(goes - 1) {
            below.gap = true;
        }
        if let Some(from) = self.levels.get_mut(goes..) {
            from.rotate_left(1);
        }
        self.len -= 1;
    }
}
