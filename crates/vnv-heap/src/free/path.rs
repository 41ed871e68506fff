//! The way to where freeing has got to: only a few objects of it are remembered.

use nvmem::persist::CheckFn;
use nvmem::planted;

/// Objects of a path that are remembered.
const PATH: usize = 16;
/// Of these, so many may be the last children of owners that are gone, and so cannot be forgotten.
const ORPHANS: usize = 4;

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
pub(super) struct Frame {
    pub(super) batch: Batch,
    /// The last object's handles before this one lead to what is freed already; those before `to` to what is being freed.
    pub(super) from: u32,
    pub(super) to: u32,
    /// The last object was looked into, and what it owns without handles is freed.
    pub(super) begun: bool,
    /// It owns more with handles than what is before `to`.
    pub(super) more: bool,
    /// Objects of the path behind this one were forgotten.
    pub(super) gap: bool,
    /// The owner is gone.
    pub(super) orphan: bool,
    /// Owners above it, but for those that went before.
    pub(super) depth: u32,
}

impl Frame {
    pub(super) fn new(batch: Batch, orphan: bool) -> Self {
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
    pub(super) fn next(&self) -> Self {
        let mut batch = self.batch;
        batch.count -= 1;
        Frame {
            depth: self.depth,
            ..Frame::new(batch, self.orphan)
        }
    }

    /// All that the frames behind this one were about is freed.
    pub(super) fn comes_back(&mut self) {
        if self.gap && !planted!("vnv-heap/gap-unnoticed") {
            self.more = true;
        } else {
            self.from = self.to;
        }
        self.gap = false;
    }
}

pub(super) struct Path {
    pub(super) frames: [Option<Frame>; PATH],
    pub(super) len: usize,
}

impl Path {
    pub(super) fn new(first: Batch) -> Self {
        let mut path = Path {
            frames: [None; PATH],
            len: 0,
        };
        path.push(first);
        path
    }

    pub(super) fn last(&mut self) -> Option<&mut Frame> {
        let last = self.len.checked_sub(1)?;
        self.frames.get_mut(last)?.as_mut()
    }

    pub(super) fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        if let Some(below) = self.last() {
            below.comes_back();
        }
    }

    /// Whether the last object may be freed before its last child.
    pub(super) fn takes_orphan(&mut self) -> bool {
        let already = self.last().is_some_and(|f| f.orphan);
        let all = self.frames.iter().take(self.len).flatten();
        already || all.filter(|f| f.orphan).count() < ORPHANS
    }

    /// Goes on with what the last object owns.
    pub(super) fn push(&mut self, inner: Batch) {
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
    pub(super) fn forget(&mut self) {
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
