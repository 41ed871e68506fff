//! Generated programs: superblocks, a record, wear-levelled flash and tagged words, of which any
//! operation of the medium fails while the program goes on, bits flip, and the power fails; values
//! as bytes; tasks that share a saver.
//!
//! | file | what it has |
//! |---|---|
//! | `superblock` | formats and changes of a region's [superblock](nvmem::superblock) |
//! | `record` | sets, opens, migrations and formats of a [`Record`](nvmem::Record), in both forms |
//! | `level` | writes, opens and formats of a [`WearLevelled`](nvmem::level::WearLevelled) flash |
//! | `words` | transactions of several owners on [`tagged`](nvmem::tagged) words and cells |
//! | `values` | any bytes as [values](nvmem::Persist), and regions that hold values |
//! | `savers` | tasks that share a [saver](nvmem::at_rest::SharedSaver) |
//! | `media`, `region` | faults and kinds of flash; the units of a region |
//! | `found` | what the campaigns have found: each as its shortest script |
//!
//! Each of the first six files has its scripts, a judge that knows nothing of formats, and what
//! executes a script against both. Only the judge of `values` knows a format, of which it is the
//! specification.

use crate::runs::{programs, seed};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};

mod found;
mod level;
mod media;
mod record;
mod region;
mod savers;
mod superblock;
mod values;
mod words;

/// Programs that no power cut interrupts.
fn cases<S: Strategy>(cases: u32, programs_of: S, judge: impl Fn(&S::Value)) {
    let mut runner = TestRunner::new(Config {
        cases: programs(cases),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed()),
        ..Config::default()
    });
    let done = runner.run(&programs_of, |program| {
        judge(&program);
        Ok(())
    });
    done.unwrap_or_else(|e| panic!("{e}"));
}
