//! A part of N: of a step's items, or of a long campaign on several machines.

use std::fmt;
use std::str::FromStr;

/// The i-th of n parts, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// i
    pub part: u32,
    /// n
    pub of: u32,
}

impl Shard {
    /// One part that is everything.
    pub const WHOLE: Shard = Shard { part: 1, of: 1 };

    /// Whether the thing of this number, from 0, is in this part.
    pub fn takes(self, number: usize) -> bool {
        number % self.of as usize == self.part as usize - 1
    }
}

impl FromStr for Shard {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let parts = s.split_once('/').and_then(|(part, of)| {
            let (part, of) = (part.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&part).then_some(Shard { part, of })
        });
        parts.ok_or_else(|| "it is i/n, with i from 1 to n".to_owned())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_in_one_part() {
        let shards = ["1/3", "2/3", "3/3"].map(|s| s.parse::<Shard>().unwrap());
        for n in 0..10 {
            assert_eq!(shards.iter().filter(|s| s.takes(n)).count(), 1);
        }
        for wrong in ["0/3", "4/3", "3", "", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
