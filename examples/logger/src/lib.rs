#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

mod record;
mod station;

pub use record::{DAY, DAYS, Record, Statistics, VALUES};
pub use station::{CONFIG, RAM, Station, Stopped, log, read};
