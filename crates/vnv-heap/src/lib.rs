#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

#[cfg(any(test, feature = "instrument"))]
extern crate std;

mod brand;
pub mod collections;
mod config;
mod cost;
mod error;
mod fields;
mod free;
mod guard;
mod heap;
mod hold;
#[cfg(feature = "instrument")]
pub mod instrument;
mod mapped;
mod object;
mod open;
mod own;
mod persist;
mod plain;
mod policy;
mod promise;
mod ram;
mod save;
mod state;
mod stats;
mod store;
mod walk;

pub use brand::Brand;
pub use config::Config;
pub use cost::{Budget, CostModel, MaskedWait, WorstCase};
pub use error::{Component, Error, OpenError, Rejected};
pub use fields::Fields;
pub use guard::{Ref, RefMut};
pub use heap::{Heap, Unrooted};
pub use nvmem;
#[cfg(feature = "derive")]
pub use nvmem_derive::Fields;
pub use object::{HeapHandles, Marked, OfHeap};
pub use open::Audit;
pub use own::Own;
pub use policy::{Lru, Policy, Predict};
pub use promise::{JustInTime, Promise, Snapshot};
pub use save::{Interruptible, Saver};
pub use stats::Stats;

/// Prints what an image holds, for tools.
pub mod inspect {
    pub use crate::store::inspect::{heap, is_heap};
}

/// What `#[derive(Fields)]` uses.
#[doc(hidden)]
pub mod __fields {
    pub use crate::fields::copy;
}

/// What [`brand!`] uses.
#[doc(hidden)]
pub mod __brand {
    pub use crate::brand::{BrandScope, HandleOfAnotherHeap, TakenOnce, all_declared};
}
