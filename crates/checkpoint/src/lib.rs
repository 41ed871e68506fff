#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
// Inline assembly for MSP430 is not stable yet.
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

mod archive;
#[cfg(all(
    target_os = "none",
    any(target_arch = "arm", target_arch = "riscv32", target_arch = "msp430")
))]
mod capture;
mod cost;
mod error;
mod images;
pub mod inspect;
mod layout;
mod log;
mod memory;
mod mode;
mod pieces;
mod read;
mod retention;
mod scan;
#[cfg(feature = "critical-section")]
mod sizes;
mod store;
#[cfg(feature = "critical-section")]
mod tracked;
mod write;

pub use archive::{Archive, Entry};
#[cfg(all(target_os = "none", target_arch = "arm"))]
pub use capture::svcall;
#[cfg(all(
    target_os = "none",
    any(target_arch = "arm", target_arch = "riscv32", target_arch = "msp430")
))]
pub use capture::{Checkpointer, Outcome, Segments};
pub use cost::{Bounded, Cost, Maxima, OverBudget, Price, SavedParts, Work};
pub use error::Error;
pub use images::{Images, Restored};
pub use log::Log;
pub use memory::{Extent, Memory};
pub use mode::{BLOCK, Blocks, CopyIfChange, Full, HeapTracker, Mode, Split, Stack};
pub use nvmem;
pub use retention::{Every, KeepLast, Landmarks, Retention};
pub use store::{Slots, Store};
#[cfg(feature = "critical-section")]
pub use tracked::TrackedHeap;
