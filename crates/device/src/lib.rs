#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![cfg_attr(not(feature = "stack"), forbid(unsafe_code))]
#![deny(unsafe_code)]
// What the change of a stack needs there; on all other machines a stable compiler does.
#![cfg_attr(
    all(feature = "stack", target_arch = "msp430"),
    feature(asm_experimental_arch)
)]

#[cfg(feature = "async")]
mod asynch;
mod context;
mod device;
mod error;
mod events;
pub mod inspect;
#[cfg(feature = "rtos")]
mod kernel;
mod open;
mod restore;
mod restored;
mod set;
mod slot;
#[cfg(feature = "stack")]
#[allow(unsafe_code)]
mod stack;
#[cfg(feature = "stack")]
#[allow(unsafe_code)]
mod stack_switch;
mod staged;

#[cfg(feature = "async")]
pub use asynch::{AsyncDevice, AsyncRestore};
pub use context::{Own, OwnContext, Staged, StagedContext};
pub use device::Device;
pub use error::{CallError, Code, OpenError};
pub use events::{Event, Events, Posted, Ring};
pub use nv_replay;
pub use nv_replay::nvmem;
#[cfg(feature = "rtos")]
pub use nv_rtos;
pub use open::{Committed, Item, Items, bytes, open};
pub use restore::{Apply, ByValue, Call, Keyed, Once, Restore};
#[doc(hidden)]
pub use set::Entry;
pub use set::{Devices, Joined, Members, OfSet, Set, Within, within};
#[cfg(feature = "stack")]
pub use stack::{CallStack, StackBytes};
pub use staged::StagedDevice;
