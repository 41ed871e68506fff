#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

#[cfg(test)]
extern crate std;

// Its file is that of `blocking`; its functions are `async` by a macro.
#[allow(clippy::duplicate_mod, clippy::manual_async_fn)]
pub mod asynch;
mod blocking;
mod config;
mod error;
mod format;
mod image;
pub mod inspect;
mod log;

pub use blocking::mirror::Mirror;
pub use config::{Bound, Config, Durability};
pub use error::MirrorError;
pub use nvmem;
