#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
// Inline assembly for MSP430 is not stable yet.
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

#[cfg(all(
    target_os = "none",
    any(target_arch = "arm", target_arch = "riscv32", target_arch = "msp430")
))]
mod arch;
mod archive;
#[cfg(all(
    target_os = "none",
    any(target_arch = "arm", target_arch = "riscv32", target_arch = "msp430")
))]
mod capture;
mod cost;
mod format;
mod images;
pub mod inspect;
mod log;
mod memory;
mod mode;
mod store;
#[cfg(feature = "critical-section")]
mod tracked;
mod writing;

#[cfg(all(target_os = "none", target_arch = "arm"))]
pub use arch::svcall;
pub use archive::{Archive, Entry, Every, KeepLast, Landmarks, Retention};
#[cfg(all(
    target_os = "none",
    any(target_arch = "arm", target_arch = "riscv32", target_arch = "msp430")
))]
pub use capture::{Checkpointer, Outcome, Segments};
pub use cost::{Bounded, Cost, Maxima, OverBudget, Price, SavedParts, Work};
pub use images::{Images, Slots};
pub use log::Log;
pub use memory::{Extent, Memory};
pub use mode::{BLOCK, Blocks, CopyIfChange, Full, HeapTracker, Mode, Split, Stack};
pub use nvmem;
pub use store::{Error, Restored, Store};
#[cfg(feature = "critical-section")]
pub use tracked::TrackedHeap;
