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
//!
//! These have programs of their own, without power cuts:
//!
//! | file | what it has |
//! |---|---|
//! | `damage` | flipped bits, and a bus that misreads |
//! | `modes` | modes that change their mind |
//! | `retention` | what an archive keeps |
//! | `heap` | tracked heaps |
//! | `rooms` | logs of just the size that they ask for |

mod damage;
mod found;
mod heap;
mod judge;
mod media;
mod modes;
mod program;
mod retention;
mod rooms;
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
use program::{Endless, Mixed, Saves, Script, failing, scripts};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use run::{boot, forever};
use stores::{InArchive, InLog, InSlots, Layout};

/// So many of these scripts, cut everywhere, so many times in a row.
fn campaign<L: Layout, M: Media>(
    scripts: impl Strategy<Value = Script> + 'static,
    media: fn() -> M,
    cases: u32,
    depth: u32,
) where
    for<'r> M::Nv<'r>: nvmem::Medium,
{
    let s = random(scripts, media, |nv, w: &World<'_, Seen>, script| {
        boot::<L, _>(nv, w, script)
    })
    .cases(programs(cases))
    .seed(seed())
    .depth(depth)
    .run();
    println!("{s}");
}

/// Tries a program with so many inputs, from the run's seed. A failure prints the shortest input.
fn each<S: Strategy>(inputs: S, cases: u32, program: impl Fn(S::Value)) {
    let mut runner = TestRunner::new(Config {
        cases: if cfg!(miri) { 1 } else { programs(cases) },
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: None,
        ..Config::default()
    });
    let tried = runner.run(&inputs, |input| {
        program(input);
        Ok(())
    });
    tried.unwrap_or_else(|e| panic!("{e}"));
}

/// One program that goes on through cuts at random, with operations from a seed.
fn life<L: Layout, P: Endless, M: Media>(media: M, every: u64, boots: u64)
where
    for<'r> M::Nv<'r>: nvmem::Medium,
{
    let s = endure(
        media,
        EveryEvents(every),
        |nv, w: &World<'_, Seen>| forever::<L, P, _>(nv, w),
        |seen: &Seen| seen.saves,
    )
    .boots(u64::from(programs(1)) * boots)
    .depth(2)
    .run();
    println!("{s}");
}

/// A campaign for each store and medium.
macro_rules! campaigns {
    ($depth:literal cuts in a row: $(
        $name:ident: $store:ty, $media:expr, $most:literal operations, $cases:literal programs;
    )+) => {
        $(#[test]
        fn $name() {
            let scripts = scripts(<$store>::ARCHIVES, $most);
            campaign::<$store, _>(scripts, || $media, $cases, $depth);
        })+
    };
}

/// A flash on which a call that its contract forbids is a failure.
fn flash<C: Chip>() -> Simulated<C> {
    Simulated::new(media::FLASH).refusal_fails()
}

campaigns! { 1 cuts in a row:
    log_fram: InLog<32>, Simulated::<SpiFram>::new(media::FRAM), 10 operations, 8 programs;
    log_mram: InLog<32>, Simulated::<Mram16>::new(media::FRAM), 12 operations, 24 programs;
    log_in_order: InLog<32>, Mapped::<InOrder16>::new(media::FRAM), 10 operations, 4 programs;
    log_buffered: InLog<32>, Mapped::<Buffered32>::new(media::FRAM), 8 operations, 1 programs;
    log_multiwrite: InLog<32>, flash::<Multiwrite>(), 10 operations, 2 programs;
    log_words: InLog<32>, flash::<Words32>(), 12 operations, 8 programs;
    log_half_pages: InLog<128>, flash::<HalfPages>(), 14 operations, 16 programs;
    log_buffered_flash: InLog<64>, flash::<BufferedNor>(), 8 operations, 1 programs;
    log_wraps_fram: InLog<32>, media::log_on_fram(), 10 operations, 8 programs;
    log_wraps_flash: InLog<128>, media::log_on_flash(), 14 operations, 12 programs;
    slots_fram: InSlots<Split, 2>, Simulated::<SpiFram>::new(media::FRAM), 10 operations, 8 programs;
    slots_mram: InSlots<Full, 2>, Simulated::<Mram16>::new(media::FRAM), 12 operations, 80 programs;
    slots_buffered: InSlots<CopyIfChange<Split>, 2>, Mapped::<Buffered32>::new(media::FRAM), 8 operations, 1 programs;
    slots_words: InSlots<CopyIfChange<Full>, 3>, flash::<Words32>(), 12 operations, 10 programs;
    slots_half_pages: InSlots<Split, 3>, flash::<HalfPages>(), 14 operations, 16 programs;
    slots_buffered_flash: InSlots<Split, 3>, flash::<BufferedNor>(), 8 operations, 1 programs;
    slots_wrap: InSlots<Split, 2>, media::slots_on_fram(), 8 operations, 12 programs;
    archive_in_order: InArchive, Mapped::<InOrder16>::new(media::FRAM), 14 operations, 2 programs;
    archive_words: InArchive, flash::<Words32>(), 16 operations, 5 programs;
    archive_half_pages: InArchive, flash::<HalfPages>(), 18 operations, 8 programs;
}

// The second cut comes in what the first one has left.
campaigns! { 2 cuts in a row:
    deep_log_half_pages: InLog<128>, flash::<HalfPages>(), 5 operations, 1 programs;
    deep_slots_half_pages: InSlots<CopyIfChange<Full>, 3>, flash::<HalfPages>(), 4 operations, 1 programs;
    deep_slots_mram: InSlots<Split, 2>, Simulated::<Mram16>::new(media::FRAM), 3 operations, 1 programs;
}

#[test]
fn failing_slots_fram() {
    let media = || Simulated::<SpiFram>::new(media::FRAM);
    campaign::<InSlots<Split, 2>, _>(failing(), media, 40, 1);
}

#[test]
fn failing_slots_words() {
    let media = flash::<Words32>;
    campaign::<InSlots<CopyIfChange<Full>, 3>, _>(failing(), media, 200, 1);
}

/// The same for programs without an end. In a chain most boots are cut in what the last cut left.
macro_rules! lives {
    ($(
        $name:ident: $store:ty, $media:expr, $of:ident,
        cut every $every:literal events, $boots:literal boots;
    )+) => {
        $(#[test]
        fn $name() {
            life::<$store, $of, _>($media, $every, $boots);
        })+
    };
}

lives! {
    life_log_fram: InLog<32>, Simulated::<SpiFram>::new(media::FRAM), Mixed, cut every 700 events, 40 boots;
    life_log_mram: InLog<32>, Simulated::<Mram16>::new(media::FRAM), Mixed, cut every 150 events, 80 boots;
    life_log_words: InLog<32>, flash::<Words32>(), Mixed, cut every 100 events, 80 boots;
    life_log_half_pages: InLog<128>, flash::<HalfPages>(), Mixed, cut every 60 events, 150 boots;
    life_log_buffered_flash: InLog<64>, flash::<BufferedNor>(), Mixed, cut every 250 events, 30 boots;
    life_slots_buffered: InSlots<Split, 2>, Mapped::<Buffered32>::new(media::FRAM), Mixed, cut every 300 events, 120 boots;
    life_slots_words: InSlots<CopyIfChange<Full>, 3>, flash::<Words32>(), Mixed, cut every 80 events, 120 boots;
    chain_log_half_pages: InLog<128>, flash::<HalfPages>(), Mixed, cut every 14 events, 2000 boots;
    chain_log_of_saves: InLog<128>, flash::<HalfPages>(), Saves, cut every 12 events, 12000 boots;
    chain_slots_half_pages: InSlots<CopyIfChange<Full>, 3>, flash::<HalfPages>(), Mixed, cut every 14 events, 800 boots;
    chain_slots_words: InSlots<Split, 3>, flash::<Words32>(), Mixed, cut every 25 events, 500 boots;
}
