//! The kernel's persistent words: a state of 8 bits for each, the clock, and the slots of queues.
//!
//! ```text
//! | superblock | tagged words | clock: two versions and a word | slots of queues |   then: threads
//! ```
//!
//! With units of 32 bits a word holds two states, so a change is one store. With units of 16 bits
//! two states do not fit beside a stamp: there each is a two-version cell, and a change is two.

use crate::error::OpenError;
use nv_replay::nvmem::persist::{Plain, from_bytes};
use nv_replay::nvmem::tagged::{Cells, Stamp, TagError, Widths, Words};
use nv_replay::nvmem::{Medium, Model, Region};

/// The most bytes of a message.
pub(crate) const MESSAGE_MAX: usize = 64;

/// Words with a state of 8 bits.
enum Tags<'m, M> {
    Words(Words<'m, M>),
    Cells(Cells<'m, M, u16>),
}

/// Runs the same call on either kind.
macro_rules! each {
    ($tags:expr, $t:ident => $call:expr) => {
        match $tags {
            Tags::Words($t) => $call,
            Tags::Cells($t) => $call,
        }
    };
}

/// All persistent words of a kernel.
pub(crate) struct Store<'m, M> {
    tags: Tags<'m, M>,
    clock: Cells<'m, M, [u32; 2]>,
    slots: Region<'m, M>,
}

const CLOCK: Widths = Widths {
    sequence: 3,
    owner: 0,
    state: 1,
};

/// Whether two states fit into a unit.
const fn wide<M: Model>() -> bool {
    size_of::<M::Unit>() >= 4
}

/// The words' widths where sequence numbers have so many bits: up to 8 threads.
const fn widths<M: Model>(seq_bits: u8) -> Widths {
    Widths {
        sequence: seq_bits,
        owner: 3,
        state: if wide::<M>() { 8 } else { 1 },
    }
}

/// How many numbers may lie between two sweeps; the kernel settles all words well before.
pub(crate) const fn max_unswept<M: Model>(seq_bits: u8) -> u32 {
    widths::<M>(seq_bits).max_unswept() / 2
}

const fn tags_bytes<M: Model>(words: usize) -> usize {
    if wide::<M>() {
        Words::<M>::bytes(words)
    } else {
        Cells::<M, u16>::bytes(words)
    }
}

/// Bytes for so many words, and slots of so many bytes.
pub(crate) const fn bytes<M: Model>(words: usize, slots: usize) -> usize {
    tags_bytes::<M>(words) + Cells::<M, [u32; 2]>::bytes(1) + ((slots + 7) & !7)
}

fn failed<R, E>(f: nv_replay::nvmem::OpenFailure<'_, R, E>) -> E {
    f.error
}

impl<'m, M: Model> Store<'m, M> {
    fn split(region: Region<'m, M>, words: usize) -> Result<[Region<'m, M>; 3], OpenError> {
        let (tags, rest) = region.split_at(tags_bytes::<M>(words)).map_err(too_small)?;
        let clock = Cells::<M, [u32; 2]>::bytes(1);
        let (clock, slots) = rest.split_at(clock).map_err(too_small)?;
        Ok([tags, clock, slots])
    }

    /// Formats words whose states are 0, and a clock that shows 0.
    pub fn format(region: Region<'m, M>, words: usize, seq_bits: u8) -> Result<Self, OpenError> {
        let [tags, clock, slots] = Self::split(region, words)?;
        let w = widths::<M>(seq_bits);
        Ok(Store {
            tags: if wide::<M>() {
                Tags::Words(Words::format(tags, words, w).map_err(failed)?)
            } else {
                Tags::Cells(Cells::format(tags, words, w, 0).map_err(failed)?)
            },
            clock: Cells::format(clock, 1, CLOCK, [0; 2]).map_err(failed)?,
            slots,
        })
    }

    /// Recovers them: what is in doubt is reverted.
    pub fn recover(
        region: Region<'m, M>,
        words: usize,
        seq_bits: u8,
        numbers: &[u32],
    ) -> Result<Self, OpenError> {
        let [tags, clock, slots] = Self::split(region, words)?;
        let w = widths::<M>(seq_bits);
        let last = |owner: u32| numbers.get(owner as usize).copied();
        Ok(Store {
            tags: if wide::<M>() {
                Tags::Words(Words::recover(tags, words, w, last).map_err(failed)?)
            } else {
                Tags::Cells(Cells::recover(tags, words, w, last).map_err(failed)?)
            },
            clock: Cells::recover(clock, 1, CLOCK, |_| Some(0)).map_err(failed)?,
            slots,
        })
    }

    /// The committed state of a word.
    #[inline(always)]
    pub fn get(&self, word: u16, last: impl Fn(u32) -> Option<u32>) -> Result<u8, TagError> {
        let state = match &self.tags {
            Tags::Words(t) => t.get(word.into(), last)?,
            Tags::Cells(t) => t.get(word.into(), last)?.into(),
        };
        u8::try_from(state).map_err(|_| TagError::Damaged { index: word.into() })
    }

    /// Changes a state with the commit of a stamp.
    pub fn set(
        &mut self,
        word: u16,
        stamp: Stamp,
        state: u8,
        last: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), TagError> {
        each!(&mut self.tags, t => t.set(word.into(), stamp, state.into(), last))
    }

    /// Changes a state at once.
    pub fn publish(
        &mut self,
        word: u16,
        state: u8,
        last: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), TagError> {
        each!(&mut self.tags, t => t.publish(word.into(), state.into(), last))
    }

    /// Undoes what a stamp has set.
    pub fn revert(&mut self, stamp: Stamp) -> Result<(), TagError> {
        each!(&mut self.tags, t => t.revert(stamp))
    }

    /// Settles old words of a stamp's owner: see [`Words::sweep`].
    pub fn sweep(&mut self, stamp: Stamp, since: u32) -> Result<(), TagError> {
        each!(&mut self.tags, t => t.sweep(stamp, since))
    }

    /// The stored time.
    pub fn time(&self) -> Result<u64, TagError> {
        let [low, high] = self.clock.get(0, |_| Some(0))?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    /// Stores the time.
    ///
    /// **Power loss**: the old time or the new one. **Cost**: three stores, on 16-bit units five.
    pub fn set_time(&mut self, time: u64) -> Result<(), TagError> {
        let value = [time as u32, (time >> 32) as u32];
        self.clock.publish(0, value, |_| Some(0))
    }

    /// Writes a message into a slot that no committed word calls full.
    pub fn write_slot<T: Plain>(&mut self, at: u32, message: &T) {
        let mut offset = at;
        nv_replay::nvmem::cross::Arg::bytes(message, &mut |part: &[u8]| {
            // Inside: the system's layout has counted it. The region holds bytes only.
            let _ = self.slots.write(offset, part);
            offset += part.len() as u32;
        });
    }

    /// Reads a message. **Errors**: it is no `T`, so the image is damaged.
    pub fn read_slot<T: Plain>(&mut self, at: u32) -> Option<T> {
        let mut bytes = [0; MESSAGE_MAX];
        let bytes = bytes.get_mut(..size_of::<T>())?;
        self.slots.read(at, bytes).ok()?;
        from_bytes(bytes).ok()
    }
}

fn too_small<E>(_: E) -> OpenError {
    OpenError::TooSmall
}
