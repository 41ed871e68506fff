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
mod two;

use crate::runs::{programs, seed};
use boot::{boot, forever};
use judge::Holds::{self, *};
use judge::{Seen, Setting};
use media::*;
use nvmem::Buffered32;
use nvmem::crc::Crc32;
use powerfail::{BufferedNor, Chip, EveryEvents, Mapped, Mram16, Simulated, SpiFram};
use powerfail::{World, endure, random};
use program::{
    after_a_failure, after_a_failure_of, any_ops, counted_commits, first_saves, given_up, three,
};
use store::{Pooled, Raw};

/// A seed for each campaign of this run. `POWERFAIL_SEED`, as a report says it, repeats another's.
fn seed_of(campaign: &str) -> u64 {
    if std::env::var("POWERFAIL_SEED").is_ok() {
        return 0;
    }
    let name = nvmem::crc::crc32(campaign.as_bytes());
    seed() << 32 | u64::from(name)
}

const fn opens(segments: u8, holds: Holds) -> Setting {
    Setting {
        segments,
        holds,
        or_format: false,
    }
}

/// The same with `open_or_format`.
const fn formats(segments: u8, holds: Holds) -> Setting {
    Setting {
        or_format: true,
        ..opens(segments, holds)
    }
}

/// Programs of a kind, with every cut of each.
macro_rules! campaigns {
    ($(
        $name:ident: $store:ty, $media:expr, $setting:expr, $programs:expr,
        depth $depth:literal, times $times:literal;
    )+) => {$(
        #[test]
        #[cfg_attr(miri, ignore = "thousands of boots")]
        fn $name() {
            random($programs, || $media, |nv, w: &World<'_, Seen>, program| {
                boot::<$store, _>(nv, w, &$setting, program)
            })
            .cases(programs($times))
            .seed(seed_of(stringify!($name)))
            .depth($depth)
            .run();
        }
    )+};
}

/// An erased chip. A refused call is a failure.
fn chip<C: Chip>(size: usize) -> Simulated<C> {
    Simulated::new(size).refusal_fails()
}

fn holding<C: Chip>(image: Vec<u8>) -> Simulated<C> {
    Simulated::with_image(image).refusal_fails()
}

/// A log of one of three segments, with the image of the programs here.
const LOG: OneSegment = OneSegment {
    number: 7,
    at: 2,
    segments: 3,
    segment: 1088,
    image: 496,
    intact: true,
};

fn with_log<C: Chip>(log: OneSegment) -> Simulated<C> {
    holding::<C>(log.bytes::<C>((log.segments * log.segment) as usize))
}

fn numbered<C: Chip>(segment: u32, number: u32) -> Simulated<C> {
    with_log(OneSegment {
        number,
        segment,
        ..LOG
    })
}

/// The log of firmware whose image is smaller. Its only segment is the first one.
fn older<C: Chip>(segment: u32) -> Simulated<C> {
    with_log(OneSegment {
        at: 0,
        segment,
        image: 400,
        ..LOG
    })
}

/// A log that a first save cannot have left, with a wrong base image.
fn damaged<C: Chip>(segment: u32) -> Simulated<C> {
    with_log(OneSegment {
        segment,
        intact: false,
        ..LOG
    })
}

/// The log of firmware with three segments, of which the last one is used. It lies where the first
/// save of a mirror with two segments writes.
fn of_three() -> Simulated<SpiFram> {
    with_log(OneSegment {
        number: 1,
        segment: 696,
        image: 80,
        ..LOG
    })
}

/// A log that a first save of zeros has begun, with one record more, whose header has rotted.
fn rotten() -> Simulated<SpiFram> {
    let mut bytes = OneSegment { number: 1, ..LOG }.bytes::<SpiFram>(3 * 1088);
    let base = 2 * 1088 + 24;
    let check = u32::from_le_bytes([4, 5, 6, 7].map(|i| bytes[base + i]));
    let words = [5 | 1 << 16, 77, 0];
    let crc = words
        .iter()
        .fold(Crc32::new().word(check), |crc, w| crc.word(*w));
    for (i, word) in words.into_iter().chain([crc.finish()]).enumerate() {
        let at = base + 8 + 4 * i;
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes[2 * 1088] ^= 1;
    holding::<SpiFram>(bytes)
}

/// A pool of Relume.
fn pool(size: usize) -> Simulated<SpiFram> {
    let mut bytes = vec![7; size];
    bytes[..4].copy_from_slice(b"RLM1");
    holding::<SpiFram>(bytes)
}

/// What another program has left: no two bytes in a row are those of a format of Relume.
fn data<C: Chip>(size: usize) -> Simulated<C> {
    holding::<C>((0..size).map(|i| (i * 37 % 256) as u8 | 1).collect())
}

/// Data of others only after the part that a first save writes.
fn data_at_the_end(size: usize) -> Simulated<SpiFram> {
    let mut bytes = vec![0; size];
    bytes[size - 1] = 1;
    holding::<SpiFram>(bytes)
}

/// Memory-mapped, behind a write buffer.
fn mapped(size: usize) -> Mapped<Buffered32> {
    Mapped::new(size)
}

// Segments of 1,088 bytes hold the image of 124 words twice, so the log goes round soon.
campaigns! {
    fram: Raw, chip::<SpiFram>(2 * 1088), opens(2, Nothing), any_ops(10), depth 1, times 2;
    fram_of_3: Raw, chip::<SpiFram>(3 * 1088), opens(3, Nothing), any_ops(10), depth 1, times 2;
    mram: Raw, chip::<Mram16>(2 * 1088), opens(2, Nothing), any_ops(12), depth 1, times 4;
    buffered: Raw, mapped(2 * 1088), opens(2, Nothing), any_ops(8), depth 1, times 2;
    flash_4: Raw, chip::<Bytes4>(3 * 1088), opens(3, Nothing), any_ops(10), depth 1, times 4;
    flash_again: Raw, chip::<Again4>(3 * 1088), opens(3, Nothing), any_ops(10), depth 1, times 4;
    flash_32: Raw, chip::<Bytes32>(3 * 1152), opens(3, Nothing), any_ops(14), depth 1, times 4;
    flash_128: Raw, chip::<HalfPages>(4 * 1536), opens(4, Nothing), any_ops(14), depth 1, times 4;
    flash_buffered: Raw, chip::<BufferedNor>(3 * 1088), opens(3, Nothing), any_ops(8),
        depth 1, times 2;
    deep_mram: Raw, chip::<Mram16>(2 * 1088), opens(2, Nothing), any_ops(5), depth 2, times 1;
    deep_flash_128: Raw, chip::<HalfPages>(3 * 1536), opens(3, Nothing), any_ops(6),
        depth 2, times 2;

    counted_mram: Raw, chip::<Mram16>(2 * 1088), opens(2, Nothing), counted_commits(),
        depth 1, times 6;
    counted_flash_32: Raw, chip::<Bytes32>(3 * 1152), opens(3, Nothing), counted_commits(),
        depth 1, times 6;

    // The image of the pool has 1,760 bytes.
    pool_fram: Pooled, chip::<SpiFram>(2 * 4096), opens(2, Nothing), any_ops(10), depth 1, times 1;
    pool_mram: Pooled, chip::<Mram16>(2 * 4096), opens(2, Nothing), any_ops(12), depth 1, times 1;
    pool_flash_32: Pooled, chip::<Large32>(3 * 4096), opens(3, Nothing), any_ops(12),
        depth 1, times 2;

    // The numbers of segments wrap, or pass the half of their range.
    wrap_fram: Raw, numbered::<SpiFram>(1088, u32::MAX), opens(3, Log), any_ops(12),
        depth 1, times 1;
    wrap_mram: Raw, numbered::<Mram16>(1088, u32::MAX - 1), opens(3, Log), any_ops(14),
        depth 1, times 2;
    wrap_flash_4: Raw, numbered::<Bytes4>(1088, u32::MAX), opens(3, Log), any_ops(12),
        depth 1, times 2;
    wrap_flash_128: Raw, numbered::<HalfPages>(1536, u32::MAX - 1), opens(3, Log), any_ops(14),
        depth 1, times 2;
    half_flash_128: Raw, numbered::<HalfPages>(1536, i32::MAX as u32), opens(3, Log), any_ops(14),
        depth 1, times 2;

    // The only header has rotted: the range reads as never saved.
    rotten_fram: Raw, rotten(), opens(3, Nothing), any_ops(6), depth 1, times 2;

    after_fram: Raw, chip::<SpiFram>(2 * 1088), opens(2, Nothing), after_a_failure(),
        depth 1, times 2;
    after_mram: Raw, chip::<Mram16>(2 * 1088), opens(2, Nothing), after_a_failure(),
        depth 1, times 8;
    after_buffered: Raw, mapped(2 * 1088), opens(2, Nothing), after_a_failure(),
        depth 1, times 4;
    after_buffered_few: Raw, mapped(2 * 1088), opens(2, Nothing), after_a_failure_of(three(10)),
        depth 1, times 8;
    after_flash_32: Raw, chip::<Bytes32>(3 * 1152), opens(3, Nothing), after_a_failure(),
        depth 1, times 8;
    after_flash_buffered: Raw, chip::<BufferedNor>(3 * 1088), opens(3, Nothing),
        after_a_failure(), depth 1, times 1;

    given_up_fram: Raw, chip::<SpiFram>(2 * 1088), opens(2, Nothing), given_up(),
        depth 1, times 1;
    given_up_mram: Raw, chip::<Mram16>(2 * 1088), opens(2, Nothing), given_up(),
        depth 1, times 2;
    given_up_buffered: Raw, mapped(2 * 1088), opens(2, Nothing), given_up(), depth 1, times 1;
    given_up_flash_32: Raw, chip::<Bytes32>(3 * 1152), opens(3, Nothing), given_up(),
        depth 1, times 4;
    given_up_flash_128: Raw, chip::<HalfPages>(3 * 1536), opens(3, Nothing), given_up(),
        depth 1, times 4;
    given_up_flash_buffered: Raw, chip::<BufferedNor>(3 * 1088), opens(3, Nothing), given_up(),
        depth 1, times 1;

    // A log of another layout.
    older_fram: Raw, older::<SpiFram>(1088), opens(3, Refused), first_saves(), depth 1, times 1;
    older_mram: Raw, older::<Mram16>(1088), formats(3, Refused), first_saves(), depth 1, times 1;
    older_flash_32: Raw, older::<Bytes32>(1152), opens(3, Refused), first_saves(),
        depth 1, times 1;
    older_flash_128: Raw, older::<HalfPages>(1536), formats(3, Refused), first_saves(),
        depth 2, times 1;
    of_three_fram: Raw, of_three(), formats(2, Refused), first_saves(), depth 1, times 1;
    pool_found_fram: Raw, pool(2 * 1088), formats(2, Refused), first_saves(), depth 1, times 1;

    damaged_fram: Raw, damaged::<SpiFram>(1088), formats(3, Refused), first_saves(),
        depth 1, times 1;
    damaged_flash_32: Raw, damaged::<Bytes32>(1152), formats(3, Refused), first_saves(),
        depth 1, times 1;
    data_at_the_end_fram: Raw, data_at_the_end(2 * 1088), opens(2, Refused), first_saves(),
        depth 1, times 1;

    data_fram: Raw, data::<SpiFram>(2 * 1088), formats(2, Data), any_ops(6), depth 1, times 1;
    data_mram: Raw, data::<Mram16>(2 * 1088), formats(2, Data), any_ops(6), depth 1, times 1;
    data_flash_32: Raw, data::<Bytes32>(3 * 1152), formats(3, Data), first_saves(),
        depth 2, times 1;
    data_flash_128: Raw, data::<HalfPages>(3 * 1536), formats(3, Data), first_saves(),
        depth 2, times 1;
    first_flash_32: Raw, chip::<Bytes32>(3 * 1152), opens(3, Nothing), first_saves(),
        depth 2, times 1;
    first_flash_128: Raw, chip::<HalfPages>(3 * 1536), opens(3, Nothing), first_saves(),
        depth 2, times 1;
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
                    forever::<$store, _>(nv, w, &opens($segments, Nothing), seed)
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
