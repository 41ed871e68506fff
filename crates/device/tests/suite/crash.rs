//! Power cuts in programs with devices: before and after each store, and at each byte on a bus.
//!
//! The drivers are those of crates.io, unmodified.

mod chips;
mod drivers;
mod endless;
mod errors;
mod events;
mod kernel;
mod lamps;
mod node;
mod order;
mod owners;
mod retained;
mod rewound;
mod shared;
mod world;

use nv_device::nv_replay::pmem_tx::Width;
use nv_device::nvmem::Region;
use nv_device::nvmem::{Buffered32, InOrder16, InOrder32, Model};

/// The region of the devices, and that of the runtime.
pub fn split<M: Model>(region: Region<'_, M>) -> (Region<'_, M>, Region<'_, M>) {
    region.split_at(256).unwrap_or_else(|(e, _)| panic!("{e}"))
}

/// Bytes of both.
pub const BYTES: usize = 256 + 2048;

/// One campaign for each model.
macro_rules! on_each {
    ($(#[$attribute:meta])* $name:ident, $run:ident) => {
        mod $name {
            $(#[$attribute])*
            #[test]
            fn in_order_16() {
                super::$run::<crate::crash::InOrder16>()
            }
            $(#[$attribute])*
            #[test]
            fn in_order_32() {
                super::$run::<crate::crash::InOrder32>()
            }
            $(#[$attribute])*
            #[test]
            fn buffered_32() {
                super::$run::<crate::crash::Buffered32>()
            }
        }
    };
}
pub(crate) use on_each;

/// A model of the tests.
pub trait Tested: Model<Unit: Width> {}
impl<M: Model<Unit: Width>> Tested for M {}

/// Whether the campaigns are to be as long as they can be.
pub fn long() -> bool {
    std::env::var("POWERFAIL_SAMPLE").is_ok_and(|s| s == "all")
}
