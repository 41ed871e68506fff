//! What a kernel of many threads needs of the crates below it.

use super::measure::figures;
use super::{Figures, Measured, Options};
use anyhow::{Context, Result, ensure};
use xtask::machine::Which;
use xtask::project::Project;
use xtask::run::{Step, cargo};

/// The machine, and the scenarios that measure: all, because what the marks cost is measured beside
/// transactions.
const MACHINE: &str = "arm";
const SCENARIOS: &str = "-costs/";

/// The measured sections, which keep their names.
const SECTIONS: [&str; 3] = ["step_iteration", "step", "turn"];

/// What is the same on every computer.
pub fn exact(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let which = Which {
        machine: Some(MACHINE),
        scenario: Some(SCENARIOS),
        ..Which::default()
    };
    let costs = xtask::machine::costs(project, which, step)?;
    Ok(instructions(&costs)?.into())
}

/// Package and modules of tests that print lines `key value`. They fail when a cut is not survived.
const PRINTS: [(&str, &[&str]); 3] = [
    ("pmem-tx", &["sharing::"]),
    (
        "nv-replay",
        &["threads::boxes", "threads::kept", "threads::outboxes"],
    ),
    ("nv-replay", &["several::"]),
];

/// The key that is printed as it is.
const MEMORY: &str = "threads.nvm_per_thread";

/// The scenarios of threads in machine code.
const PREEMPTED: &str = "threads/";

/// All of that, and the campaigns with preemptions: on a host, and in machine code.
pub fn all(project: &Project, step: &Step, options: Options) -> Result<Measured> {
    let mut found = exact(project, step, options)?.figures;
    let mut printed = Figures::new();
    for (package, tests) in PRINTS {
        let mut c = cargo();
        c.current_dir(&project.root)
            .args(["test", "-p", package, "--test", "suite", "--"])
            .args(tests)
            // One thread would print each test's name first on the line.
            .args(["--nocapture", "--test-threads=2"]);
        printed.extend(figures(&step.run(c)?));
    }
    found.extend(campaigns(&printed)?);
    let which = Which {
        scenario: Some(PREEMPTED),
        ..Which::default()
    };
    let (machines, wrong) = xtask::machine::campaign(project, which, false, step)?;
    found.extend(
        machines
            .into_iter()
            .filter(|(k, _)| k.starts_with("threads.")),
    );
    Ok(Measured {
        figures: found,
        wrong,
    })
}

/// The sums of what the tests have printed. A failure would have ended the test.
fn campaigns(printed: &Figures) -> Result<Figures> {
    let sum = |end: &str| -> f64 {
        let mine = printed.iter().filter(|(k, _)| k.ends_with(end));
        mine.map(|(_, v)| v).sum()
    };
    let (cuts, points) = (sum(".cuts"), sum(".points"));
    ensure!(cuts > 0.0 && points > 0.0, "no test has printed its cuts");
    let memory = *printed
        .get(MEMORY)
        .with_context(|| format!("no line `{MEMORY} N`"))?;
    Ok(Figures::from([
        ("threads.cuts".to_owned(), cuts),
        ("threads.failures".to_owned(), 0.0),
        ("threads.preemption_points".to_owned(), points),
        (MEMORY.to_owned(), memory),
    ]))
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

    #[test]
    fn the_cuts_of_all_campaigns_are_added_up() {
        let lines = [
            ("a.two.cuts", 5.0),
            ("b.cuts", 6.0),
            ("a.points", 3.0),
            (MEMORY, 80.0),
        ];
        let mut printed: Figures = lines.map(|(k, v)| (k.to_owned(), v)).into();
        let sums = campaigns(&printed).unwrap();
        assert_eq!(sums["threads.cuts"], 11.0);
        assert_eq!(sums["threads.preemption_points"], 3.0);
        assert_eq!(sums[MEMORY], 80.0);
        printed.remove("a.points");
        assert!(campaigns(&printed).is_err());
    }
}
