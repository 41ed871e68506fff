//! What a kernel of many threads needs of the crates below it.

use super::{Figures, Measured, Options};
use anyhow::{Context, Result};
use xtask::project::Project;
use xtask::run::Step;

/// The machine, and the scenarios that measure: all, because what the marks cost is measured beside
/// transactions.
const MACHINE: &str = "arm";
const SCENARIOS: &str = "-costs/";

/// The measured sections, which keep their names.
const SECTIONS: [&str; 3] = ["step_iteration", "step", "turn"];

/// What is the same on every computer.
pub fn exact(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let costs = xtask::machine::costs_of(project, MACHINE, SCENARIOS, step)?;
    Ok(instructions(&costs)?.into())
}

/// The instructions of the sections.
fn instructions(costs: &Figures) -> Result<Figures> {
    let of = |name: &str| {
        let key = format!("machine.{MACHINE}.{name}.instructions");
        let value = *costs
            .get(&key)
            .with_context(|| format!("no figure {key}"))?;
        Ok((format!("threads.{name}.instructions"), value))
    };
    SECTIONS.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_was_not_measured_is_an_error() {
        let key = |name: &str| format!("machine.arm.{name}.instructions");
        let mut costs: Figures = SECTIONS.iter().map(|n| (key(n), 7.0)).collect();
        assert_eq!(
            instructions(&costs).unwrap()["threads.turn.instructions"],
            7.0
        );
        costs.remove(&key("step"));
        assert!(instructions(&costs).is_err());
    }
}
