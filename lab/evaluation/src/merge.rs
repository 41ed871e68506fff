//! Adds up what the shards of a campaign have counted.

use super::{Figures, measure::LEAST};
use anyhow::{Context, Result, bail};

/// **Errors**: it is not each shard once; two files differ in a figure that is not a sum.
pub fn all(shards: &[Figures]) -> Result<Figures> {
    let mut sum = Figures::new();
    let mut seen = Vec::new();
    let mut of = None;
    for f in shards {
        let number = |key| f.get(key).copied();
        if let (Some(part), Some(n)) = (number("tests.shard"), number("tests.shards")) {
            if *of.get_or_insert(n) != n {
                bail!("these are shards of different campaigns");
            }
            seen.push(part);
        } else if number("tests.cuts_total").is_some() {
            bail!("one of the files is of a whole campaign, not of a shard");
        }
        for (key, value) in f {
            match key.as_str() {
                "tests.shard" | "tests.shards" => {}
                k if k.starts_with("tests.") => *sum.entry(key.clone()).or_default() += value,
                _ => {
                    let first = *sum.entry(key.clone()).or_insert(*value);
                    if first != *value {
                        bail!("{key} is {first} in one file, {value} in another");
                    }
                }
            }
        }
    }
    let of = of.context("none of the files is of a shard")?;
    for part in 1..=of as u32 {
        match seen.iter().filter(|s| **s == f64::from(part)).count() {
            1 => {}
            0 => bail!("shard {part}/{of} is missing"),
            _ => bail!("shard {part}/{of} is there twice"),
        }
    }
    let total = |key| sum.get(key).copied().unwrap_or_default();
    if total("tests.cuts_failed") == 0.0 && total("tests.cuts_total") < LEAST {
        bail!(
            "all shards together made {} cuts, {LEAST} are required",
            total("tests.cuts_total")
        );
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(part: f64, cuts: f64, failed: f64) -> Figures {
        [
            ("tests.shard", part),
            ("tests.shards", 2.0),
            ("tests.cuts_total", cuts),
            ("tests.cuts_failed", failed),
            ("pmem_tx.a", 7.0),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into()
    }

    #[test]
    fn shards_add_up() {
        let sum = all(&[shard(2.0, 80_000.0, 0.0), shard(1.0, 30_000.0, 1.0)]).unwrap();
        assert_eq!(sum["tests.cuts_total"], 110_000.0);
        assert_eq!((sum["tests.cuts_failed"], sum["pmem_tx.a"]), (1.0, 7.0));
        assert!(!sum.contains_key("tests.shard"));
    }

    #[test]
    fn what_is_missing_double_or_different_is_refused() {
        let one = || shard(1.0, 1e6, 0.0);
        assert!(
            all(&[one()])
                .unwrap_err()
                .to_string()
                .contains("2/2 is missing")
        );
        assert!(all(&[one(), one()]).is_err());
        let mut other = shard(2.0, 1e6, 0.0);
        other.insert("pmem_tx.a".into(), 8.0);
        assert!(
            all(&[one(), other])
                .unwrap_err()
                .to_string()
                .contains("pmem_tx.a")
        );
        let whole = Figures::from([("tests.cuts_total".into(), 1e6)]);
        assert!(all(&[one(), shard(2.0, 1e6, 0.0), whole]).is_err());
        assert!(
            all(&[shard(1.0, 1.0, 0.0), shard(2.0, 1.0, 0.0)]).is_err(),
            "too few"
        );
        assert!(all(&[]).is_err());
    }
}
