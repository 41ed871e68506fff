//! Counters for users.

/// What a heap has done since it was opened. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Stats {
    /// Objects that were in RAM when they were asked for.
    pub hits: u32,
    /// Objects that were read from the medium.
    pub loads: u32,
    /// Objects that were written to it, persists and commits included.
    pub write_backs: u32,
    /// Bytes that were read from the medium, all metadata included.
    pub bytes_read: u32,
    /// Bytes that were written to it, all metadata included.
    pub bytes_written: u32,
    /// The most bytes that a persist would ever have had to write for what was changed and held.
    pub dirty_high_water: u32,
}

/// Those that the store does not count.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) hits: u32,
    pub(crate) loads: u32,
    pub(crate) write_backs: u32,
}
