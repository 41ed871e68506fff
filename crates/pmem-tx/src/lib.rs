#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

mod at_rest;
mod context;
mod cross;
mod error;
mod heap;
pub mod inspect;
mod journal;
mod layout;
mod pool;
mod ptr;
mod resolved;
mod shared;
mod tx;
mod walk;

pub use context::{Context, Failed, Preempted, Prepared, Section};
pub use cross::{Held, HeldBox, HeldLoan, HeldRef};
pub use error::{Component, Error, OpenError, OpenFailure};
pub use layout::{Config, MAX_CONTEXTS};
pub use nvmem;
pub use nvmem::cross::{Arg, Ret, Share};
pub use pool::{Contexts, ContextsOf, Pool, Roots};
pub use ptr::{PBox, Ptr, Width};
#[doc(hidden)]
pub use resolved::{Open, Ready, RootPlace, Watch};
pub use shared::{Shared, SharedRoots, Sharing};
pub use tx::{FieldLender, FieldSlot, Root, Tx};
pub use walk::{Audit, MAX_TYPES};
