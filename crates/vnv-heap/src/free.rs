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
//! dropped (`gap`). They are found again from the level above: an object that is freed already has
//! a free entry in the table.

mod path;
mod scan;

use crate::error::Fail;
use crate::own::Kind;
use crate::policy::Policy;
use crate::promise::Promise;
use crate::state::Core;
use crate::store::Free;
use nvmem::persist::CheckFn;
use nvmem::{Medium, planted};
use path::{Batch, Level, Path};
use scan::HandleScan;

/// Whether an object is still to be freed here.
enum ChildState {
    Freed,
    Live,
}

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
        let objects = self.section(|st| Ok(st.store.objects()))?;
        let (mut result, mut gone) = (Ok(()), true);
        let (mut leaves_from, mut from) = (0, 0);
        loop {
            let mut scan = HandleScan::new(objects, leaves_from, from);
            // SAFETY: a value of the type.
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
        let objects = self.section(|st| Ok(st.store.objects()))?;
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
                if let ChildState::Freed = self.claim_child(id, id == root, gone)? {
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

    /// Whether an object is still to be freed: it may be freed already, or pinned. `first`: it is
    /// the root of the tree to free.
    fn claim_child(&self, id: u16, first: bool, gone: &mut bool) -> Result<ChildState, Fail> {
        self.section(|st| {
            match st.cache.lookup(id) {
                Some(frame)
                    if st.cache.is_pinned(frame) && !planted!("vnv-heap/freed-while-held") =>
                {
                    if first {
                        return Err(Fail::BUSY);
                    }
                    // Its release frees it, with the objects that it owns then.
                    st.reaper = Some(Self::free_doomed);
                    st.cache.doom(frame);
                    *gone = true;
                    return Ok(ChildState::Freed);
                }
                _ => {}
            }
            let there = first || st.store.is_allocated(id)?;
            Ok(if there {
                ChildState::Live
            } else {
                ChildState::Freed
            })
        })
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
            self.section(|st| {
                // SAFETY: a resident value of this kind, which is pinned. No mutable reference to
                // it exists.
                let r = unsafe { (kind.check)(content.as_ptr(), &mut scan) };
                // SAFETY: pinned above.
                let frame = unsafe { st.cache.frame_of(content) };
                st.cache.unpin(frame, false);
                r.map_err(|_| Fail::damaged(id))
            })?;
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
                if let ChildState::Live = self.claim_child(leaf, false, gone)? {
                    self.free_one(leaf, batch.len, gone)?;
                }
                batch.count -= 1;
            }
        }
        Ok(())
    }

    /// Frees the number and the space of an unpinned object, and evicts it. Sets `gone` when that
    /// has begun; before that, the object is intact.
    pub(crate) fn free_one(&self, id: u16, len: u16, gone: &mut bool) -> Result<(), Fail> {
        let mut free = Free::new(id, len);
        self.sections(|st| {
            let r = st.store.free(&mut free);
            *gone |= free.has_begun();
            if (free.has_begun() || planted!("vnv-heap/forgotten-before-freed"))
                && let Some(frame) = st.cache.lookup(id)
            {
                st.cache.remove(frame);
            }
            r
        })
    }

    /// Frees the number and the space of an object that is not resident.
    pub(crate) fn free_unfilled(&self, id: u16, len: u16) -> Result<(), Fail> {
        let mut free = Free::new(id, len);
        self.sections(|st| st.store.free(&mut free))
    }

    /// Frees an object that was doomed while it was pinned.
    fn free_doomed(&self, id: u16, kind: &Kind) {
        // There is no caller for an error; the next open frees the rest.
        let _ = self.free(id, kind);
    }
}
