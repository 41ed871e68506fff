//! What calls of `nv-device` cost on a Cortex-M4 and on an MSP430, and the cuts of its programs: on
//! a host and in machine code.

use super::{Figures, Measured, Options};
use anyhow::{Context, Result, ensure};
use xtask::machine::Which;
use xtask::project::Project;
use xtask::run::{Step, cargo};
use xtask::stats;

/// The scenarios that measure: all, because what the marks cost is measured beside transactions.
const SCENARIOS: &str = "-costs/";

/// Figure, and the sections of the rig: what the second one takes counts as none of it.
const CALLS: [(&str, &str, Option<&str>); 7] = [
    ("bare", "bare", None),
    ("own_commit", "own", None),
    ("two_unit", "own_long", None),
    ("top_half", "top_half", None),
    ("staged", "staged", Some("step")),
    ("set", "step", Some("no_set")),
    ("call_added", "own_stack", Some("own")),
];

/// The drivers that the campaigns cut: of their programs' lock file.
const DRIVERS: [&str; 5] = ["tmp1x2", "rfm69", "pcf857x", "lis3dh", "ds323x"];

/// Kills of a program with a thermometer in QEMU.
const KILLS: u32 = 200;

/// What is the same on every computer.
pub fn exact(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let on = |machine| Which {
        machine: Some(machine),
        scenario: Some(SCENARIOS),
        ..Which::default()
    };
    let arm = xtask::machine::costs(project, on("arm"), step)?;
    let mut figures = calls(&arm)?;
    let msp430 = xtask::machine::costs(project, on("msp430"), step)?;
    figures.extend(cycles(&msp430)?);
    figures.extend(super::yields::exact(project, step)?);
    let lock = std::fs::read_to_string(project.root.join("Cargo.lock"))?;
    let present = DRIVERS
        .iter()
        .filter(|d| lock.contains(&format!("name = \"{d}\"")));
    figures.insert(
        "device.drivers_unmodified".to_owned(),
        present.count() as f64,
    );
    Ok(figures.into())
}

/// The scenarios of the rig that are programs with devices.
const MACHINE: &str = "device";

/// All of that, and the campaigns: on a host, in machine code, and in QEMU.
pub fn all(project: &Project, step: &Step, options: Options) -> Result<Measured> {
    let mut figures = exact(project, step, options)?.figures;
    let stats = project.target.join("xtask/device-campaigns.txt");
    let _ = std::fs::remove_file(&stats);
    let mut c = cargo();
    c.current_dir(&project.root)
        .env("POWERFAIL_STATS", &stats)
        .args(["test", "-p", "nv-device", "--test", "suite", "crash::"]);
    step.run(c)?;
    let counts = stats::read(&stats)?;
    ensure!(counts.cuts > 0.0, "no campaign has written its cuts");
    figures.insert("device.cuts".to_owned(), counts.cuts);
    figures.insert("device.failures".to_owned(), counts.failed);
    let which = Which {
        scenario: Some(MACHINE),
        ..Which::default()
    };
    let (found, mut wrong) = xtask::machine::campaign(project, which, false, step)?;
    figures.extend(found.into_iter().filter(|(k, _)| k.starts_with("device.")));
    for machine in ["arm", "riscv", "msp430"] {
        let key = format!("device.{machine}.cuts");
        ensure!(figures.contains_key(&key), "no figure {key}");
    }
    let (kills, failed) = xtask::qemu::kills_of_a_device(project, KILLS, step)?;
    figures.insert("device.qemu_kills".to_owned(), kills.into());
    figures.insert("device.qemu_failures".to_owned(), failed.len() as f64);
    wrong = wrong.or((!failed.is_empty()).then(|| failed.join("\n")));
    Ok(Measured { figures, wrong })
}

fn section(costs: &Figures, machine: &str, name: &str, count: &str) -> Result<f64> {
    let key = format!("machine.{machine}.device_{name}.{count}");
    let found = costs.get(&key).copied();
    found.with_context(|| format!("no figure {key}"))
}

/// The figures of the calls on a Cortex-M4.
fn calls(costs: &Figures) -> Result<Figures> {
    let mut out = Figures::new();
    for (figure, name, without) in CALLS {
        for count in ["instructions", "stores"] {
            let mut value = section(costs, "arm", name, count)?;
            if let Some(without) = without {
                value -= section(costs, "arm", without, count)?;
            }
            out.insert(format!("device.{figure}.{count}"), value);
        }
    }
    Ok(out)
}

/// The cycles of a toggle on an MSP430, and its share of a bare one.
fn cycles(costs: &Figures) -> Result<Figures> {
    let of = |name| section(costs, "msp430", name, "cycles");
    let (bare, own) = (of("bare")?, of("own")?);
    Ok(Figures::from([
        ("device.msp430.bare_cycles".to_owned(), bare),
        ("device.msp430.toggle_cycles".to_owned(), own),
        (
            "device.msp430.toggle_percent".to_owned(),
            ((own / bare - 1.0) * 100.0).round(),
        ),
        ("device.msp430.two_unit_cycles".to_owned(), of("own_long")?),
        (
            "device.msp430.call_cycles_added".to_owned(),
            of("own_stack")? - own,
        ),
        ("device.msp430.top_half_cycles".to_owned(), of("top_half")?),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_context_without_its_step() {
        let mut costs = Figures::new();
        for name in [
            "bare",
            "own",
            "own_long",
            "own_stack",
            "top_half",
            "staged",
            "step",
            "no_set",
        ] {
            for (count, value) in [("instructions", 10.0), ("stores", 1.0)] {
                costs.insert(format!("machine.arm.device_{name}.{count}"), value);
            }
        }
        costs.insert("machine.arm.device_staged.instructions".into(), 31.0);
        let found = calls(&costs).unwrap();
        assert_eq!(found["device.staged.instructions"], 21.0);
        assert_eq!(found["device.own_commit.instructions"], 10.0);
        costs.remove("machine.arm.device_own.stores");
        assert!(calls(&costs).is_err());
    }
}
