//! The kernel's persistent words: a state of 8 bits for each, the clock, and the slots of queues.
//!
//! ```text
//! | superblock | tagged words | clock: two versions and a word | slots of queues |   then: threads
//! ```
//!
//! With units of 32 bits a word holds two states, so a change is one store. With units of 16 bits
//! two states do not fit beside a stamp: there each is a two-version cell, and a change is two.

use crate::error::OpenError;
use crate::system::System;
use core::marker::PhantomData;
use nv_replay::nvmem::persist::Plain;
use nv_replay::nvmem::tagged::{Cells, Fixed, FixedWidths, Stamp, TagError, Widths, Words};
use nv_replay::nvmem::{Area, AreaLength, Model, Region, mapped};

/// The most bytes of a message.
pub(crate) const MESSAGE_MAX: usize = 64;

/// All persistent words of a kernel.
pub(crate) struct Store<'m, S: System> {
    /// On 32-bit units: words with a state of 8 bits.
    words: Words<'m, S::Model, Fixed<Mine<S>>>,
    /// On 16-bit units: cells instead of words. One of the two is always empty.
    cells: Cells<'m, S::Model, u16, Fixed<Versions<S>>>,
    clock: Cells<'m, S::Model, [u32; 2], Fixed<Clock>>,
    slots: Area<'m, S::Model, Slots<S>>,
}

/// The widths of the clock's word.
struct Clock;
impl FixedWidths for Clock {
    const WIDTHS: Widths = Widths {
        sequence: 3,
        owner: 0,
        state: 1,
    };
}

/// Bits of an owner: up to 8 threads.
pub(crate) const OWNER_BITS: u8 = 3;

/// Those of the objects' words.
struct Mine<S>(PhantomData<S>);
impl<S: System> FixedWidths for Mine<S> {
    const WIDTHS: Widths = Widths {
        sequence: S::TABLE.seq_bits,
        owner: OWNER_BITS,
        state: if wide::<S::Model>() { 8 } else { 1 },
    };
}

/// The numbers of the threads' steps fit into the objects' words.
pub const fn assert_numbers<S: System>() {
    let narrow = wide::<S::Model>() || S::TABLE.seq_bits <= 8;
    assert!(
        narrow && Mine::<S>::WIDTHS.fits::<S::Model>(),
        "a system's `seq_bits` are 3 to 13, on 16-bit units to 8"
    );
}

/// The same, where the states are versions.
struct Versions<S>(PhantomData<S>);
impl<S: System> FixedWidths for Versions<S> {
    const WIDTHS: Widths = Widths {
        state: 1,
        ..Mine::<S>::WIDTHS
    };
}

/// The bytes of all slots.
struct Slots<S>(PhantomData<S>);
impl<S: System> AreaLength for Slots<S> {
    const BYTES: usize = S::END.slots as usize;
}

/// Whether two states fit into a unit.
pub(crate) const fn wide<M: Model>() -> bool {
    size_of::<M::Unit>() >= 4
}

/// The words that steps change: those of objects, and those of threads.
pub(crate) const fn staged<S: System>() -> u16 {
    S::END.word + S::THREADS.len() as u16 * S::CONTROL.words().0
}

/// All words.
pub(crate) const fn all<S: System>() -> u16 {
    S::END.word + S::THREADS.len() as u16 * S::CONTROL.words().1
}

/// How many numbers may lie between the settling of all words and the next.
pub(crate) const fn max_unswept<S: System>() -> u16 {
    // At least 2, as there are 7 numbers or more; at most half of 2^16.
    Mine::<S>::WIDTHS.max_unswept() as u16
}

/// Bytes of the words, or of the cells that are in their place.
pub(crate) const fn words_bytes<M: Model>(words: usize) -> usize {
    if wide::<M>() {
        Words::<M>::bytes(words)
    } else {
        Cells::<M, u16>::bytes(words)
    }
}

/// Bytes for so many words, and slots of so many bytes.
pub(crate) const fn bytes<M: Model>(words: usize, slots: usize) -> usize {
    words_bytes::<M>(words) + Cells::<M, [u32; 2]>::bytes(1) + ((slots + 7) & !7)
}

fn failed<R, E>(f: nv_replay::nvmem::OpenFailure<'_, R, E>) -> E {
    f.error
}

impl<'m, S: System> Store<'m, S> {
    const WORDS: usize = all::<S>() as usize;
    /// How many are words, and how many cells.
    const EACH: [usize; 2] = if wide::<S::Model>() {
        [Self::WORDS, 0]
    } else {
        [0, Self::WORDS]
    };

    /// The words, the cells, the clock and the slots.
    fn split(region: Region<'m, S::Model>) -> Result<[Region<'m, S::Model>; 4], OpenError> {
        let [words, cells] = Self::EACH;
        let (words, rest) = region
            .split_at(Words::<S::Model>::bytes(words))
            .map_err(too_small)?;
        let (cells, rest) = rest
            .split_at(Cells::<S::Model, u16>::bytes(cells))
            .map_err(too_small)?;
        let clock = Cells::<S::Model, [u32; 2]>::bytes(1);
        let (clock, slots) = rest.split_at(clock).map_err(too_small)?;
        Ok([words, cells, clock, slots])
    }

    /// Formats words whose states are 0, and a clock that shows 0.
    pub fn format(region: Region<'m, S::Model>) -> Result<Self, OpenError> {
        let [words, cells, clock, slots] = Self::split(region)?;
        let [n, m] = Self::EACH;
        Ok(Store {
            words: Words::format(words, n, Fixed::NEW).map_err(failed)?,
            cells: Cells::format(cells, m, Fixed::NEW, 0).map_err(failed)?,
            clock: Cells::format(clock, 1, Fixed::NEW, [0; 2]).map_err(failed)?,
            slots: Area::new(slots).ok_or(OpenError::TooSmall)?,
        })
    }

    /// Recovers them: what is in doubt is reverted.
    pub fn recover(region: Region<'m, S::Model>, numbers: &[u32]) -> Result<Self, OpenError> {
        let [words, cells, clock, slots] = Self::split(region)?;
        let [n, m] = Self::EACH;
        let last = |owner: u32| numbers.get(owner as usize).copied();
        Ok(Store {
            words: Words::recover(words, n, Fixed::NEW, last).map_err(failed)?,
            cells: Cells::recover(cells, m, Fixed::NEW, last).map_err(failed)?,
            clock: Cells::recover(clock, 1, Fixed::NEW, |_| Some(0)).map_err(failed)?,
            slots: Area::new(slots).ok_or(OpenError::TooSmall)?,
        })
    }

    /// Where the words begin.
    pub fn base(&self) -> *mut u8 {
        self.words.base()
    }

    /// The state of a word: read at each open only, when all words are settled.
    #[inline]
    pub fn get(&self, word: u16) -> Result<u8, TagError> {
        let index = word.into();
        let state = if wide::<S::Model>() {
            self.words.settled(index)
        } else {
            self.cells.settled(index).map(u32::from)
        };
        let state = state.and_then(|state| u8::try_from(state).ok());
        state.ok_or(TagError::Damaged { index })
    }

    /// Whether one load shows that a word is settled with the state 0. For other words use `get`.
    #[inline]
    pub fn is_zero(&self, word: u16) -> bool {
        wide::<S::Model>() && self.words.is_zero(word.into())
    }

    /// Changes a state with the commit of a stamp: from `before` to `after`.
    #[inline]
    pub fn put(
        &mut self,
        word: usize,
        stamp: Stamp,
        before: u8,
        after: u8,
    ) -> Result<(), TagError> {
        if wide::<S::Model>() {
            self.words.put(word, stamp, before.into(), after.into())
        } else {
            self.cells.put(word, stamp, after.into())
        }
    }

    /// Changes a state at once.
    pub fn put_settled(&mut self, word: u16, state: u8) -> Result<(), TagError> {
        if wide::<S::Model>() {
            self.words.put_settled(word.into(), state.into())
        } else {
            self.cells.put_settled(word.into(), state.into())
        }
    }

    /// Settles words of an owner among `n`.
    pub fn settle(&mut self, first: u16, n: u16, owner: u32) -> Result<(), TagError> {
        if wide::<S::Model>() {
            self.words.settle(first.into(), n.into(), owner)
        } else {
            self.cells.settle(first.into(), n.into(), owner)
        }
    }

    /// The stored time.
    pub fn time(&self) -> Result<u64, TagError> {
        let [low, high] = self
            .clock
            .settled(0)
            .ok_or(TagError::Damaged { index: 0 })?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    /// Stores the time.
    ///
    /// **Power loss**: the old time or the new one. **Cost**: three stores, on 16-bit units five.
    pub fn set_time(&mut self, time: u64) -> Result<(), TagError> {
        let value = [time as u32, (time >> 32) as u32];
        self.clock.put_settled(0, value)
    }

    /// Writes a message into a slot that no committed word calls full.
    #[inline]
    pub fn write_slot<T: Plain>(&mut self, at: u32, message: &T) {
        // Inside: the system's layout has counted it.
        let _ = self.slots.write_value(at as usize, message);
    }

    /// Orders the stores before it before the stores after it.
    pub fn fence(&self) {
        mapped::fence::<S::Model>()
    }

    /// Reads a message. **Errors**: it is no `T`, so the image is damaged.
    #[inline]
    pub fn read_slot<T: Plain>(&self, at: u32) -> Option<T> {
        self.slots.read_value(at as usize)
    }
}

fn too_small<E>(_: E) -> OpenError {
    OpenError::TooSmall
}
