//! Generated programs of devices: calls that fail and unwind, steps that abort, rings that
//! overflow, with every cut of each. They are judged by a small model ([`model`]).
//!
//! A program is data ([`program`]). Whenever no step runs, the simulated hardware is compared with
//! the committed contexts. A failure prints the smallest program as it stands in [`found`].

mod boot;
mod found;
mod hardware;
mod lists;
mod model;
mod node;
mod program;

use crate::runs::{programs, seed};
use boot::{BYTES, boot, forever};
use hardware::Context;
use model::Seen;
use nv_device::nv_replay::pmem_tx::Width;
use nv_device::nvmem::{Buffered32, InOrder16, InOrder32, Model};
use powerfail::{EveryEvents, Mapped, World, endure, random};
use program::{programs_of, short_programs_of};

pub trait Tested: Model<Unit: Width> {}
impl<M: Model<Unit: Width>> Tested for M {}

/// The contexts of a node: three that commit with steps, and two that commit by themselves.
pub trait Shape: 'static {
    type A: Context;
    type B: Context;
    type C: Context;
    type Own: Context;
    type Wide: Context;
}

/// A byte, three units and one; one unit and five.
pub enum Narrow {}
impl Shape for Narrow {
    type A = u8;
    type B = [u32; 3];
    type C = u32;
    type Own = u32;
    type Wide = [u32; 5];
}

/// Two units, five and a part of one; two units and three.
pub enum Broad {}
impl Shape for Broad {
    type A = [u32; 2];
    type B = [u32; 5];
    type C = u16;
    type Own = [u32; 2];
    type Wide = [u32; 3];
}

/// Four units and two bytes; a byte and four units.
pub enum Mixed {}
impl Shape for Mixed {
    type A = [u32; 4];
    type B = u8;
    type C = [u32; 2];
    type Own = u8;
    type Wide = [u32; 4];
}

/// A seed for each campaign of this run. `POWERFAIL_SEED`, as a report says it, repeats another's.
fn seed_of(campaign: &str) -> u64 {
    if std::env::var("POWERFAIL_SEED").is_ok() {
        return 0;
    }
    let name = nv_device::nvmem::crc::crc32(campaign.as_bytes());
    seed() << 32 | u64::from(name)
}

/// Programs of a kind, with every cut of each.
macro_rules! campaigns {
    ($(
        $name:ident: $shape:ty, $model:ty, $programs:expr, depth $depth:literal, times $n:literal;
    )+) => {$(
        #[test]
        #[cfg_attr(miri, ignore = "thousands of boots")]
        fn $name() {
            random(
                $programs,
                || Mapped::<$model>::new(BYTES),
                |nv, w: &World<'_, Seen>, p| boot::<$shape, $model>(nv, w, p),
            )
            .cases(programs($n))
            .seed(seed_of(stringify!($name)))
            .depth($depth)
            .run();
        }
    )+};
}

campaigns! {
    narrow_16: Narrow, InOrder16, programs_of(6), depth 1, times 12;
    narrow_32: Narrow, InOrder32, programs_of(6), depth 1, times 12;
    narrow_buffered: Narrow, Buffered32, programs_of(5), depth 1, times 2;
    broad_16: Broad, InOrder16, programs_of(6), depth 1, times 12;
    broad_32: Broad, InOrder32, programs_of(6), depth 1, times 12;
    broad_buffered: Broad, Buffered32, programs_of(5), depth 1, times 2;
    mixed_16: Mixed, InOrder16, programs_of(6), depth 1, times 12;
    mixed_buffered: Mixed, Buffered32, programs_of(5), depth 1, times 2;
    deep_16: Mixed, InOrder16, short_programs_of(3), depth 2, times 2;
    deep_32: Narrow, InOrder32, short_programs_of(3), depth 2, times 2;
}

/// A device's life: each boot goes on with other operations, and is cut at a random event.
macro_rules! lives {
    ($($name:ident: $shape:ty, $model:ty;)+) => {$(
        #[test]
        #[cfg_attr(miri, ignore = "thousands of boots")]
        fn $name() {
            endure(
                Mapped::<$model>::new(BYTES),
                EveryEvents(300),
                |nv, w: &World<'_, Seen>| {
                    forever::<$shape, $model>(nv, w, seed_of(stringify!($name)))
                },
                |seen: &Seen| seen.at,
            )
            .boots(u64::from(programs(200)))
            .depth(2)
            .run();
        }
    )+};
}

lives! {
    life_16: Mixed, InOrder16;
    life_32: Narrow, InOrder32;
    life_buffered: Broad, Buffered32;
}
