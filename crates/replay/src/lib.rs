#![doc = include_str!("../README.md")]
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
mod look;
mod open;
mod outbox;
#[cfg(feature = "postcard")]
mod postcard;
mod record;
mod recovery;
mod site;
mod step;
mod table;

pub use each::Iteration;
pub use error::{Damage, Divergence, Error, Failed, OpenError, Refused, Setting, What};
pub use header::Kind;
pub use inspect::{Entry, inspect};
pub use join::{Commit, Committed, committed};
pub use layout::Config;
#[doc(hidden)]
pub use layout::pool_part;
pub use open::{Options, Replay, Update};
pub use outbox::{Message, Outlet, Port};
pub use pmem_tx;
pub use pmem_tx::{Held, PBox, Ptr, Root, Tx, nvmem};
#[cfg(feature = "postcard")]
pub use postcard::Postcard;
pub use step::{Body, Step};
