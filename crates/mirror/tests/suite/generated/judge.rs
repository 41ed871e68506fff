//! The model: the content alone. It knows no format.
//!
//! [`Seen::allowed`] holds what the next boot may find: the content of the last save that returned
//! `Ok`, and of each that was begun later. Nothing else is allowed, and no error but those of the
//! medium and of a range that never held a log of this layout.

use super::media::Meter;
use super::program::How;
use super::store::State;
use nv_mirror::{Bound, Durability, MirrorError};
use nvmem::device::Contract;
use powerfail::World;

/// What the world knows.
#[derive(Clone, Hash, Debug, Default)]
pub struct Seen {
    /// What a boot may find; empty stands for the blank state alone.
    pub allowed: Vec<State>,
    /// Operations that were begun.
    pub at: u32,
    /// Saves and formats that returned `Ok`.
    pub saves: u32,
    /// Boots and failures since then: docs/failure-model/mirror.md limits how many flash survives.
    pub doubts: u32,
    /// A format was begun, and none has ended.
    pub formatting: bool,
}

/// What the range holds at the first boot.
#[derive(Clone, Copy, PartialEq)]
pub enum Holds {
    Nothing,
    /// A log of this layout, whose image is zeros.
    Log,
    /// What is refused until it is formatted: a log of another layout, a damaged one, other data.
    Refused,
    /// Other data, where the program opens or formats.
    Data,
}

/// The mirror that a campaign opens.
pub struct Setting {
    pub segments: u8,
    pub holds: Holds,
    /// The program opens with `open_or_format`.
    pub or_format: bool,
}

/// The judge of one boot.
pub struct Judge<'a, 'w> {
    world: &'a World<'w, Seen>,
    holds: Holds,
    flash: bool,
    /// A chain of more doubts may lose what was saved.
    most_doubts: u32,
    worst: Bound,
    durability: Durability,
    /// Commits since the last save, if that is known.
    unsaved: Option<u32>,
    /// What the medium holds, if that is known.
    saved: Option<State>,
    /// The last save made room.
    roomy: bool,
}

impl<'a, 'w> Judge<'a, 'w> {
    pub fn new(
        world: &'a World<'w, Seen>,
        setting: &Setting,
        contract: &Contract,
        worst: Bound,
        durability: Durability,
    ) -> Self {
        let flash = contract.erase.is_some();
        Judge {
            world,
            holds: setting.holds,
            flash,
            most_doubts: if flash {
                2 * u32::from(setting.segments) - 2
            } else {
                u32::MAX
            },
            worst,
            durability,
            unsaved: Some(0),
            saved: None,
            roomy: false,
        }
    }

    pub fn begins_format(&self) {
        self.world.update(|w| {
            w.may_be(State::default());
            w.formatting = true;
        });
    }

    /// A format has ended: nothing that was before comes back.
    pub fn formatted(&mut self) {
        self.world.update(|w| {
            w.is(State::default());
            w.formatting = false;
        });
        self.saved = Some(State::default());
    }

    /// An open or a format has failed, or its future was dropped.
    pub fn failed(&self) {
        self.world.update(|w| w.doubts += 1);
    }

    /// The range was refused. Returns whether the program formats it; else its life ends here.
    pub fn refused<E: core::fmt::Debug>(&self, error: &MirrorError<E>) -> bool {
        let seen = self.world.get();
        use MirrorError::{Damaged, Foreign, Layout};
        let expected = match (error, self.holds) {
            _ if seen.saves > 0 => false,
            (Layout(_) | Foreign | Damaged, Holds::Refused) => true,
            // Parts of what a format has erased; or flash that was cut three times.
            (Foreign | Damaged, Holds::Nothing | Holds::Data) => {
                seen.formatting || self.flash && seen.doubts > 2
            }
            _ => false,
        };
        assert!(
            expected || seen.doubts > self.most_doubts,
            "open: {error:?}"
        );
        expected
    }

    /// A save says that the range has another mirror. It has none, but on flash what two cuts have
    /// left in a row may look like one.
    pub fn looks_like_two(&self) {
        assert!(self.flash && self.world.get().doubts > 2, "a false alarm");
    }

    /// Whether `open_or_format` may write: there never was a log, or a format has erased it.
    pub fn may_write(&self) -> bool {
        let seen = self.world.get();
        seen.saves == 0 && (self.holds == Holds::Data || seen.formatting)
    }

    /// A boot has found this. Returns whether its life goes on.
    pub fn found(&mut self, state: &State) -> bool {
        let seen = self.world.get();
        let refused = self.holds == Holds::Refused && seen.saves == 0 && !seen.formatting;
        assert!(!refused, "what the range holds was not refused");
        let fits = match seen.allowed.is_empty() {
            true => *state == State::default(),
            false => seen.allowed.contains(state),
        };
        if !fits && seen.doubts > self.most_doubts {
            return false;
        }
        assert!(
            fits,
            "found {state:?}, but expected one of {:?}",
            seen.allowed
        );
        self.world.update(|w| w.doubts += 1);
        // A cut may take back what is found on flash, so it is due. Whether anything was found is
        // not known where all words are 0.
        if self.flash && self.every() == Some(1) {
            self.unsaved = (*state != State::default()).then_some(1);
        }
        true
    }

    /// A save begins, and the content becomes `later` while it waits.
    pub fn begins_save_while(&mut self, state: &State, later: &State) {
        self.world.update(|w| {
            w.may_be(state.clone());
            w.may_be(later.clone());
            w.at += 1;
        });
    }

    /// It has ended, and has saved one of them.
    pub fn ended_while(&mut self, state: &State, later: &State) {
        self.world.update(|w| {
            w.is(state.clone());
            w.may_be(later.clone());
        });
        (self.unsaved, self.saved, self.roomy) = (Some(0), None, false);
    }

    /// The program has changed the content. What a pool stores of a commit is not known.
    pub fn changed(&mut self, of_pool: bool) {
        if of_pool {
            self.saved = None;
        }
    }

    /// After how many commits a save is due.
    fn every(&self) -> Option<u32> {
        match self.durability {
            Durability::BeforeOutput => None,
            Durability::EachCommit => Some(1),
            Durability::Every(every) => Some(every.max(1)),
        }
    }

    /// Whether one is, if that is known.
    fn is_due(&self) -> Option<bool> {
        match self.every() {
            None => Some(false),
            Some(every) => self.unsaved.map(|n| n >= every),
        }
    }

    /// A save begins. Returns whether it is due, if that is known.
    pub fn begins_save(&mut self, how: How, state: &State) -> Option<bool> {
        let due = match how {
            How::Durable | How::MakeRoom => Some(true),
            How::Committed => {
                self.unsaved = self.unsaved.map(|n| n + 1);
                match self.every() {
                    Some(1) => Some(true),
                    _ => self.is_due(),
                }
            }
            How::IfDue => self.is_due(),
        };
        self.world.update(|w| {
            if due != Some(false) {
                w.may_be(state.clone());
            }
            w.at += 1;
        });
        due
    }

    /// A save has ended; `None` if its future was dropped.
    pub fn ended<E>(
        &mut self,
        (how, due): (How, Option<bool>),
        state: &State,
        ended: Option<&Result<(), MirrorError<E>>>,
        meter: &Meter,
        room: u32,
    ) {
        let makes_room = how == How::MakeRoom;
        let ok = matches!(ended, Some(Ok(())));
        if due == Some(false) {
            assert!(ok || ended.is_none(), "not due");
            assert!(!meter.has_written(), "not due");
            if ended.is_none() {
                // It may have counted its commit.
                self.unsaved = None;
            }
            return;
        }
        if self.saved.as_ref() == Some(state) && !makes_room {
            assert!(!meter.has_written(), "nothing has changed");
        }
        if self.roomy && ok && !makes_room {
            let most = self.worst.bytes;
            assert!(
                meter.erases.get() == 0 && meter.bytes.get() <= most,
                "after make_room"
            );
        }
        (self.saved, self.roomy) = (None, false);
        match due {
            Some(true) if ok => {
                self.world.update(|w| w.is(state.clone()));
                (self.unsaved, self.saved) = (Some(0), Some(state.clone()));
                self.roomy = makes_room;
                assert!(!makes_room || room >= self.worst.bytes, "there is room");
            }
            // Whether it was due is not known.
            _ if ok => {}
            _ => {
                self.world.update(|w| w.doubts += 1);
                // A `make_room` that has failed may have saved before.
                if makes_room || ended.is_none() {
                    self.unsaved = None;
                }
            }
        }
    }
}

impl Seen {
    /// The next boot may find this, too.
    fn may_be(&mut self, state: State) {
        if self.allowed.is_empty() {
            self.allowed.push(State::default());
        }
        if !self.allowed.contains(&state) {
            self.allowed.push(state);
        }
    }

    /// The next boot finds this.
    fn is(&mut self, state: State) {
        self.allowed = vec![state];
        self.saves += 1;
        self.doubts = 0;
    }
}
