//! How many segments, when to save, and what a save costs at most.

use crate::format::{Sizes, record_bytes};
use nvmem::device::Contract;

/// When [`Mirror::committed`](crate::Mirror::committed) saves. [`Mirror::durable`] always does.
///
/// [`Mirror::durable`]: crate::Mirror::durable
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Durability {
    /// Only [`Mirror::durable`](crate::Mirror::durable) saves: the program calls it before it shows
    /// anything outside.
    #[default]
    BeforeOutput,
    /// Each commit is durable when `committed` returns. What an open has found is durable when
    /// [`Mirror::durable_if_due`](crate::Mirror::durable_if_due) returns.
    EachCommit,
    /// Each `n`-th commit is saved; 0 counts as 1. A cut loses the commits since then, and
    /// `durable` must still come before any output.
    Every(u32),
}

/// The configuration of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Config {
    /// The segments that the range is divided into: 2 to 8, and 3 to 8 on flash.
    ///
    /// On flash, `n` segments survive `2 * n - 2` boots in a row that are each cut in a commit
    /// marker or in an erase, without one completed save between them. A search of all such chains
    /// has shown it for 2, 3 and 4 segments: see the [failure model]. Segments are used in turn, so
    /// all wear alike, unless boots are cut before their first save ends: these erase the same
    /// segment again. The default is 4.
    ///
    /// [failure model]: https://github.com/relume-rs/relume/blob/main/docs/failure-model/mirror.md
    pub segments: u8,
    /// When a commit is saved.
    pub durability: Durability,
}

impl Config {
    /// Four segments, saved before output.
    pub const DEFAULT: Config = Config {
        segments: 4,
        durability: Durability::BeforeOutput,
    };

    /// The size of a range that suits an image of `image` bytes on such a medium, which are
    /// `memory.len() / 2 * 8`. A segment has at least three times the image, so that of a full
    /// segment a third at most is the base image.
    ///
    /// **Panics** if the contract is not [sound](Contract::is_sound) or its word has more than 256
    /// bytes. In a constant this is a compile error.
    pub const fn range_bytes(&self, image: u32, contract: &Contract) -> u32 {
        let least = Sizes::of(contract).least_segment(image);
        let wanted = if image * 3 > least { image * 3 } else { least };
        wanted.next_multiple_of(contract.alignment()) * self.segments as u32
    }

    /// What [`Mirror::durable`](crate::Mirror::durable) does at most after
    /// [`Mirror::make_room`](crate::Mirror::make_room), for an image of `image` bytes: that is
    /// `memory.len() / 2 * 8`. For a program that saves when its power fails.
    ///
    /// **Panics**: as [`Config::range_bytes`].
    pub const fn worst_save(image: u32, contract: &Contract) -> Bound {
        let sizes = Sizes::of(contract);
        let bytes = sizes.padded(record_bytes(image / 4));
        Bound {
            bytes,
            words: bytes / contract.write_size,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The most that a save writes. It erases nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bound {
    /// Bytes written.
    pub bytes: u32,
    /// Words of the medium that are programmed.
    pub words: u32,
}

impl Bound {
    /// The time or the energy of the save, for a price of each word in any unit: microseconds,
    /// nanojoules.
    pub const fn total(&self, price_of_a_word: u32) -> u64 {
        self.words as u64 * price_of_a_word as u64
    }
}
