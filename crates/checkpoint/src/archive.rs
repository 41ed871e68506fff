//! An archive of named checkpoints to roll back to, and the policies that say which ones it keeps.

use crate::format::Head;
use crate::images::{Rank, later};
use crate::memory::Memory;
use crate::mode::Mode;
use crate::{Error, Images, Restored, Store};
use core::ops::Range;
use nvmem::device::Medium;
use nvmem::planted;

/// `N` slots for named checkpoints. The policy `P` decides which ones are kept. Threads and
/// programs can roll back to any of them.
///
/// [`Archive::restore`] restores the newest, as [`Images`] does. [`Archive::roll_back`] makes an
/// older one the newest. One slot is always being written, and on flash one more may hold a copy.
/// So at least `N - 2` checkpoints are kept on flash, wherever the power is cut, and `N - 1` on
/// other media.
///
/// ```
/// use checkpoint::{Archive, Landmarks, Memory, Split};
/// use checkpoint::nvmem::ram::RamFram;
///
/// # let mut fram = RamFram::<4096>::filled(0);
/// # let (mut statics, mut heap, mut stack) = ([0u8; 64], [0u8; 256], [0u8; 64]);
/// # let mut memory = Memory::new(&mut statics, &mut heap, &mut stack);
/// let mut archive = Archive::<_, _, _, 8>::open(&mut fram, 0..4096, 0x2024_0001, Split, Landmarks(2))?;
/// for round in 0..100 {
///     archive.checkpoint(round, &memory, 0)?; // name, memory, context
/// }
/// let kept = archive.list()?;                 // newest first
/// let old = kept.iter().flatten().find(|e| e.name < 90).expect("a landmark");
/// archive.roll_back(old.sequence, &memory)?;  // a copy of it is the newest now, whatever is cut
/// assert_eq!(archive.restore(&mut memory)?.name, old.name);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Archive<D, M, P, const N: usize> {
    images: Images<D, N>,
    mode: M,
    policy: P,
    name: u32,
}

/// A checkpoint in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Entry {
    /// Its sequence number, which identifies it. Later ones have higher numbers, which wrap.
    pub sequence: u32,
    /// Its name. Several checkpoints may have the same name.
    pub name: u32,
    /// The context that it was given.
    pub context: u32,
    /// The bytes that it takes in its slot.
    pub bytes: u32,
}

impl<D: Medium, M: Mode, P: Retention, const N: usize> Archive<D, M, P, N> {
    /// Opens the slots in a range, as [`Images::open`] does. At least three are needed: rolling
    /// back copies a checkpoint.
    ///
    /// **Power loss**: writes nothing. **Cost**, **Errors**: as for [`Images::open`].
    pub fn open(
        medium: D,
        range: Range<u32>,
        program: u64,
        mode: M,
        policy: P,
    ) -> Result<Self, Error<D::Error>> {
        const { assert!(N >= 3, "an archive needs at least three slots") };
        Ok(Archive {
            images: Images::open(medium, range, program)?,
            mode,
            policy,
            name: 0,
        })
    }

    /// Returns the medium.
    pub fn into_medium(self) -> D {
        self.images.into_medium()
    }

    /// Sets the name of later checkpoints that are taken through [`Store::save`], which has no
    /// parameter for it. It is zero at first.
    pub const fn set_name(&mut self, name: u32) {
        self.name = name;
    }

    /// Takes a checkpoint. It is the newest when this returns.
    ///
    /// **Power loss**: the new checkpoint is complete or absent. The one that it replaces may be
    /// gone in both cases. **Cost**, **Errors**: as for [`Images::checkpoint`].
    pub fn checkpoint(
        &mut self,
        name: u32,
        memory: &Memory<'_>,
        context: u32,
    ) -> Result<(), Error<D::Error>> {
        self.images.settle().map_err(Error::Medium)?;
        let to = pick_target(&self.images, &self.policy, N);
        self.images
            .checkpoint_to(to, name, &self.mode, memory, context)
    }

    /// Restores memory from the newest checkpoint. **Power loss**, **Cost**, **Errors**: as for
    /// [`Images::restore`].
    pub fn restore(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        let policy = &self.policy;
        self.images
            .restore_by(memory, |images| pick_target(images, policy, N))
    }

    /// The checkpoints in the archive, from the newest to the oldest; then `None`.
    ///
    /// On flash the newest may be missing from the list after a cut in its last words, until the
    /// next [`Archive::restore`]. **Cost**: reads the head of each. **Errors**: [`Error::Medium`].
    pub fn list(&mut self) -> Result<[Option<Entry>; N], Error<D::Error>> {
        self.images.settle().map_err(Error::Medium)?;
        let mut out = [None; N];
        let mut count = 0;
        for slot in 0..N {
            let Some(head) = self.entry_head(slot)? else {
                continue;
            };
            let entry = Entry {
                sequence: head.sequence(),
                name: head.name(),
                context: head.context(),
                bytes: Images::<D, N>::SIZES.whole(head.body()).unwrap_or(u32::MAX),
            };
            // Insertion sort: older entries move back by one.
            let newer = |e: &&Option<Entry>| e.is_some_and(|e| later(e.sequence, entry.sequence));
            let at = out.iter().filter(newer).count();
            if let Some(rest) = out.get_mut(at..=count) {
                rest.rotate_right(1);
                rest[0] = Some(entry);
            }
            count += 1;
        }
        Ok(out)
    }

    /// Makes a copy of an older checkpoint the newest one, so that [`Archive::restore`] brings it
    /// back. The checkpoints between stay until they are replaced or deleted. If it is the newest
    /// already, nothing is written, unless a cut may have left it unstable, or one that is newer.
    ///
    /// `memory` is only compared with the checkpoint's fingerprint. **Power loss**: the newest is
    /// the previous one, or the copy. **Cost**: reads the checkpoint twice and writes it.
    /// **Errors**: [`Error::NoImage`] if no checkpoint has this sequence number,
    /// [`Error::Damaged`], [`Error::OtherMemory`], [`Error::Medium`]; the newest stays the same.
    pub fn roll_back(&mut self, sequence: u32, memory: &Memory<'_>) -> Result<(), Error<D::Error>> {
        let slot = self.slot_of(sequence)?;
        let mut head = Head::unread();
        let checked = self.images.check_image(slot, memory, &mut head);
        if let Some(rejection) = checked.map_err(Error::Medium)? {
            return Err(rejection.error(&head));
        }
        // A cut may have left its marker unstable, or that of a newer one, which then may be the
        // newest at a later boot.
        let mut sure = self.images.rank(slot) == Rank::Confirmed
            && self.images.slots.iter().all(|s| s.rank != Rank::Complete);
        if planted!("checkpoint/newest-unsure") {
            sure = true;
        }
        if self.images.current == slot && sure {
            return Ok(());
        }
        let mut spared = slot;
        if planted!("checkpoint/copy-over-itself") {
            spared = N;
        }
        let to = pick_target(&self.images, &self.policy, spared);
        self.images.copy(slot, &mut head, to)
    }

    /// Deletes a checkpoint that is not the newest.
    ///
    /// **Power loss**: it is deleted or not. On flash a cut may leave one that is listed at one
    /// boot and not at the next, or that `roll_back` finds [`Error::Damaged`]: delete it again.
    /// **Cost**: one erase, or one write of 36 bytes where nothing is erased. **Errors**:
    /// [`Error::NoImage`] if no checkpoint has this sequence number, [`Error::Newest`],
    /// [`Error::Medium`].
    pub fn delete(&mut self, sequence: u32) -> Result<(), Error<D::Error>> {
        let slot = self.slot_of(sequence)?;
        if self.images.current == slot && !planted!("checkpoint/newest-deleted") {
            return Err(Error::Newest);
        }
        self.images.clear(slot).map_err(Error::Medium)
    }

    /// The slot of the checkpoint with this sequence number.
    fn slot_of(&mut self, sequence: u32) -> Result<usize, Error<D::Error>> {
        self.images.settle().map_err(Error::Medium)?;
        for slot in 0..N {
            if self
                .entry_head(slot)?
                .is_some_and(|h| h.sequence() == sequence)
            {
                return Ok(slot);
            }
        }
        Err(Error::NoImage)
    }

    /// The head of a slot's checkpoint, if it is this program's and has a commit marker. The
    /// confirmation is not needed: a cut there may make the marker unstable, but loses nothing.
    fn entry_head(&mut self, slot: usize) -> Result<Option<Head>, Error<D::Error>> {
        if self.images.rank(slot) < Rank::Marked {
            return Ok(None);
        }
        let mut head = Head::unread();
        let any = self.images.read_head(slot, &mut head);
        let any = any.map_err(Error::Medium)? && head.program() == self.images.program;
        Ok(any.then_some(head))
    }
}

// SAFETY: *Checked before it is memory*, *Stable before it is used*: restores as `Images` does.
unsafe impl<D: Medium, M: Mode, P: Retention, const N: usize> Store for Archive<D, M, P, N> {
    type Error = D::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<D::Error>> {
        self.checkpoint(self.name, memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.restore(memory)
    }
}

// INVARIANT "What is rolled back to stays": a copy overwrites neither its source nor the image that
// counts.
// Noticed by: tests/suite/crash/archive.rs; planted `copy-over-itself`, `newest-deleted`.
/// The slot for the next image: one without a valid image, or else the policy's victim.
fn pick_target<D: Medium, P: Retention, const N: usize>(
    images: &Images<D, N>,
    policy: &P,
    spared: usize,
) -> usize {
    let plain = images.target(spared);
    if images.rank(plain) < Rank::Marked {
        return plain;
    }
    let next = images.next_sequence();
    let mut ages = [None; N];
    for (i, (age, slot)) in ages.iter_mut().zip(&images.slots).enumerate() {
        // A spared checkpoint is no neighbour of the others: it comes back as the newest.
        if slot.rank >= Rank::Marked && spared != i {
            *age = Some(next.wrapping_sub(slot.sequence));
        }
    }
    let wanted = policy.victim(&ages);
    let free = |i: usize| images.current != i && ages.get(i).is_some_and(Option::is_some);
    let chosen = if free(wanted) { wanted } else { oldest(&ages) };
    if free(chosen) { chosen } else { plain }
}

/// Decides which checkpoint of an [`Archive`] a new one replaces.
pub trait Retention {
    /// Returns the index of the checkpoint to replace. `ages[i]` says how many checkpoints ago slot
    /// `i` was written. The checkpoint being taken has age zero, so the newest existing one usually
    /// has age one. `None`: the slot holds no checkpoint to keep.
    ///
    /// The newest is never replaced. If a policy names it, or a slot without a checkpoint, the
    /// oldest is replaced instead.
    fn victim(&self, ages: &[Option<u32>]) -> usize;
}

/// Keeps the newest checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepLast;

/// Keeps one of every so many checkpoints, as far back as there is space, and the newest.
///
/// This is the first scheme of r-kernel (section on checkpoint maintenance): constant intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(
    /// The interval, in checkpoints.
    pub u32,
);

/// Keeps landmarks whose distances grow with their age: many new ones, few old ones. This is the
/// second scheme of r-kernel; the number is its β, at least 2.
///
/// Of two neighbours the older one is at most β times as old as the younger one. With `N` slots the
/// oldest reaches back at least β to the power of (N - 3) / 2 checkpoints, wherever the power is
/// cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landmarks(
    /// β: how many times older than its younger neighbour a checkpoint may be.
    pub u32,
);

impl Retention for KeepLast {
    fn victim(&self, ages: &[Option<u32>]) -> usize {
        oldest(ages)
    }
}

impl Retention for Every {
    /// The oldest checkpoint that is nearer to the next older one than the interval; else the
    /// oldest.
    fn victim(&self, ages: &[Option<u32>]) -> usize {
        oldest_spare(ages, |age| {
            elder(ages, age).is_some_and(|elder| elder - age < self.0)
        })
    }
}

impl Retention for Landmarks {
    // INVARIANT "Landmarks stay near": of two neighbours the older one is at most β times as old. A
    // checkpoint is replaced only if its neighbours fulfil that without it, and their ratio falls
    // as both age.
    // Noticed by: `landmarks` in tests/suite/retention.rs; planted `landmarks-lost`.
    /// The oldest checkpoint that its neighbours can do without; if all are needed, the oldest.
    fn victim(&self, ages: &[Option<u32>]) -> usize {
        let factor = u64::from(self.0.max(2));
        oldest_spare(ages, |age| {
            let (Some(elder), Some(younger)) = (elder(ages, age), younger(ages, age)) else {
                return false;
            };
            if planted!("checkpoint/landmarks-lost") {
                return true;
            }
            u64::from(elder) <= factor * u64::from(younger)
        })
    }
}

/// The age of the next older one.
fn elder(ages: &[Option<u32>], than: u32) -> Option<u32> {
    ages.iter().flatten().copied().filter(|a| *a > than).min()
}

/// The age of the next younger one.
fn younger(ages: &[Option<u32>], than: u32) -> Option<u32> {
    ages.iter().flatten().copied().filter(|a| *a < than).max()
}

/// The index of the oldest.
pub(crate) fn oldest(ages: &[Option<u32>]) -> usize {
    let aged = ages.iter().enumerate();
    let aged = aged.filter_map(|(i, age)| age.map(|age| (age, i)));
    aged.max().map_or(0, |(_, i)| i)
}

/// The index of the oldest that `spare` accepts and that is not the newest; else of the oldest.
fn oldest_spare(ages: &[Option<u32>], spare: impl Fn(u32) -> bool) -> usize {
    let mut found: Option<(u32, usize)> = None;
    for (i, age) in ages.iter().enumerate() {
        if let Some(age) = *age
            && younger(ages, age).is_some()
            && spare(age)
        {
            found = found.max(Some((age, i)));
        }
    }
    found.map_or_else(|| oldest(ages), |(_, i)| i)
}
