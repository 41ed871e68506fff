#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]

mod driver;
mod error;
mod medium;
mod part;
#[cfg(feature = "sim")]
pub mod sim;
mod wiring;

#[cfg(feature = "async")]
pub use driver::AsyncI2cFram;
pub use driver::I2cFram;
pub use error::Error;
pub use part::{DeviceId, Maker, Part, WordAddress};
