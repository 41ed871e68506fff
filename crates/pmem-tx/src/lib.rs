#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

mod adopt;
mod config;
mod context;
mod cross;
mod error;
mod geometry;
mod heap;
pub mod inspect;
mod journal;
mod layout;
mod migrate;
mod pbox;
mod pool;
mod ptr;
mod roots;
mod section;
mod session;
mod slot;
mod state;
mod tx;
mod walk;

pub use config::{Config, MAX_CONTEXTS};
pub use context::{Context, Failed, Prepared};
pub use cross::{Held, HeldBox, HeldLoan, HeldRef};
pub use error::{Component, Error, OpenError, OpenFailure};
pub use nvmem;
pub use nvmem::cross::{Arg, Ret, Share};
pub use pbox::{PBox, Width};
pub use pool::Pool;
pub use ptr::Ptr;
pub use roots::{Contexts, Roots};
pub use section::{Preempted, Section};
pub use slot::{FieldLender, FieldSlot};
pub use tx::{Root, Tx};
pub use walk::{Audit, MAX_TYPES};
