//! Checkpoints that have names, of which more than the newest are kept: to roll back to.

use crate::layout::Head;
use crate::memory::Memory;
use crate::mode::Mode;
use crate::retention::{Retention, oldest};
use crate::scan::{Rank, later};
use crate::{Error, Images, Restored, Store};
use core::ops::Range;
use nvmem::device::Medium;
use nvmem::planted;

/// `N` places for checkpoints, each with a name, kept as `P` says: the base for rolling back a thread or a program.
///
/// The newest counts, as in [`Images`]: it is what [`Archive::restore`] brings back. [`Archive::roll_back`] makes an older one the newest.
/// One place is always being written, and on flash one more may hold a copy, so at least `N - 2` checkpoints are kept, whatever is cut, and `N - 1` on other media.
#[derive(Debug)]
pub struct Archive<D, M, P, const N: usize> {
    images: Images<D, N>,
    mode: M,
    policy: P,
    name: u32,
}

/// A checkpoint that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Entry {
    /// Its number, by which it is asked for; later ones have higher numbers, which wrap.
    pub sequence: u32,
    /// What it was called. Several may have the same name.
    pub name: u32,
    /// What it was given.
    pub context: u32,
    /// Bytes that it takes in its place.
    pub bytes: u32,
}

impl<D: Medium, M: Mode, P: Retention, const N: usize> Archive<D, M, P, N> {
    /// Opens the places in a range, as [`Images::open`] does. At least three, so that one that is rolled back to can be copied.
    ///
    /// **Power loss**: writes nothing. **Cost, errors**: as [`Images::open`].
    pub fn open(
        medium: D,
        range: Range<u32>,
        program: u64,
        mode: M,
        policy: P,
    ) -> Result<Self, Error<D::Error>> {
        const { assert!(N >= 3, "rolling back needs three places") };
        Ok(Archive {
            images: Images::open(medium, range, program)?,
            mode,
            policy,
            name: 0,
        })
    }

    /// The medium back.
    pub fn into_medium(self) -> D {
        self.images.into_medium()
    }

    /// What checkpoints are called from now on that are taken through [`Store::save`], which is told no name; zero until then.
    pub const fn call_them(&mut self, name: u32) {
        self.name = name;
    }

    /// Takes a checkpoint, which is the newest when this returns.
    ///
    /// **Power loss**: it is there wholly or not at all; the one that gives way to it may be gone either way. **Cost, errors**: as [`Images::checkpoint`].
    pub fn checkpoint(
        &mut self,
        name: u32,
        memory: &Memory<'_>,
        context: u32,
    ) -> Result<(), Error<D::Error>> {
        let to = target(&self.images, &self.policy, N);
        self.images
            .checkpoint_to(to, name, &self.mode, memory, context)
    }

    /// Brings memory back to the newest checkpoint. **Power loss, cost, errors**: as [`Images::restore`].
    pub fn restore(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        let policy = &self.policy;
        self.images
            .restore_by(memory, |images| target(images, policy, N))
    }

    /// The checkpoints that are kept, from the newest to the oldest; then `None`.
    ///
    /// On flash the newest may be missing between a power cut in its last words and the next [`Archive::restore`]. **Cost**: reads the head of each. **Errors**: [`Error::Medium`].
    pub fn list(&mut self) -> Result<[Option<Entry>; N], Error<D::Error>> {
        let mut out = [None; N];
        let mut count = 0;
        for slot in 0..N {
            let Some(head) = self.kept(slot)? else {
                continue;
            };
            let entry = Entry {
                sequence: head.sequence(),
                name: head.name(),
                context: head.context(),
                bytes: Images::<D, N>::SIZES.whole(head.body()).unwrap_or(u32::MAX),
            };
            // Insertion: those that are earlier move on by one.
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

    /// Makes a copy of an older checkpoint the newest one: what [`Archive::restore`] brings back from now on. Those between stay, until they give way or are deleted.
    ///
    /// `memory` is only looked at. **Power loss**: the newest is the one that was, or the copy. **Cost**: reads the checkpoint twice and writes it. **Errors**: [`Error::NoImage`] if there is
    /// none with this number, [`Error::Damaged`], [`Error::OtherMemory`], [`Error::Medium`]; the newest stays what it is.
    pub fn roll_back(&mut self, sequence: u32, memory: &Memory<'_>) -> Result<(), Error<D::Error>> {
        let slot = self.place(sequence)?;
        let mut head = Head::unread();
        let judged = self.images.judge(slot, memory, &mut head);
        if let Some(refused) = judged.map_err(Error::Medium)? {
            return Err(refused.error(&head));
        }
        if self.images.current == slot {
            return Ok(());
        }
        let to = if planted!("checkpoint/copy-over-itself") {
            target(&self.images, &self.policy, N)
        } else {
            target(&self.images, &self.policy, slot)
        };
        self.images.copy(slot, &mut head, to)
    }

    /// Gives up a checkpoint that is not the newest.
    ///
    /// **Power loss**: it is there or not; on flash a cut may leave one that is listed at one boot and not at the next, or is found [`Error::Damaged`] when it is rolled back to: delete it again. **Cost**: one erase, or one write of a
    /// word where nothing is erased. **Errors**: [`Error::NoImage`] if there is none with this number, [`Error::Newest`], [`Error::Medium`].
    pub fn delete(&mut self, sequence: u32) -> Result<(), Error<D::Error>> {
        let slot = self.place(sequence)?;
        if self.images.current == slot && !planted!("checkpoint/newest-deleted") {
            return Err(Error::Newest);
        }
        self.images.clear(slot).map_err(Error::Medium)
    }

    /// Where the checkpoint with this number is.
    fn place(&mut self, sequence: u32) -> Result<usize, Error<D::Error>> {
        for slot in 0..N {
            if self.kept(slot)?.is_some_and(|h| h.sequence() == sequence) {
                return Ok(slot);
            }
        }
        Err(Error::NoImage)
    }

    /// The head of what a place keeps, if it is this program's and was completed. With one mark it was: a cut in the other one, which may read in two ways, loses nothing.
    fn kept(&mut self, slot: usize) -> Result<Option<Head>, Error<D::Error>> {
        if self.images.rank(slot) < Rank::Sealed {
            return Ok(None);
        }
        let mut head = Head::unread();
        let any = self.images.read_head(slot, &mut head);
        let any = any.map_err(Error::Medium)? && head.program() == self.images.program;
        Ok(any.then_some(head))
    }
}

// SAFETY: *Checked before it is memory*, *Stable before it is used*: it restores as `Images` does.
unsafe impl<D: Medium, M: Mode, P: Retention, const N: usize> Store for Archive<D, M, P, N> {
    type Error = D::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<D::Error>> {
        self.checkpoint(self.name, memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.restore(memory)
    }
}

/// The place that the next image goes to: one that holds nothing whole, or else the one that gives way.
fn target<D: Medium, P: Retention, const N: usize>(
    images: &Images<D, N>,
    policy: &P,
    spared: usize,
) -> usize {
    let plain = images.target(spared);
    if images.rank(plain) < Rank::Sealed {
        return plain;
    }
    let next = images.next_sequence();
    let mut ages = [None; N];
    for (i, (age, slot)) in ages.iter_mut().zip(&images.slots).enumerate() {
        // What is spared is no neighbour either: it comes back as the newest.
        if slot.rank >= Rank::Sealed && spared != i {
            *age = Some(next.wrapping_sub(slot.sequence));
        }
    }
    let asked = policy.gives_way(&ages);
    let free = |i: usize| images.current != i && ages.get(i).is_some_and(Option::is_some);
    let chosen = if free(asked) { asked } else { oldest(&ages) };
    if free(chosen) { chosen } else { plain }
}
