//! Time, in cycles of the core.

/// The core's clock: an STM32L1's after a reset. Each instruction is taken as one cycle.
pub const KHZ: u64 = 2_097;

/// Cycles in so many nanoseconds, rounded up.
pub fn cycles(ns: u64) -> u64 {
    (ns * KHZ).div_ceil(1_000_000)
}

/// Milliseconds of so many cycles.
pub fn milliseconds(cycles: u64) -> f64 {
    cycles as f64 / KHZ as f64
}
