//! How many generated programs a run makes, and from which seed. The suites of several crates have
//! this as a module.
//!
//! The seed is 0, or that of `GENERATED_SEED`. `GENERATED_PROGRAMS=k` makes `k` times as many
//! programs, as the step `generated` of `cargo xtask ci` does.
#![allow(dead_code)] // no suite needs all of it

/// The seed of the run's programs.
pub fn seed() -> u64 {
    number("GENERATED_SEED").unwrap_or(0)
}

/// How many programs a campaign makes that makes `n` in the tests of a commit.
pub fn programs(n: u32) -> u32 {
    n * number("GENERATED_PROGRAMS").unwrap_or(1) as u32
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not `{value}`")),
    )
}
