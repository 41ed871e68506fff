//! A look at the stored superblock where it lies.

use super::copy::{content, unpack};
use super::{State, Stored, Superblock, SuperblockRegion};
use crate::layout::Layout;
use crate::model::Model;
use crate::region::Region;

/// What a stored superblock says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Difference {
    /// The kind, the version or the fingerprint.
    Layout,
    /// This parameter.
    Param(usize),
}

/// An intact copy where it lies.
pub struct View<'r, 'm, M> {
    place: SuperblockRegion<'r, 'm, M>,
    copy: usize,
}

impl<M: Model> View<'_, '_, M> {
    /// Kind, version and fingerprint.
    pub fn layout(&self) -> Layout {
        content(|i| self.word(i)).layout()
    }

    /// Whether it says what `mine` says; the parameters that have a bit in `taken` are read into `mine` instead, up to the first
    /// difference.
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

    /// A parameter; 0 if there is none of this number. **Cost**: one load.
    pub fn param(&self, i: usize) -> u32 {
        if i < 8 { self.word(6 + i) } else { 0 }
    }

    /// All of it.
    pub fn stored(&self) -> Stored {
        unpack(|i| self.word(i))
    }

    pub(super) fn word(&self, i: usize) -> u32 {
        self.place.word(self.copy, i)
    }
}

/// Like [`probe`](super::probe), with a look at the stored superblock in the place of a copy: for a small program.
#[inline(always)]
pub fn probe_view<'r, 'm, M: Model>(
    region: &'r Region<'m, M>,
    expected: &Superblock,
) -> State<View<'r, 'm, M>> {
    let place = SuperblockRegion(region);
    place.probe(expected).map(|copy| View { place, copy })
}
