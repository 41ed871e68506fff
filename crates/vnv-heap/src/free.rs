//! Freeing an object and what it owns.
//!
//! What an object owns is a tree of any shape and size. It is freed from its leaves on, without recursion, and only a few objects of the path
//! to where that has got to are remembered. The last child of an object is looked into when the object itself is gone, so a list
//! needs no path. When a path gets longer than what is remembered, objects of it are forgotten, and later
//! found once more from the one before them: what is freed already can be told by its entry in the table.

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

/// An object is freed, or is to be freed by others.
enum ChildState {
    Freed,
    Live,
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Frees an object and all that it owns. What of that is held is freed at its release.
    ///
    /// **Errors**: with `true`, a part is freed and the object is nobody's any more: the next open frees the rest.
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

    /// Frees all that a value owns, which lies in no object. **Errors**: what is not freed is freed by the next open.
    ///
    /// # Safety
    /// `check` is that of its type, and it is not used again.
    pub(crate) unsafe fn free_owned(&self, check: CheckFn, value: *const u8) -> Result<(), Fail> {
        let objects = self.section(|st| Ok(st.store.objects()))?;
        let (mut result, mut gone) = (Ok(()), true);
        let (mut leaves_from, mut from) = (0, 0);
        loop {
            let mut scan = HandleScan::new(objects, leaves_from, from);
            // SAFETY: a value of the type.
            let shown = unsafe { check(value, &mut scan) };
            // A value that the program had is valid.
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

    /// `gone` is set when anything is freed.
    fn free_path(&self, root: u16, path: &mut Path, gone: &mut bool) -> Result<(), Fail> {
        let objects = self.section(|st| Ok(st.store.objects()))?;
        let mut result = Ok(());
        // A path is longer than there are objects only where damage has made a circle of it.
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
                    // What it owns cannot be known.
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

    /// Whether an object is still to be freed: it may be freed already, or held. `first` is the one that all the others belong to.
    fn claim_child(&self, id: u16, first: bool, gone: &mut bool) -> Result<ChildState, Fail> {
        self.section(|st| {
            match st.cache.lookup(id) {
                Some(frame)
                    if st.cache.is_pinned(frame) && !planted!("vnv-heap/freed-while-held") =>
                {
                    if first {
                        return Err(Fail::BUSY);
                    }
                    // It is freed at its release, with what it owns then.
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

    /// Frees what an object owns without handles, when it is looked into for the first time; then what it owns next with handles.
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
                // SAFETY: a resident value of this kind, which is pinned; nobody has it mutably.
                let r = unsafe { (kind.check)(content.as_ptr(), &mut scan) };
                // SAFETY: it was pinned by this.
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

    /// Frees the objects without handles that a look has found.
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

    /// Frees the number and the room of an object that nobody holds, and forgets what RAM has of it. `gone` is set when that has begun: before, it is
    /// there as it was.
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

    /// Frees the number and the room of an object that is not in RAM.
    pub(crate) fn free_unfilled(&self, id: u16, len: u16) -> Result<(), Fail> {
        let mut free = Free::new(id, len);
        self.sections(|st| st.store.free(&mut free))
    }

    /// Frees what was doomed while it was held, now that nobody holds it any more.
    fn free_doomed(&self, id: u16, kind: &Kind) {
        // Nobody is there to take an error; what is not freed here is freed by the next open.
        let _ = self.free(id, kind);
    }
}
