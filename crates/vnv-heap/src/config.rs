//! What a heap is configured with.

/// What a heap is configured with. `Config { dirty_limit: 2048, ..Config::DEFAULT }` changes what matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many bytes a persist may have to write for what is dirty and what is pinned, at any instant.
    pub dirty_limit: u32,
    /// The most bytes that are written, read or moved while interrupts are masked.
    pub burst: u16,
    /// How many objects the medium can hold. Counts when it is formatted.
    pub objects: u16,
    /// How many objects can be pinned at once and come back at their addresses. Counts when the medium is formatted.
    pub max_pins: u16,
}

impl Config {
    /// 1 KiB dirty, bursts of 64 bytes, 256 objects, 16 pins.
    pub const DEFAULT: Config = Config {
        dirty_limit: 1024,
        burst: 64,
        objects: 256,
        max_pins: 16,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
