//! The parts of the flash that memory.x gives to the data.

use core::ops::Range;

// Symbols of memory.x. Only their addresses mean something.
unsafe extern "C" {
    static __flash_base: u8;
    static __node_start: u8;
    static __node_end: u8;
    static __nvm_start: u8;
    static __nvm_end: u8;
}

/// The region `NVM`, for the counter. A program that reaches into a region does not link.
#[allow(dead_code)] // Each program uses one of the two.
pub fn range() -> Range<u32> {
    offset(&raw const __nvm_start)..offset(&raw const __nvm_end)
}

/// The region `NODE`.
#[allow(dead_code)]
pub fn node() -> Range<u32> {
    offset(&raw const __node_start)..offset(&raw const __node_end)
}

/// The bytes from the beginning of the chip's flash, as the flash driver counts.
fn offset(symbol: *const u8) -> u32 {
    (symbol.addr() - (&raw const __flash_base).addr()) as u32
}
