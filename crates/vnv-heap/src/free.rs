//! Freeing an object and everything that it owns.
//!
//! ```text
//!         A        path (at most 16 levels): A -> B -> D; handles `from`..`to` are being freed
//!       /   \
//!      B     C     1. The first scan of an owner frees its children without handles, in groups.
//!     / \          2. The path descends to the next child with handles.
//!    D   E         3. At its last child, the owner is freed; the child becomes an orphan level.
//!                     So a list needs one level only.
//! ```
//!
//! The owned objects form a tree of any shape and size. It is freed from the leaves up, without
//! recursion, in constant RAM. If a path gets longer than the remembered levels, some levels are
//! dropped (`gap`), mainly those that are needed late. They are found again from the level above:
//! an object that is freed already has a free entry in the table. A path of 10,000 objects, each
//! with more to free, is scanned four times. Rejected: a list threaded through the dead objects
//! needs their types, and with snapshots space that no commit needs; a stack of waiting objects has
//! no bound.

use crate::config::Promise;
use crate::error::Fail;
use crate::handle::{HandleRange, Kind};
use crate::pager::Claim;
use crate::policy::Policy;
use crate::sections::Core;
use nvmem::persist::{CheckFn, HandleKind, Visit};
use nvmem::{Invalid, Medium, planted};

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Frees an object and all objects that it owns. Pinned ones are freed at their release.
    ///
    /// **Errors**: with `true`, a part is freed and the object has no owner any more: the next open
    /// frees the rest.
    pub(crate) fn free(&self, id: u16, kind: &Kind) -> Result<(), (Fail, bool)> {
        let first = Batch {
            id,
            count: 1,
            len: kind.len,
            handles: kind.handles,
            check: kind.check,
        };
        let mut path = Path::new(first);
        let mut gone = false;
        self.free_path(id, &mut path, &mut gone)
            .map_err(|e| (e, gone))
    }

    /// Frees all objects owned by a value that lies in no object. **Errors**: the next open frees
    /// the rest.
    ///
    /// # Safety
    /// `check` is that of its type, and the value is not used again.
    pub(crate) unsafe fn free_owned(&self, check: CheckFn, value: *const u8) -> Result<(), Fail> {
        let objects = self.section(|pager| Ok(pager.store().objects()))?;
        let (mut result, mut gone) = (Ok(()), true);
        let (mut leaves_from, mut from) = (0, 0);
        loop {
            let mut scan = HandleScan::new(objects, leaves_from, from);
            // SAFETY: invariant "A kind is its type": a value of the type.
            let shown = unsafe { check(value, &mut scan) };
            // The program's value is valid.
            shown.map_err(|_| Fail::BUSY)?;
            self.free_leaves(&mut scan, &mut gone)?;
            leaves_from = scan.more_leaves.unwrap_or(u32::MAX);
            if scan.more_leaves.is_some() {
                continue;
            }
            let Some(inner) = scan.inner else {
                return result;
            };
            result = result.and(self.free_path(0, &mut Path::new(inner), &mut gone));
            from = scan.to;
        }
    }

    /// Frees the objects of the path. Sets `gone` when anything is freed.
    fn free_path(&self, root: u16, path: &mut Path, gone: &mut bool) -> Result<(), Fail> {
        let objects = self.section(|pager| Ok(pager.store().objects()))?;
        let mut result = Ok(());
        // Only damage can make a path longer than the number of objects: a cycle.
        let mut deep = 0;
        while let Some(level) = path.last() {
            let Some(id) = level.batch.last() else {
                path.pop();
                continue;
            };
            let len = level.batch.len;
            if !level.scanned {
                if !self.claim(id, id == root, gone)? {
                    *level = level.next();
                    continue;
                }
                deep += 1;
            }
            let mut inner = None;
            if level.batch.handles && level.has_more && deep <= u32::from(objects) {
                match self.scan_object(id, level, objects, gone) {
                    Ok(found) => inner = found,
                    // The objects that it owns are unknown.
                    Err(f) if f.is_damage() && id != root => {
                        result = result.and(Err(f));
                    }
                    Err(e) => return Err(e),
                }
            }
            let Some(inner) = inner else {
                self.free_one(id, len, gone)?;
                deep = 0;
                if let Some(level) = path.last() {
                    *level = level.next();
                }
                continue;
            };
            let ends = path
                .last()
                .is_some_and(|f| !f.has_more && f.batch.count == 1);
            if ends && path.can_orphan() {
                self.free_one(id, len, gone)?;
                deep = 0;
                if let Some(level) = path.last() {
                    *level = Level {
                        depth: level.depth,
                        ..Level::new(inner, true)
                    };
                }
            } else {
                path.push(inner);
            }
        }
        result
    }

    /// Whether an object is still to be freed here: it may be freed already, or pinned. Sets `gone`
    /// when its release will free it. `is_root`: it is the root of the tree to free.
    fn claim(&self, id: u16, is_root: bool, gone: &mut bool) -> Result<bool, Fail> {
        let claim = self.section(|pager| pager.claim(id, is_root, Self::free_doomed))?;
        *gone |= matches!(claim, Claim::Doomed);
        Ok(matches!(claim, Claim::Live))
    }

    /// At the first scan of an object, frees the objects without handles that it owns. Returns the
    /// next objects with handles that it owns.
    fn scan_object(
        &self,
        id: u16,
        level: &mut Level,
        objects: u16,
        gone: &mut bool,
    ) -> Result<Option<Batch>, Fail> {
        if planted!("vnv-heap/children-kept") {
            return Ok(None);
        }
        let kind = Kind::to_free(level.batch.len, true, level.batch.check);
        let mut leaves_from = if level.scanned { u32::MAX } else { 0 };
        loop {
            let mut scan = HandleScan::new(objects, leaves_from, level.from);
            let content = self.pin_slow(id, &kind, false)?;
            // SAFETY: invariant "What is held stays", "A kind is its type": a resident value of
            // this kind, which is pinned above.
            self.section(|pager| unsafe { pager.show_handles(content, kind.check, &mut scan) })?;
            self.free_leaves(&mut scan, gone)?;
            if let Some(at) = scan.more_leaves {
                leaves_from = at;
                continue;
            }
            (level.from, level.to, level.has_more) = (scan.from, scan.to, scan.has_more);
            level.scanned = true;
            return Ok(scan.inner);
        }
    }

    /// Frees the objects without handles that a scan has found.
    fn free_leaves(&self, scan: &mut HandleScan, gone: &mut bool) -> Result<(), Fail> {
        for batch in scan.leaves.iter_mut().flatten() {
            while let Some(leaf) = batch.last() {
                if self.claim(leaf, false, gone)? {
                    self.free_one(leaf, batch.len, gone)?;
                }
                batch.count -= 1;
            }
        }
        Ok(())
    }

    /// Frees an object that was doomed while it was pinned.
    fn free_doomed(&self, id: u16, kind: &Kind) {
        // There is no caller for an error; the next open frees the rest.
        let _ = self.free(id, kind);
    }
}

/// Levels of a path that are remembered.
const MAX_LEVELS: usize = 16;
/// Levels that may be orphans: last children whose owners are freed. They cannot be found again, so
/// they are never dropped.
const MAX_ORPHANS: usize = 4;

/// `count` objects of one kind from number `id` on.
#[derive(Clone, Copy)]
struct Batch {
    id: u16,
    count: u16,
    len: u16,
    handles: bool,
    check: CheckFn,
}

impl Batch {
    /// Whether `new` is the object after this batch, and is freed alike.
    fn follows(&self, new: &Batch) -> bool {
        self.id.checked_add(self.count) == Some(new.id)
            && self.len == new.len
            && self.handles == new.handles
            && (!self.handles || core::ptr::fn_addr_eq(self.check, new.check))
    }

    /// The last object.
    fn last(&self) -> Option<u16> {
        self.id.checked_add(self.count.checked_sub(1)?)
    }
}

/// A level of the path: objects to free, the last one first.
#[derive(Clone, Copy)]
struct Level {
    batch: Batch,
    /// Of the last object: handles before `from` lead to freed objects, those before `to` to
    /// objects being freed.
    from: u32,
    to: u32,
    /// The last object was scanned, and its objects without handles are freed.
    scanned: bool,
    /// It owns more objects with handles, behind `to`.
    has_more: bool,
    /// Levels below this one were dropped.
    gap: bool,
    /// The owner is freed.
    orphan: bool,
    /// Number of owners above it that are not freed.
    depth: u32,
}

impl Level {
    fn new(batch: Batch, orphan: bool) -> Self {
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
    fn next(&self) -> Self {
        let mut batch = self.batch;
        batch.count -= 1;
        Level {
            depth: self.depth,
            ..Level::new(batch, self.orphan)
        }
    }

    /// All levels below this one are freed.
    fn child_done(&mut self) {
        if self.gap && !planted!("vnv-heap/gap-unnoticed") {
            self.has_more = true;
        } else {
            self.from = self.to;
        }
        self.gap = false;
    }
}

struct Path {
    levels: [Option<Level>; MAX_LEVELS],
    len: usize,
}

impl Path {
    fn new(first: Batch) -> Self {
        let mut path = Path {
            levels: [None; MAX_LEVELS],
            len: 0,
        };
        path.push(first);
        path
    }

    fn last(&mut self) -> Option<&mut Level> {
        let last = self.len.checked_sub(1)?;
        self.levels.get_mut(last)?.as_mut()
    }

    fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        if let Some(below) = self.last() {
            below.child_done();
        }
    }

    /// Whether the last object may be freed before its last child.
    fn can_orphan(&mut self) -> bool {
        let already = self.last().is_some_and(|f| f.orphan);
        let all = self.levels.iter().take(self.len).flatten();
        already || all.filter(|f| f.orphan).count() < MAX_ORPHANS
    }

    /// Descends to objects that the last object owns.
    fn push(&mut self, inner: Batch) {
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
    fn forget(&mut self) {
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

/// Groups of objects without handles that one scan collects.
const LEAF_GROUPS: usize = 4;

/// Handles that an object holds.
struct HandleScan {
    known: HandleRange,
    /// Index of the next handle.
    at: u32,
    /// Objects without handles, of the handles from `leaves_from` on.
    leaves: [Option<Batch>; LEAF_GROUPS],
    leaves_from: u32,
    /// Index of the first one that did not fit.
    more_leaves: Option<u32>,
    /// The first batch with handles, of the handles from `from` on.
    inner: Option<Batch>,
    from: u32,
    to: u32,
    /// Whether more objects with handles follow.
    has_more: bool,
}

impl Visit for HandleScan {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        self.known.handle(value, found)?;
        let new = Batch {
            id: value as u16,
            count: 1,
            len: (found.target.size as u16).max(1),
            handles: found.handles,
            check: found.target.check,
        };
        let at = self.at;
        self.at += 1;
        if new.handles {
            self.add_inner(at, new);
        } else if at >= self.leaves_from && self.more_leaves.is_none() {
            self.add_leaf(at, new);
        }
        Ok(())
    }
}

impl HandleScan {
    /// Collects objects without handles from handle `leaves_from` on, and those with handles from
    /// `from` on.
    fn new(objects: u16, leaves_from: u32, from: u32) -> Self {
        HandleScan {
            known: HandleRange { objects },
            at: 0,
            leaves: [None; LEAF_GROUPS],
            leaves_from,
            more_leaves: None,
            inner: None,
            from,
            to: from,
            has_more: false,
        }
    }

    fn add_leaf(&mut self, at: u32, new: Batch) {
        for place in &mut self.leaves {
            match place {
                Some(batch) if batch.follows(&new) => {
                    batch.count += 1;
                    return;
                }
                Some(_) => {}
                None => {
                    *place = Some(new);
                    return;
                }
            }
        }
        self.more_leaves = Some(at);
    }

    fn add_inner(&mut self, at: u32, new: Batch) {
        match &mut self.inner {
            _ if at < self.from => {}
            None => {
                (self.inner, self.from, self.to) = (Some(new), at, at + 1);
            }
            Some(batch) if !self.has_more && at == self.to && batch.follows(&new) => {
                batch.count += 1;
                self.to += 1;
            }
            Some(_) => self.has_more = true,
        }
    }
}
