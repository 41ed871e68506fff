//! Which dirty object to clean and which resident one to evict.
//!
//! A policy keeps 11 bits of history with each resident object and a few bytes for the whole heap. It ranks candidates;
//! the search for them is the cache's.

mod lru;
mod predict;
#[cfg(test)]
mod tests;

pub use lru::Lru;
pub use predict::Predict;

/// A replacement policy: [`Predict`] or [`Lru`].
pub trait Policy: PolicyRules {}

/// What the cache remembers with each resident object: 11 bits, the upper seven of them a time stamp.
pub type History = u16;

/// No block: an entry of [`PolicyRules::candidates`] that is free.
pub const NO_FRAME: u16 = 0x1FFF;

/// The most blocks that a policy keeps in mind.
pub const MAX_CANDIDATES: usize = 6;

/// What a policy does. Sealed: the module is private.
pub trait PolicyRules: Copy {
    /// How many blocks it keeps in mind, at most [`MAX_CANDIDATES`].
    const CANDIDATES: usize;
    /// How many candidates a search looks for among all blocks, besides those that are kept in mind.
    const SEARCH_NEW: usize;
    /// How many blocks a search looks at before it is content with what it has.
    const SEARCH_MAX: isize;

    /// Nothing seen yet.
    fn new() -> Self;
    /// Blocks that were good candidates in the last search, the best first, and before them those that became dirty or
    /// resident since, the youngest first; the cache's to fill.
    fn candidates(&mut self) -> &mut [u16];
    /// Time goes on: an object was updated or became resident.
    fn tick(&mut self);
    /// The history of an object that becomes resident.
    fn fresh(&self) -> History;
    /// Whether an access now would leave the history as it is.
    fn is_current(&self, h: History) -> bool;
    /// The history after an access now.
    fn accessed(&mut self, h: History) -> History;
    /// A search begins: whether it looks for histories that grow too old.
    fn begin_search(&mut self) -> bool;
    /// The history, kept from growing so old that it looks young. For every block that a search passes.
    fn aged(&self, h: History) -> History;
    /// How good a candidate it is to be cleaned or to leave: the greatest leaves.
    fn rank(&self, h: History) -> u16;
}
