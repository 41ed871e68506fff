#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

#[cfg(any(test, feature = "instrument"))]
extern crate std;

mod access;
#[cfg(feature = "async")]
mod asynch;
mod call;
mod each;
mod error;
mod inspect;
mod join;
mod mirrored;
mod open;
mod outbox;
#[cfg(feature = "postcard")]
mod postcard;
mod signature;
mod steps;
mod table;
mod threads;
mod token;

#[doc(hidden)]
pub use access::OwnsPool;
pub use access::PoolAccess;
#[cfg(feature = "async")]
pub use asynch::Clock;
pub use call::{Named, Step, StepBody};
pub use each::LoopBody;
pub use error::{
    ConfigItem, Damage, Divergence, Error, Mismatch, OpenError, OpenFailure, StepError,
};
pub use inspect::{TableItem, inspect};
pub use join::{Commit, Committed, last_committed};
#[cfg(feature = "async")]
pub use mirrored::{AsyncMirrored, AsyncMirroredReplay};
pub use mirrored::{Blocking, Mirrored, MirroredReplay, Owner};
pub use open::{Options, Replay, Update};
pub use outbox::{AnyOutlet, Message, NotNow, Outlet, Port};
pub use pmem_tx;
pub use pmem_tx::{Held, PBox, Ptr, Root, Tx, nvmem};
#[cfg(feature = "postcard")]
pub use postcard::Postcard;
#[cfg(feature = "instrument")]
pub use signature::Twin;
pub use signature::{Name, version};
pub use steps::TurnBody;
#[doc(hidden)]
pub use table::pool_region;
pub use table::{CallKind, Config};
#[cfg(feature = "async")]
pub use threads::AsyncMirroredThread;
pub use threads::{
    Member, MirroredThread, Place, PlacesOf, Thread, ThreadRoots, Threads, last_committed_of,
};
pub use token::{HasInner, Token};
