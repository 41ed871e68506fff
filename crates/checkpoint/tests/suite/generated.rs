//! Generated programs of checkpoints, in a log, in slots and in an archive: saves, loads and opens
//! of which any operation of the medium fails, boots, cuts, updates of the program, wear.
//!
//! | file | what it has |
//! |---|---|
//! | `program` | scripts: what a program does, and how proptest makes one |
//! | `stores` | the stores that a script can use |
//! | `judge` | what the next load may find |
//! | `run` | executes a script against a store and the judge |
//! | `media` | kinds of flash, and images whose numbers soon wrap |
//! | `found` | what the campaigns have found: each as its shortest script |

mod found;
mod judge;
mod media;
mod program;
mod run;
mod stores;

use crate::runs::{programs, seed};
use checkpoint::{CopyIfChange, Full, Split};
use judge::Seen;
use media::{HalfPages, Multiwrite, Words32};
use nvmem::{Buffered32, InOrder16};
use powerfail::{
    BufferedNor, Chip, EveryEvents, Mapped, Media, Mram16, Simulated, SpiFram, World, endure,
    random,
};
use program::scripts;
use run::{boot, forever};
use stores::{InArchive, InLog, InSlots, Layout};

/// Scripts of up to so many operations, cut everywhere.
fn campaign<L: Layout, M: Media>(media: fn() -> M, most: usize, cases: u32)
where
    for<'r> M::Nv<'r>: nvmem::Medium,
{
    let s = random(
        scripts(L::ARCHIVES, most),
        media,
        |nv, w: &World<'_, Seen>, script| boot::<L, _>(nv, w, script),
    )
    .cases(programs(cases))
    .seed(seed())
    .run();
    println!("{s}");
}

/// One program that goes on through cuts at random, with operations from a seed.
fn life<L: Layout, M: Media>(media: M, every: u64, boots: u64)
where
    for<'r> M::Nv<'r>: nvmem::Medium,
{
    let s = endure(
        media,
        EveryEvents(every),
        |nv, w: &World<'_, Seen>| forever::<L, _>(nv, w),
        |seen: &Seen| seen.saves,
    )
    .boots(u64::from(programs(1)) * boots)
    .depth(2)
    .run();
    println!("{s}");
}

/// A campaign for each store and medium.
macro_rules! campaigns {
    ($($name:ident: $store:ty, $media:expr, $most:literal operations, $cases:literal programs;)+) => {
        $(#[test]
        fn $name() {
            campaign::<$store, _>(|| $media, $most, $cases);
        })+
    };
}

/// A flash on which a call that its contract forbids is a failure.
fn flash<C: Chip>() -> Simulated<C> {
    Simulated::new(media::FLASH).refusal_fails()
}

campaigns! {
    log_fram: InLog<32>, Simulated::<SpiFram>::new(media::FRAM), 10 operations, 2 programs;
    log_mram: InLog<32>, Simulated::<Mram16>::new(media::FRAM), 12 operations, 8 programs;
    log_in_order: InLog<32>, Mapped::<InOrder16>::new(media::FRAM), 10 operations, 2 programs;
    log_buffered: InLog<32>, Mapped::<Buffered32>::new(media::FRAM), 8 operations, 1 programs;
    log_multiwrite: InLog<32>, flash::<Multiwrite>(), 10 operations, 2 programs;
    log_words: InLog<32>, flash::<Words32>(), 12 operations, 8 programs;
    log_half_pages: InLog<128>, flash::<HalfPages>(), 14 operations, 12 programs;
    log_buffered_flash: InLog<64>, flash::<BufferedNor>(), 8 operations, 1 programs;
    log_wraps_fram: InLog<32>, media::log_on_fram(), 10 operations, 1 programs;
    log_wraps_flash: InLog<128>, media::log_on_flash(), 14 operations, 8 programs;
    slots_fram: InSlots<Split, 2>, Simulated::<SpiFram>::new(media::FRAM), 10 operations, 2 programs;
    slots_mram: InSlots<Full, 2>, Simulated::<Mram16>::new(media::FRAM), 12 operations, 6 programs;
    slots_buffered: InSlots<CopyIfChange<Split>, 2>, Mapped::<Buffered32>::new(media::FRAM), 8 operations, 1 programs;
    slots_words: InSlots<CopyIfChange<Full>, 3>, flash::<Words32>(), 12 operations, 6 programs;
    slots_half_pages: InSlots<Split, 3>, flash::<HalfPages>(), 14 operations, 10 programs;
    slots_buffered_flash: InSlots<Split, 3>, flash::<BufferedNor>(), 8 operations, 1 programs;
    slots_wrap: InSlots<Split, 2>, media::slots_on_fram(), 10 operations, 1 programs;
    archive_in_order: InArchive, Mapped::<InOrder16>::new(media::FRAM), 14 operations, 2 programs;
    archive_words: InArchive, flash::<Words32>(), 16 operations, 6 programs;
    archive_half_pages: InArchive, flash::<HalfPages>(), 18 operations, 8 programs;
}

/// The same for programs without an end.
macro_rules! lives {
    ($($name:ident: $store:ty, $media:expr, cut every $every:literal events, $boots:literal boots;)+) => {
        $(#[test]
        fn $name() {
            life::<$store, _>($media, $every, $boots);
        })+
    };
}

lives! {
    life_log_fram: InLog<32>, Simulated::<SpiFram>::new(media::FRAM), cut every 1500 events, 60 boots;
    life_log_mram: InLog<32>, Simulated::<Mram16>::new(media::FRAM), cut every 200 events, 200 boots;
    life_log_words: InLog<32>, flash::<Words32>(), cut every 100 events, 200 boots;
    life_log_half_pages: InLog<128>, flash::<HalfPages>(), cut every 60 events, 300 boots;
    life_log_buffered_flash: InLog<64>, flash::<BufferedNor>(), cut every 500 events, 60 boots;
    life_slots_buffered: InSlots<Split, 2>, Mapped::<Buffered32>::new(media::FRAM), cut every 500 events, 60 boots;
    life_slots_words: InSlots<CopyIfChange<Full>, 3>, flash::<Words32>(), cut every 100 events, 200 boots;
}
