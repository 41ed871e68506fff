//! Counters for users.

/// What a heap has done since it was opened. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Stats {
    /// Accesses to objects that were resident.
    pub hits: u32,
    /// Objects that were paged in.
    pub loads: u32,
    /// Objects that were written back, also by persists and commits.
    pub write_backs: u32,
    /// Bytes that were read from the medium, all metadata included.
    pub bytes_read: u32,
    /// Bytes that were written to it, all metadata included.
    pub bytes_written: u32,
    /// The most bytes that a persist would have written at any time, for dirty and pinned objects.
    pub dirty_high_water: u32,
}

/// The counters that the store does not keep.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u32,
    pub(crate) loads: u32,
    pub(crate) write_backs: u32,
}
