#![doc = include_str!("../README.md")]
#![no_std]

mod cost;
mod error;
mod images;
mod layout;
mod memory;
mod mode;
mod read;
mod scan;
#[cfg(feature = "critical-section")]
mod sizes;
mod store;
#[cfg(feature = "critical-section")]
mod tracked;
mod write;

pub use cost::{Bounded, Cost, Most, OverBudget, Parts, Price, Work};
pub use error::Error;
pub use images::{Images, Restored};
pub use memory::{Extent, Memory};
pub use mode::{BLOCK, Blocks, CopyIfChange, Full, HeapTracker, Mode, Split, Stack};
pub use nvmem;
pub use store::{Slots, Store};
#[cfg(feature = "critical-section")]
pub use tracked::TrackedHeap;
