//! How many generated programs a run makes, and from which seed. The suites of several crates have
//! this as a module.
//!
//! The seed is 0, or that of `GENERATED_SEED`. With `POWERFAIL_SAMPLE=all`, as in long runs, each
//! campaign makes a hundred times as many programs. `GENERATED_PROGRAMS=k` makes `k` times as many.
#![allow(dead_code)] // no suite needs all of it

/// The seed of the run's programs.
pub fn seed() -> u64 {
    number("GENERATED_SEED").unwrap_or(0)
}

/// How many programs a campaign makes that makes `n` in the tests of a commit.
pub fn programs(n: u32) -> u32 {
    let all = std::env::var("POWERFAIL_SAMPLE").is_ok_and(|s| s == "all");
    n * number("GENERATED_PROGRAMS").unwrap_or(if all { 100 } else { 1 }) as u32
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not `{value}`")),
    )
}
