//! What a run cost the medium.

/// Counts of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Stores of the library: atomic units of a mapped medium, bytes or words of a device.
    pub stores: u64,
    /// Bytes of those stores.
    pub bytes: u64,
    /// Bytes of the units that user code changed in lent ranges, as seen at events.
    pub lent_bytes: u64,
    /// Fences.
    pub fences: u64,
    /// Loans begun.
    pub loans: u64,
    /// Commands to a device that write or erase.
    pub bursts: u64,
    /// Erase units erased.
    pub erases: u64,
    /// Bytes read from a device.
    pub reads: u64,
}
