//! Tagged words and two-version cells: small objects that several threads change, each in
//! transactions of its own, without a log. A building block for formats.
//!
//! A tagged word is one atomic unit. It holds two states of an object, and a *stamp*: the thread
//! (*owner*) that wrote the word, and the sequence number of the transaction that did.
//!
//! ```text
//!  high                                              low
//!  | 0 | sequence | owner | state before | state after |
//!
//!  settled     sequence 0, owner 0, both states equal: this state counts
//!  in doubt    the stamp's transaction has not committed: the state before counts
//!  committed   it has: the state after counts
//! ```
//!
//! The transaction's own commit word decides, so one store there commits all words that it has
//! stamped. The caller owns that word. It passes a *resolver*: owner -> number of its last
//! committed transaction. A stamp is in doubt if and only if it carries the number after that one.
//!
//! A [cell](Cells) adds two versions of a value. The states of its word are 0 or 1 and name a
//! version. A write goes to the version that does not count, so it needs no log.
//!
//! ```text
//!  word                         event                        stores
//!  settled A                    set B by (o, 7)              | 7 | o | A | B |
//!  in doubt 7: A -> B           set C by (o, 7)              | 7 | o | A | C |   A stays
//!                               set by another owner         refused: `Busy`
//!                               abort of (o, 7)              | 0 | 0 | A | A |
//!                               o commits 7                  none: the word is committed
//!  committed 7: A -> B          set C by (o, 8), (p, 3)      | 8 | o | B | C |
//!                               the sweep of o               | 0 | 0 | B | B |
//! ```
//!
//! # After a cut
//!
//! | a cut | the next `recover` finds | and stores |
//! |---|---|---|
//! | before the word's store | the old word | settled |
//! | between that store and the commit | in doubt | the state before, settled |
//! | while a cell's version is written | a version that does not count is torn | nothing |
//! | after the commit | committed | the state after, settled |
//! | in an abort, or in `recover` | some words settled, the others in doubt with the same number | as above |
//! | in a sweep | some committed words settled | the others, settled |
//!
//! # Sequence numbers repeat
//!
//! A committed word keeps its stamp until it is settled. When its owner comes to the same number
//! again, an old stamp would read as in doubt, and its state would be lost. So the owner
//! [sweeps](Words::sweep) before each commit:
//!
//! ```text
//!  numbers   1 2 3 ...      half | half+1 ...     2 half | 2 half + 1
//!  words     0 1 2 ...      K-1  | 0 1 2 ...      K-1    |              if K <= half; else several
//!                                                                       words for each number
//! ```
//!
//! - Each word is visited twice before the numbers repeat. A visit settles a stamp of this owner,
//!   except one with the number in doubt; any other is committed. The two visits come at different
//!   numbers, so at least one of them settles an old stamp.
//! - The sweep runs *before* the commit store, so the commit's fence makes its stores durable.
//! - The number alone says which words are due: nothing about the sweep is stored. A cut cannot
//!   starve it, because the next `recover` settles every word.
//! - An owner may commit numbers without a sweep. Its next sweep makes up for them: it gets the
//!   number of the previous sweep, and visits all words that were due since then. Fewer than half
//!   of all numbers may lie between two sweeps: [`Widths::max_unswept`].
//!
//! After [`recover`](Words::recover) the count begins anew.
//!
//! # Why this is safe
//!
//! - A word is one atomic unit: a cut leaves the old word or the new one.
//! - No code asks which of two numbers is newer, so numbers may wrap.
//! - Only the transaction of its stamp overwrites a word in doubt, and it keeps the state before.
//! - A cell's version is a value whenever its word names it: `recover` settles all words and
//!   checks the versions that they name, and each later write stores a whole value before its
//!   word. This holds also if a resolver answers wrongly (invariant "A named version is a value").
//!
//! On a buffered medium the commit's own fence, before its store, covers all stores made here.
//! There a resolver must not report a number before the fence *after* its commit store. If it does,
//! another owner overwrites the state before of a transaction that a cut can still undo: the cut
//! then leaves that transaction half done, or a torn version as the one that counts. So where one
//! thread can preempt another, the commit store and the fence after it are in one critical section.

use crate::mapped;
use crate::model::{Model, Unit};
use crate::persist::{Invalid, NoHandles, Plain};
use crate::planted;
use crate::region::{OpenFailure, Region};
use core::marker::PhantomData;
use core::ops::Range;

/// The widths of a tagged word's fields, in bits. One sequence number, one owner and two states
/// must fit into a unit.
///
/// | unit | for example | holds |
/// |---|---|---|
/// | 16 bits | `Widths { sequence: 8, owner: 6, state: 1 }` | the word of a cell of 64 threads |
/// | 32 bits | `Widths { sequence: 12, owner: 4, state: 8 }` | a semaphore of 16 threads |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Widths {
    /// 3 to 16. Numbers run from 1 to `2^sequence - 1`, and then from 1 again.
    pub sequence: u8,
    /// 0 to 16: at most `2^owner` owners.
    pub owner: u8,
    /// 1 to 14.
    pub state: u8,
}

impl Widths {
    /// Whether a word of these fields fits into a unit of `M`.
    pub const fn fits<M: Model>(&self) -> bool {
        let bits = self.sequence as usize + self.owner as usize + 2 * self.state as usize;
        self.sequence >= 3
            && self.sequence <= 16
            && self.owner <= 16
            && self.state >= 1
            && self.state <= 14
            && bits <= 8 * M::Unit::BYTES
    }

    /// The largest sequence number.
    pub const fn max_sequence(&self) -> u32 {
        ones(self.sequence)
    }

    /// The sequence number after `n`: 1 after the largest.
    pub const fn next(&self, n: u32) -> u32 {
        if n >= self.max_sequence() { 1 } else { n + 1 }
    }

    /// How many numbers in a row may commit without a [sweep](Words::sweep).
    pub const fn max_unswept(&self) -> u32 {
        (self.max_sequence() / 2).saturating_sub(1)
    }

    const fn max_owner(&self) -> u32 {
        ones(self.owner)
    }

    const fn max_state(&self) -> u32 {
        ones(self.state)
    }
}

/// The widths of some words: [`Widths`], a value at run time, or [`Fixed`], a constant of the
/// program. Sealed.
pub trait WordWidths: Copy + sealed::Sealed {
    #[doc(hidden)]
    fn widths(&self) -> Widths;
}

impl WordWidths for Widths {
    #[inline(always)]
    fn widths(&self) -> Widths {
        *self
    }
}

/// Widths that are a constant: then every shift and mask of the words is one, too.
pub trait FixedWidths {
    /// The widths.
    const WIDTHS: Widths;
}

/// The constant widths of `W`.
pub struct Fixed<W>(PhantomData<fn() -> W>);

impl<W> Fixed<W> {
    /// The only value.
    pub const NEW: Self = Fixed(PhantomData);
}
impl<W> Clone for Fixed<W> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W> Copy for Fixed<W> {}

impl<W: FixedWidths> WordWidths for Fixed<W> {
    #[inline(always)]
    fn widths(&self) -> Widths {
        W::WIDTHS
    }
}

/// Widths that changed between two calls could name a cell's version that is no value.
mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Widths {}
    impl<W> Sealed for super::Fixed<W> {}
}

/// The largest number of so many bits.
const fn ones(bits: u8) -> u32 {
    match 1u32.checked_shl(bits as u32) {
        Some(n) => n - 1,
        None => u32::MAX,
    }
}

/// The writer of a word: an owner, and the number of its running transaction, which follows its
/// last committed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Stamp {
    /// The thread.
    pub owner: u32,
    /// The sequence number of its transaction.
    pub sequence: u32,
}

/// Why an operation on tagged words was refused. Nothing was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TagError {
    /// The fields are too narrow, or do not fit into a unit.
    Widths,
    /// The region is too short.
    TooSmall {
        /// A length that is enough.
        needed: usize,
    },
    /// The library never writes such a word: the image is damaged, or has other widths.
    Damaged {
        /// Which.
        index: usize,
    },
    /// The version that counts is not a value of the cell's type.
    Invalid {
        /// Which.
        index: usize,
        /// Why.
        reason: Invalid,
    },
    /// There is no word of this index.
    Index {
        /// Which.
        index: usize,
    },
    /// The state does not fit into its field.
    State,
    /// The owner or the number does not fit into its field, or the number is 0.
    Stamp,
    /// An open transaction of another owner has changed the object.
    Busy,
}

impl core::fmt::Display for TagError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            TagError::Widths => f.write_str("the fields of a tagged word do not fit into a unit"),
            TagError::TooSmall { needed } => write!(f, "the region needs {needed} bytes"),
            TagError::Damaged { index } => write!(f, "tagged word {index} is damaged"),
            TagError::Invalid { index, reason } => write!(f, "cell {index} is damaged: {reason}"),
            TagError::Index { index } => write!(f, "there is no tagged word {index}"),
            TagError::State => f.write_str("the state does not fit into a tagged word"),
            TagError::Stamp => f.write_str("the stamp does not fit into a tagged word"),
            TagError::Busy => f.write_str("an open transaction of another owner holds the object"),
        }
    }
}
impl core::error::Error for TagError {}

/// `n << by` in a word of `M`, into which the result fits. A core of 16 bits shifts 32 bits one by
/// one.
#[inline(always)]
fn shl<M: Model>(n: u32, by: u8) -> u32 {
    match M::Unit::BYTES {
        2 => u32::from((n as u16).wrapping_shl(by.into())),
        _ => n.wrapping_shl(by.into()),
    }
}

/// `n >> by`, for a word of `M`.
#[inline(always)]
fn shr<M: Model>(n: u32, by: u8) -> u32 {
    match M::Unit::BYTES {
        2 => u32::from((n as u16).wrapping_shr(by.into())),
        _ => n.wrapping_shr(by.into()),
    }
}

/// Makes a range reach over an index that is not before its end.
fn widen(range: &mut Range<usize>, index: usize) {
    if range.start == range.end {
        range.start = index;
    }
    range.end = index + 1;
}

/// The content of a tagged word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    stamp: Stamp,
    before: u32,
    after: u32,
}

impl Tag {
    const fn settled(state: u32) -> Tag {
        Tag {
            stamp: Stamp {
                owner: 0,
                sequence: 0,
            },
            before: state,
            after: state,
        }
    }

    const fn is_settled(&self) -> bool {
        self.stamp.sequence == 0
    }

    #[inline(always)]
    fn encode<M: Model>(&self, w: &Widths) -> u32 {
        let stamp = shl::<M>(self.stamp.sequence, w.owner) | self.stamp.owner;
        let states = shl::<M>(self.before, w.state) | self.after;
        shl::<M>(stamp, 2 * w.state) | states
    }

    /// The state of a settled word, as most words are after a boot. `None` for any other word.
    #[inline(always)]
    fn settled_state<M: Model>(word: u32, w: &Widths) -> Option<u32> {
        let state = word & w.max_state();
        (word == shl::<M>(state, w.state) | state).then_some(state)
    }

    /// `None` for a word that is never written.
    #[inline(always)]
    fn decode<M: Model>(word: u32, w: &Widths) -> Option<Tag> {
        if let Some(state) = Tag::settled_state::<M>(word, w) {
            return Some(Tag::settled(state));
        }
        let stamp = shr::<M>(word, 2 * w.state);
        let tag = Tag {
            stamp: Stamp {
                owner: stamp & w.max_owner(),
                sequence: shr::<M>(stamp, w.owner),
            },
            before: shr::<M>(word, w.state) & w.max_state(),
            after: word & w.max_state(),
        };
        let known = !tag.is_settled() && tag.stamp.sequence <= w.max_sequence();
        let known = known || planted!("nvmem/tagged-word-unchecked");
        known.then_some(tag)
    }

    /// Whether the stamp's transaction has not committed. `None` if the resolver does not know the
    /// owner.
    fn in_doubt(&self, w: &Widths, resolve: &impl Fn(u32) -> Option<u32>) -> Option<bool> {
        if self.is_settled() {
            return Some(false);
        }
        let last = resolve(self.stamp.owner)?;
        if planted!("nvmem/tagged-numbers-compared") {
            return Some(self.stamp.sequence > last);
        }
        Some(self.stamp.sequence == w.next(last))
    }
}

/// A number of tagged words, in a region of their own. Without a word in doubt each holds a state
/// of [`Widths::state`] bits.
///
/// Threads that share the words call this in their critical sections: it takes `&mut self`.
///
/// ```
/// # use nvmem::{InOrder32, Region, tagged::{Stamp, Widths, Words}};
/// # let mut memory = [core::mem::MaybeUninit::new(0u64); 2];
/// # let region = Region::<InOrder32>::new(&mut memory);
/// const WIDTHS: Widths = Widths { sequence: 12, owner: 4, state: 8 };
/// let mut counts = Words::format(region, 3, WIDTHS).map_err(|f| f.error)?;
///
/// // Thread 2 runs its transaction 8, and its commit word still says 7.
/// let mine = Stamp { owner: 2, sequence: 8 };
/// let last_committed = |_owner| Some(7);
/// counts.set(0, mine, 5, last_committed)?;
/// counts.sweep(mine, 7)?;
/// assert_eq!(counts.get(0, last_committed)?, 0);
///
/// // It fences, stores 8 to its commit word, and fences.
/// let last_committed = |_owner| Some(8);
/// assert_eq!(counts.get(0, last_committed)?, 5);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Words<'m, M, F = Widths> {
    region: Region<'m, M>,
    count: usize,
    fields: F,
}

impl<M: Model> Words<'_, M> {
    /// Bytes that `count` words take; a multiple of 8.
    pub const fn bytes(count: usize) -> usize {
        count.saturating_mul(M::Unit::BYTES).saturating_add(7) & !7
    }
}

impl<'m, M: Model, F: WordWidths> Words<'m, M, F> {
    #[inline(always)]
    fn widths(&self) -> Widths {
        self.fields.widths()
    }

    /// Writes `count` settled words of state 0.
    ///
    /// **Power loss**: begin again; the caller's superblock says whether the format is complete.
    /// **Cost**: one store for each word. **Errors**: [`TagError::Widths`],
    /// [`TagError::TooSmall`], with the region.
    pub fn format(
        region: Region<'m, M>,
        count: usize,
        fields: F,
    ) -> Result<Self, OpenFailure<'m, M, TagError>> {
        let mut words = Self::new(region, count, fields)?;
        for i in 0..count {
            words.store(i, Tag::settled(0));
        }
        mapped::fence::<M>();
        Ok(words)
    }

    /// Recovers the words after a boot: reverts those in doubt, and settles all. Call it before any
    /// thread runs.
    ///
    /// Accepts any bytes. Nothing is stored before all words are checked. **Power loss**: call it
    /// again. **Cost**: a load for each word, and a store for each that was stamped since the last
    /// `recover` and not swept. **Errors**: [`TagError::Damaged`] for a word that the library does
    /// not write, or whose owner the resolver does not know, and those of
    /// [`format`](Words::format); with the region.
    pub fn recover(
        region: Region<'m, M>,
        count: usize,
        fields: F,
        resolve: impl Fn(u32) -> Option<u32>,
    ) -> Result<Self, OpenFailure<'m, M, TagError>> {
        let mut words = Self::new(region, count, fields)?;
        match words.check(&resolve) {
            Ok(stamped) => {
                words.settle_all(stamped, &resolve);
                Ok(words)
            }
            Err(error) => Err(words.refused(error)),
        }
    }

    /// Gives the region back.
    fn refused(self, error: TagError) -> OpenFailure<'m, M, TagError> {
        let region = self.region;
        OpenFailure { error, region }
    }

    fn new(
        region: Region<'m, M>,
        count: usize,
        fields: F,
    ) -> Result<Self, OpenFailure<'m, M, TagError>> {
        let needed = Words::<M>::bytes(count);
        let error = if !fields.widths().fits::<M>() {
            TagError::Widths
        } else if region.len() < needed {
            TagError::TooSmall { needed }
        } else {
            return Ok(Words {
                region,
                count,
                fields,
            });
        };
        Err(OpenFailure { error, region })
    }

    /// Checks all words. Stores nothing. Returns a range with all that are not settled.
    fn check(&self, resolve: &impl Fn(u32) -> Option<u32>) -> Result<Range<usize>, TagError> {
        let mut stamped = 0..0;
        for index in 0..self.count {
            // Most words are zero, and of all settled words a zero is the fastest to recognise.
            if !self.is_zero(index) && self.settled(index).is_none() {
                self.resolved(index, resolve)?;
                widen(&mut stamped, index);
            }
        }
        Ok(stamped)
    }

    /// Settles the words in a range with the states that count.
    fn settle_all(&mut self, stamped: Range<usize>, resolve: &impl Fn(u32) -> Option<u32>) {
        if stamped.start == stamped.end {
            return;
        }
        for i in stamped {
            if self.settled(i).is_some() {
                continue;
            }
            let Ok((state, in_doubt)) = self.resolved(i, resolve) else {
                continue;
            };
            if in_doubt && planted!("nvmem/tagged-doubt-left") {
                continue;
            }
            self.store(i, Tag::settled(state));
        }
        mapped::fence::<M>();
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Gives the region back. Writes nothing.
    pub fn close(self) -> Region<'m, M> {
        self.region
    }

    /// Where the region begins.
    pub fn base(&self) -> *mut u8 {
        self.region.base()
    }

    /// The content of word `index`, if there is one.
    #[inline(always)]
    fn load(&self, index: usize) -> Option<u32> {
        if index >= self.count {
            return None;
        }
        // SAFETY: invariant "Inside the region": `new` has compared the length with `count`;
        // nothing here is ever lent.
        Some(unsafe { self.region.load(index * M::Unit::BYTES) })
    }

    /// The state of word `index`, if it is settled, as [`recover`](Self::recover) leaves all.
    /// `None` for any other word, and for an index out of range.
    ///
    /// **Cost**: a load.
    #[inline(always)]
    pub fn settled(&self, index: usize) -> Option<u32> {
        Tag::settled_state::<M>(self.load(index)?, &self.widths())
    }

    /// Whether the bits of word `index` are all 0: it is settled, and its state is 0.
    ///
    /// **Cost**: a load.
    #[inline(always)]
    pub fn is_zero(&self, index: usize) -> bool {
        self.load(index) == Some(0)
    }

    fn tag(&self, index: usize) -> Result<Tag, TagError> {
        let word = self.load(index).ok_or(TagError::Index { index })?;
        Tag::decode::<M>(word, &self.widths()).ok_or(TagError::Damaged { index })
    }

    /// Stores word `index`, which is less than `count`.
    fn store(&mut self, index: usize, tag: Tag) {
        let word = tag.encode::<M>(&self.widths());
        // SAFETY: invariant "Inside the region": as in `tag`; the callers have read the word, or
        // count to `count`.
        unsafe { self.region.store(index * M::Unit::BYTES, word) }
    }

    /// The state of a word that counts, and whether the word is in doubt.
    fn resolved(
        &self,
        index: usize,
        resolve: &impl Fn(u32) -> Option<u32>,
    ) -> Result<(u32, bool), TagError> {
        let word = self.load(index).ok_or(TagError::Index { index })?;
        let known = Tag::decode::<M>(word, &self.widths()).and_then(|tag| {
            let in_doubt = tag.in_doubt(&self.widths(), resolve)?;
            Some((if in_doubt { tag.before } else { tag.after }, in_doubt))
        });
        known.ok_or(TagError::Damaged { index })
    }

    /// The committed state of word `index`.
    ///
    /// **Cost**: a load. **Errors**: [`TagError::Index`]; [`TagError::Damaged`] if the resolver
    /// does not know the owner.
    #[inline]
    pub fn get(&self, index: usize, resolve: impl Fn(u32) -> Option<u32>) -> Result<u32, TagError> {
        match self.settled(index) {
            Some(state) => Ok(state),
            None => self.get_stamped(index, &resolve),
        }
    }

    /// [`get`](Words::get) of any word.
    #[inline(never)]
    fn get_stamped(
        &self,
        index: usize,
        resolve: &impl Fn(u32) -> Option<u32>,
    ) -> Result<u32, TagError> {
        if planted!("nvmem/tagged-doubt-is-read") {
            return Ok(self.tag(index)?.after);
        }
        Ok(self.resolved(index, resolve)?.0)
    }

    /// The state that the running transaction `stamp` has set, if it has set this word.
    ///
    /// **Cost**: a load. **Errors**: [`TagError::Index`].
    pub fn staged(&self, index: usize, stamp: Stamp) -> Result<Option<u32>, TagError> {
        let tag = self.tag(index)?;
        Ok((tag.stamp == stamp && !tag.is_settled()).then_some(tag.after))
    }

    /// Sets the state of word `index`. It counts when the transaction of the stamp commits.
    ///
    /// **Power loss**: before that commit the state before counts. **Cost**: a load and a store.
    /// **Errors**: [`TagError::Busy`] if an open transaction of another owner has set the word;
    /// [`TagError::Damaged`] if the resolver does not know that owner; [`TagError::Index`],
    /// [`TagError::State`], [`TagError::Stamp`].
    pub fn set(
        &mut self,
        index: usize,
        stamp: Stamp,
        state: u32,
        resolve: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), TagError> {
        if state > self.widths().max_state() {
            return Err(TagError::State);
        }
        let before = self.before(index, stamp, &resolve)?;
        self.store(
            index,
            Tag {
                stamp,
                before,
                after: state,
            },
        );
        Ok(())
    }

    /// Like [`set`](Self::set), for a caller that keeps the committed states in RAM, as `recover`
    /// has found them, and changes them with its commits: `before` is that of word `index`. It asks
    /// no resolver: no other open transaction has set the word, and this one sets it once.
    ///
    /// **Power loss**: as there. **Cost**: a store. **Errors**: [`TagError::Index`],
    /// [`TagError::State`], [`TagError::Stamp`].
    #[inline]
    pub fn put(
        &mut self,
        index: usize,
        stamp: Stamp,
        before: u32,
        after: u32,
    ) -> Result<(), TagError> {
        self.check_stamp(stamp)?;
        self.check_put(index, before.max(after))?;
        let mut before = before;
        if planted!("nvmem/tagged-put-forgets-before") {
            before = after;
        }
        self.store(
            index,
            Tag {
                stamp,
                before,
                after,
            },
        );
        Ok(())
    }

    /// Like [`publish`](Self::publish), for the same caller as [`put`](Self::put).
    ///
    /// **Power loss**: as there. **Cost**: a store, and a fence. **Errors**: [`TagError::Index`],
    /// [`TagError::State`].
    #[inline]
    pub fn put_settled(&mut self, index: usize, state: u32) -> Result<(), TagError> {
        self.check_put(index, state)?;
        self.store(index, Tag::settled(state));
        mapped::fence::<M>();
        Ok(())
    }

    #[inline]
    fn check_put(&self, index: usize, state: u32) -> Result<(), TagError> {
        if index >= self.count {
            return Err(TagError::Index { index });
        }
        if state > self.widths().max_state() {
            return Err(TagError::State);
        }
        Ok(())
    }

    /// The state that counts if the transaction `stamp` is undone.
    fn before(
        &self,
        index: usize,
        stamp: Stamp,
        resolve: &impl Fn(u32) -> Option<u32>,
    ) -> Result<u32, TagError> {
        self.check_stamp(stamp)?;
        let tag = self.tag(index)?;
        if tag.stamp.owner == stamp.owner || tag.is_settled() {
            // Another number of this owner is committed: one transaction of it is open.
            let own = tag.stamp == stamp && !planted!("nvmem/tagged-second-set-forgets-before");
            return Ok(if own { tag.before } else { tag.after });
        }
        self.not_busy(index, resolve)
    }

    /// The state that counts, unless a transaction is open that has set the word.
    fn not_busy(
        &self,
        index: usize,
        resolve: &impl Fn(u32) -> Option<u32>,
    ) -> Result<u32, TagError> {
        let (state, in_doubt) = self.resolved(index, resolve)?;
        if in_doubt && !planted!("nvmem/tagged-busy-overwritten") {
            return Err(TagError::Busy);
        }
        Ok(state)
    }

    fn check_stamp(&self, stamp: Stamp) -> Result<(), TagError> {
        let w = self.widths();
        if stamp.sequence == 0 || stamp.sequence > w.max_sequence() || stamp.owner > w.max_owner() {
            return Err(TagError::Stamp);
        }
        Ok(())
    }

    /// Sets the state of word `index` at once, outside of any transaction: for an interrupt.
    ///
    /// **Power loss**: before the store the old state counts, after it the new one. **Cost**: a
    /// load, a store, and a fence. **Errors**: [`TagError::Busy`] if an open transaction has set
    /// the word; [`TagError::Damaged`] if the resolver does not know its owner;
    /// [`TagError::Index`], [`TagError::State`].
    pub fn publish(
        &mut self,
        index: usize,
        state: u32,
        resolve: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), TagError> {
        if state > self.widths().max_state() {
            return Err(TagError::State);
        }
        self.not_busy(index, &resolve)?;
        self.store(index, Tag::settled(state));
        mapped::fence::<M>();
        Ok(())
    }

    /// Undoes what the transaction `stamp` has set: for an abort.
    ///
    /// **Power loss**: `recover` undoes the rest. **Cost**: a load for each word, a store for each
    /// that it has set, and a fence. **Errors**: [`TagError::Stamp`].
    pub fn revert(&mut self, stamp: Stamp) -> Result<(), TagError> {
        self.check_stamp(stamp)?;
        for i in 0..self.count {
            let tag = self.tag(i)?;
            if tag.stamp == stamp {
                if planted!("nvmem/tagged-revert-keeps-stamp") {
                    let after = tag.before;
                    self.store(i, Tag { after, ..tag });
                } else {
                    self.store(i, Tag::settled(tag.before));
                }
            }
        }
        mapped::fence::<M>();
        Ok(())
    }

    /// Settles committed words of an owner before its numbers repeat. Call it before the fence
    /// and the store that commit the number of `stamp`. `since` is the number of the owner's
    /// previous sweep since `recover`; before the first one, its last committed number.
    ///
    /// At most [`Widths::max_unswept`] numbers may commit between two sweeps of an owner.
    ///
    /// **Power loss**: settled words stay settled, and mean the same. **Cost**: for each number
    /// after `since`, a load and at most one store for each word that is due then: K words are due
    /// in half of all numbers. **Errors**: [`TagError::Stamp`].
    pub fn sweep(&mut self, stamp: Stamp, since: u32) -> Result<(), TagError> {
        self.check_stamp(stamp)?;
        let mut half = (self.widths().max_sequence() / 2) as usize;
        if planted!("nvmem/tagged-sweep-once-a-round") {
            half = self.widths().max_sequence() as usize;
        }
        // Never 0: the compiler does not know, and would link a panic.
        let half = half.max(1);
        let mut per_number = self.count.div_ceil(half);
        if planted!("nvmem/tagged-sweep-leaves-out-the-last") {
            per_number = (self.count / half).max(1);
        }
        let mut number = since;
        // After half of all numbers each word has been visited.
        for _ in 0..half {
            if number == stamp.sequence {
                break;
            }
            number = self.widths().next(number);
            if planted!("nvmem/tagged-gaps-unswept") {
                number = stamp.sequence;
            }
            let first = (number as usize - 1) % half * per_number;
            self.settle_some(first, per_number, stamp)?;
        }
        Ok(())
    }

    /// Settles those of the `n` words from word `first` on that have the stamp of this owner. The
    /// owner has set none of them in an open transaction. For an owner that counts its numbers
    /// itself, instead of [`sweep`](Self::sweep).
    ///
    /// Each word must be visited before the owner has used all numbers since it was set.
    ///
    /// **Power loss**: settled words stay settled, and mean the same. **Cost**: a load for each
    /// word, and at most one store. **Errors**: [`TagError::Damaged`].
    pub fn settle(&mut self, first: usize, n: usize, owner: u32) -> Result<(), TagError> {
        let sequence = 0;
        self.settle_some(first, n, Stamp { owner, sequence })
    }

    /// Settles those of the `n` words from `first` on that the stamp's owner has set, except in its
    /// open transaction.
    fn settle_some(&mut self, first: usize, n: usize, stamp: Stamp) -> Result<(), TagError> {
        for i in first..first.saturating_add(n).min(self.count) {
            let tag = self.tag(i)?;
            let mine = tag.stamp.owner == stamp.owner || planted!("nvmem/tagged-sweep-of-others");
            let committed = tag.stamp.sequence != stamp.sequence;
            let committed = committed || planted!("nvmem/tagged-sweep-settles-doubt");
            if !tag.is_settled() && mine && committed {
                self.store(i, Tag::settled(tag.after));
            }
        }
        Ok(())
    }
}

// INVARIANT "A named version is a value": the tagged word of a cell names only versions that are
// values of its type. `Cells::recover` settles all words and checks what they name; `set` and
// `publish` write the whole value before the word.
// Noticed by: `hostile_cells_give_errors` and `a_resolver_that_lies_gives_values` in
// tests/suite/tagged.rs, also under Miri; tests/suite/crash_tagged.rs; planted `cell-unchecked`,
// `cell-no-fence-in-publish`.

/// A number of two-version cells of a plain type `T`, in a region of their own: each the bytes of
/// two values and a tagged word. [`Words`] says what the operations have in common.
pub struct Cells<'m, M, T, F = Widths> {
    /// At the beginning of the region; the versions follow.
    words: Words<'m, M, F>,
    _t: PhantomData<fn(T) -> T>,
}

/// Bytes from a version of a cell to the next.
pub(crate) const fn stride<M: Model, T>() -> usize {
    const {
        assert!(
            align_of::<T>() <= Region::<InAnyModel>::ALIGN,
            "persistent data must be aligned to at most 8 bytes"
        )
    };
    size_of::<T>().next_multiple_of(if align_of::<T>() > M::Unit::BYTES {
        align_of::<T>()
    } else {
        M::Unit::BYTES
    })
}

impl<M: Model, T: Plain> Cells<'_, M, T> {
    /// Bytes that `count` cells take; a multiple of 8.
    pub const fn bytes(count: usize) -> usize {
        let versions = count.saturating_mul(stride::<M, T>()).saturating_mul(2);
        Words::<M>::bytes(count)
            .saturating_add(versions)
            .saturating_add(7)
            & !7
    }
}

impl<'m, M: Model, T: Plain, F: WordWidths> Cells<'m, M, T, F> {
    /// Writes `count` cells that hold `value`. The widths' `state` is 1.
    ///
    /// **Power loss**, **Errors**: as for [`Words::format`]. **Cost**: a value and a word for each
    /// cell.
    pub fn format(
        region: Region<'m, M>,
        count: usize,
        fields: F,
        value: T,
    ) -> Result<Self, OpenFailure<'m, M, TagError>>
    where
        T: Copy,
    {
        let region = Self::long_enough(region, count, fields.widths())?;
        let mut cells = Self::of(Words::format(region, count, fields)?);
        for i in 0..count {
            cells.write(i, 0, value);
        }
        mapped::fence::<M>();
        Ok(cells)
    }

    /// Recovers the cells after a boot, as [`Words::recover`]. The versions that count are checked.
    ///
    /// **Power loss**, **Cost**: as there, and a read of each version that counts. **Errors**: as
    /// there, and [`TagError::Invalid`].
    pub fn recover(
        region: Region<'m, M>,
        count: usize,
        fields: F,
        resolve: impl Fn(u32) -> Option<u32>,
    ) -> Result<Self, OpenFailure<'m, M, TagError>> {
        let region = Self::long_enough(region, count, fields.widths())?;
        let mut cells = Self::of(Words::new(region, count, fields)?);
        let checked = cells.check(0..count, &resolve).and_then(|stamped| {
            cells.words.settle_all(stamped.clone(), &resolve);
            // A resolver may answer differently each time, so the check reads the settled words
            // again.
            cells.check(stamped, &|_| None)
        });
        match checked {
            Ok(_) => Ok(cells),
            Err(error) => Err(cells.words.refused(error)),
        }
    }

    fn long_enough(
        region: Region<'m, M>,
        count: usize,
        widths: Widths,
    ) -> Result<Region<'m, M>, OpenFailure<'m, M, TagError>> {
        let needed = Cells::<M, T>::bytes(count);
        let error = if widths.state != 1 {
            TagError::Widths
        } else if region.len() < needed {
            TagError::TooSmall { needed }
        } else {
            return Ok(region);
        };
        Err(OpenFailure { error, region })
    }

    fn of(words: Words<'m, M, F>) -> Self {
        Cells {
            words,
            _t: PhantomData,
        }
    }

    /// Checks some words and the versions that count. Stores nothing. Returns a range with all
    /// words that are not settled.
    fn check(
        &self,
        cells: Range<usize>,
        resolve: &impl Fn(u32) -> Option<u32>,
    ) -> Result<Range<usize>, TagError> {
        let mut stamped = 0..0;
        for index in cells {
            let version = match self.words.settled(index) {
                Some(version) => version,
                None => {
                    widen(&mut stamped, index);
                    self.words.resolved(index, resolve)?.0
                }
            };
            let at = self.at(index, version);
            mapped::will_read(at.cast(), size_of::<T>());
            // SAFETY: invariant "Inside the region": a version, aligned, and nothing is lent.
            let checked = unsafe { T::check(at.cast(), &mut NoHandles) };
            if !planted!("nvmem/cell-unchecked") {
                checked.map_err(|reason| TagError::Invalid { index, reason })?;
            }
        }
        Ok(stamped)
    }

    /// The address of a version of cell `index`, which is less than the count.
    fn at(&self, index: usize, version: u32) -> *mut T {
        let first = Words::<M>::bytes(self.words.count);
        let off = first + (2 * index + version as usize) * stride::<M, T>();
        debug_assert!(off + size_of::<T>() <= self.words.region.len());
        self.words.region.base().wrapping_add(off).cast()
    }

    fn write(&mut self, index: usize, version: u32, value: T) {
        let at = self.at(index, version);
        mapped::lend(at.cast(), size_of::<T>());
        // SAFETY: invariants "Inside the region" and "Padding is not read": a version, aligned,
        // which nobody borrows; written whole, then its padding as zeros.
        unsafe {
            at.write(value);
            T::clear_padding(at.cast());
        }
        mapped::end_loan(at.cast(), size_of::<T>());
    }

    fn read(&self, index: usize, version: u32) -> T {
        let at = self.at(index, version);
        mapped::will_read(at.cast(), size_of::<T>());
        // SAFETY: invariant "A named version is a value": a word has named it since `recover`. Its
        // bits may be copied: "Plain is plain".
        unsafe { at.read() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.words.count
    }

    /// Gives the region back. Writes nothing.
    pub fn close(self) -> Region<'m, M> {
        self.words.region
    }

    /// [`Words::settled`] for cells. **Cost**: a load, and a read of the value.
    #[inline]
    pub fn settled(&self, index: usize) -> Option<T> {
        Some(self.read(index, self.words.settled(index)?))
    }

    /// The committed value of cell `index`. **Errors**: those of [`Words::get`].
    pub fn get(&self, index: usize, resolve: impl Fn(u32) -> Option<u32>) -> Result<T, TagError> {
        let version = self.words.get(index, resolve)?;
        Ok(self.read(index, version))
    }

    /// The value that the running transaction `stamp` has set, if it has set this cell.
    ///
    /// **Errors**: those of [`Words::staged`].
    pub fn staged(&self, index: usize, stamp: Stamp) -> Result<Option<T>, TagError> {
        let version = self.words.staged(index, stamp)?;
        Ok(version.map(|version| self.read(index, version)))
    }

    /// Sets the value of cell `index`. It counts when the transaction of the stamp commits.
    ///
    /// **Power loss**, **Errors**: as for [`Words::set`]. **Cost**: the value and one store; a
    /// second time in one transaction the value alone.
    pub fn set(
        &mut self,
        index: usize,
        stamp: Stamp,
        value: T,
        resolve: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), TagError> {
        let before = self.words.before(index, stamp, &resolve)?;
        if planted!("nvmem/cell-written-in-place") {
            self.write(index, before, value);
            return Ok(());
        }
        let after = before ^ 1;
        self.write(index, after, value);
        let tag = Tag {
            stamp,
            before,
            after,
        };
        if self.words.tag(index)? != tag {
            self.words.store(index, tag);
        }
        Ok(())
    }

    /// Sets the value of cell `index` at once, outside of any transaction: for an interrupt.
    ///
    /// **Power loss**, **Errors**: as for [`Words::publish`]. **Cost**: the value, one store, and
    /// two fences.
    pub fn publish(
        &mut self,
        index: usize,
        value: T,
        resolve: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), TagError> {
        let before = self.words.not_busy(index, &resolve)?;
        self.write(index, before ^ 1, value);
        if !planted!("nvmem/cell-no-fence-in-publish") {
            mapped::fence::<M>();
        }
        self.words.store(index, Tag::settled(before ^ 1));
        mapped::fence::<M>();
        Ok(())
    }

    /// [`Words::put`] for cells: like [`set`](Self::set), without a resolver.
    ///
    /// **Power loss**: as there. **Cost**: a load, the value and one store. **Errors**:
    /// [`TagError::Damaged`] and, as there, [`TagError::Index`], [`TagError::Stamp`].
    pub fn put(&mut self, index: usize, stamp: Stamp, value: T) -> Result<(), TagError> {
        self.words.check_stamp(stamp)?;
        // Not by `tag`: a small core copies a `Result` of its size three times.
        let word = self.words.load(index).ok_or(TagError::Index { index })?;
        let Some(tag) = Tag::decode::<M>(word, &self.words.widths()) else {
            return Err(TagError::Damaged { index });
        };
        let own = tag.stamp == stamp && !planted!("nvmem/cell-second-put-in-place");
        let before = if own { tag.before } else { tag.after };
        let after = before ^ 1;
        self.write(index, after, value);
        let tag = Tag {
            stamp,
            before,
            after,
        };
        self.words.store(index, tag);
        Ok(())
    }

    /// [`Words::put_settled`] for cells. **Power loss**, **Cost**: as for
    /// [`publish`](Self::publish). **Errors**: [`TagError::Damaged`], [`TagError::Index`].
    pub fn put_settled(&mut self, index: usize, value: T) -> Result<(), TagError> {
        let version = self.words.tag(index)?.after ^ 1;
        self.write(index, version, value);
        mapped::fence::<M>();
        self.words.store(index, Tag::settled(version));
        mapped::fence::<M>();
        Ok(())
    }

    /// [`Words::settle`] for cells. **Power loss**, **Cost**, **Errors**: as there.
    pub fn settle(&mut self, first: usize, n: usize, owner: u32) -> Result<(), TagError> {
        self.words.settle(first, n, owner)
    }

    /// [`Words::revert`] for cells. **Power loss**, **Cost**, **Errors**: as there.
    pub fn revert(&mut self, stamp: Stamp) -> Result<(), TagError> {
        self.words.revert(stamp)
    }

    /// [`Words::sweep`] for cells. **Power loss**, **Cost**, **Errors**: as there.
    pub fn sweep(&mut self, stamp: Stamp, since: u32) -> Result<(), TagError> {
        self.words.sweep(stamp, since)
    }
}

/// A model, to name constants that are the same for all.
type InAnyModel = crate::model::InOrder32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InOrder16, InOrder32};

    #[test]
    fn words_come_back_and_others_are_refused() {
        // Miri is a thousand times slower.
        let (sequences, most) = if cfg!(miri) { (3..=3, 1) } else { (3..=6, 3) };
        for sequence in sequences {
            for owner in 0..=most {
                for state in 1..=most {
                    let w = Widths {
                        sequence,
                        owner,
                        state,
                    };
                    let used = u32::from(sequence + owner + 2 * state);
                    let mut known = 0;
                    for word in 0..1 << (used + 1) {
                        let Some(tag) = Tag::decode::<InOrder32>(word, &w) else {
                            continue;
                        };
                        assert_eq!(tag.encode::<InOrder32>(&w), word);
                        if used <= 16 && word >> 16 == 0 {
                            assert_eq!(Tag::decode::<InOrder16>(word, &w), Some(tag));
                            assert_eq!(tag.encode::<InOrder16>(&w), word);
                        }
                        known += 1;
                    }
                    // All stamps with all pairs of states, and a settled word for each state.
                    let stamped = w.max_sequence() << owner << (2 * state);
                    assert_eq!(known, stamped + (1 << state));
                }
            }
        }
    }

    #[test]
    fn widths_that_fit() {
        let w = |sequence, owner, state| Widths {
            sequence,
            owner,
            state,
        };
        assert!(w(8, 6, 1).fits::<InOrder16>() && !w(8, 7, 1).fits::<InOrder16>());
        assert!(w(12, 4, 8).fits::<InOrder32>() && !w(12, 5, 8).fits::<InOrder32>());
        for bad in [
            w(2, 1, 1),
            w(17, 1, 1),
            w(3, 17, 1),
            w(3, 1, 0),
            w(3, 0, 15),
        ] {
            assert!(!bad.fits::<InOrder32>(), "{bad:?}");
        }
        for w in [w(255, 255, 255), w(0, 0, 0)] {
            assert!(!w.fits::<InOrder32>());
        }
    }
}
