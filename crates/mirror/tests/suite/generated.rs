//! Generated programs of saves, failures, dropped futures, formats and boots, with every cut of
//! each, judged by a small model ([`judge`]).
//!
//! A program is data ([`program`]): changes of 0 to 60 places, objects, saves of all kinds, opens
//! and formats. In each call of the mirror one operation of the medium may fail, before, after or
//! in the middle of its effect; or the future is dropped at one of its awaits. Then the program
//! goes on. A failure prints the shortest program as it stands in [`found`].

mod boot;
mod found;
mod judge;
mod media;
mod program;
mod store;

use crate::runs::{programs, seed};
use boot::{boot, forever};
use judge::{Holds, Seen, Setting};
use media::*;
use nvmem::Buffered32;
use powerfail::{BufferedNor, Chip, EveryEvents, Mapped, Mram16, Simulated, SpiFram};
use powerfail::{World, endure, random};
use program::{after_a_failure, any_ops, given_up, updated};
use store::{Pooled, Raw};

/// A seed for each campaign of this run. `POWERFAIL_SEED`, as a report says it, repeats another's.
fn seed_of(campaign: &str) -> u64 {
    if std::env::var("POWERFAIL_SEED").is_ok() {
        return 0;
    }
    let name = nvmem::crc::crc32(campaign.as_bytes());
    seed() << 32 | u64::from(name)
}

/// Programs of a kind, with every cut of each.
macro_rules! campaigns {
    ($(
        $name:ident: $store:ty, $media:expr, $segments:literal, $holds:ident, $programs:expr,
        depth $depth:literal, times $times:literal;
    )+) => {$(
        #[test]
        #[cfg_attr(miri, ignore = "thousands of boots")]
        fn $name() {
            random($programs, || $media, |nv, w: &World<'_, Seen>, program| {
                boot::<$store, _>(nv, w, &setting($segments, Holds::$holds), program)
            })
            .cases(programs($times))
            .seed(seed_of(stringify!($name)))
            .depth($depth)
            .run();
        }
    )+};
}

const fn setting(segments: u8, holds: Holds) -> Setting {
    Setting { segments, holds }
}

/// An erased chip. A refused call is a failure.
fn chip<C: Chip>(size: usize) -> Simulated<C> {
    Simulated::new(size).refusal_fails()
}

/// A chip whose log has one segment of this number.
fn numbered<C: Chip>(segment: u32, number: u32) -> Simulated<C> {
    Simulated::with_image(used::<C>(segment, 496, number, 2)).refusal_fails()
}

/// A chip with the log of firmware whose image is smaller. Its only segment is the first one.
fn older<C: Chip>(segment: u32) -> Simulated<C> {
    Simulated::with_image(used::<C>(segment, 400, 7, 0)).refusal_fails()
}

/// Memory-mapped, behind a write buffer.
fn mapped(size: usize) -> Mapped<Buffered32> {
    Mapped::new(size)
}

// Segments of 1,088 bytes hold the image of 124 words twice, so the log goes round soon.
campaigns! {
    fram: Raw, chip::<SpiFram>(2 * 1088), 2, Nothing, any_ops(10), depth 1, times 1;
    fram_of_3: Raw, chip::<SpiFram>(3 * 1088), 3, Nothing, any_ops(10), depth 1, times 1;
    mram: Raw, chip::<Mram16>(2 * 1088), 2, Nothing, any_ops(12), depth 1, times 1;
    buffered: Raw, mapped(2 * 1088), 2, Nothing, any_ops(8), depth 1, times 1;
    flash_4: Raw, chip::<Bytes4>(3 * 1088), 3, Nothing, any_ops(10), depth 1, times 1;
    flash_again: Raw, chip::<Again4>(3 * 1088), 3, Nothing, any_ops(10), depth 1, times 1;
    flash_32: Raw, chip::<Bytes32>(3 * 1152), 3, Nothing, any_ops(14), depth 1, times 1;
    flash_128: Raw, chip::<HalfPages>(4 * 1536), 4, Nothing, any_ops(14), depth 1, times 1;
    flash_buffered: Raw, chip::<BufferedNor>(3 * 1088), 3, Nothing, any_ops(8), depth 1, times 1;
    deep_mram: Raw, chip::<Mram16>(2 * 1088), 2, Nothing, any_ops(5), depth 2, times 1;
    deep_flash_128: Raw, chip::<HalfPages>(3 * 1536), 3, Nothing, any_ops(6), depth 2, times 1;

    // The image of the pool has 1,760 bytes.
    pool_fram: Pooled, chip::<SpiFram>(2 * 4096), 2, Nothing, any_ops(10), depth 1, times 1;
    pool_mram: Pooled, chip::<Mram16>(2 * 4096), 2, Nothing, any_ops(12), depth 1, times 1;
    pool_flash_32: Pooled, chip::<Large32>(3 * 4096), 3, Nothing, any_ops(12), depth 1, times 1;

    // The numbers of segments wrap, or pass the half of their range.
    wrap_fram: Raw, numbered::<SpiFram>(1088, u32::MAX), 3, Log, any_ops(12), depth 1, times 1;
    wrap_mram: Raw, numbered::<Mram16>(1088, u32::MAX - 1), 3, Log, any_ops(14), depth 1, times 1;
    wrap_flash_4: Raw, numbered::<Bytes4>(1088, u32::MAX), 3, Log, any_ops(12), depth 1, times 1;
    wrap_flash_128: Raw, numbered::<HalfPages>(1536, u32::MAX - 1), 3, Log, any_ops(14),
        depth 1, times 1;
    half_flash_128: Raw, numbered::<HalfPages>(1536, i32::MAX as u32), 3, Log, any_ops(14),
        depth 1, times 1;

    after_fram: Raw, chip::<SpiFram>(2 * 1088), 2, Nothing, after_a_failure(), depth 1, times 1;
    after_mram: Raw, chip::<Mram16>(2 * 1088), 2, Nothing, after_a_failure(), depth 1, times 1;
    after_buffered: Raw, mapped(2 * 1088), 2, Nothing, after_a_failure(), depth 1, times 2;
    after_flash_32: Raw, chip::<Bytes32>(3 * 1152), 3, Nothing, after_a_failure(),
        depth 1, times 1;
    after_flash_buffered: Raw, chip::<BufferedNor>(3 * 1088), 3, Nothing, after_a_failure(),
        depth 1, times 1;

    given_up_fram: Raw, chip::<SpiFram>(2 * 1088), 2, Nothing, given_up(), depth 1, times 1;
    given_up_mram: Raw, chip::<Mram16>(2 * 1088), 2, Nothing, given_up(), depth 1, times 1;
    given_up_buffered: Raw, mapped(2 * 1088), 2, Nothing, given_up(), depth 1, times 1;
    given_up_flash_32: Raw, chip::<Bytes32>(3 * 1152), 3, Nothing, given_up(), depth 1, times 1;
    given_up_flash_128: Raw, chip::<HalfPages>(3 * 1536), 3, Nothing, given_up(),
        depth 1, times 1;
    given_up_flash_buffered: Raw, chip::<BufferedNor>(3 * 1088), 3, Nothing, given_up(),
        depth 1, times 1;

    updated_fram: Raw, older::<SpiFram>(1088), 3, OtherLog, updated(), depth 1, times 1;
    updated_mram: Raw, older::<Mram16>(1088), 3, OtherLog, updated(), depth 1, times 1;
    updated_flash_32: Raw, older::<Bytes32>(1152), 3, OtherLog, updated(), depth 1, times 1;
    updated_flash_128: Raw, older::<HalfPages>(1536), 3, OtherLog, updated(), depth 2, times 1;
}

/// A device's life: each boot goes on with other operations, and is cut at a random event.
macro_rules! lives {
    ($($name:ident: $store:ty, $media:expr, $segments:literal, every $every:literal;)+) => {$(
        #[test]
        #[cfg_attr(miri, ignore = "thousands of boots")]
        fn $name() {
            endure(
                $media,
                EveryEvents($every),
                |nv, w: &World<'_, Seen>| {
                    let seed = seed_of(stringify!($name));
                    forever::<$store, _>(nv, w, &setting($segments, Holds::Nothing), seed)
                },
                |seen: &Seen| seen.saves,
            )
            .boots(u64::from(programs(100)))
            .depth(2)
            .run();
        }
    )+};
}

lives! {
    life_fram: Raw, chip::<SpiFram>(2 * 1088), 2, every 1500;
    life_mram: Raw, chip::<Mram16>(3 * 1088), 3, every 200;
    life_flash_4: Raw, chip::<Bytes4>(4 * 1088), 4, every 500;
    life_flash_128: Raw, chip::<HalfPages>(4 * 1536), 4, every 60;
    life_flash_buffered: Raw, chip::<BufferedNor>(3 * 1088), 3, every 500;
    life_pool_mram: Pooled, chip::<Mram16>(2 * 4096), 2, every 400;
    life_pool_flash: Pooled, chip::<Large32>(4 * 4096), 4, every 200;
}
