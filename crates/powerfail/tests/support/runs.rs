//! How many generated programs a run makes, and from which seed. The suites of several crates have
//! this as a module.
//!
//! `POWERFAIL_SAMPLE=n` is the seed: in CI it comes from the commit. With `POWERFAIL_SAMPLE=all`,
//! as in long runs, each campaign makes a hundred times as many programs. `GENERATED_PROGRAMS=k`
//! makes `k` times as many.
#![allow(dead_code)] // no suite needs all of it

/// The seed of the run's programs.
pub fn seed() -> u64 {
    sample().unwrap_or(0)
}

/// How many programs a campaign makes that makes `n` in the tests of a commit.
pub fn programs(n: u32) -> u32 {
    match (number("GENERATED_PROGRAMS"), sample()) {
        (Some(times), _) => n * times as u32,
        (None, None) => n * 100,
        (None, Some(_)) => n,
    }
}

/// The seed, unless the run is a long one.
fn sample() -> Option<u64> {
    match std::env::var("POWERFAIL_SAMPLE").as_deref() {
        Ok("all") => None,
        _ => Some(number("POWERFAIL_SAMPLE").unwrap_or(0)),
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not `{value}`")),
    )
}
