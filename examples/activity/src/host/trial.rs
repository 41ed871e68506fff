//! Runs of the program with power cuts.

use crate::device::{Left, boot};
use crate::machine::{Count, Machine};
use crate::sensor::{Arm, Motions};
use anyhow::{Result, anyhow};
use std::rc::Rc;

/// Cuts in a row without a step further after which a run makes no progress.
const PATIENCE: u64 = 100;

/// One cut in so many is followed by a cut of the recovery from it.
const SPRINKLE: u64 = 4;

/// Devices that must come to the end of the program before a number of stores counts as enough.
const SAMPLE: u64 = 8;

/// Cuts that the runs of a demo are to survive, and the most devices that it takes for that.
const CUTS: u64 = 1_000;
const DEVICES: u64 = 1_000;

/// A run, from a new device to the end of its program.
#[derive(Default)]
pub struct Run {
    /// How often the power went.
    pub cuts: u64,
    /// How often it did in a recovery.
    pub in_recovery: u64,
    /// What was stored.
    pub count: Count,
    /// The step that each cut was in.
    pub at: Vec<u16>,
    /// What was left in the end; `None` if the program made no progress.
    pub left: Option<Left>,
}

/// Runs with a cut after the same number of stores.
pub struct Trial {
    /// That number.
    pub every: u64,
    /// A run on each device.
    pub runs: Vec<Run>,
}

/// What runs.
pub struct Bench<'a> {
    /// What the sensor sees.
    pub motions: &'a Rc<Motions>,
    /// FRAM as it leaves the factory.
    pub factory: &'a [u8],
    /// What was stored for that. It counts in every run.
    pub formatting: Count,
}

impl Bench<'_> {
    /// Runs the program with a cut after every `every` stores, or without; in addition, after a quarter of the cuts the
    /// recovery is cut, at any of its stores. Devices of other numbers have the first cut, and what chance decides, elsewhere.
    ///
    /// **Errors**: a boot that ends in an error.
    pub fn run(&self, every: Option<u64>, number: u64) -> Result<Run> {
        let mut machine = Machine::with(self.factory, number);
        let mut run = Run::default();
        let arm = Arm::new(self.motions, machine.meter(), false);
        let (mut idle, mut recovery) = (0, 0);
        let mut stores = match every {
            Some(n) if number > 0 => Some(1 + machine.chance(n)),
            _ => every,
        };
        loop {
            let before = arm.reached();
            let end = boot(&mut machine, &arm, stores);
            run.count = self.formatting + machine.count();
            if let Some(end) = end {
                run.left = Some(end.map_err(|e| anyhow!("after {} cuts: {e}", run.cuts))?);
                return Ok(run);
            }
            run.cuts += 1;
            run.at.push(arm.reached());
            match machine.opened() {
                Some(stores) => recovery = stores,
                None => run.in_recovery += 1,
            }
            idle = if arm.reached() > before { 0 } else { idle + 1 };
            if idle == PATIENCE {
                return Ok(run);
            }
            stores = if run.cuts.is_multiple_of(SPRINKLE) && recovery > 0 {
                Some(machine.chance(recovery))
            } else {
                every
            };
        }
    }

    /// The fewest stores between two cuts with which the program comes to its end on every device tried.
    pub fn smallest(&self, enough: u64) -> Result<u64> {
        let (mut no, mut yes) = (0, enough);
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            let mut ends = true;
            for number in 0..SAMPLE {
                ends = ends && self.run(Some(middle), number)?.left.is_some();
            }
            if ends {
                yes = middle;
            } else {
                no = middle;
            }
        }
        Ok(yes)
    }

    /// A run for each of `every` on one device after the other, at least those of [`Bench::smallest`], until enough cuts were
    /// survived. `told` hears of each run.
    pub fn trials(&self, every: &[u64], mut told: impl FnMut(&Run)) -> Result<Vec<Trial>> {
        let none = |every: &u64| Trial {
            every: *every,
            runs: Vec::new(),
        };
        let mut trials: Vec<_> = every.iter().map(none).collect();
        let mut cuts = 0;
        for number in 0..DEVICES {
            let before = cuts;
            for t in &mut trials {
                if t.stuck() {
                    continue;
                }
                let run = self.run(Some(t.every), number)?;
                told(&run);
                if run.left.is_some() {
                    cuts += run.cuts;
                }
                t.runs.push(run);
            }
            if cuts == before || cuts >= CUTS && number + 1 >= SAMPLE {
                break;
            }
        }
        Ok(trials)
    }
}

impl Trial {
    /// Whether a device made no progress.
    pub fn stuck(&self) -> bool {
        self.runs.iter().any(|r| r.left.is_none())
    }

    /// The runs that came to their end.
    pub fn ended(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|r| r.left.is_some())
    }
}
