#![doc = include_str!("../README.md")]

mod arena;
mod chain;
mod chip;
mod cost;
mod device;
mod endure;
mod engine;
mod explore;
mod fuse;
mod hash;
mod medium;
mod monitor;
mod place;
mod quiet;
mod random;
mod replay;
mod report;
mod sample;
mod search;
mod torn;
mod trace;
mod walk;
mod world;

pub use chip::{Chip, Mram16, Nor, Simulated, SpiFram, SpiNor, Stm32f0, Stm32l1, Stm32l1HalfPage};
pub use cost::{Cost, Estimate, Meter, Price, measure};
pub use device::{Device, Refused};
pub use endure::{Endure, EveryEvents, endure};
pub use explore::{Explore, Summary, explore, explore_with};
pub use medium::{Mapped, Media};
pub use random::{Random, random};
pub use report::Failure;
pub use world::{Outside, World};
