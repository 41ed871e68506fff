#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

#[cfg(any(test, feature = "instrument"))]
extern crate std;

mod brand;
mod cache;
pub mod collections;
mod config;
mod error;
mod free;
mod handle;
mod heap;
#[cfg(feature = "instrument")]
pub mod instrument;
mod pager;
mod plain;
mod policy;
mod save;
mod sections;
mod store;
mod walk;

pub use brand::Brand;
pub use config::{Budget, Config, CostModel, JustInTime, MaskedWait, Promise, Snapshot, WorstCase};
pub use error::{Component, Error, OpenError, Rejected};
pub use handle::{Fields, HeapHandles, Marked, OfHeap, Own, Ref, RefMut, Scoped};
pub use heap::{Audit, Heap, HeapOf, InPlace, Stats, Unrooted};
pub use nvmem;
#[cfg(feature = "derive")]
pub use nvmem_derive::Fields;
pub use policy::{Lru, Policy, Predict};
pub use save::{Interruptible, Saver};

/// Prints what an image holds, for tools.
pub mod inspect {
    pub use crate::store::inspect::{heap, is_heap};
}

/// What `#[derive(Fields)]` uses.
#[doc(hidden)]
pub mod __fields {
    pub use crate::handle::copy;
}

/// What [`brand!`] uses.
#[doc(hidden)]
pub mod __brand {
    pub use crate::brand::{BrandScope, HandleOfAnotherHeap, TakenOnce, all_declared};
}
