#![doc = include_str!("../README.md")]
#![no_std]

mod error;
mod images;
mod layout;
mod memory;
mod mode;
mod read;
mod scan;
mod write;

pub use error::Error;
pub use images::{Images, Restored};
pub use memory::{Extent, Memory};
pub use mode::{CopyIfChange, Full, Mode, Split, Stack};
pub use nvmem;
