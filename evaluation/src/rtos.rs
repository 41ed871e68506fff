//! What the calls of the kernel cost on a Cortex-M4, and its threads cut and preempted there.

use super::{Figures, Measured, Options};
use anyhow::{Context, Result};
use xtask::project::Project;
use xtask::run::Step;

/// The machine, and the scenarios that measure: all, because what the marks cost is measured beside
/// transactions.
const MACHINE: &str = "arm";
const SCENARIOS: &str = "-costs/";

/// What is measured by itself.
const WHOLE: [&str; 4] = ["step", "lock_unlock", "delay", "switch"];
/// What is measured in a step; its figures are what it adds to the step.
const ADDED: [&str; 6] = ["send", "receive", "give", "take", "event", "event_wait"];
const COUNTS: [&str; 2] = ["instructions", "stores"];
/// The kernel's own share of a program's code.
const CODE: &str = "rtos.kernel.code";
const MEMORY: &str = "rtos.ram_per_thread";

/// What is the same on every computer.
pub fn exact(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let costs = xtask::machine::costs_of(project, MACHINE, SCENARIOS, step)?;
    let mut figures = calls(&costs)?;
    let code = xtask::sizes::kernel_code(project, step)?;
    figures.insert(CODE.to_owned(), code as f64);
    Ok(figures.into())
}

/// The scenario of threads of the kernel.
const PREEMPTED: &str = "rtos/";

/// All of that, and the campaign in machine code.
pub fn all(project: &Project, step: &Step, options: Options) -> Result<Measured> {
    let mut figures = exact(project, step, options)?.figures;
    let (machines, wrong) = xtask::machine::campaign(project, Some(PREEMPTED), false, step)?;
    figures.extend(machines.into_iter().filter(|(k, _)| k.starts_with("rtos.")));
    Ok(Measured { figures, wrong })
}

/// The figures of the calls.
fn calls(costs: &Figures) -> Result<Figures> {
    let of = |key: String| {
        let found = costs.get(&key).copied();
        found.with_context(|| format!("no figure {key}"))
    };
    let section = |name: &str, count: &str| of(format!("machine.{MACHINE}.rtos_{name}.{count}"));
    let mut out = Figures::new();
    for count in COUNTS {
        for name in WHOLE {
            out.insert(format!("rtos.{name}.{count}"), section(name, count)?);
        }
        for name in ADDED {
            let added = section(name, count)? - section("step", count)?;
            out.insert(format!("rtos.{name}.{count}"), added);
        }
    }
    let memory = of(format!("machine.{MACHINE}.rtos_ram_per_thread"))?;
    out.insert(MEMORY.to_owned(), memory);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_adds_to_its_step() {
        let mut costs = Figures::from([("machine.arm.rtos_ram_per_thread".to_owned(), 90.0)]);
        for name in WHOLE.into_iter().chain(ADDED) {
            for (count, value) in [("instructions", 100.0), ("stores", 1.0)] {
                costs.insert(format!("machine.arm.rtos_{name}.{count}"), value);
            }
        }
        costs.insert("machine.arm.rtos_send.instructions".into(), 170.0);
        let found = calls(&costs).unwrap();
        assert_eq!(found["rtos.send.instructions"], 70.0);
        assert_eq!(found["rtos.switch.instructions"], 100.0);
        assert_eq!(found[MEMORY], 90.0);
        costs.remove("machine.arm.rtos_take.stores");
        assert!(calls(&costs).is_err());
    }
}
