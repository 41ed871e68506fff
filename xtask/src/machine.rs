//! The rig: every instruction of the machine code is cut, in an emulator.

use crate::abi::{ARMV6M, MACHINES, runs_on};
use crate::figures::{Figures, read};
use crate::firmware;
use crate::project::{Project, has_program};
use crate::run::{Outcome, Step, cargo, passed};
use crate::shard::Shard;
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Cuts the power at every machine instruction of the firmware, in emulators
///
/// A scenario runs once without a cut. Then it is cut before every instruction of that run, and
/// between the atomic units of a store that has several. The non-volatile memory and the mailbox
/// keep what they hold; RAM and registers become garbage. The machine boots again, checks itself
/// and runs to its end. That boot is cut at every store in the same way. Equal states are booted
/// once.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Only this machine. armv6m is a Cortex-M0: it runs threads of the kernel, and the groups of
    /// checkpoints, of which all but the refusal in a handler need --long or this option
    #[arg(long, value_name = "M", value_parser = ["arm", "riscv", "msp430", "armv6m"])]
    machine: Option<String>,
    /// Only scenarios whose `group/name` contains this
    #[arg(long, value_name = "S")]
    scenario: Option<String>,
    /// How many times in a row the power fails [default: 2]
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Any number of cuts in a row, and more operations per scenario. Ends when every state that a
    /// boot leaves has been booted, or after half a billion instructions or 300,000 boots of a
    /// scenario. At most 40 minutes on two cores
    #[arg(long)]
    long: bool,
    /// A sample, which this number selects: half of the scenarios and of the planted bugs, and
    /// some of the states where the last cut leaves very many
    #[arg(long, value_name = "N", conflicts_with = "long")]
    sample: Option<u64>,
    /// Runs each scenario once without a cut, and prints how many of its instructions are in which
    /// function, inlined ones too
    #[arg(long, conflicts_with = "replay")]
    profile: bool,
    /// Repeats a failure: the line that it printed
    #[arg(long, value_name = "LINE")]
    replay: Option<String>,
    /// Where to write the figures: one flat JSON object of `"key": number`
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Only the I-th of N parts, to share the work among computers
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
}

/// Cuts that CI must judge, in all and on each machine, and states that it must boot on each.
const CUTS: f64 = 200_000.0;
const CUTS_EACH: f64 = 30_000.0;
const BOOTS_EACH: f64 = 3_000.0;
/// Cuts of `--long`.
const CUTS_LONG: f64 = 1e7;
const RIG: &str = "relume-rig";
/// Cuts on each machine of threads that share a pool, of programs whose region is mirrored, of
/// threads of the kernel, and of programs with devices.
const APART_EACH: [(&str, &str, f64); 4] = [
    ("threads", "threads", 30_000.0),
    ("mirror", "programs over a mirror", 30_000.0),
    ("rtos", "threads of the kernel", 30_000.0),
    ("device", "programs with devices", 30_000.0),
];
/// Cuts of threads of the kernel on a Cortex-M0.
const V6: (&str, f64) = ("rtos.armv6m.cuts", 5_000.0);
/// The most instructions of each machine in which the kernel may mask interrupts. What it takes now
/// stands in its README.
const MASKED: [(&str, f64); 3] = [("arm", 850.0), ("riscv", 1_750.0), ("msp430", 3_800.0)];
/// What runs the programs of several threads, too: of each machine.
const QEMU: [(&str, &str); 2] = [("arm", "qemu-system-arm"), ("riscv", "qemu-system-riscv32")];

/// `cargo xtask machine`.
pub fn run(a: Args) -> Result<()> {
    if let Some(name) = a.replay.as_deref().and_then(|l| l.split('/').next()) {
        let known = MACHINES.iter().chain([&ARMV6M]).any(|m| m.name == name);
        ensure!(
            known,
            "no machine `{name}`: a line begins with arm, riscv, msp430 or armv6m"
        );
    }
    let project = Project::load()?;
    crate::test::install_rig()?;
    let step = Step::alone(project.target.join("xtask/machine.log"), "machine");
    let mut c = command(&project, &a, true, &step)?;
    drop(step);
    let status = c.status().with_context(|| format!("cannot start {RIG}"))?;
    if !status.success() {
        bail!("something failed; what was wrong stands above");
    }
    Ok(())
}

/// The rig with its arguments, built, on images that are built; with `v6` on those of the
/// Cortex-M0, too.
fn command(project: &Project, a: &Args, v6: bool, s: &Step) -> Result<Command> {
    let line = a.replay.as_deref().and_then(|l| l.split('/').next());
    let only = line.or(a.machine.as_deref());
    let mut run = Command::new(build(project, s)?);
    let mut n = 0;
    for m in MACHINES.iter().filter(|m| only.is_none_or(|o| o == m.name)) {
        for image in firmware::build(project, m, s)? {
            let (machine, group) = (image.machine.name, image.group);
            run.arg(format!(
                "--image={machine}/{group}={}",
                image.path.display()
            ));
            n += 1;
        }
    }
    if v6 && only.is_none_or(|o| o == ARMV6M.name) {
        for image in firmware::build_v6(project, only.is_some() || a.long, s)? {
            let (machine, group) = (image.machine.name, image.group);
            run.arg(format!(
                "--image={machine}/{group}={}",
                image.path.display()
            ));
            n += 1;
        }
    }
    if n == 0 {
        bail!("there is no such machine: they are arm, armv6m, riscv and msp430");
    }
    let mut option = |name: &str, value: Option<String>| {
        if let Some(v) = value {
            run.arg(format!("--{name}={v}"));
        }
    };
    option("scenario", a.scenario.clone());
    option("depth", a.depth.map(|d| d.to_string()));
    option("sample", a.sample.map(|n| n.to_string()));
    option("replay", a.replay.clone());
    option("shard", a.shard.map(|s| s.to_string()));
    option("json", a.json.as_ref().map(|p| p.display().to_string()));
    if a.long {
        run.arg("--long");
    }
    if a.profile {
        run.arg("--profile");
    }
    for (machine, program) in QEMU.iter().filter(|q| has_program(q.1)) {
        run.arg(format!("--qemu={machine}={program}"));
    }
    Ok(run)
}

/// `cargo COMMAND` on the rig, in release. The first build takes minutes: Unicorn is C.
fn on_the_rig(project: &Project, command: &str) -> Command {
    let mut c = cargo();
    c.current_dir(&project.root)
        .args([command, "--release", "--locked", "--manifest-path"])
        .arg(project.root.join("firmware/rig/Cargo.toml"))
        .arg("--target-dir")
        .arg(project.target.join("rig"));
    c
}

fn build(project: &Project, s: &Step) -> Result<PathBuf> {
    Ok(programs(project, s)?.join(RIG))
}

/// Builds the rig's programs. The folder that they are in.
///
/// **Errors**: they do not build, or what that needs is [`missing`].
pub fn programs(project: &Project, s: &Step) -> Result<PathBuf> {
    s.run(on_the_rig(project, "build"))?;
    Ok(project.target.join("rig/release"))
}

/// Explores the scenarios whose `group/name` contains `scenario`, or all, on all machines; their
/// figures, and what failed.
///
/// **Errors**: something cannot be built, or the rig broke off.
pub fn campaign(
    project: &Project,
    scenario: Option<&str>,
    long: bool,
    s: &Step,
) -> Result<(Figures, Option<String>)> {
    let a = Args {
        long,
        scenario: scenario.map(Into::into),
        ..Args::default()
    };
    explored(project, a, s)
}

fn explored(project: &Project, mut a: Args, s: &Step) -> Result<(Figures, Option<String>)> {
    let json = project.target.join("xtask/machine.json");
    let _ = std::fs::remove_file(&json);
    a.json = Some(json.clone());
    let c = command(project, &a, a.scenario.is_none(), s)?;
    let ran = s.run(c);
    let figures = match (read(&json), &ran) {
        (Ok(f), _) => f,
        (Err(_), Err(_)) => bail!("{:#}", ran.unwrap_err()),
        (Err(e), Ok(_)) => return Err(e),
    };
    let wrong = ran.err().map(|e| format!("{e:#}"));
    let wrong = wrong.or_else(|| masked_too_long(&figures));
    let wrong = wrong.or_else(|| match a.scenario {
        None => too_few(&figures, a.long),
        Some(_) => None,
    });
    Ok((figures, wrong))
}

/// What the machine code costs, without exploring.
///
/// **Errors**: something cannot be built, or a scenario fails without any cut.
pub fn costs(project: &Project, s: &Step) -> Result<Figures> {
    measured(project, Args::default(), s)
}

/// The same for one machine, and for scenarios whose `group/name` contains this.
///
/// **Errors**: as [`costs`].
pub fn costs_of(project: &Project, machine: &str, scenario: &str, s: &Step) -> Result<Figures> {
    let a = Args {
        machine: Some(machine.into()),
        scenario: Some(scenario.into()),
        ..Args::default()
    };
    measured(project, a, s)
}

fn measured(project: &Project, mut a: Args, s: &Step) -> Result<Figures> {
    let json = project.target.join("xtask/machine-costs.json");
    let _ = std::fs::remove_file(&json);
    a.json = Some(json.clone());
    let mut c = command(project, &a, false, s)?;
    c.arg("--costs");
    s.run(c)?;
    read(&json)
}

/// Why this was no campaign worth the name.
fn too_few(f: &Figures, long: bool) -> Option<String> {
    let of = |m: &str, key: &str| f.get(&format!("machine.{m}.{key}")).copied().unwrap_or(0.0);
    let mut all = 0.0;
    for m in &MACHINES {
        let (cuts, boots) = (of(m.name, "cuts"), of(m.name, "boots"));
        if cuts < CUTS_EACH || boots < BOOTS_EACH {
            let n = m.name;
            return Some(format!(
                "{n}: {cuts} cuts and {boots} boots, at least {CUTS_EACH} and {BOOTS_EACH} are required"
            ));
        }
        all += cuts;
        let n = m.name;
        for (group, what, least) in APART_EACH.into_iter().filter(|a| runs_on(a.0, n)) {
            let cuts = f.get(&format!("{group}.{n}.cuts")).copied().unwrap_or(0.0);
            if cuts < least {
                return Some(format!(
                    "{n}: {cuts} cuts of {what}, at least {least} are required"
                ));
            }
        }
    }
    let cuts = f.get(V6.0).copied().unwrap_or(0.0);
    if cuts < V6.1 {
        return Some(format!("{}: {cuts}, at least {} are required", V6.0, V6.1));
    }
    let least = if long { CUTS_LONG } else { CUTS };
    (all < least).then(|| format!("{all} cuts, at least {least} are required"))
}

/// Where the kernel has masked interrupts for longer than it may.
fn masked_too_long(f: &Figures) -> Option<String> {
    MASKED.into_iter().find_map(|(m, most)| {
        let longest = *f.get(&format!("machine.{m}.rtos_masked.instructions"))?;
        (longest > most).then(|| {
            format!(
                "{m}: the kernel masks interrupts for {longest} instructions, at most {most} are allowed"
            )
        })
    })
}

/// The step of `cargo xtask ci`. The seed chooses the scenarios, and some of the states that are
/// too many. A failure's line repeats it alone.
pub fn check(project: &Project, long: bool, s: &Step, seed: u64) -> Result<Outcome> {
    if let Some(how) = missing() {
        return Ok(Outcome::Skipped(how));
    }
    let mut c = on_the_rig(project, "clippy");
    c.args(["--all-targets", "--", "-D", "warnings"]);
    s.run(c)?;
    let tests = passed(&s.run(on_the_rig(project, "test"))?);
    if tests == 0 {
        bail!("no test of the rig ran");
    }
    let a = Args {
        long,
        sample: (!long).then_some(seed),
        ..Args::default()
    };
    let (f, wrong) = explored(project, a, s)?;
    if let Some(wrong) = wrong {
        bail!("{wrong}");
    }
    let sum = |key: &str| -> f64 {
        let of = MACHINES
            .iter()
            .map(|m| f.get(&format!("machine.{}.{key}", m.name)));
        of.flatten().sum()
    };
    let mut traced = Vec::new();
    for (machine, _) in QEMU {
        let n = f.get(&format!("machine.{machine}.qemu.instructions"));
        let n = n.with_context(|| format!("{machine}: no threads were compared with QEMU"))?;
        traced.push(format!("{n} on {machine}"));
    }
    let of = |group: &str| -> f64 {
        let each = MACHINES.map(|m| f.get(&format!("{group}.{}.cuts", m.name)));
        each.into_iter().flatten().sum()
    };
    let (threads, mirrored, kernel) = (of("threads"), of("mirror"), of("rtos"));
    let devices = of("device");
    let planted = f.get("machine.planted").copied().unwrap_or(0.0);
    let caught = f.get("machine.caught").copied().unwrap_or(0.0);
    Ok(format!(
        "{} cuts, {} boots of {} scenarios; {threads} of these cuts in threads that share a pool, \
         {mirrored} in programs over a mirror, {kernel} in threads of the kernel, {devices} in programs with devices; {caught} of \
         {planted} planted bugs caught; {tests} tests of the rig; instructions of threads as in QEMU: {}",
        sum("cuts"),
        sum("boots"),
        sum("scenarios"),
        traced.join(", ")
    )
    .into())
}

/// What is missing to build the rig or the images.
pub fn missing() -> Option<String> {
    let machines = MACHINES.iter().chain([&ARMV6M]);
    let images = machines.into_iter().find_map(firmware::missing);
    let qemu = || {
        let missing = QEMU.iter().find(|q| !has_program(q.1))?;
        Some(format!(
            "the rig is compared with {}: cargo xtask test installs it",
            missing.1
        ))
    };
    images.or_else(qemu).or_else(|| {
        crate::test::rig_needs()
            .first()
            .map(|p| format!("the rig needs {p}: cargo xtask test installs it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_section_has_a_bound() {
        let with = |n: f64| Figures::from([("machine.riscv.rtos_masked.instructions".into(), n)]);
        assert!(masked_too_long(&Figures::new()).is_none());
        assert!(masked_too_long(&with(1_750.0)).is_none());
        let said = masked_too_long(&with(1_751.0)).unwrap_or_default();
        assert!(said.contains("riscv") && said.contains("1751"), "{said}");
    }

    #[test]
    fn a_campaign_of_few_cuts_is_none() {
        let with = |cuts: f64| {
            let each = MACHINES.iter().flat_map(|m| {
                let key = |k: &str| format!("machine.{}.{k}", m.name);
                let apart = APART_EACH.map(|(g, _, n)| (format!("{g}.{}.cuts", m.name), n));
                [(key("cuts"), cuts), (key("boots"), BOOTS_EACH)]
                    .into_iter()
                    .chain(apart)
            });
            each.chain([(V6.0.to_owned(), V6.1)]).collect::<Figures>()
        };
        assert!(too_few(&with(CUTS_EACH - 1.0), false).is_some());
        assert!(too_few(&with(CUTS_EACH), false).is_some(), "too few in all");
        assert!(too_few(&with(CUTS), false).is_none());
        assert!(too_few(&with(CUTS), true).is_some());
        let mut unmirrored = with(CUTS);
        unmirrored.insert("mirror.riscv.cuts".into(), 29_999.0);
        let said = too_few(&unmirrored, false).unwrap_or_default();
        assert!(said.contains("riscv") && said.contains("mirror"), "{said}");
        let mut without_v6 = with(CUTS);
        without_v6.remove(V6.0);
        assert!(too_few(&without_v6, false).is_some());
        assert!(too_few(&Figures::new(), false).is_some());
    }
}
