//! Freeing an object and what it owns.
//!
//! What an object owns is a tree of any shape and size. It is freed from its leaves on, without recursion, and only a few objects of the path
//! to where that has got to are remembered. The last child of an object is looked into when the object itself is gone, so a list
//! needs no path. When a path gets longer than what is remembered, objects of it are forgotten, and later
//! found once more from the one before them: what is freed already can be told by its entry in the table.

use crate::error::Error;
use crate::own::{Kind, Known};
use crate::policy::Policy;
use crate::promise::Promise;
use crate::state::Core;
use crate::store::{Free, Step};
use nvmem::persist::{CheckFn, Found, Visit};
use nvmem::{Invalid, Medium, planted};

/// Objects of a path that are remembered.
const PATH: usize = 16;
/// Of these, so many may be the last children of owners that are gone, and so cannot be forgotten.
const ORPHANS: usize = 4;
/// Groups of objects without handles that one look at their owner finds.
const LEAVES: usize = 4;

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
    /// Whether `new` is the object after this batch, and freed alike.
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

/// Objects that are to be freed, the last one first.
#[derive(Clone, Copy)]
struct Frame {
    batch: Batch,
    /// The last object's handles before this one lead to what is freed already; those before `to` to what is being freed.
    from: u32,
    to: u32,
    /// The last object was looked into, and what it owns without handles is freed.
    begun: bool,
    /// It owns more with handles than what is before `to`.
    more: bool,
    /// Objects of the path behind this one were forgotten.
    gap: bool,
    /// The owner is gone.
    orphan: bool,
    /// Owners above it, but for those that went before.
    depth: u32,
}

impl Frame {
    fn new(batch: Batch, orphan: bool) -> Self {
        Frame {
            batch,
            from: 0,
            to: 0,
            begun: false,
            more: true,
            gap: false,
            orphan,
            depth: 0,
        }
    }

    /// What comes after the last object, which is freed.
    fn next(&self) -> Self {
        let mut batch = self.batch;
        batch.count -= 1;
        Frame {
            depth: self.depth,
            ..Frame::new(batch, self.orphan)
        }
    }

    /// All that the frames behind this one were about is freed.
    fn comes_back(&mut self) {
        if self.gap && !planted!("vnv-heap/gap-unnoticed") {
            self.more = true;
        } else {
            self.from = self.to;
        }
        self.gap = false;
    }
}

struct Path {
    frames: [Option<Frame>; PATH],
    len: usize,
}

impl Path {
    fn new(first: Batch) -> Self {
        let mut path = Path {
            frames: [None; PATH],
            len: 0,
        };
        path.push(first);
        path
    }

    fn last(&mut self) -> Option<&mut Frame> {
        let last = self.len.checked_sub(1)?;
        self.frames.get_mut(last)?.as_mut()
    }

    fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        if let Some(below) = self.last() {
            below.comes_back();
        }
    }

    /// Whether the last object may be freed before its last child.
    fn takes_orphan(&mut self) -> bool {
        let already = self.last().is_some_and(|f| f.orphan);
        let all = self.frames.iter().take(self.len).flatten();
        already || all.filter(|f| f.orphan).count() < ORPHANS
    }

    /// Goes on with what the last object owns.
    fn push(&mut self, inner: Batch) {
        if self.len == PATH {
            self.forget();
        }
        let mut frame = Frame::new(inner, self.len == 0);
        frame.depth = self.last().map_or(0, |below| below.depth + 1);
        if let Some(place) = self.frames.get_mut(self.len) {
            *place = Some(frame);
            self.len += 1;
        }
    }

    /// Forgets a frame that can be found again from the one before it: neither the first nor the last, and no orphan. Those that
    /// stay are the farther apart the longer it takes until they are needed: then little is looked into again, however long the path
    /// is.
    fn forget(&mut self) {
        let Some(end) = self.last().map(|last| last.depth + 1) else {
            return;
        };
        let far = |f: &Option<Frame>| f.map_or(0, |f| u64::from(end - f.depth));
        let mut least = (1, 0, 1);
        for (i, three) in self.frames.array_windows().enumerate() {
            let [before, it, after] = three;
            // How much farther away what comes back first will be.
            let (up, down) = (far(before), far(after));
            let less = least.1 == 0 || up * least.2 < least.1 * down;
            if less && it.is_some_and(|f| !f.orphan) {
                least = (i + 1, up, down);
            }
        }
        let (goes, ..) = least;
        if let Some(Some(below)) = self.frames.get_mut(goes - 1) {
            below.gap = true;
        }
        if let Some(from) = self.frames.get_mut(goes..) {
            from.rotate_left(1);
        }
        self.len -= 1;
    }
}

/// What an object owns.
struct Look {
    known: Known,
    /// The number of the handle that comes next.
    at: u32,
    /// Objects without handles, of the handles from this one on.
    leaves: [Option<Batch>; LEAVES],
    leaves_from: u32,
    /// Where those that have no place begin.
    more_leaves: Option<u32>,
    /// The first ones with handles, of the handles from this one on.
    inner: Option<Batch>,
    from: u32,
    to: u32,
    /// Whether there are more with handles.
    more: bool,
}

impl Visit for Look {
    fn handle(&mut self, value: u32, found: &Found) -> Result<(), Invalid> {
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
            self.see_inner(at, new);
        } else if at >= self.leaves_from && self.more_leaves.is_none() {
            self.see_leaf(at, new);
        }
        Ok(())
    }
}

impl Look {
    /// At handles without handles behind them from number `leaves_from` on, and at others from number `from` on.
    fn new(objects: u16, leaves_from: u32, from: u32) -> Self {
        Look {
            known: Known { objects },
            at: 0,
            leaves: [None; LEAVES],
            leaves_from,
            more_leaves: None,
            inner: None,
            from,
            to: from,
            more: false,
        }
    }

    fn see_leaf(&mut self, at: u32, new: Batch) {
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

    fn see_inner(&mut self, at: u32, new: Batch) {
        match &mut self.inner {
            _ if at < self.from => {}
            None => {
                (self.inner, self.from, self.to) = (Some(new), at, at + 1);
            }
            Some(batch) if !self.more && at == self.to && batch.follows(&new) => {
                batch.count += 1;
                self.to += 1;
            }
            Some(_) => self.more = true,
        }
    }
}

/// An object is freed, or is to be freed by others.
enum Seen {
    Gone,
    There,
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Frees an object and all that it owns. What of that is held is freed at its release.
    ///
    /// **Errors**: with `true`, a part is freed and the object is nobody's any more: the next open frees the rest.
    pub(crate) fn free(&self, id: u16, kind: &Kind) -> Result<(), (Error<S::Error>, bool)> {
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
    pub(crate) unsafe fn free_owned(
        &self,
        check: CheckFn,
        value: *const u8,
    ) -> Result<(), Error<S::Error>> {
        let objects = self.section(|st| Ok(st.store.objects()))?;
        let (mut result, mut gone) = (Ok(()), true);
        let (mut leaves_from, mut from) = (0, 0);
        loop {
            let mut look = Look::new(objects, leaves_from, from);
            // SAFETY: a value of the type.
            let shown = unsafe { check(value, &mut look) };
            // A value that the program had is valid.
            shown.map_err(|_| Error::Busy)?;
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
    fn free_path(
        &self,
        root: u16,
        path: &mut Path,
        gone: &mut bool,
    ) -> Result<(), Error<S::Error>> {
        let objects = self.section(|st| Ok(st.store.objects()))?;
        let mut result = Ok(());
        // A path is longer than there are objects only where damage has made a circle of it.
        let mut deep = 0;
        while let Some(frame) = path.last() {
            let Some(id) = frame.batch.last() else {
                path.pop();
                continue;
            };
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
                    Err(Error::Damaged { object }) if id != root => {
                        result = result.and(Err(Error::Damaged { object }));
                    }
                    Err(e) => return Err(e),
                }
            }
            let Some(inner) = inner else {
                self.free_one(id, gone)?;
                deep = 0;
                if let Some(frame) = path.last() {
                    *frame = frame.next();
                }
                continue;
            };
            let ends = path.last().is_some_and(|f| !f.more && f.batch.count == 1);
            if ends && path.takes_orphan() {
                self.free_one(id, gone)?;
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
    fn meet(&self, id: u16, first: bool, gone: &mut bool) -> Result<Seen, Error<S::Error>> {
        self.section(|st| {
            match st.cache.lookup(id) {
                Some(slot)
                    if st.cache.is_pinned(slot) && !planted!("vnv-heap/freed-while-held") =>
                {
                    if first {
                        return Err(Error::Busy);
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
    ) -> Result<Option<Batch>, Error<S::Error>> {
        if planted!("vnv-heap/children-kept") {
            return Ok(None);
        }
        let kind = Kind::to_free(frame.batch.len, true, frame.batch.check);
        let mut leaves_from = if frame.begun { u32::MAX } else { 0 };
        loop {
            let mut look = Look::new(objects, leaves_from, frame.from);
            let content = self.hold(id, &kind, false)?;
            self.section(|st| {
                // SAFETY: a resident value of this kind, which is pinned; nobody has it mutably.
                let r = unsafe { (kind.check)(content.as_ptr(), &mut look) };
                // SAFETY: it was pinned by this.
                let slot = unsafe { st.cache.slot_of(content) };
                st.cache.unpin(slot, false);
                r.map_err(|_| Error::Damaged { object: id })
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
    fn free_leaves(&self, look: &mut Look, gone: &mut bool) -> Result<(), Error<S::Error>> {
        for batch in look.leaves.iter_mut().flatten() {
            while let Some(leaf) = batch.last() {
                if let Seen::There = self.meet(leaf, false, gone)? {
                    self.free_one(leaf, gone)?;
                }
                batch.count -= 1;
            }
        }
        Ok(())
    }

    /// Frees the number and the room of an object that nobody holds, and forgets what RAM has of it. `gone` is set when that has begun: before, it is
    /// there as it was.
    pub(crate) fn free_one(&self, id: u16, gone: &mut bool) -> Result<(), Error<S::Error>> {
        let mut free = Free::new(id);
        loop {
            let step = self.section(|st| {
                let step = st.store.free(&mut free);
                *gone |= free.has_begun();
                if (free.has_begun() || planted!("vnv-heap/forgotten-before-freed"))
                    && let Some(slot) = st.cache.lookup(id)
                {
                    st.cache.remove(slot);
                }
                step
            })?;
            if step == Step::Done(()) {
                return Ok(());
            }
        }
    }

    /// Frees the number and the room of an object that is not in RAM.
    pub(crate) fn give_back(&self, id: u16) -> Result<(), Error<S::Error>> {
        let mut free = Free::new(id);
        while self.section(|st| st.store.free(&mut free))? == Step::Again {}
        Ok(())
    }

    /// Frees what was doomed while it was held, now that nobody holds it any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn reap(&self, id: u16, kind: &Kind) {
        let reaper = self.section(|st| Ok(st.reaper));
        if let Ok(Some(reaper)) = reaper {
            reaper(self, id, kind);
        }
    }

    fn free_doomed(&self, id: u16, kind: &Kind) {
        // Nobody is there to take an error; what is not freed here is freed by the next open.
        let _ = self.free(id, kind);
    }
}
