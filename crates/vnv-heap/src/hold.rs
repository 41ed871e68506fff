//! Holding an object that is not simply there: making room, writing back, loading.
//!
//! What is common is one straight section: the object that leaves is written, the other one is read into its place, and the tables follow. Where
//! a burst does not allow that, it is the same in more sections, a burst in each; what a section leaves is a transfer under way. Between two
//! sections there may be a persist and its restore.

use crate::error::Fail;
use crate::own::{Kind, Known};
use crate::plain::copy;
use crate::policy::Policy;
use crate::promise::Promise;
use crate::ram::{Reserve, Slot};
use crate::state::{Attempt, Core, State};
use crate::store::{ASIDE, BLOCK_HEADER, Begin, CHECK_BYTES, Check, PIECE, is_head};
use core::ptr::NonNull;
use nvmem::{Medium, planted};

/// What is wanted of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Read,
    Write,
    /// It is new: this is its content.
    Fill(*const u8),
}

struct Hold<'k> {
    id: u16,
    kind: &'k Kind,
    want: Want,
    /// What is under way, if anything is.
    transfer: Transfer,
    /// So much of a new object's content is there, once it has a block.
    filled: Option<usize>,
    /// It was not there.
    loaded: bool,
    /// Snapshot: its block is being taken; then it is dirty.
    begin: Option<Begin>,
}

impl Hold<'_> {
    /// A block is there for it.
    fn reserved(&mut self, slot: Slot) {
        if let Want::Fill(_) = self.want {
            self.filled = Some(0);
        } else {
            self.transfer.set(slot, Goal::Load);
        }
    }
}

/// What moves between a resident block and the medium, and what then becomes of the block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// It is written back.
    Clean,
    /// It is written back, and leaves RAM.
    Evict,
    /// It is loaded.
    Load,
}

/// A load or a write-back.
struct Transfer {
    /// Of what, if anything is under way.
    slot: Option<Slot>,
    goal: Goal,
    /// What the check of a loaded one must come to.
    expected: u16,
    /// Where the content is on the medium.
    address: u32,
    /// So much of it was moved, or, to be written, is in the check.
    at: usize,
    /// The first piece.
    first: usize,
    check: Check,
}

impl Transfer {
    const NONE: Transfer = Transfer {
        slot: None,
        goal: Goal::Load,
        expected: 0,
        address: 0,
        at: 0,
        first: 0,
        check: Check::NONE,
    };

    /// To be begun.
    #[inline(always)]
    fn set(&mut self, slot: Slot, goal: Goal) {
        // Not a new one: all of it would be copied, of which most is written before it is read.
        (self.slot, self.goal, self.at) = (Some(slot), goal, 0);
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Gives a new object its content; it is dirty then, and nobody holds it.
    ///
    /// # Safety
    /// `content` is a value of this kind, which belongs to the object when this has succeeded.
    pub(crate) unsafe fn fill(&self, id: u16, kind: &Kind, content: *const u8) -> Result<(), Fail> {
        self.hold_in_steps(id, kind, Want::Fill(content)).map(drop)
    }

    /// Writes all that is dirty, in pieces. Nobody holds anything to be written, but for guards that were leaked.
    pub(crate) fn clean_all(&self) -> Result<(), Fail> {
        self.no_padding_leaked()?;
        let mut attempt = Attempt::new();
        let mut transfer = Transfer::NONE;
        self.sections(|st| {
            if !attempt.goes_on(st.incarnation)? {
                transfer.slot = None;
            }
            let mut left = st.budget();
            loop {
                let slot = match transfer.slot {
                    Some(slot) => slot,
                    None => {
                        st.cache.settle();
                        let Some(dirty) = st.dirty() else {
                            return Ok(());
                        };
                        transfer.set(dirty, Goal::Clean);
                        dirty
                    }
                };
                st.transfer(slot, &mut transfer, &mut left)?;
                transfer.slot = None;
            }
        })
    }

    /// Holds an object that may not be held at once. **Cost**: what is written
    /// back to make room, and what is read, in a section for each burst.
    #[inline(always)]
    pub(crate) fn hold_by(&self, id: u16, kind: &Kind, mutable: bool) -> Result<NonNull<u8>, Fail> {
        let want = if mutable { Want::Write } else { Want::Read };
        self.hold_in_steps(id, kind, want)
    }

    /// Holds an object in as many sections as it takes.
    #[cold]
    #[inline(never)]
    fn hold_in_steps(&self, id: u16, kind: &Kind, want: Want) -> Result<NonNull<u8>, Fail> {
        let mut attempt = Attempt::new();
        let mut hold = Hold {
            id,
            kind,
            want,
            transfer: Transfer::NONE,
            filled: None,
            loaded: false,
            begin: None,
        };
        self.sections(|st| {
            if !attempt.goes_on(st.incarnation)? && !planted!("vnv-heap/no-restart") {
                // What was reserved went with the RAM.
                hold.transfer.slot = None;
                hold.filled = None;
                hold.begin = None;
            }
            let r = st.advance(&mut hold);
            if r.is_err_and(|f| f != Fail::AGAIN) {
                st.give_up(hold.id);
            }
            r
        })
    }
}

impl<S: Medium, P: Promise, Pol: Policy> State<S, P, Pol> {
    /// Bytes that a section may move: a burst, and what belongs to an object that is written and one that is read.
    fn budget(&self) -> usize {
        usize::from(self.store.burst()) + 2 * ASIDE
    }

    /// An operation that fails leaves no block without its content.
    #[cold]
    #[inline(always)]
    fn give_up(&mut self, id: u16) {
        if let Some(slot) = self.cache.lookup(id)
            && self.cache.is_held(slot)
        {
            self.cache.hold(slot, false);
            self.cache.remove(slot);
        }
    }

    /// As much as a burst allows; where the object is, when it is held.
    #[inline(always)]
    fn advance(&mut self, hold: &mut Hold<'_>) -> Result<NonNull<u8>, Fail> {
        let mut left = self.budget();
        if P::SNAPSHOT {
            self.begun(hold)?;
        }
        loop {
            if let Some(slot) = hold.transfer.slot {
                self.transfer(slot, &mut hold.transfer, &mut left)?;
                hold.transfer.slot = None;
                match hold.transfer.goal {
                    Goal::Load => self.believe(hold, slot)?,
                    // The wanted one gets its place, if it is as large.
                    Goal::Evict if self.cache.replace(slot, hold.id, hold.kind.len.into()) => {
                        hold.reserved(slot);
                        continue;
                    }
                    Goal::Evict | Goal::Clean => {}
                }
            }
            let Some(slot) = self.cache.lookup(hold.id) else {
                match self.cache.reserve(hold.id, hold.kind.len.into(), left) {
                    Reserve::Done(slot) => hold.reserved(slot),
                    Reserve::Again => return Err(Fail::AGAIN),
                    Reserve::NoRoom => {
                        let victim = self.cache.victim(false).ok_or(Fail::RAM_FULL)?;
                        hold.transfer.set(victim, Goal::Evict);
                    }
                }
                continue;
            };
            let changes = hold.want != Want::Read;
            let mutable = hold.want == Want::Write;
            if mutable && self.cache.is_pinned(slot) {
                return Err(Fail::BUSY);
            }
            let sum = loop {
                let sum = match hold.filled {
                    Some(_) => self.cache.demand() + self.cache.weight(slot),
                    None => self.demand_with(slot, hold.kind, mutable),
                };
                if !self.cache.is_over(sum) {
                    break sum;
                }
                let victim = self.cache.victim(true).ok_or(Fail::DIRTY_LIMIT)?;
                hold.transfer.set(victim, Goal::Clean);
                self.transfer(victim, &mut hold.transfer, &mut left)?;
                hold.transfer.slot = None;
            };
            if !P::SNAPSHOT
                && changes
                && !self.store.is_running()
                && !planted!("vnv-heap/running-late")
            {
                // Before anybody can change anything: a cut then is an interruption, even if all that has changed was in RAM.
                self.store.change()?;
                return Err(Fail::AGAIN);
            }
            if let Want::Fill(from) = hold.want {
                // SAFETY: a value of the kind that the block was reserved for.
                return unsafe { self.fill(hold, slot, from, left) };
            }
            if P::SNAPSHOT && mutable && !self.cache.is_dirty(slot) {
                hold.begin = Some(Begin::new(hold.id, hold.kind.len));
                return Err(Fail::AGAIN);
            }
            if !self.cache.is_pinned(slot) && self.cache.is_pinned_out() {
                return Err(Fail::DIRTY_LIMIT);
            }
            if !self.pin_within(slot, mutable, sum) {
                return Err(Fail::BUSY);
            }
            let count = if hold.loaded {
                &mut self.stats.loads
            } else {
                &mut self.stats.hits
            };
            *count = count.wrapping_add(1);
            return Ok(self.cache.content(slot));
        }
    }

    /// Snapshot: a step towards a block of its own, if one is on the way.
    fn begun(&mut self, hold: &mut Hold<'_>) -> Result<(), Fail> {
        let Some(begin) = &mut hold.begin else {
            return Ok(());
        };
        self.store.begin_write(begin)?;
        // Its current content is in RAM alone from here on.
        if let Some(slot) = self.cache.lookup(hold.id) {
            self.cache.mark_dirty(slot);
        }
        hold.begin = None;
        Ok(())
    }

    /// A piece of a new object's content.
    ///
    /// # Safety
    /// A value of the hold's kind is at `from`; the block is reserved for it.
    unsafe fn fill(
        &mut self,
        hold: &mut Hold<'_>,
        slot: Slot,
        from: *const u8,
        left: usize,
    ) -> Result<NonNull<u8>, Fail> {
        let (at, len) = (hold.filled.unwrap_or(0), usize::from(hold.kind.size));
        let n = piece(len - at, left);
        let to = self.cache.content(slot);
        // SAFETY: `n` bytes of a value of this kind, into a block of its size that nobody else uses.
        unsafe { copy(from.add(at), to.as_ptr().add(at), n) };
        hold.filled = Some(at + n);
        if at + n < len {
            return Err(Fail::AGAIN);
        }
        // SAFETY: the block now holds that value.
        unsafe { (hold.kind.clear_padding)(to.as_ptr()) };
        self.cache.hold(slot, false);
        self.cache.mark_dirty(slot);
        self.cache.updated(slot);
        self.cache.note(self.cache.demand());
        Ok(to)
    }

    /// The bytes of an object have been loaded, and are those that were written: are they a value?
    #[inline(never)]
    fn believe(&mut self, hold: &mut Hold<'_>, slot: Slot) -> Result<(), Fail> {
        hold.loaded = true;
        let content = self.cache.content(slot);
        let mut known = Known {
            objects: self.store.objects(),
        };
        // SAFETY: as many bytes as a value of this kind has, all of them read, aligned to 8.
        unsafe { (hold.kind.check)(content.as_ptr(), &mut known) }
            .map_err(|_| Fail::damaged(hold.id))?;
        self.cache.hold(slot, false);
        Ok(())
    }

    /// Loads all of an object, or writes all of it back.
    #[inline(never)]
    pub(crate) fn whole(&mut self, slot: Slot, loads: bool) -> Result<(), Fail> {
        let mut t = Transfer::NONE;
        t.set(slot, if loads { Goal::Load } else { Goal::Clean });
        self.piece(slot, &mut t, usize::MAX)
    }

    /// The medium has the content of this one.
    #[inline(always)]
    fn written(&mut self, slot: Slot) {
        self.cache.mark_clean(slot);
        self.stats.write_backs = self.stats.write_backs.wrapping_add(1);
    }

    /// What does not fit into a burst goes on by a piece, and what does is done.
    #[inline(never)]
    fn transfer(&mut self, slot: Slot, t: &mut Transfer, left: &mut usize) -> Result<(), Fail> {
        if t.goal == Goal::Evict && !self.cache.is_dirty(slot) {
            return Ok(());
        }
        let len = self.cache.len(slot);
        let all = len + ASIDE;
        if t.at == 0 && all <= *left {
            *left -= all;
            return self.piece(slot, t, len);
        }
        if *left < self.budget() {
            // In the next section.
            return Err(Fail::AGAIN);
        }
        let most = (*left - ASIDE) / PIECE * PIECE;
        *left = 0;
        self.piece(slot, t, most)
    }

    /// So many bytes of a load or a write-back, or what is left of it.
    ///
    /// What the medium has before the content goes with the first piece: its header, which says what the check must come to, is the
    /// first to be read; its check is the last to be written, as it is known then.
    #[inline(never)]
    fn piece(&mut self, slot: Slot, t: &mut Transfer, most: usize) -> Result<(), Fail> {
        let loads = t.goal == Goal::Load;
        let (id, len) = (self.cache.id(slot), self.cache.len(slot));
        let at = t.at;
        let n = (len - at).min(most);
        if at == 0 {
            t.address = self.store.address_of(id, len as u16, !loads)?;
            t.check = Check::new(id, len as u16);
            t.first = n;
        }
        let content = self.cache.content(slot).as_ptr().wrapping_add(at);
        if !loads && planted!("vnv-heap/clean-before-written") {
            self.cache.mark_clean(slot);
        }
        if loads {
            // The header comes with the first piece.
            let before = if at == 0 { BLOCK_HEADER } else { 0 };
            let from = t.address + at as u32 - before;
            // SAFETY: the block was reserved or put back for this object, and nobody else uses it.
            let (r, head) = unsafe {
                let all = n + before as usize;
                self.cache
                    .read_beside(slot, at, all, |to| self.store.get(from, to))
            };
            r?;
            if at == 0 {
                // No check is 0.
                t.expected = is_head(&head, id, len as u16).unwrap_or(0);
            }
        }
        // SAFETY: as above; what was read is initialised, and all of a resident object is: padding is cleared
        // before it is released, and a leaked guard is noticed; an interrupt sees it as the machine has it.
        let bytes = unsafe { core::slice::from_raw_parts(content, n) };
        t.check.add(bytes);
        t.at = at + n;
        if !loads && at != 0 && at < len {
            self.store.put(t.address + at as u32, bytes)?;
            return Err(Fail::AGAIN);
        }
        if t.at < len {
            return Err(Fail::AGAIN);
        }
        let check = t.check.finish();
        if !loads {
            let before = t.address - CHECK_BYTES;
            self.cache
                .write_beside(slot, check, t.first, |from| self.store.put(before, from))?;
            self.written(slot);
        } else if check != t.expected && !planted!("vnv-heap/check-ignored") {
            return Err(Fail::damaged(id));
        }
        Ok(())
    }
}

/// How many bytes the next piece has, of those that are to come: what is left of the burst, in whole pieces, but at least one.
fn piece(to_come: usize, left: usize) -> usize {
    to_come.min((left / PIECE * PIECE).max(PIECE))
}
