#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod arena;
mod build;
mod chain;
mod chip;
mod coroutine;
mod cost;
mod device;
mod endure;
mod engine;
mod env;
mod explore;
mod fresh;
mod fuse;
mod hash;
mod levels;
mod medium;
mod monitor;
mod names;
mod observe;
mod overflow;
mod preempt;
mod quick;
mod quiet;
mod random;
mod replay;
mod report;
mod rng;
mod sample;
mod schedule;
mod schedules;
mod search;
mod source;
mod summary;
mod threads;
mod torn;
mod trace;
mod walk;
mod world;

pub use chip::{
    BufferedNor, Chip, Mram16, Multiwrite, Nor, Simulated, SmallNor, SpiFram, SpiNor, Stm32f0,
    Stm32l1, Stm32l1HalfPage,
};
pub use cost::{Cost, Estimate, Meter, Price, measure};
pub use device::{Device, Misused};
pub use endure::{Endure, EveryEvents, endure};
pub use explore::{Explore, explore, explore_with};
pub use medium::{Mapped, Media};
pub use preempt::masked;
pub use random::{Random, random};
pub use report::Failure;
pub use rng::Rng;
pub use summary::Summary;
pub use threads::{Thread, Threads};
pub use world::{World, WorldState};
