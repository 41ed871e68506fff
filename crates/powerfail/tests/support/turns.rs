//! How deep campaigns go that are too many for each run: some of them, by turns. The tests of
//! several crates have this as a module.
//!
//! `POWERFAIL_SAMPLE=n` chooses; without it, `n` is 0. With `POWERFAIL_SAMPLE=all`, as in long
//! runs, each campaign goes as deep as it can.
#![allow(dead_code)] // no test needs all of it

/// The depth of the `i`-th of `n` campaigns: two cuts in a row for one of them in each run, one cut
/// for the others. In long runs two for all.
pub fn in_turn(i: u64, n: u64) -> u32 {
    if is_chosen(i, n) { 2 } else { 1 }
}

/// The same for campaigns that have a name and no number: about one in `n` makes two cuts.
pub fn turn_of(name: &str, n: u64) -> u32 {
    in_turn(name.bytes().map(u64::from).sum(), n)
}

/// Whether this run takes the `i`-th of `n`. A long run takes all.
pub fn is_chosen(i: u64, n: u64) -> bool {
    seed().is_none_or(|seed| seed % n == i % n)
}

/// Two cuts in a row in long runs, else one: where two make millions of cuts.
pub fn deep() -> u32 {
    if seed().is_none() { 2 } else { 1 }
}

/// The seed of the samples, unless they are all.
fn seed() -> Option<u64> {
    let seed = std::env::var("POWERFAIL_SAMPLE").unwrap_or("0".into());
    (seed != "all").then(|| seed.parse().expect("POWERFAIL_SAMPLE is a number or `all`"))
}
