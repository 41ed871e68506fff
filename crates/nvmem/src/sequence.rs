//! Sequence numbers that wrap: which of two copies is newer.

/// Whether sequence number `a` is newer than `b`. The numbers wrap, so two numbers that are
/// compared must have been given out less than 2^31 apart.
#[inline]
pub const fn is_newer(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// As [`is_newer`], for numbers of 16 bits, given out less than 2^15 apart.
#[inline]
pub const fn is_newer_16(a: u16, b: u16) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
