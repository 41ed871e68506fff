#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

mod features;
mod neighbours;

pub use features::{AXES, Features, Sample, WINDOW};
pub use neighbours::{CLASSES, Class, Found, Nearest, Votes};
