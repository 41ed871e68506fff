//! What the calls of the kernel cost on a Cortex-M4, and its threads cut and preempted there.

use super::programs::{self, GROUP as PROGRAM};
use super::{Figures, Measured, Options};
use anyhow::{Context, Result, ensure};
use xtask::machine::Which;
use xtask::project::Project;
use xtask::run::{Step, cargo};

/// The machine, and the scenarios that measure: all, because what the marks cost is measured beside
/// transactions.
const MACHINE: &str = "arm";
const SCENARIOS: &str = "-costs/";
/// Those on which the masked sections are measured, too.
const MASKED: [&str; 3] = ["arm", "riscv", "msp430"];

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
    let costs = xtask::machine::costs(project, on(MACHINE, SCENARIOS), step)?;
    let mut figures = calls(&costs)?;
    let code = xtask::sizes::kernel_code(project, step)?;
    figures.insert(CODE.to_owned(), code as f64);
    for machine in MASKED {
        let costs = xtask::machine::costs(project, on(machine, PREEMPTED), step)?;
        figures.insert(masked_key(machine), masked(&costs, machine)?);
    }
    for name in PROGRAMS {
        let scenario = format!("{PROGRAM}{name}/");
        let which = Which {
            lab: true,
            ..on(MACHINE, &scenario)
        };
        let costs = xtask::machine::costs(project, which, step)?;
        figures.extend(programs::figures(&costs, &[name])?);
    }
    for name in CODE_OF {
        let code = xtask::sizes::program_code(project, name, step)?;
        figures.insert(format!("rtos.{name}.code"), code as f64);
    }
    Ok(figures.into())
}

/// Scenarios of the firmware on one machine.
fn on<'a>(machine: &'a str, scenario: &'a str) -> Which<'a> {
    Which {
        machine: Some(machine),
        scenario: Some(scenario),
        ..Which::default()
    }
}

/// The programs of which this evaluation has figures, too; all are in [`programs`].
const PROGRAMS: [&str; 2] = ["mq", "em"];
/// Those whose code is measured, too.
const CODE_OF: [&str; 1] = ["mq"];
/// The scenarios of threads of the kernel that are preempted and cut: of several groups, and whole
/// programs.
const PREEMPTED: &str = "rtos";
/// Kills of each program on each machine in QEMU.
const KILLS: u32 = 100;

/// All of that, and the campaigns: on a host, in machine code, and in QEMU.
pub fn all(project: &Project, step: &Step, options: Options) -> Result<Measured> {
    let mut figures = exact(project, step, options)?.figures;
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["test", "-p", "nv-rtos", "--test", "suite", "crash::"])
        // One thread would print each test's name first on the line.
        .args(["--", "--nocapture", "--test-threads=2"]);
    figures.extend(campaigns(&super::measure::figures(&step.run(c)?))?);
    let mut wrong = None;
    for (lab, scenario) in [(false, PREEMPTED), (true, PROGRAM)] {
        let which = Which {
            lab,
            scenario: Some(scenario),
            ..Which::default()
        };
        let (machines, failed) = xtask::machine::campaign(project, which, false, step)?;
        figures.extend(machines.into_iter().filter(|(k, _)| k.starts_with("rtos.")));
        wrong = wrong.or(failed);
    }
    for key in MASKED.map(|machine| format!("rtos.{machine}.cuts")) {
        ensure!(figures.contains_key(&key), "no figure {key}");
    }
    let programs = PROGRAMS.map(|name| (format!("{PROGRAM}{name}"), format!("{name}_protected")));
    let programs = programs.each_ref().map(|(group, name)| (&**group, &**name));
    let (kills, failed) = xtask::qemu::kills_of(&project.lab()?, &programs, KILLS, step)?;
    figures.insert("rtos.qemu_kills".to_owned(), kills.into());
    figures.insert("rtos.qemu_failures".to_owned(), failed.len() as f64);
    wrong = wrong.or((!failed.is_empty()).then(|| failed.join("\n")));
    Ok(Measured { figures, wrong })
}

/// The sums of what the tests have printed. A failure would have ended the test.
fn campaigns(printed: &Figures) -> Result<Figures> {
    let sum = |end: &str| -> f64 {
        let mine = printed.iter().filter(|(k, _)| k.ends_with(end));
        mine.map(|(_, v)| v).sum()
    };
    let (cuts, points) = (sum(".cuts"), sum(".points"));
    ensure!(cuts > 0.0 && points > 0.0, "no test has printed its cuts");
    Ok(Figures::from([
        ("rtos.cuts".to_owned(), cuts),
        ("rtos.failures".to_owned(), 0.0),
        ("rtos.preemption_points".to_owned(), points),
    ]))
}

/// The figure of the longest run of instructions in which the kernel masks interrupts.
fn masked_key(machine: &str) -> String {
    match machine {
        MACHINE => "rtos.masked.instructions".to_owned(),
        other => format!("rtos.{other}.masked.instructions"),
    }
}

fn masked(costs: &Figures, machine: &str) -> Result<f64> {
    let key = format!("machine.{machine}.rtos_masked.instructions");
    let found = costs.get(&key).copied();
    let found = found.with_context(|| format!("no figure {key}"))?;
    ensure!(found > 0.0, "{machine}: the kernel masks nothing");
    Ok(found)
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
    fn a_kernel_that_masks_nothing_is_an_error() {
        let key = "machine.msp430.rtos_masked.instructions".to_owned();
        let of = |n| masked(&Figures::from([(key.clone(), n)]), "msp430");
        assert_eq!(of(7.0).unwrap(), 7.0);
        assert!(of(0.0).is_err());
        assert!(masked(&Figures::new(), "msp430").is_err());
        assert_eq!(masked_key("arm"), "rtos.masked.instructions");
    }

    #[test]
    fn the_cuts_of_all_campaigns_are_added_up() {
        let lines = [
            ("rtos.mq.cuts", 5.0),
            ("rtos.em.cuts", 6.0),
            ("rtos.mq.points", 3.0),
        ];
        let mut printed: Figures = lines.map(|(k, v)| (k.to_owned(), v)).into();
        let sums = campaigns(&printed).unwrap();
        assert_eq!(
            (sums["rtos.cuts"], sums["rtos.preemption_points"]),
            (11.0, 3.0)
        );
        printed.remove("rtos.mq.points");
        assert!(campaigns(&printed).is_err());
    }

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
