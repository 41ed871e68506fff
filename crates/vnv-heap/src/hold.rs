//! Holding an object that is not simply there: making room, writing back, loading, in pieces of at most a burst.

use crate::error::Error;
use crate::own::{Kind, Known};
use crate::policy::Policy;
use crate::promise::Promise;
use crate::ram::{Reserve, Slot};
use crate::state::{Attempt, Core, Held, State};
use crate::store::{Begin, Check, PIECE, Place, Step};
use nvmem::{Medium, planted};

/// What is wanted of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Read,
    Write,
    /// It is new: this is its content.
    Fill(*const u8),
}

struct Hold<'k> {
    id: u16,
    kind: &'k Kind,
    want: Want,
    attempt: Attempt,
    stage: Stage,
}

impl Hold<'_> {
    fn fills(&self) -> bool {
        matches!(self.want, Want::Fill(_))
    }
}

enum Stage {
    Idle,
    /// A block is being made for it.
    Room,
    Clean(Clean),
    Load(Load),
    /// The block of the next write-back is being taken; then the object is dirty.
    Begin(Begin),
    /// A new object gets its content; so much of it is there.
    Fill(u16),
}

/// A write-back.
pub(crate) struct Clean {
    slot: Slot,
    begin: Begin,
    place: Option<Place>,
    at: u16,
    check: Check,
    /// Whether the object then leaves RAM.
    evict: bool,
}

struct Load {
    slot: Slot,
    place: Option<Place>,
    at: u16,
    check: Check,
}

/// How many bytes of `len` the next piece has: what is left of the burst, in whole pieces, but at least one.
fn piece(at: u16, len: u16, left: usize) -> u16 {
    let n = (left / PIECE * PIECE).max(PIECE);
    (len - at).min(n.min(usize::from(u16::MAX)) as u16)
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

    fn hold_by(&self, id: u16, kind: &Kind, want: Want) -> Result<Held, Error<S::Error>> {
        let mut hold = Hold {
            id,
            kind,
            want,
            attempt: Attempt::new(),
            stage: Stage::Idle,
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
        let slot = match (&hold.stage, hold.want) {
            (Stage::Load(load), _) => Some(load.slot),
            (_, Want::Fill(_)) => self.cache.lookup(hold.id),
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
        match &mut hold.stage {
            Stage::Clean(clean) => {
                if self.clean(clean, left)? {
                    hold.stage = Stage::Idle;
                }
                Ok(None)
            }
            Stage::Load(load) => {
                if self.read_in(load, hold.kind, hold.id, left)? {
                    hold.stage = Stage::Idle;
                }
                Ok(None)
            }
            Stage::Begin(begin) => {
                *left = left.saturating_sub(PIECE);
                if let Step::Done(_) = self.store.begin_write(begin)? {
                    // Its current content is in RAM alone from here on.
                    if let Some(slot) = self.cache.lookup(hold.id) {
                        self.cache.mark_dirty(slot);
                    }
                    hold.stage = Stage::Idle;
                }
                Ok(None)
            }
            Stage::Fill(at) => {
                let Some(slot) = self.cache.lookup(hold.id) else {
                    hold.stage = Stage::Idle;
                    return Ok(None);
                };
                let (Want::Fill(from), len) = (hold.want, hold.kind.size) else {
                    return Err(Error::Busy);
                };
                let n = piece(*at, len, *left);
                let to = self.cache.content(slot);
                // SAFETY: `n` bytes of a value of this kind, into a block of its size that nobody else uses.
                unsafe {
                    core::ptr::copy_nonoverlapping(
                        from.add(usize::from(*at)),
                        to.as_ptr().add(usize::from(*at)),
                        usize::from(n),
                    );
                }
                *at += n;
                *left = left.saturating_sub(usize::from(n));
                if *at < len {
                    return Ok(None);
                }
                // SAFETY: the block now holds that value.
                unsafe { (hold.kind.clear_padding)(to.as_ptr()) };
                self.cache.hold(slot, false);
                self.cache.mark_dirty(slot);
                self.cache.updated(slot);
                self.stats.dirty_high_water = self.stats.dirty_high_water.max(self.cache.demand());
                Ok(Some((slot, to)))
            }
            Stage::Room => self.make_room(hold, left).map(|()| None),
            Stage::Idle => self.decide(hold),
        }
    }

    /// It is not resident: makes a block for it.
    fn make_room(&mut self, hold: &mut Hold<'_>, left: &mut usize) -> Result<(), Error<S::Error>> {
        let len = hold.kind.len;
        match self.cache.reserve(hold.id, usize::from(len), *left) {
            Reserve::Done(_) if hold.fills() => hold.stage = Stage::Idle,
            Reserve::Done(slot) => {
                hold.stage = Stage::Load(Load {
                    slot,
                    place: None,
                    at: 0,
                    check: Check::new(hold.id, len),
                });
            }
            Reserve::Again => *left = 0,
            Reserve::NoRoom => {
                let slot = self.cache.victim(false).ok_or(Error::RamFull)?;
                if self.cache.is_dirty(slot) {
                    hold.stage = Stage::Clean(Clean::new(slot, self.cache.id(slot), true));
                } else {
                    self.cache.remove(slot);
                }
            }
        }
        Ok(())
    }

    fn decide(&mut self, hold: &mut Hold<'_>) -> Result<Option<Held>, Error<S::Error>> {
        let Some(slot) = self.cache.lookup(hold.id) else {
            hold.stage = Stage::Room;
            return Ok(None);
        };
        let mutable = hold.want == Want::Write;
        let sum = if hold.fills() {
            self.cache.demand() + self.cache.weight(slot)
        } else {
            if mutable && self.cache.is_pinned(slot) {
                return Err(Error::Busy);
            }
            self.demand_with(slot, hold.kind, mutable)
        };
        if self.cache.is_over(sum) {
            let slot = self.cache.victim(true).ok_or(Error::DirtyLimit)?;
            hold.stage = Stage::Clean(Clean::new(slot, self.cache.id(slot), false));
            return Ok(None);
        }
        if hold.fills() {
            hold.stage = Stage::Fill(0);
            return Ok(None);
        }
        if P::SNAPSHOT && mutable && !self.cache.is_dirty(slot) {
            hold.stage = Stage::Begin(Begin::new(hold.id, hold.kind.len));
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

    /// One piece of a load. Whether it was the last.
    fn read_in(
        &mut self,
        load: &mut Load,
        kind: &Kind,
        id: u16,
        left: &mut usize,
    ) -> Result<bool, Error<S::Error>> {
        let damaged = Error::Damaged { object: id };
        let Some(place) = load.place else {
            let place = self.store.locate(id)?;
            if place.len != kind.len {
                return Err(damaged);
            }
            load.place = Some(place);
            *left = left.saturating_sub(PIECE);
            return Ok(false);
        };
        let n = piece(load.at, place.len, *left);
        let content = self.cache.content(load.slot);
        // SAFETY: inside of the block, which was reserved for this object and which nobody else uses.
        let to = unsafe {
            core::slice::from_raw_parts_mut(
                content.as_ptr().add(usize::from(load.at)),
                usize::from(n),
            )
        };
        self.store.read(&place, load.at, to)?;
        load.check.add(to);
        load.at += n;
        *left = left.saturating_sub(usize::from(n));
        if load.at < place.len {
            return Ok(false);
        }
        if load.check.finish() != place.check && !planted!("vnv-heap/check-ignored") {
            return Err(damaged);
        }
        let mut known = Known {
            objects: self.store.objects(),
        };
        // SAFETY: as many bytes as a value of this kind has, all of them read, aligned to 8.
        unsafe { (kind.check)(content.as_ptr(), &mut known) }.map_err(|_| damaged)?;
        self.cache.hold(load.slot, false);
        self.stats.loads = self.stats.loads.wrapping_add(1);
        Ok(true)
    }

    /// One piece of a write-back. Whether it was the last.
    pub(crate) fn clean(
        &mut self,
        clean: &mut Clean,
        left: &mut usize,
    ) -> Result<bool, Error<S::Error>> {
        let Some(place) = clean.place else {
            *left = left.saturating_sub(PIECE);
            if let Step::Done(place) = self.store.begin_write(&mut clean.begin)? {
                clean.check = Check::new(place.id, place.len);
                clean.place = Some(place);
            }
            return Ok(false);
        };
        let n = piece(clean.at, place.len, *left);
        // SAFETY: a resident object, which is all initialised: padding is cleared before an object is released.
        let from = unsafe {
            core::slice::from_raw_parts(
                self.cache
                    .content(clean.slot)
                    .as_ptr()
                    .add(usize::from(clean.at)),
                usize::from(n),
            )
        };
        clean.check.add(from);
        self.store.write(&place, clean.at, from)?;
        clean.at += n;
        *left = left.saturating_sub(usize::from(n));
        if clean.at < place.len {
            return Ok(false);
        }
        self.store.finish_write(&place, clean.check)?;
        self.cache.mark_clean(clean.slot);
        self.stats.write_backs = self.stats.write_backs.wrapping_add(1);
        if clean.evict {
            self.cache.remove(clean.slot);
        }
        Ok(true)
    }
}

impl Clean {
    pub(crate) fn new(slot: Slot, id: u16, evict: bool) -> Self {
        Clean {
            slot,
            begin: Begin::new(id, 0),
            place: None,
            at: 0,
            check: Check::new(id, 0),
            evict,
        }
    }
}
