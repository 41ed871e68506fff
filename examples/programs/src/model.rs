//! What `etl` knows when it is built.

/// What `etl` says of a round: whether the first sensor had the larger value.
pub static NOTES: [u32; 2] = [0x21, 0x54];
/// The code of a round whose readings do not belong together.
pub const OLD: u16 = 1;
