//! Replacement policies: which dirty object to clean and which resident one to evict.
//!
//! A policy keeps 11 bits of history with each resident object, and a few bytes for the whole heap.
//! It ranks candidates; the cache searches for them.

mod lru;
mod predict;
#[cfg(test)]
mod tests;

pub use lru::Lru;
pub use predict::Predict;

/// A replacement policy: [`Predict`] or [`Lru`].
pub trait Policy: PolicyRules {}

/// An object's access history: 11 bits; the upper seven are a time stamp.
pub type History = u16;

/// No frame: an unused entry of [`PolicyRules::candidates`].
pub const NO_FRAME: u16 = 0x1FFF;

/// The most frames that a policy remembers.
pub const MAX_CANDIDATES: usize = 6;

/// The functions of a policy. Sealed: the module is private.
pub trait PolicyRules: Copy {
    /// How many frames it remembers, at most [`MAX_CANDIDATES`].
    const CANDIDATES: usize;
    /// How many further candidates a search collects.
    const SEARCH_NEW: usize;
    /// How many frames a search examines before it stops with what it has.
    const SEARCH_MAX: isize;

    /// The initial state.
    fn new() -> Self;
    /// Frames that the last search left as good candidates, the best first. Before them those that
    /// became dirty or resident since, the youngest first. The cache fills it.
    fn candidates(&mut self) -> &mut [u16];
    /// Advances time: an object was updated or became resident.
    fn tick(&mut self);
    /// The history of an object that becomes resident.
    fn fresh(&self) -> History;
    /// Whether the last access was so recent that one now leaves this history unchanged. Quick, and
    /// false where only [`PolicyRules::is_same_use`] tells.
    fn is_current(&self, h: History) -> bool;
    /// Whether an access now leaves this history unchanged. Accesses close together count once:
    /// page in, read and write are one use.
    fn is_same_use(&self, h: History) -> bool;
    /// The history after an access now.
    fn accessed(&mut self, h: History) -> History;
    /// Begins a search. Whether it must age the histories that it passes.
    fn begin_search(&mut self) -> bool;
    /// The history, clamped so that an old time stamp does not wrap. Called for every frame that a
    /// search passes.
    fn aged(&self, h: History) -> History;
    /// How good a candidate it is: the highest is evicted or cleaned.
    fn rank(&self, h: History) -> u16;
}
