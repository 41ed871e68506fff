#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]

mod command;
mod driver;
mod error;
mod id;
mod medium;
mod part;
#[cfg(feature = "sim")]
pub mod sim;
mod status;
#[cfg(feature = "embedded-storage")]
mod storage;

#[cfg(feature = "async")]
pub use driver::AsyncSpiFram;
pub use driver::SpiFram;
pub use error::Error;
pub use id::{DeviceId, Maker};
pub use part::{AddressWidth, Identity, Part};
pub use status::{Protection, Status};
