//! Reads the stored superblock in place, without a copy in RAM.

use super::copy::{content, unpack};
use super::{Counts, State, Stored, Superblock, SuperblockRegion};
use crate::layout::Layout;
use crate::model::Model;
use crate::region::Region;

/// The first difference between a stored superblock and the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Difference {
    /// The kind, the version or the fingerprint.
    Layout,
    /// The parameter with this index.
    Param(usize),
}

/// An intact copy, read in place.
pub struct View<'r, 'm, M> {
    place: SuperblockRegion<'r, 'm, M>,
    counts: Counts,
}

impl<M: Model> View<'_, '_, M> {
    /// Kind, version and fingerprint.
    pub fn layout(&self) -> Layout {
        content(|i| self.word(i)).layout()
    }

    /// Whether the stored superblock was seen to be the expected one, which was given to
    /// [`probe_view`]: after most boots it was, and then nothing needs to be compared.
    pub fn is_expected(&self) -> bool {
        self.counts.as_expected
    }

    /// Compares the stored superblock with `mine`. A parameter whose bit is set in `taken` is not
    /// compared but read into `mine`. Stops at the first difference.
    ///
    /// **Errors**: [`Difference`]. **Cost**: 12 loads.
    #[inline(never)]
    pub fn agrees(&self, mine: &mut Superblock, taken: u8) -> Result<(), Difference> {
        if self.word(2) != u32::from_le_bytes(mine.kind) || self.word(3) != u32::from(mine.version)
        {
            return Err(Difference::Layout);
        }
        for (i, w) in mine.tail_mut().iter_mut().enumerate() {
            let stored = self.word(4 + i);
            if u16::from(taken) << 2 >> i & 1 == 1 {
                *w = stored;
            } else if *w != stored {
                return Err(match i {
                    0 | 1 => Difference::Layout,
                    _ => Difference::Param(i - 2),
                });
            }
        }
        Ok(())
    }

    /// The parameter with this index; 0 if the index is above 7. **Cost**: one load.
    pub fn param(&self, i: usize) -> u32 {
        if i < 8 { self.word(6 + i) } else { 0 }
    }

    /// Decodes the whole copy.
    pub fn stored(&self) -> Stored {
        unpack(|i| self.word(i))
    }

    pub(super) fn word(&self, i: usize) -> u32 {
        self.place.word(self.counts.copy, i)
    }
}

/// Like [`probe`](super::probe), but returns a [`View`] of the stored superblock instead of a copy.
/// Needs less code.
#[inline(always)]
pub fn probe_view<'r, 'm, M: Model>(
    region: &'r Region<'m, M>,
    expected: &Superblock,
) -> State<View<'r, 'm, M>> {
    let place = SuperblockRegion(region);
    place.probe(expected).map(|counts| View { place, counts })
}
