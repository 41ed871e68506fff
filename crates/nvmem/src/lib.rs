#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(any(feature = "instrument", feature = "sabotage")), no_std)]
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

// The derive names this crate by its path.
extern crate self as nvmem;

#[doc(hidden)]
#[path = "derived.rs"]
pub mod __derived;
#[cfg(feature = "embedded-storage")]
pub mod adapter;
mod area;
// Its files are those of `blocking`; its functions are `async` by a macro.
#[allow(clippy::duplicate_mod, clippy::manual_async_fn)]
pub mod asynch;
pub mod at_rest;
mod blocking;
mod bounded;
pub mod crc;
pub mod cross;
pub mod describe;
pub mod device;
mod exclusive;
mod faithful;
pub mod fields;
pub mod inspect;
#[cfg(feature = "instrument")]
pub mod instrument;
pub mod layout;
pub mod level;
pub mod mapped;
mod mapped_medium;
pub mod marker;
mod maybe;
pub mod model;
mod number;
pub mod persist;
#[cfg(feature = "postcard")]
mod postcard;
pub mod ram;
pub mod record;
mod region;
#[doc(hidden)]
pub mod sabotage;
pub mod sequence;
pub mod superblock;
pub mod tagged;
mod units;
mod versions;

#[cfg(feature = "postcard")]
pub use self::postcard::Postcard;
pub use area::{Area, AreaLength};
pub use bounded::{CapacityError, List, Text};
pub use describe::fingerprint;
pub use device::Medium;
pub use exclusive::Exclusive;
pub use faithful::{Faithful, Trusted};
pub use layout::{Layout, LayoutMismatch};
pub use level::WearLevelled;
pub use maybe::Maybe;
pub use model::{Buffered32, InOrder16, InOrder32, Model, Ram, Unit};
pub use number::{CommitNumber, NumberOwner, WrongOwner};
#[cfg(feature = "derive")]
pub use nvmem_derive::Persist;
pub use persist::{Invalid, Persist, Plain, ZeroNiche, assert_no_padding};
pub use record::{Record, RecordError};
pub use region::{OpenFailure, Region, RegionError};
pub use superblock::Superblock;
pub use units::Units;
pub use versions::{HasVersions, Version, Versions};
