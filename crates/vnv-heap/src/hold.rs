//! Holding an object that is not simply there: making room, writing back, loading, in pieces of at most a burst.

use crate::error::Error;
use crate::own::{Kind, Known};
use crate::policy::Policy;
use crate::promise::Promise;
use crate::ram::{Reserve, Slot};
use crate::state::{Attempt, Core, Held, State};
use crate::store::{Begin, Check, PIECE, Step};
use core::ptr::NonNull;
use nvmem::{Medium, planted};

/// What is wanted of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Read,
    Write,
    /// It is new: this is its content.
    Fill(*const u8),
    /// No object: all that is dirty is written back.
    Clean,
}

struct Hold<'k> {
    id: u16,
    kind: &'k Kind,
    want: Want,
    attempt: Attempt,
    stage: Stage,
    /// What [`Stage::Load`] and [`Stage::Clean`] are at.
    transfer: Transfer,
    /// The block of the next write-back is being taken; then the object is dirty.
    begin: Begin,
    /// So much of a new object's content is there.
    filled: usize,
}

impl Hold<'_> {
    fn fills(&self) -> bool {
        matches!(self.want, Want::Fill(_))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// A block is being made for it.
    Room,
    /// Another object is written back.
    Clean,
    Load,
    Begin,
    /// A new object gets its content.
    Fill,
}

/// What moves between a resident block and the medium, and what then becomes of the block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It is loaded.
    Load,
    /// It is written back.
    Clean,
    /// It is written back, and leaves RAM.
    Evict,
}

/// A load or a write-back under way.
pub(crate) struct Transfer {
    slot: Slot,
    goal: Goal,
    begin: Begin,
    /// Where the content is on the medium; 0 before that is known.
    address: u32,
    /// What the check of a loaded one must come to.
    expected: u16,
    at: usize,
    check: Check,
}

/// How many bytes the next piece has, of those that are to come: what is left of the burst, in whole pieces, but at least one.
fn piece(to_come: usize, left: usize) -> usize {
    to_come.min((left / PIECE * PIECE).max(PIECE))
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// **Cost**: what is written back to make room, and what is read; a section for each burst.
    #[cold]
    #[inline(never)]
    pub(crate) fn hold_slowly(
        &self,
        id: u16,
        kind: &Kind,
        mutable: bool,
    ) -> Result<Held, Error<S::Error>> {
        if let Some(held) = self.hold_again(id, kind, mutable)? {
            return Ok(held);
        }
        let want = if mutable { Want::Write } else { Want::Read };
        self.hold_by(id, kind, want)
    }

    /// Gives a new object its content; it is dirty then, and nobody holds it.
    ///
    /// # Safety
    /// `content` is a value of this kind, which belongs to the object when this has succeeded.
    #[inline(never)]
    pub(crate) unsafe fn fill(
        &self,
        id: u16,
        kind: &Kind,
        content: *const u8,
    ) -> Result<(), Error<S::Error>> {
        self.hold_by(id, kind, Want::Fill(content)).map(drop)
    }

    /// Writes all that is dirty, in pieces. Nobody holds anything to be written, but for guards that were leaked.
    pub(crate) fn clean_all(&self) -> Result<(), Error<S::Error>> {
        let kind = Kind::to_free(0, false, |_, _| Ok(()));
        self.hold_by(0, &kind, Want::Clean).map(drop)
    }

    fn hold_by(&self, id: u16, kind: &Kind, want: Want) -> Result<Held, Error<S::Error>> {
        let mut hold = Hold {
            id,
            kind,
            want,
            attempt: Attempt::new(),
            stage: Stage::Idle,
            transfer: Transfer::new(Slot::NONE, id, Goal::Load),
            begin: Begin::new(id, kind.len),
            filled: 0,
        };
        loop {
            let done = self.section(|st| {
                if !hold.attempt.goes_on(st.incarnation)? && !planted!("vnv-heap/no-restart") {
                    // What was reserved went with the RAM.
                    hold.stage = Stage::Idle;
                }
                let mut left = usize::from(st.store.burst());
                loop {
                    let r = st.step(&mut hold, &mut left);
                    match r {
                        Ok(None) if left > 0 => {}
                        Ok(done) => return Ok(done),
                        Err(e) => {
                            st.give_up(&hold);
                            return Err(e);
                        }
                    }
                }
            })?;
            if let Some(held) = done {
                return Ok(held);
            }
        }
    }
}

impl<S: Medium, P: Promise, Pol: Policy> State<S, P, Pol> {
    /// An operation that fails leaves no half-loaded object.
    fn give_up(&mut self, hold: &Hold<'_>) {
        let slot = match hold.stage {
            Stage::Load => Some(hold.transfer.slot),
            _ if hold.fills() => self.cache.lookup(hold.id),
            _ => None,
        };
        if let Some(slot) = slot {
            self.cache.hold(slot, false);
            self.cache.remove(slot);
        }
    }

    fn step(
        &mut self,
        hold: &mut Hold<'_>,
        left: &mut usize,
    ) -> Result<Option<Held>, Error<S::Error>> {
        match hold.stage {
            Stage::Clean => {
                if self.transfer(&mut hold.transfer, left)? {
                    hold.stage = match hold.transfer.goal {
                        // The room is still wanted.
                        Goal::Evict => Stage::Room,
                        _ => Stage::Idle,
                    };
                }
                Ok(None)
            }
            Stage::Load => {
                if self.transfer(&mut hold.transfer, left)? {
                    self.believe(hold)?;
                    hold.stage = Stage::Idle;
                }
                Ok(None)
            }
            // Nothing else comes here.
            Stage::Begin if !P::SNAPSHOT => Ok(None),
            Stage::Begin => {
                *left = left.saturating_sub(PIECE);
                if let Step::Done(_) = self.store.begin_write(&mut hold.begin)? {
                    // Its current content is in RAM alone from here on.
                    if let Some(slot) = self.cache.lookup(hold.id) {
                        self.cache.mark_dirty(slot);
                    }
                    hold.stage = Stage::Idle;
                }
                Ok(None)
            }
            Stage::Fill => {
                let Some(slot) = self.cache.lookup(hold.id) else {
                    hold.stage = Stage::Idle;
                    return Ok(None);
                };
                let (Want::Fill(from), len) = (hold.want, usize::from(hold.kind.size)) else {
                    return Err(Error::Busy);
                };
                let at = hold.filled;
                let n = piece(len - at, *left);
                let to = self.cache.content(slot);
                // SAFETY: `n` bytes of a value of this kind, into a block of its size that nobody else uses.
                unsafe { from.add(at).copy_to_nonoverlapping(to.as_ptr().add(at), n) };
                hold.filled += n;
                *left = left.saturating_sub(n);
                if hold.filled < len {
                    return Ok(None);
                }
                // SAFETY: the block now holds that value.
                unsafe { (hold.kind.clear_padding)(to.as_ptr()) };
                self.cache.hold(slot, false);
                self.cache.mark_dirty(slot);
                self.cache.updated(slot);
                self.cache.note(self.cache.demand());
                Ok(Some((slot, to)))
            }
            Stage::Room => self.make_room(hold, left).map(|()| None),
            Stage::Idle => self.decide(hold, left),
        }
    }

    /// It is not resident: makes a block for it.
    fn make_room(&mut self, hold: &mut Hold<'_>, left: &mut usize) -> Result<(), Error<S::Error>> {
        let len = hold.kind.len;
        match self.cache.reserve(hold.id, usize::from(len), *left) {
            Reserve::Done(_) if hold.fills() => hold.stage = Stage::Idle,
            Reserve::Done(slot) => {
                self.begin(hold, slot, Goal::Load);
            }
            Reserve::Again => *left = 0,
            Reserve::NoRoom => {
                let slot = self.cache.victim(false).ok_or(Error::RamFull)?;
                if self.cache.is_dirty(slot) {
                    self.begin(hold, slot, Goal::Evict);
                } else {
                    self.cache.remove(slot);
                }
            }
        }
        Ok(())
    }

    /// What is to be done next with a block.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn begin(&self, hold: &mut Hold<'_>, slot: Slot, goal: Goal) {
        // Not a new one: all of it would be copied, of which most is written before it is read.
        let t = &mut hold.transfer;
        (t.slot, t.goal, t.address, t.at) = (slot, goal, 0, 0);
        t.begin = Begin::new(self.cache.id(slot), 0);
        hold.stage = match goal {
            Goal::Load => Stage::Load,
            _ => Stage::Clean,
        };
    }

    fn decide(
        &mut self,
        hold: &mut Hold<'_>,
        left: &mut usize,
    ) -> Result<Option<Held>, Error<S::Error>> {
        let cleans = hold.want == Want::Clean;
        let mutable = hold.want == Want::Write;
        let mut slot = Slot::NONE;
        // No object of its own, so everything else must go.
        let mut sum = u32::MAX;
        if !cleans {
            let Some(found) = self.cache.lookup(hold.id) else {
                hold.stage = Stage::Room;
                return Ok(None);
            };
            slot = found;
            if mutable && self.cache.is_pinned(slot) {
                return Err(Error::Busy);
            }
            sum = if hold.fills() {
                self.cache.demand() + self.cache.weight(slot)
            } else {
                self.demand_with(slot, hold.kind, mutable)
            };
        }
        if cleans || self.cache.is_over(sum) {
            let victim = self.cache.victim(true);
            match if cleans {
                victim.or_else(|| self.dirty())
            } else {
                victim
            } {
                Some(victim) => self.begin(hold, victim, Goal::Clean),
                None if cleans => return Ok(Some((slot, NonNull::dangling()))),
                None => return Err(Error::DirtyLimit),
            }
            return Ok(None);
        }
        let changes = hold.want != Want::Read;
        if !P::SNAPSHOT && changes && !self.store.is_running() && !planted!("vnv-heap/running-late")
        {
            // Before anybody can change anything: a cut then is an interruption, even if all that has changed was in RAM.
            self.store.change()?;
            *left = 0;
            return Ok(None);
        }
        if hold.fills() {
            hold.filled = 0;
            hold.stage = Stage::Fill;
            return Ok(None);
        }
        if P::SNAPSHOT && mutable && !self.cache.is_dirty(slot) {
            hold.begin = Begin::new(hold.id, hold.kind.len);
            hold.stage = Stage::Begin;
            return Ok(None);
        }
        if !self.cache.is_pinned(slot) && self.cache.is_pinned_out() {
            return Err(Error::DirtyLimit);
        }
        if !self.pin_within(slot, mutable, sum) {
            return Err(Error::Busy);
        }
        Ok(Some((slot, self.cache.content(slot))))
    }

    /// The bytes of an object have been loaded, and are those that were written: are they a value?
    fn believe(&mut self, hold: &Hold<'_>) -> Result<(), Error<S::Error>> {
        let slot = hold.transfer.slot;
        let content = self.cache.content(slot);
        let mut known = Known {
            objects: self.store.objects(),
        };
        // SAFETY: as many bytes as a value of this kind has, all of them read, aligned to 8.
        unsafe { (hold.kind.check)(content.as_ptr(), &mut known) }
            .map_err(|_| Error::Damaged { object: hold.id })?;
        self.cache.hold(slot, false);
        self.stats.loads = self.stats.loads.wrapping_add(1);
        Ok(())
    }

    /// One piece of a load or a write-back. Whether it was the last.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(crate) fn transfer(
        &mut self,
        t: &mut Transfer,
        left: &mut usize,
    ) -> Result<bool, Error<S::Error>> {
        let loads = t.goal == Goal::Load;
        let id = t.begin.id();
        let damaged = Error::Damaged { object: id };
        let len = self.cache.len(t.slot);
        if t.address == 0 {
            *left = left.saturating_sub(PIECE);
            let place = if loads {
                self.store.locate(id)?
            } else if let Step::Done(place) = self.store.begin_write(&mut t.begin)? {
                place
            } else {
                return Ok(false);
            };
            if usize::from(place.len) != len {
                return Err(damaged);
            }
            t.check = Check::new(id, place.len);
            t.expected = place.check;
            t.address = self.store.address(&place);
            if *left == 0 {
                return Ok(false);
            }
        }
        let n = piece(len - t.at, *left);
        let content = self.cache.content(t.slot).as_ptr().wrapping_add(t.at);
        if loads {
            // SAFETY: inside of the block, which was reserved or put back for this object, and which nobody else uses.
            let to = unsafe { core::slice::from_raw_parts_mut(content, n) };
            self.store.read(t.address + t.at as u32, to)?;
            t.check.add(to);
        } else {
            // SAFETY: inside of a resident object, which is all initialised: padding is cleared before an object is released.
            let from = unsafe { core::slice::from_raw_parts(content, n) };
            t.check.add(from);
            self.store.write(t.address + t.at as u32, from)?;
        }
        t.at += n;
        *left = left.saturating_sub(n);
        if t.at < len {
            return Ok(false);
        }
        let check = t.check.finish();
        if loads {
            if check != t.expected && !planted!("vnv-heap/check-ignored") {
                return Err(damaged);
            }
            return Ok(true);
        }
        self.store.finish_write(t.address, check)?;
        self.cache.mark_clean(t.slot);
        self.stats.write_backs = self.stats.write_backs.wrapping_add(1);
        if t.goal == Goal::Evict {
            self.cache.remove(t.slot);
        }
        Ok(true)
    }

    /// All of a load or a write-back.
    pub(crate) fn transfer_whole(&mut self, slot: Slot, goal: Goal) -> Result<(), Error<S::Error>> {
        let mut t = Transfer::new(slot, self.cache.id(slot), goal);
        let mut left = usize::MAX;
        while !self.transfer(&mut t, &mut left)? {}
        Ok(())
    }
}

impl Transfer {
    pub(crate) fn new(slot: Slot, id: u16, goal: Goal) -> Self {
        Transfer {
            slot,
            goal,
            // What is written back has a block already, so its size does not matter.
            begin: Begin::new(id, 0),
            address: 0,
            expected: 0,
            at: 0,
            check: Check::new(id, 0),
        }
    }
}
