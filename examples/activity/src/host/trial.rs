//! Runs the program with power cuts.

use crate::device::{FinalState, boot};
use crate::machine::{Count, Machine};
use crate::sensor::{Arm, Motions};
use anyhow::{Result, anyhow};
use std::rc::Rc;

/// After this many consecutive cuts without progress a run is stuck.
const MAX_IDLE_CUTS: u64 = 100;

/// One in this many cuts is followed by a cut of the recovery.
const CUTS_PER_RECOVERY_CUT: u64 = 4;

/// The number of devices that must finish before a number of stores counts as sufficient.
const DEVICES_PER_PROBE: u64 = 8;

/// The number of cuts that the runs of a demo survive in total, and the maximum number of devices.
const CUTS: u64 = 1_000;
const DEVICES: u64 = 1_000;

/// A run of one device, from its first boot to the end of the program.
#[derive(Default)]
pub struct Run {
    /// The number of power cuts.
    pub cuts: u64,
    /// The number of power cuts during a recovery.
    pub in_recovery: u64,
    /// All stores.
    pub count: Count,
    /// The step of each cut.
    pub at: Vec<u16>,
    /// The final state; `None` if the program made no progress.
    pub final_state: Option<FinalState>,
}

/// Runs with the same number of stores between cuts.
pub struct Trial {
    /// The number of stores between cuts.
    pub every: u64,
    /// One run for each device.
    pub runs: Vec<Run>,
}

/// The setup of all runs.
pub struct Experiment<'a> {
    /// The sensor's data.
    pub motions: &'a Rc<Motions>,
    /// FRAM as shipped.
    pub factory: &'a [u8],
    /// The stores for formatting, which count in every run.
    pub formatting: Count,
}

impl Experiment<'_> {
    /// Runs the program with a cut after every `every` stores, or without cuts. After a quarter of
    /// the cuts the recovery is cut too, at a random store. The device's `number` shifts its first
    /// cut and starts its random numbers.
    ///
    /// **Errors**: a boot that ends in an error.
    pub fn run(&self, every: Option<u64>, number: u64) -> Result<Run> {
        let mut machine = Machine::with_image(self.factory, number);
        let mut run = Run::default();
        let arm = Arm::new(self.motions, machine.meter(), false);
        let (mut idle, mut recovery) = (0, 0);
        let mut stores = match every {
            Some(n) if number > 0 => Some(1 + machine.random(n)),
            _ => every,
        };
        loop {
            let before = arm.reached();
            let end = boot(&mut machine, &arm, stores);
            run.count = self.formatting + machine.count();
            if let Some(end) = end {
                run.final_state = Some(end.map_err(|e| anyhow!("after {} cuts: {e}", run.cuts))?);
                return Ok(run);
            }
            run.cuts += 1;
            run.at.push(arm.reached());
            match machine.opened() {
                Some(stores) => recovery = stores,
                None => run.in_recovery += 1,
            }
            idle = if arm.reached() > before { 0 } else { idle + 1 };
            if idle == MAX_IDLE_CUTS {
                return Ok(run);
            }
            stores = if run.cuts.is_multiple_of(CUTS_PER_RECOVERY_CUT) && recovery > 0 {
                Some(machine.random(recovery))
            } else {
                every
            };
        }
    }

    /// The smallest number of stores between cuts with which the program finishes on every device
    /// tried.
    pub fn smallest(&self, enough: u64) -> Result<u64> {
        let (mut no, mut yes) = (0, enough);
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            let mut ends = true;
            for number in 0..DEVICES_PER_PROBE {
                ends = ends && self.run(Some(middle), number)?.final_state.is_some();
            }
            if ends {
                yes = middle;
            } else {
                no = middle;
            }
        }
        Ok(yes)
    }

    /// Runs one device after the other with each number of `every`, on at least as many devices as
    /// [`Experiment::smallest`], until enough cuts were survived. Calls `on_run` after each run.
    pub fn trials(&self, every: &[u64], mut on_run: impl FnMut(&Run)) -> Result<Vec<Trial>> {
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
                on_run(&run);
                if run.final_state.is_some() {
                    cuts += run.cuts;
                }
                t.runs.push(run);
            }
            if cuts == before || cuts >= CUTS && number + 1 >= DEVICES_PER_PROBE {
                break;
            }
        }
        Ok(trials)
    }
}

impl Trial {
    /// Whether a device made no progress.
    pub fn stuck(&self) -> bool {
        self.runs.iter().any(|r| r.final_state.is_none())
    }

    /// The runs that finished.
    pub fn ended(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|r| r.final_state.is_some())
    }
}
