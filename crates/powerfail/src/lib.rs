#![doc = include_str!("../README.md")]

mod arena;
mod engine;
mod explore;
mod hash;
mod medium;
mod quiet;
mod report;
mod sample;
mod trace;
mod walk;
mod world;

pub use explore::{Explore, Failure, Summary, explore, explore_with};
pub use medium::{Mapped, Media};
pub use world::{Outside, World};
