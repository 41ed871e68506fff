//! All cuts, two deep.

use super::media::{Bytes2, Bytes32, HalfPages, config};
use super::node::{Blind, MEMORY, Outside, Program, Run, W, alive, life};
use crate::turns::{deep, in_turn};
use nv_mirror::{Config, Durability, Mirror};
use nv_replay::nvmem::device::Medium;
use powerfail::{Mram16, Simulated, SpiFram, explore_with};

/// A program of so many iterations.
const fn run(program: Program, hours: u32) -> Run {
    Run {
        program,
        hours,
        seq_bits: 16,
    }
}

/// Two or three segments; each commit is saved.
const EACH: [Config; 2] = [
    config(2, Durability::EachCommit),
    config(3, Durability::EachCommit),
];
/// Saved before output only.
const OUTPUT: [Config; 2] = [
    config(2, Durability::BeforeOutput),
    config(3, Durability::BeforeOutput),
];

/// Cuts of a program on a medium. Of a cut that leaves more than `$sample` states it boots so many.
macro_rules! campaign {
    ($media:expr, $config:expr, $run:expr, depth $depth:expr, sample $sample:literal) => {{
        let s = explore_with(
            ($config, $run),
            $media,
            |nv, world: &W<'_>, (config, run): &(Config, Run)| life(nv, world, config, run),
        )
        .world(Outside::default())
        .depth($depth)
        .max_depth($depth)
        .sample($sample)
        .run();
        println!("{}: {s}", stringify!($media, $config, $run, depth $depth));
        assert!(s.partial || s.cuts > 50, "{s}");
    }};
}

fn fram() -> Simulated<SpiFram> {
    Simulated::new(2 * 2048)
}
fn mram() -> Simulated<Mram16> {
    Simulated::new(2 * 2048)
}
fn bytes2() -> Simulated<Bytes2> {
    Simulated::new(3 * 2048).refusal_fails()
}
fn bytes32() -> Simulated<Bytes32> {
    Simulated::new(3 * 2048).refusal_fails()
}
fn half_pages() -> Simulated<HalfPages> {
    Simulated::new(3 * 2304).refusal_fails()
}

#[test]
fn a_station_on_serial_fram() {
    campaign!(fram(), EACH[0], run(Program::Station, 2), depth 2, sample 8);
    campaign!(fram(), OUTPUT[0], run(Program::Quiet, 2), depth 2, sample 8);
}

#[test]
fn a_station_on_mram() {
    campaign!(mram(), EACH[0], run(Program::Station, 2), depth 2, sample 8);
    campaign!(mram(), OUTPUT[0], run(Program::Quiet, 2), depth 2, sample 8);
}

#[test]
fn a_station_on_flash_by_2_bytes() {
    campaign!(bytes2(), OUTPUT[1], run(Program::Quiet, 1), depth deep(), sample 8);
}

#[test]
fn a_station_on_flash_by_32_bytes() {
    campaign!(bytes32(), EACH[1], run(Program::Station, 2), depth in_turn(0, 2), sample 8);
    campaign!(bytes32(), OUTPUT[1], run(Program::Station, 2), depth in_turn(1, 2), sample 8);
}

#[test]
fn a_station_on_half_pages() {
    campaign!(half_pages(), EACH[1], run(Program::Station, 2), depth 2, sample 8);
    campaign!(half_pages(), OUTPUT[1], run(Program::Quiet, 3), depth 2, sample 8);
}

#[test]
fn objects_that_change_hands() {
    campaign!(fram(), OUTPUT[0], run(Program::Handles, 2), depth 2, sample 8);
    campaign!(mram(), EACH[0], run(Program::Handles, 2), depth 2, sample 8);
    campaign!(half_pages(), OUTPUT[1], run(Program::Handles, 2), depth 2, sample 8);
}

#[test]
fn turns_of_one_step() {
    campaign!(fram(), OUTPUT[0], run(Program::Turns, 4), depth 2, sample 8);
    campaign!(half_pages(), EACH[1], run(Program::Turns, 4), depth 2, sample 8);
}

/// Commits are saved by `n`, and always before output. Half of the `n` in each run are cut twice.
#[test]
fn every_nth_commit() {
    for n in 1..=8 {
        let config = config(2, Durability::Every(n));
        campaign!(fram(), config, run(Program::Batches, 2), depth 1, sample 8);
        let config = Config {
            segments: 3,
            ..config
        };
        let depth = in_turn(n.into(), 2);
        campaign!(half_pages(), config, run(Program::Batches, 2), depth depth, sample 2);
    }
}

/// The same without a save before output: what was seen comes back as something else. Of two or
/// three commits only those behind the input may be lost, and they are repeated as they were.
#[test]
fn every_nth_commit_blindly_fails() {
    for n in 2..=8 {
        let found = |program, depth| {
            let config = config(2, Durability::Every(n));
            explore_with((config, program), fram(), |nv, world: &W<'_>, (c, p)| {
                blind(nv, world, c, *p)
            })
            .world(Outside::default())
            .depth(depth)
            .max_depth(depth)
            .try_run()
            .is_err()
        };
        assert!(!found(Program::Station, 0) && !found(Program::Quiet, 0));
        assert!(found(Program::Station, 1), "every {n} was not found");
        assert_eq!(found(Program::Quiet, 1), n > 3, "every {n}");
    }
}

fn blind<D: Medium>(mut nv: D, world: &W<'_>, config: &Config, program: Program) {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let (mirror, region) = Mirror::open(&mut nv, all, config, &mut memory).unwrap();
    alive(region, Blind(mirror), world, &run(program, 4));
}

/// Sequence numbers wrap.
#[test]
fn numbers_wrap() {
    for seq_bits in [3, 4] {
        let depth = in_turn(seq_bits.into(), 2);
        let run = Run {
            program: Program::Quiet,
            hours: 5,
            seq_bits,
        };
        campaign!(fram(), OUTPUT[0], run, depth 1, sample 8);
        campaign!(half_pages(), EACH[1], run, depth depth, sample 4);
    }
}
