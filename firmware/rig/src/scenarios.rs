//! The scenarios that the rig knows: those of the suite that it links, and those of a suite that it
//! does not link, as that suite's program `list` has printed them.

use crate::explore::Case;
use anyhow::{Context, Result, bail};
use relume_suite::{HostModel, Scenario, groups, programs};
use std::collections::BTreeMap;
use std::path::Path;

/// The scenarios that are not linked. Their groups take the place of linked ones of the same name.
#[derive(Default)]
pub struct Scenarios {
    cases: BTreeMap<String, Vec<Case>>,
    wanted: BTreeMap<String, [u32; 4]>,
}

impl Scenarios {
    /// Reads a list, if there is one.
    ///
    /// **Errors**: the file cannot be read, or a line is none of a list.
    pub fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut all = Self::default();
        for line in text.lines() {
            all.add(line)
                .with_context(|| format!("not a line of a list: `{line}`"))?;
        }
        Ok(all)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        match (words.next()?, words.next()?.to_owned()) {
            ("scenario", group) => {
                let mut case = Case {
                    name: words.next()?.to_owned(),
                    number: words.next()?.parse().ok()?,
                    ..Case::default()
                };
                for word in words {
                    match word.split_once('=').unwrap_or((word, "")) {
                        ("bytes", n) => case.bytes = n.parse().ok()?,
                        ("sample", n) => case.sample = n.parse().ok()?,
                        ("measures", "") => case.measures = true,
                        ("interrupts", "") => case.interrupts = true,
                        ("preempts", "") => case.preempts = true,
                        ("torn", "") => case.torn = true,
                        ("whole", "") => case.whole = true,
                        ("periods", "") => case.periods = true,
                        _ => return None,
                    }
                }
                self.cases.entry(group).or_default().push(case);
            }
            ("wanted", group) => {
                let found: Option<Vec<u32>> = words.map(|w| w.parse().ok()).collect();
                self.wanted.insert(group, found?.try_into().ok()?);
            }
            _ => return None,
        }
        Some(())
    }

    /// The scenarios of a group, which do so many operations.
    ///
    /// **Errors**: there is no such group.
    pub fn of(&self, group: &str, rounds: u16) -> Result<Vec<Case>> {
        if let Some(cases) = self.cases.get(group) {
            let each = |c: &Case| Case {
                rounds,
                ..c.clone()
            };
            return Ok(cases.iter().map(each).collect());
        }
        let all = groups::<HostModel>();
        let Some(g) = all.iter().find(|g| g.name == group) else {
            bail!("no group `{group}` in the suite");
        };
        let case = |(i, s): (usize, &Scenario<HostModel>)| Case {
            name: s.name.to_owned(),
            number: i as u16,
            rounds,
            bytes: s.bytes,
            measures: s.measures,
            interrupts: s.interrupts,
            preempts: s.preempts,
            torn: s.torn,
            sample: s.sample,
            whole: s.whole,
            periods: s.periods,
            ..Case::default()
        };
        Ok(g.scenarios.iter().enumerate().map(case).collect())
    }

    /// What the program of a group must find, if the group is one of programs.
    pub fn wanted(&self, group: &str) -> Option<[u32; 4]> {
        let listed = self.wanted.get(group).copied();
        listed.or_else(|| programs::wanted(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_group_takes_the_place_of_a_linked_one() {
        let list = "scenario program-mq mq_volatile 2 bytes=4096 sample=0 whole\n\
                    wanted program-mq 1 2 3 4\n";
        let all = Scenarios::parse(list).unwrap();
        let [case] = &all.of("program-mq", 7).unwrap()[..] else {
            panic!("not one");
        };
        assert_eq!(
            (&*case.name, case.number, case.rounds),
            ("mq_volatile", 2, 7)
        );
        assert!(case.whole && !case.periods && case.bytes == 4096);
        assert_eq!(all.wanted("program-mq"), Some([1, 2, 3, 4]));
        assert_eq!(all.wanted("program-etl"), programs::wanted("program-etl"));
        assert!(all.of("tx", 0).unwrap().len() > 1);
        assert!(all.of("nothing", 0).is_err());
        for wrong in [
            "scenario a b",
            "scenario a b 1 loud",
            "wanted a 1 2 3",
            "bug",
        ] {
            assert!(Scenarios::parse(wrong).is_err(), "{wrong}");
        }
    }
}
