//! Any bytes as the tables and the pool of two threads, also in the middle of a migration: `open`
//! and `migrate` give an error value, or threads that run.

#![no_main]
#![allow(dead_code)] // the file is shared with the tests of `nv-replay`, which use more

use libfuzzer_sys::fuzz_target;
use nv_replay::nvmem::{InOrder16, InOrder32, Model};
use nv_replay::pmem_tx::Width;
use relume_fuzz::{bytes_mut, edit, overwrite, seeds};
use std::sync::LazyLock;

#[path = "../../crates/replay/tests/suite/hostile/threads.rs"]
mod threads;

/// Sound images: the old program in its loop and at its end, and a migration that was cut before
/// the first table, between the tables, and before its end.
fn sound<M: Model>() -> [Vec<u8>; 5]
where
    M::Unit: Width,
{
    let cut = threads::cut_migrations::<M>();
    let [first, middle, last] = [0, cut.len() / 2, cut.len() - 1].map(|n| cut[n].clone());
    let [inside, end] = [2, 9].map(threads::image::<M>);
    [inside, end, first, middle, last]
}

static NARROW: LazyLock<[Vec<u8>; 5]> = LazyLock::new(sound::<InOrder16>);
static WIDE: LazyLock<[Vec<u8>; 5]> = LazyLock::new(sound::<InOrder32>);

fn run<M: Model>(image: &[u8], migrates: bool, change: impl FnOnce(&mut [u8]))
where
    M::Unit: Width,
{
    let mut words = threads::words(image);
    change(bytes_mut(&mut words));
    if migrates {
        threads::attack_migrating::<M>(&mut words);
    } else {
        threads::attack::<M>(&mut words, 9);
    }
}

fuzz_target!(
    init: {
        let mut all = Vec::new();
        for n in 0..5u8 {
            for (unit, images) in [(0, &NARROW), (1, &WIDE)] {
                let migrates = 4 * u8::from(n > 0);
                let whole = [&[2 | unit | migrates], &*images[usize::from(n)]].concat();
                all.push((format!("whole-{n}-{unit}"), whole));
                all.push((format!("edit-{n}-{unit}"), vec![unit | migrates | n << 3]));
            }
        }
        let all: Vec<_> = all.iter().map(|(n, seed)| (n.as_str(), seed.clone())).collect();
        seeds(&all);
    },
    // The input's first byte: units of 32 bits, the input is the whole image, migrates; image.
    |data: &[u8]| {
        let Some((mode, rest)) = data.split_first() else {
            return;
        };
        let change = |image: &mut [u8]| match mode & 2 {
            0 => edit(image, rest),
            _ => overwrite(image, rest),
        };
        let (n, migrates) = (usize::from(mode >> 3) % 5, mode & 4 != 0);
        match mode & 1 {
            0 => run::<InOrder16>(&NARROW[n], migrates, change),
            _ => run::<InOrder32>(&WIDE[n], migrates, change),
        }
    }
);
