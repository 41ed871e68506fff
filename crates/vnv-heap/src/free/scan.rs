//! A scan of the handles that an object holds.

use super::path::Batch;
use crate::own::HandleRange;
use nvmem::Invalid;
use nvmem::persist::{HandleKind, Visit};

/// Groups of objects without handles that one scan collects.
const LEAF_GROUPS: usize = 4;

/// Handles that an object holds.
pub(super) struct HandleScan {
    pub(super) known: HandleRange,
    /// Index of the next handle.
    pub(super) at: u32,
    /// Objects without handles, of the handles from `leaves_from` on.
    pub(super) leaves: [Option<Batch>; LEAF_GROUPS],
    pub(super) leaves_from: u32,
    /// Index of the first one that did not fit.
    pub(super) more_leaves: Option<u32>,
    /// The first batch with handles, of the handles from `from` on.
    pub(super) inner: Option<Batch>,
    pub(super) from: u32,
    pub(super) to: u32,
    /// Whether more objects with handles follow.
    pub(super) has_more: bool,
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
    pub(super) fn new(objects: u16, leaves_from: u32, from: u32) -> Self {
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

    pub(super) fn add_leaf(&mut self, at: u32, new: Batch) {
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

    pub(super) fn add_inner(&mut self, at: u32, new: Batch) {
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
