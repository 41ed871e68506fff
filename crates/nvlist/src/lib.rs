#![doc = include_str!("../README.md")]
#![no_std]

mod cursor;
mod error;
pub mod inspect;
mod layout;
mod lists;
mod map;
mod ops;
mod pool;
mod recovery;
#[cfg(feature = "critical-section")]
mod shared;
mod stage;
mod state;
mod walk;

pub use cursor::{Cursor, Iter};
pub use error::{Full, OpenError, Part, Refused};
pub use lists::{List, Lists, Node, Spot};
pub use nvmem;
pub use pool::NodePool;
#[cfg(feature = "critical-section")]
pub use shared::{Busy, Shared};
pub use stage::{Context, Number, Staged};
pub use walk::Audit;
