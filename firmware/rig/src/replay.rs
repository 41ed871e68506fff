//! The line that repeats a failure: `arm/tx/update_two@1f2e3d4c/i1034.2/i220`.
//!
//! Machine, group and scenario; `+a3` a planted bug, `+r20` a number of operations, `+i99` an
//! interrupt before that instruction of the first boot, and `+p99,140` interrupts that switch
//! threads and become pending before these instructions, if any; the hash of the image; and for
//! each cut how many instructions of its boot had ended, and how many units the next one had
//! stored; `~1` or `~2` when the last unit is torn.

use crate::explore::Case;
use crate::state::Log;
use anyhow::{Context, Result, bail};
use std::fmt;

/// Where in a boot the power fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Instructions that have ended.
    pub instructions: u32,
    /// Units that the next one has stored.
    pub units: u32,
    /// How the last unit that was stored is torn; 0 if it is not.
    pub torn: u8,
}

impl Cut {
    /// The cut after the first `n` units of a run with detail.
    pub fn after(n: usize, log: &Log) -> Self {
        let (before, behind) = log.stores.split_at(n);
        let Some(last) = before.last() else {
            return Cut {
                instructions: 0,
                units: 0,
                torn: 0,
            };
        };
        let i = last.instruction;
        if behind.first().is_some_and(|s| s.instruction == i) {
            let units = before
                .iter()
                .rev()
                .take_while(|s| s.instruction == i)
                .count();
            Cut {
                instructions: i,
                units: units as u32,
                torn: 0,
            }
        } else {
            Cut {
                instructions: i + 1,
                units: 0,
                torn: 0,
            }
        }
    }

    /// How many units are stored before it, in a run with detail; `None` when the run has no such
    /// place.
    pub fn stores(&self, log: &Log, instructions: u64) -> Option<usize> {
        let before = log
            .stores
            .partition_point(|s| s.instruction < self.instructions);
        let of = log.stores[before..].iter();
        let of = of
            .take_while(|s| s.instruction == self.instructions)
            .count();
        let inside = u64::from(self.instructions) <= instructions && self.units as usize <= of;
        inside.then_some(before + self.units as usize)
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.instructions)?;
        if self.units != 0 {
            write!(f, ".{}", self.units)?;
        }
        match self.torn {
            0 => Ok(()),
            n => write!(f, "~{n}"),
        }
    }
}

impl std::str::FromStr for Cut {
    type Err = anyhow::Error;
    fn from_str(s: &str) -> Result<Self> {
        let parse = || {
            let s = s.strip_prefix('i')?;
            let (s, t) = s.split_once('~').unwrap_or((s, "0"));
            let (i, u) = s.split_once('.').unwrap_or((s, "0"));
            Some(Cut {
                instructions: i.parse().ok()?,
                units: u.parse().ok()?,
                torn: t.parse().ok()?,
            })
        };
        parse().with_context(|| format!("`{s}` is no cut"))
    }
}

/// A replay line, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The machine's name.
    pub machine: String,
    /// The group's.
    pub group: String,
    /// The scenario's.
    pub scenario: String,
    /// What the mailbox's argument says.
    pub argument: u16,
    /// What the mailbox's cell of rounds says.
    pub rounds: u16,
    /// The instruction of the first boot before which an interrupt comes.
    pub interrupt: Option<u64>,
    /// After how many instructions of the first boot the timer's interrupts come.
    pub instants: Vec<u64>,
    /// The image's hash.
    pub hash: u32,
    /// The cuts, one boot after the other.
    pub cuts: Vec<Cut>,
}

impl Line {
    /// The line of a case.
    pub fn new(machine: &str, group: &str, case: &Case, hash: u32, cuts: Vec<Cut>) -> Self {
        Line {
            machine: machine.into(),
            group: group.into(),
            scenario: case.name.clone(),
            argument: case.argument,
            rounds: case.rounds,
            interrupt: case.interrupt,
            instants: case.instants.clone(),
            hash,
            cuts,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.machine, self.group, self.scenario)?;
        if self.argument != 0 {
            write!(f, "+a{}", self.argument)?;
        }
        if self.rounds != 0 {
            write!(f, "+r{}", self.rounds)?;
        }
        if let Some(at) = self.interrupt {
            write!(f, "+i{at}")?;
        }
        for (i, at) in self.instants.iter().enumerate() {
            let before = if i == 0 { "+p" } else { "," };
            write!(f, "{before}{at}")?;
        }
        write!(f, "@{:08x}", self.hash)?;
        self.cuts.iter().try_for_each(|c| write!(f, "/{c}"))
    }
}

impl std::str::FromStr for Line {
    type Err = anyhow::Error;
    fn from_str(s: &str) -> Result<Self> {
        let (what, how) = s.split_once('@').context("a replay line has an `@`")?;
        let mut parts = how.split('/');
        let hash =
            u32::from_str_radix(parts.next().unwrap_or(""), 16).context("no hash of an image")?;
        let cuts = parts.map(str::parse).collect::<Result<_>>()?;
        let mut of = what.split('+');
        let mut names = of.next().unwrap_or("").split('/').map(str::to_owned);
        let (Some(machine), Some(group), Some(scenario), None) =
            (names.next(), names.next(), names.next(), names.next())
        else {
            bail!("`{what}` is not machine/group/scenario");
        };
        let (mut argument, mut rounds, mut interrupt) = (0, 0, None);
        let mut instants = Vec::new();
        for o in of {
            match (o.get(..1), o.get(1..).map(str::parse)) {
                (Some("a"), Some(Ok(n))) => argument = n,
                (Some("r"), Some(Ok(n))) => rounds = n,
                (Some("p"), _) => {
                    let each = o[1..].split(',').map(str::parse);
                    instants = each.collect::<Result<_, _>>().context("no instructions")?;
                }
                (Some("i"), _) => interrupt = Some(o[1..].parse().context("no instruction")?),
                _ => bail!("`+{o}` is not known"),
            }
        }
        Ok(Line {
            machine,
            group,
            scenario,
            argument,
            rounds,
            interrupt,
            instants,
            hash,
            cuts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::When;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for s in [
            "arm/tx/update_two@1f2e3d4c/i1034.2/i220",
            "riscv/planted/merge+a3+r20@00000001",
            "msp430/heap-interrupt/list+i99123@00000001/i4",
            "arm/checkpoint/flash@00000001/i7.1~2/i9~1",
            "arm/switch/two_threads+a17+p107,220@00000001/i7",
        ] {
            assert_eq!(s.parse::<Line>().unwrap().to_string(), s);
        }
        for s in [
            "arm/tx/x",
            "arm/tx@1",
            "arm/tx/x@1/s4",
            "arm/tx/x+b1@1",
            "arm/tx/x@y",
        ] {
            assert!(s.parse::<Line>().is_err(), "{s}");
        }
    }

    #[test]
    fn a_cut_is_found_at_its_instruction_and_unit() {
        let mut log = Log::default();
        for (instruction, bytes) in [(3, 4), (7, 12), (9, 4)] {
            let when = When {
                instruction,
                ..When::default()
            };
            log.store(4, 0, &vec![1; bytes], when);
        }
        for n in 0..=5 {
            assert_eq!(Cut::after(n, &log).stores(&log, 10), Some(n));
        }
        let shown: Vec<_> = (0..=5).map(|n| Cut::after(n, &log).to_string()).collect();
        assert_eq!(shown, ["i0", "i4", "i7.1", "i7.2", "i8", "i10"]);
        assert_eq!("i5".parse::<Cut>().unwrap().stores(&log, 10), Some(1));
        assert_eq!("i7.4".parse::<Cut>().unwrap().stores(&log, 10), None);
        assert_eq!("i11".parse::<Cut>().unwrap().stores(&log, 10), None);
    }
}
