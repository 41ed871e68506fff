//! The boot: the kernel's part of the region is formatted or recovered, and the RAM made from its
//! words.

use crate::THREADS_MAX;
use crate::error::OpenError;
use crate::kernel::{Kernel, State};
use crate::ram::Memory;
use crate::schedule::Schedule;
use crate::section::InSection;
use crate::store::{self, Store};
use crate::system::{Kind, System, fingerprint};
use core::mem::MaybeUninit;
use nv_replay::nvmem::LayoutMismatch;
use nv_replay::nvmem::superblock::{self, Difference, State as Found, Superblock};
use nv_replay::nvmem::tagged::TagError;
use nv_replay::nvmem::{Model, Region, planted};

/// The superblock's kind, the format's version, and where its parameters are.
pub(crate) const KIND: [u8; 4] = *b"RTOS";
pub(crate) const VERSION: u16 = 2;
pub(crate) mod param {
    pub const SEQ_BITS: usize = 0;
    pub const WORDS: usize = 1;
    pub const SLOTS: usize = 2;
    pub const UNIT: usize = 3;
    /// If threads have words: how many they are, 16 times how many of them are reserved places, and
    /// 256 times the first word. 0 otherwise.
    pub const THREADS: usize = 4;
}

/// The largest time that an open accepts: no clock runs so long. At `u64::MAX`, which stands for no
/// deadline, even a timeout of 0 ticks would never end.
const TIME_MAX: u64 = u64::MAX / 2;

impl<'m, S: System> Kernel<'m, S> {
    /// The superblock of the kernel's part. A constant: a boot compares it, and builds nothing.
    const SUPERBLOCK: Superblock = {
        let mut params = [0; 8];
        params[param::SEQ_BITS] = S::TABLE.seq_bits as u32;
        params[param::WORDS] = store::all::<S>() as u32;
        params[param::SLOTS] = S::END.slots;
        params[param::UNIT] = size_of::<<S::Model as Model>::Unit>() as u32;
        if S::CONTROL.change {
            let (threads, places) = (S::THREADS.len() as u32, S::PLACES.len() as u32);
            params[param::THREADS] = threads | places << 4 | (S::END.word as u32) << 8;
        }
        Superblock {
            kind: KIND,
            version: VERSION,
            fingerprint: fingerprint::<S>(),
            params,
        }
    };

    // On an MSP430 a word that is moved takes six cycles or more, and a result by value is moved
    // once for each function that returns it. So a boot makes everything in its final place, and
    // lends the numbers of the last commits where they lie.
    /// Opens the kernel's part of the region, in `place`. `numbers` are those of the threads' last
    /// commits. Its fields are made there, so that a boot moves nothing.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn open_in<'p>(
        place: &'p mut MaybeUninit<Self>,
        region: Region<'m, S::Model>,
        numbers: &[u32],
    ) -> Result<&'p mut Self, OpenError> {
        // SAFETY: invariant "Open in its place": the one field of `place`, which is borrowed
        // mutably, and a field of that.
        let (at, store) = unsafe {
            let at = InSection::value_in(&raw mut (*place.as_mut_ptr()).state);
            let store = &raw mut (*at).store;
            (at, &mut *store.cast::<MaybeUninit<Store<'m, S>>>())
        };
        let time = Self::recover(store, region, numbers)?.time()?;
        if time > TIME_MAX && !planted!("nv-rtos/any-clock-accepted") {
            return Err(OpenError::Damaged);
        }
        // SAFETY: invariant "Open in its place": all other fields.
        let kernel = unsafe {
            (&raw mut (*at).ram).write(S::Ram::NEW);
            (&raw mut (*at).schedule).write(Schedule::NEW);
            (&raw mut (*at).base).write(time);
            (&raw mut (*at).stored).write(time);
            place.assume_init_mut()
        };
        kernel.load(numbers)?;
        Ok(kernel)
    }

    /// Formats or recovers the kernel's words, in `place`.
    #[inline(always)]
    fn recover<'p>(
        place: &'p mut MaybeUninit<Store<'m, S>>,
        mut region: Region<'m, S::Model>,
        numbers: &[u32],
    ) -> Result<&'p mut Store<'m, S>, OpenError> {
        let mine = const { &Self::SUPERBLOCK };
        let blank = match superblock::probe_view(&region, mine) {
            Found::Ready(stored) if stored.is_expected() => false,
            Found::Ready(stored) => {
                let mut copy = *mine;
                match stored.agrees(&mut copy, 0) {
                    Err(Difference::Layout) if !planted!("nv-rtos/layout-not-compared") => {
                        let (stored, expected) = (stored.layout(), mine.layout());
                        return Err(LayoutMismatch { stored, expected }.into());
                    }
                    Err(Difference::Param(_)) => return Err(OpenError::Foreign),
                    _ => {}
                }
                false
            }
            Found::Blank | Found::Formatting => true,
            Found::Foreign => return Err(OpenError::Foreign),
            Found::Damaged => return Err(OpenError::Damaged),
        };
        let begun = blank.then(|| superblock::begin_marked(&mut region, mine));
        let split = region.split_at(Superblock::BYTES);
        let (mut head, rest) = split.map_err(|_| OpenError::TooSmall)?;
        if let Some(marker) = begun {
            let store = place.write(Store::format(rest)?);
            if planted!("nv-rtos/superblock-before-the-states") {
                superblock::finish_marked(&mut head, marker, mine);
            }
            for spec in S::OBJECTS.iter().filter(|s| s.initial != 0) {
                store.put_settled(spec.word, spec.initial)?;
            }
            superblock::finish_marked(&mut head, marker, mine);
            Ok(store)
        } else {
            let last: &[u32] = if planted!("nv-rtos/nothing-is-reverted") {
                &[u32::MAX; THREADS_MAX]
            } else {
                numbers
            };
            Ok(place.write(Store::recover(rest, last)?))
        }
    }

    /// Makes the RAM from the words.
    fn load(&mut self, numbers: &[u32]) -> Result<(), TagError> {
        let state = self.state.get_mut();
        state.load()?;
        for t in 0..S::THREADS.len() {
            let c = state.control(t);
            c.begin();
            c.numbers = store::max_unswept::<S>();
            state.load_thread(t)?;
            if !state.stays_parked(t, numbers.get(t).map_or(0, |n| *n))? {
                state.ready(t);
            }
        }
        state.stop_aborted();
        Ok(())
    }
}

impl<S: System> State<'_, S> {
    // INVARIANT "The RAM follows the words": outside of a critical section the state of an object
    // in RAM is that of its word: both change in one, after all that can fail, and an open makes
    // the RAM from the words. Also kept by `apply`, `store_owners`, `post` and `Isr::publish`.
    // Noticed by: planted `states-not-loaded`, `tickets-begin-anew`, `slot-never-free-again`,
    // `owner-ignored-at-boot`, `superblock-before-the-states`,
    // `tickets-counted-as-of-an-empty-queue`.
    /// Makes the states of all objects from their words. Recovery has settled or reverted them all.
    fn load(&mut self) -> Result<(), TagError> {
        for (object, spec) in (0..).zip(S::OBJECTS) {
            if let Some(o) = self.object(object) {
                o.begin(spec);
            }
            if spec.kind == Kind::Queue {
                self.load_queue(object, spec)?;
                continue;
            }
            let state = self.store.get(spec.word)?;
            let most = match spec.kind {
                Kind::Semaphore => spec.content,
                Kind::Mutex => S::THREADS.len() as u64,
                // The slot with its deadline, or none.
                Kind::Events if spec.timer != 0 => 2,
                Kind::Events | Kind::Queue => u64::from(u8::MAX),
            };
            check_state(spec.word, u64::from(state) <= most)?;
            let Some(o) = self.object(object) else {
                continue;
            };
            o.state = state;
            if planted!("nv-rtos/states-not-loaded") {
                o.state = spec.initial;
            }
            if spec.kind == Kind::Mutex && !planted!("nv-rtos/owner-ignored-at-boot") {
                // Until the owner has replayed to where it was.
                o.taken = state;
            }
        }
        Ok(())
    }
}

/// Checks that a word's state is one of its object's kind: otherwise the image is damaged.
pub(crate) fn check_state(word: u16, is_known: bool) -> Result<(), TagError> {
    if is_known || planted!("nv-rtos/states-unchecked") {
        return Ok(());
    }
    Err(TagError::Damaged { index: word.into() })
}
