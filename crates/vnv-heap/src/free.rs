//! Freeing an object and what it owns.

use crate::error::Error;
use crate::own::{Kind, Known};
use crate::policy::Policy;
use crate::promise::Promise;
use crate::state::Core;
use crate::store::{Free, Step};
use nvmem::persist::{CheckFn, Found, Visit};
use nvmem::{Invalid, Medium, planted};

/// How many objects can wait to be freed; those with consecutive numbers that are freed alike count as one.
const WAITING: usize = 24;

/// `count` objects from number `id` on.
#[derive(Clone, Copy)]
struct Batch {
    id: u16,
    count: u16,
    len: u16,
    handles: bool,
    check: CheckFn,
}

/// What waits to be freed.
struct Waiting {
    list: [Option<Batch>; WAITING],
    len: usize,
    /// Whether some had no place.
    more: bool,
    /// Batches from here on belong to the object that is looked into.
    before: usize,
    known: Known,
}

impl Visit for Waiting {
    fn handle(&mut self, value: u32, found: &Found) -> Result<(), Invalid> {
        self.known.handle(value, found)?;
        let new = Batch {
            id: value as u16,
            count: 1,
            len: (found.target.size as u16).max(1),
            handles: found.handles,
            check: found.target.check,
        };
        let last = self.len.checked_sub(1).and_then(|i| self.list.get_mut(i));
        if let Some(Some(last)) = last
            && self.len > self.before
            && last.follows(&new)
        {
            last.count += 1;
            return Ok(());
        }
        match self.list.get_mut(self.len) {
            Some(place) => {
                *place = Some(new);
                self.len += 1;
            }
            None => self.more = true,
        }
        Ok(())
    }
}

impl Waiting {
    /// The last one.
    fn pop(&mut self) -> Option<(u16, Kind)> {
        let last = self.len.checked_sub(1)?;
        let place = self.list.get_mut(last)?;
        let batch = place.as_mut()?;
        batch.count -= 1;
        let (id, count) = (batch.id.checked_add(batch.count)?, batch.count);
        let kind = Kind::to_free(batch.len, batch.handles, batch.check);
        if count == 0 {
            *place = None;
            self.len = last;
        }
        Some((id, kind))
    }
}

impl Batch {
    /// Whether `new` is the object after this batch, and freed alike.
    fn follows(&self, new: &Batch) -> bool {
        self.id.checked_add(self.count) == Some(new.id)
            && self.len == new.len
            && self.handles == new.handles
            && (!self.handles || core::ptr::fn_addr_eq(self.check, new.check))
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Frees an object and all that it owns. What of that is held is freed at its release.
    ///
    /// **Errors**: with `true`, the object itself is freed, and something that it owned is not: the next open frees it.
    pub(crate) fn free(&self, id: u16, kind: &Kind) -> Result<(), (Error<S::Error>, bool)> {
        let mut waiting = self.waiting().map_err(|e| (e, false))?;
        self.free_one(id, kind, true, &mut waiting)
            .map_err(|e| (e, false))?;
        self.free_waiting(waiting).map_err(|e| (e, true))
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
        let mut waiting = self.waiting()?;
        // SAFETY: a value of the type.
        let shown = unsafe { check(value, &mut waiting) };
        let freed = self.free_waiting(waiting);
        // A value that the program had is valid.
        shown.map_err(|_| Error::Busy).and(freed)
    }

    /// Nothing waits yet.
    fn waiting(&self) -> Result<Waiting, Error<S::Error>> {
        let objects = self.section(|st| Ok(st.store.objects()))?;
        Ok(Waiting {
            list: [None; WAITING],
            len: 0,
            more: false,
            before: 0,
            known: Known { objects },
        })
    }

    /// Frees all that waits, and what that owns. **Errors**: the first; the others are freed all the same.
    fn free_waiting(&self, mut waiting: Waiting) -> Result<(), Error<S::Error>> {
        let mut result = Ok(());
        while let Some((id, kind)) = waiting.pop() {
            let r = self.free_one(id, &kind, false, &mut waiting);
            result = result.and(r);
        }
        if waiting.more && result.is_ok() {
            result = Err(Error::TooMuch);
        }
        result
    }

    /// Frees one object; what it owns waits then.
    fn free_one(
        &self,
        id: u16,
        kind: &Kind,
        first: bool,
        waiting: &mut Waiting,
    ) -> Result<(), Error<S::Error>> {
        let before = waiting.len;
        waiting.before = before;
        if kind.handles && !planted!("vnv-heap/children-kept") {
            match self.hold(id, kind, false) {
                Ok(content) => self.section(|st| {
                    // SAFETY: a resident value of this kind, which is pinned; nobody has it mutably.
                    let r = unsafe { (kind.check)(content.as_ptr(), waiting) };
                    // SAFETY: it was pinned by this.
                    let slot = unsafe { st.cache.slot_of(content) };
                    st.cache.unpin(slot, false);
                    r.map_err(|_| Error::Damaged { object: id })
                })?,
                Err(Error::Busy) if !first => {}
                Err(e) => return Err(e),
            }
        }
        let held = self.section(|st| {
            let Some(slot) = st.cache.lookup(id) else {
                return Ok(false);
            };
            if st.cache.is_pinned(slot) && !planted!("vnv-heap/freed-while-held") {
                if first {
                    return Err(Error::Busy);
                }
                st.reaper = Some(Self::free_doomed);
                st.cache.doom(slot);
                return Ok(true);
            }
            st.cache.remove(slot);
            Ok(false)
        });
        let held = match held {
            Ok(held) => held,
            Err(e) => {
                waiting.len = before;
                return Err(e);
            }
        };
        if held {
            // It is freed at its release, with what it owns then.
            waiting.len = before;
            return Ok(());
        }
        self.give_back(id)
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
