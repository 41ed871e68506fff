//! The environment variables.

use std::str::FromStr;

/// **Panics**: if a variable is set to an invalid value. A campaign that silently did something
/// else would be worse.
fn number<T: FromStr>(name: &str) -> Option<T> {
    let s = std::env::var(name).ok()?;
    Some(
        s.parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not `{s}`")),
    )
}

/// The name of the test that this thread runs.
pub(crate) fn test_name() -> String {
    std::thread::current()
        .name()
        .unwrap_or("explore")
        .to_owned()
}

/// `POWERFAIL_SHARD=i/n`: this process takes shard i of n; returned counting from 0.
pub(crate) fn shard() -> (u32, u32) {
    let Ok(s) = std::env::var("POWERFAIL_SHARD") else {
        return (0, 1);
    };
    let parts = s.split_once('/').and_then(|(i, n)| {
        let (i, n): (u32, u32) = (i.parse().ok()?, n.parse().ok()?);
        (1..=n).contains(&i).then_some((i - 1, n))
    });
    parts.unwrap_or_else(|| panic!("POWERFAIL_SHARD is `i/n` with 1 <= i <= n, not `{s}`"))
}

/// `POWERFAIL_THIN=n`: about n boots.
pub(crate) fn thin() -> Option<u64> {
    number("POWERFAIL_THIN")
}

/// `POWERFAIL_SAMPLE`: which states to boot where a test asks for a sample of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Samples {
    Seed(u64),
    All,
}

impl Samples {
    /// The seed for cuts that leave more states than any limit allows.
    pub(crate) fn seed(self) -> u64 {
        match self {
            Samples::Seed(n) => n,
            Samples::All => 0,
        }
    }
}

pub(crate) fn samples() -> Samples {
    match std::env::var("POWERFAIL_SAMPLE").as_deref() {
        Ok("all") => Samples::All,
        _ => Samples::Seed(number("POWERFAIL_SAMPLE").unwrap_or(0)),
    }
}

/// The depth of a campaign whose program says `depth`.
pub(crate) fn depth(depth: u32) -> u32 {
    asked_for(depth, number("POWERFAIL_DEPTH"), cfg!(miri))
}

fn asked_for(depth: u32, all: Option<u32>, slow: bool) -> u32 {
    match all {
        // A depth of 1 stays, and a closure has no fixed depth.
        _ if depth <= 1 || depth == u32::MAX => depth,
        Some(d) => d.max(1),
        None if slow => 1,
        None => depth,
    }
}

/// The seed of random programs, unless the program sets one.
pub(crate) fn seed() -> Option<u64> {
    number("POWERFAIL_SEED")
}

/// A line to replay.
pub(crate) fn line() -> Option<String> {
    std::env::var("POWERFAIL").ok()
}

#[cfg(test)]
mod tests {
    use super::asked_for;

    #[test]
    fn the_environment_deepens_what_cuts_recovery() {
        assert_eq!(asked_for(2, None, false), 2);
        assert_eq!(asked_for(2, Some(3), false), 3);
        assert_eq!(asked_for(4, Some(2), false), 2);
        assert_eq!(asked_for(1, Some(3), false), 1);
        assert_eq!(asked_for(u32::MAX, Some(3), true), u32::MAX);
        assert_eq!(asked_for(3, None, true), 1);
        assert_eq!(asked_for(3, Some(2), true), 2);
    }
}
