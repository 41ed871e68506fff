//! A pool in a mirror under power cuts, on each kind of medium.
//!
//! The program counts, and keeps the last two numbers in a queue of objects. At each boot it checks
//! the queue, makes what it found durable, and tells the world. What the world has seen must never
//! revert.

pub mod media;
mod program;

use media::{Again4, Bytes2, Bytes4, Bytes32, HalfPages, Pages, other_data, used};
use nv_mirror::Config;
use nvmem::Buffered32;
use powerfail::{BufferedNor, EveryEvents, Mapped, Mram16, Simulated, SpiFram};
use powerfail::{World, endure, explore};
use program::{Promise, run, run_or_format};

const TWO: Config = Config {
    segments: 2,
    ..Config::DEFAULT
};
const THREE: Config = Config {
    segments: 3,
    ..Config::DEFAULT
};

/// All cuts of a program of `$steps` steps, `$depth` deep.
macro_rules! campaign {
    ($media:expr, $config:expr, $steps:literal, every $every:literal, depth $depth:literal, $least:literal) => {
        campaign!($media, $config, $steps, every $every, depth $depth, $least, from 0)
    };
    ($media:expr, $config:expr, $steps:literal, every $every:literal, depth $depth:literal, $least:literal, from $seen:literal) => {{
        let s = explore($media, |nv, w: &World<'_, Promise>| {
            run(nv, w, $config, $steps, $every)
        })
        .world(Promise { seen: $seen, tried: $seen })
        .depth($depth)
        .max_depth($depth)
        .run();
        println!("{}: {s}", stringify!($media));
        assert!(s.partial || s.cuts > $least, "{s}");
    }};
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn serial_fram() {
    campaign!(Simulated::<SpiFram>::new(2 * 1024), TWO, 3, every 1, depth 2, 20_000);
    // The second save has no room.
    campaign!(Simulated::<SpiFram>::new(2 * 900), TWO, 4, every 1, depth 1, 300);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn mram_by_16_bytes() {
    campaign!(Simulated::<Mram16>::new(2 * 1024), TWO, 3, every 1, depth 2, 5000);
    campaign!(Simulated::<Mram16>::new(3 * 1024), THREE, 3, every 1, depth 2, 5000);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn a_mapped_medium_with_a_buffer() {
    campaign!(Mapped::<Buffered32>::with_image(vec![0; 2 * 1024]), TWO, 2, every 1, depth 1, 50);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn flash_behind_a_buffer() {
    campaign!(Simulated::<BufferedNor>::new(3 * 1024), THREE, 2, every 1, depth 1, 300);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn flash_by_2_bytes() {
    campaign!(Simulated::<Bytes2>::new(3 * 1024).refusal_fails(), THREE, 1, every 1, depth 2, 10_000);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn flash_by_4_bytes() {
    campaign!(Simulated::<Bytes4>::new(3 * 1024).refusal_fails(), THREE, 3, every 1, depth 1, 300);
}

/// A record has several words, and the last one holds content too.
#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn flash_by_32_bytes() {
    campaign!(Simulated::<Bytes32>::new(3 * 1024).refusal_fails(), THREE, 3, every 1, depth 2, 3000);
}

/// Not three deep: docs/FAILURE-MODEL.md says what three cuts before the first save can leave. From
/// the first save on, [`used_flash_three_deep`] is.
#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn flash_by_half_pages() {
    campaign!(Simulated::<HalfPages>::new(3 * 1536).refusal_fails(), THREE, 2, every 1, depth 2, 1000);
}

#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn flash_by_256_bytes() {
    campaign!(Simulated::<Pages>::new(3 * 2048).refusal_fails(), THREE, 2, every 1, depth 2, 1000);
}

/// With the segments that a program has if it chooses nothing.
#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn the_default_configuration() {
    let fram = || Simulated::<SpiFram>::new(4 * 900);
    campaign!(fram(), Config::DEFAULT, 2, every 1, depth 2, 5000);
    let flash = || Simulated::<Bytes32>::new(4 * 1024).refusal_fails();
    campaign!(flash(), Config::DEFAULT, 3, every 1, depth 2, 3000);
}

/// Several steps are lost or saved together.
#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn saved_before_outputs_only() {
    let fram = || Simulated::<SpiFram>::new(2 * 1024);
    campaign!(fram(), TWO, 6, every 2, depth 1, 300);
    campaign!(fram(), TWO, 6, every 3, depth 1, 300);
    campaign!(fram(), TWO, 6, every 4, depth 1, 300);
    campaign!(fram(), TWO, 6, every 5, depth 1, 300);
    let flash = || Simulated::<HalfPages>::new(3 * 1536).refusal_fails();
    campaign!(flash(), THREE, 4, every 2, depth 2, 300);
    campaign!(flash(), THREE, 6, every 3, depth 2, 300);
}

/// On flash that was used before, so that all segments read as confirmed; three cuts deep.
#[test]
#[cfg_attr(miri, ignore = "three cuts deep")]
fn used_flash_three_deep() {
    campaign!(Simulated::<HalfPages>::with_image(used(1)), THREE, 4, every 1, depth 3, 1000, from 3);
}

/// The numbers of segments wrap.
#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn segment_numbers_wrap() {
    for number in [0x7FFF_FFFE, 0xFFFF_FFFD, 0xFFFF_FFFF] {
        let image = used(number);
        campaign!(Simulated::<HalfPages>::with_image(image), THREE, 5, every 1, depth 2, 100, from 3);
    }
}

/// The first boots format a range that holds other data, and are cut.
#[test]
#[cfg_attr(miri, ignore = "two cuts deep")]
fn a_range_of_other_data() {
    macro_rules! other {
        ($media:ty, $bytes:literal, $config:expr, depth $depth:literal, $least:literal) => {
            let media = Simulated::<$media>::with_image(other_data($bytes));
            let s = explore(media, |nv, w| run_or_format(nv, w, $config, 2))
                .world(Promise::default())
                .depth($depth)
                .max_depth($depth)
                .run();
            println!("{}: {s}", stringify!($media));
            assert!(s.partial || s.cuts > $least, "{s}");
        };
    }
    other!(SpiFram, 2048, TWO, depth 1, 300);
    other!(Mram16, 2048, TWO, depth 2, 1000);
    other!(Bytes4, 3072, THREE, depth 1, 300);
    other!(Bytes32, 3072, THREE, depth 2, 1000);
    other!(HalfPages, 4608, THREE, depth 2, 1000);
}

/// The cuts of a device's life: 100,000 in long runs, where no state is left out.
fn boots() -> u64 {
    if std::env::var("POWERFAIL_SAMPLE").is_ok_and(|s| s == "all") {
        100_000
    } else {
        3000
    }
}

/// The most erases of a unit in such a life: one in two boots. A boot of three segments erases one
/// and fills it, so a third of them at each unit. Cut boots erase what is unreadable, too.
fn wear() -> u32 {
    boots() as u32 / 2
}

/// A device's life: thousands of cuts at random places. There must be progress all the time.
macro_rules! life {
    ($media:expr, $config:expr, $every:literal, $name:literal) => {
        let s = endure(
            $media,
            EveryEvents($every),
            |nv, w| run(nv, w, $config, w.get().seen + 40, 1),
            |p: &Promise| p.seen,
        )
        .name($name)
        .boots(boots())
        .depth(2)
        .run();
        println!("{}: {s}", $name);
        // A life that ends before it stores anything is no cut: a boot may have nothing to store.
        assert!(s.partial || s.cuts >= boots() / 100 * 99, "{s}");
    };
}

#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn a_long_life() {
    life!(Simulated::<SpiFram>::new(2 * 1024), TWO, 1500, "life-fram");
    life!(Simulated::<Mram16>::new(2 * 1024), TWO, 300, "life-mram");
}

#[test]
#[cfg_attr(miri, ignore = "thousands of boots")]
fn a_long_life_of_flash() {
    let once = Simulated::<Bytes4>::new(3 * 1024).refusal_fails();
    life!(once.endurance(wear()), THREE, 500, "life-flash-4");
    let again = Simulated::<Again4>::new(3 * 1024).refusal_fails();
    life!(again.endurance(wear()), THREE, 500, "life-flash-again");
    let half_pages = Simulated::<HalfPages>::new(3 * 1536).refusal_fails();
    life!(half_pages.endurance(wear()), THREE, 60, "life-half-pages");
}
