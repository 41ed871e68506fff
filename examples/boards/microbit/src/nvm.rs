//! The part of the flash that memory.x gives to the data.

use core::ops::Range;

// Symbols of memory.x. Only their addresses mean something.
unsafe extern "C" {
    static __flash_base: u8;
    static __nvm_start: u8;
    static __nvm_end: u8;
}

/// The region `NVM`, in bytes from the beginning of the chip's flash, as the flash driver counts.
pub fn range() -> Range<u32> {
    let base = (&raw const __flash_base).addr();
    let offset = |symbol: *const u8| (symbol.addr() - base) as u32;
    offset(&raw const __nvm_start)..offset(&raw const __nvm_end)
}
