//! Freeing an object and what it owns.
//!
//! What an object owns is a tree of any shape and size. It is freed from its leaves on, without recursion, and only a few objects of the path
//! to where that has got to are remembered. The last child of an object is looked into when the object itself is gone, so a list
//! needs no path. When a path gets longer than what is remembered, objects of it are forgotten, and later
//! found once more from the one before them: what is freed already can be told by its entry in the table.

mod look;
mod path;

use crate::error::Fail;
use crate::own::Kind;
use crate::policy::Policy;
use crate::promise::Promise;
use crate::state::Core;
use crate::store::Free;
use look::Look;
use nvmem::persist::CheckFn;
use nvmem::{Medium, planted};
use path::{Batch, Frame, Path};

/// An object is freed, or is to be freed by others.
enum Seen {
    Gone,
    There,
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
            let mut look = Look::new(objects, leaves_from, from);
            // SAFETY: a value of the type.
            let shown = unsafe { check(value, &mut look) };
            // A value that the program had is valid.
            shown.map_err(|_| Fail::BUSY)?;
            self.free_leaves(&mut look, &mut gone)?;
            leaves_from = look.more_leaves.unwrap_or(u32::MAX);
            if look.more_leaves.is_some() {
                continue;
            }
            let Some(inner) = look.inner else {
                return result;
            };
            result = result.and(self.free_path(0, &mut Path::new(inner), &mut gone));
            from = look.to;
        }
    }

    /// `gone` is set when anything is freed.
    fn free_path(&self, root: u16, path: &mut Path, gone: &mut bool) -> Result<(), Fail> {
        let objects = self.section(|st| Ok(st.store.objects()))?;
        let mut result = Ok(());
        // A path is longer than there are objects only where damage has made a circle of it.
        let mut deep = 0;
        while let Some(frame) = path.last() {
            let Some(id) = frame.batch.last() else {
                path.pop();
                continue;
            };
            let len = frame.batch.len;
            if !frame.begun {
                if let Seen::Gone = self.meet(id, id == root, gone)? {
                    *frame = frame.next();
                    continue;
                }
                deep += 1;
            }
            let mut inner = None;
            if frame.batch.handles && frame.more && deep <= u32::from(objects) {
                match self.look_into(id, frame, objects, gone) {
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
                if let Some(frame) = path.last() {
                    *frame = frame.next();
                }
                continue;
            };
            let ends = path.last().is_some_and(|f| !f.more && f.batch.count == 1);
            if ends && path.takes_orphan() {
                self.free_one(id, len, gone)?;
                deep = 0;
                if let Some(frame) = path.last() {
                    *frame = Frame {
                        depth: frame.depth,
                        ..Frame::new(inner, true)
                    };
                }
            } else {
                path.push(inner);
            }
        }
        result
    }

    /// Whether an object is still to be freed: it may be freed already, or held. `first` is the one that all the others belong to.
    fn meet(&self, id: u16, first: bool, gone: &mut bool) -> Result<Seen, Fail> {
        self.section(|st| {
            match st.cache.lookup(id) {
                Some(slot)
                    if st.cache.is_pinned(slot) && !planted!("vnv-heap/freed-while-held") =>
                {
                    if first {
                        return Err(Fail::BUSY);
                    }
                    // It is freed at its release, with what it owns then.
                    st.reaper = Some(Self::free_doomed);
                    st.cache.doom(slot);
                    *gone = true;
                    return Ok(Seen::Gone);
                }
                _ => {}
            }
            let there = first || st.store.is_allocated(id)?;
            Ok(if there { Seen::There } else { Seen::Gone })
        })
    }

    /// Frees what an object owns without handles, when it is looked into for the first time; then what it owns next with handles.
    fn look_into(
        &self,
        id: u16,
        frame: &mut Frame,
        objects: u16,
        gone: &mut bool,
    ) -> Result<Option<Batch>, Fail> {
        if planted!("vnv-heap/children-kept") {
            return Ok(None);
        }
        let kind = Kind::to_free(frame.batch.len, true, frame.batch.check);
        let mut leaves_from = if frame.begun { u32::MAX } else { 0 };
        loop {
            let mut look = Look::new(objects, leaves_from, frame.from);
            let content = self.hold_by(id, &kind, false)?;
            self.section(|st| {
                // SAFETY: a resident value of this kind, which is pinned; nobody has it mutably.
                let r = unsafe { (kind.check)(content.as_ptr(), &mut look) };
                // SAFETY: it was pinned by this.
                let slot = unsafe { st.cache.slot_of(content) };
                st.cache.unpin(slot, false);
                r.map_err(|_| Fail::damaged(id))
            })?;
            self.free_leaves(&mut look, gone)?;
            if let Some(at) = look.more_leaves {
                leaves_from = at;
                continue;
            }
            (frame.from, frame.to, frame.more) = (look.from, look.to, look.more);
            frame.begun = true;
            return Ok(look.inner);
        }
    }

    /// Frees the objects without handles that a look has found.
    fn free_leaves(&self, look: &mut Look, gone: &mut bool) -> Result<(), Fail> {
        for batch in look.leaves.iter_mut().flatten() {
            while let Some(leaf) = batch.last() {
                if let Seen::There = self.meet(leaf, false, gone)? {
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
                && let Some(slot) = st.cache.lookup(id)
            {
                st.cache.remove(slot);
            }
            r
        })
    }

    /// Frees the number and the room of an object that is not in RAM.
    pub(crate) fn give_back(&self, id: u16, len: u16) -> Result<(), Fail> {
        let mut free = Free::new(id, len);
        self.sections(|st| st.store.free(&mut free))
    }

    /// Frees what was doomed while it was held, now that nobody holds it any more.
    fn free_doomed(&self, id: u16, kind: &Kind) {
        // Nobody is there to take an error; what is not freed here is freed by the next open.
        let _ = self.free(id, kind);
    }
}
