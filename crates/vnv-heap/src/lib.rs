#![doc = include_str!("../README.md")]
#![no_std]

#[cfg(test)]
extern crate std;

mod config;
mod error;
mod policy;
mod promise;
#[allow(dead_code)]
mod ram;
// Joined by the heap; alone it is used by its tests.
#[allow(dead_code)]
mod store;

pub use config::Config;
pub use error::{Error, OpenError, Part};
pub use nvmem;
pub use policy::{Lru, Policy, Predict};
pub use promise::{JustInTime, Promise, Snapshot};
