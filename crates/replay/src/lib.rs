#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

#[cfg(test)]
extern crate std;

mod bypass;
mod each;
mod error;
mod execute;
mod header;
mod inspect;
mod job;
mod join;
mod layout;
mod open;
mod outbox;
#[cfg(feature = "postcard")]
mod postcard;
mod record;
mod recovery;
mod site;
mod step;
mod table;
mod view;

pub use each::LoopBody;
pub use error::{
    ConfigItem, Damage, Divergence, Error, Mismatch, OpenError, OpenFailure, StepError,
};
pub use header::CallKind;
pub use inspect::{TableItem, inspect};
pub use join::{Commit, Committed, last_committed};
pub use layout::Config;
#[doc(hidden)]
pub use layout::pool_region;
pub use open::{Options, Replay, Update};
pub use outbox::{Message, Outlet, Port};
pub use pmem_tx;
pub use pmem_tx::{Held, PBox, Ptr, Root, Tx, nvmem};
#[cfg(feature = "postcard")]
pub use postcard::Postcard;
pub use step::{Step, StepBody};
