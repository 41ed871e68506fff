#![doc = include_str!("../README.md")]
#![no_std]

mod config;
mod error;
mod policy;
mod ram;
mod store;

pub use config::Config;
pub use error::{Error, OpenError, Part};
pub use nvmem;
