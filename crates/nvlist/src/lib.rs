#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

mod error;
pub mod inspect;
mod layout;
mod lists;
mod map;
mod ops;
mod pool;
#[cfg(feature = "critical-section")]
mod shared;
mod stage;
mod walk;

pub use error::{Component, Full, OpenError, OpenFailure};
pub use lists::{Cursor, Iter, List, ListPos, Lists, Node};
pub use nvmem;
pub use pool::NodePool;
#[cfg(feature = "critical-section")]
pub use shared::{Busy, Shared};
pub use stage::{Context, StageSeq, Staged};
pub use walk::Audit;
