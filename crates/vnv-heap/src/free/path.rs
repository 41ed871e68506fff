//! The path to the object being freed: only some of its levels are remembered.

use nvmem::persist::CheckFn;
use nvmem::planted;

/// Levels of a path that are remembered.
const MAX_LEVELS: usize = 16;
/// Levels that may be orphans: last children whose owners are freed. They cannot be found again, so
/// they are never dropped.
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
    /// Whether `new` is the object after this batch, and is freed alike.
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

/// A level of the path: objects to free, the last one first.
#[derive(Clone, Copy)]
pub(super) struct Level {
    pub(super) batch: Batch,
    /// Of the last object: handles before `from` lead to freed objects, those before `to` to
    /// objects being freed.
    pub(super) from: u32,
    pub(super) to: u32,
    /// The last object was scanned, and its objects without handles are freed.
    pub(super) scanned: bool,
    /// It owns more objects with handles, behind `to`.
    pub(super) has_more: bool,
    /// Levels below this one were dropped.
    pub(super) gap: bool,
    /// The owner is freed.
    pub(super) orphan: bool,
    /// Number of owners above it that are not freed.
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

    /// The level after its last object was freed.
    pub(super) fn next(&self) -> Self {
        let mut batch = self.batch;
        batch.count -= 1;
        Level {
            depth: self.depth,
            ..Level::new(batch, self.orphan)
        }
    }

    /// All levels below this one are freed.
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

    /// Descends to objects that the last object owns.
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

    /// Drops a level that can be found again from the one above: neither the first nor the last,
    /// and no orphan. Of the remaining levels, those needed last lie farthest apart. So little is
    /// scanned again, however long the path is.
    pub(super) fn forget(&mut self) {
        let Some(end) = self.last().map(|last| last.depth + 1) else {
            return;
        };
        let far = |f: &Option<Level>| f.map_or(0, |f| u64::from(end - f.depth));
        let mut least = (1, 0, 1);
        for (i, three) in self.levels.windows(3).enumerate() {
            let [before, it, after] = three else { continue };
            // How much the distance to the next remembered level grows.
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
