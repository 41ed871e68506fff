//! The rig: every instruction of the machine code is cut, in an emulator.

use crate::abi::{ARMV6M, MACHINES, runs_on};
use crate::ci::Ctx;
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
    /// The scenarios of the lab: programs of papers. Otherwise it is those of the firmware
    #[arg(long)]
    lab: bool,
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
    crate::install::install_rig()?;
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
/// Cortex-M0, too, unless they are the lab's.
fn command(project: &Project, a: &Args, v6: bool, s: &Step) -> Result<Command> {
    let line = a.replay.as_deref().and_then(|l| l.split('/').next());
    let only = line.or(a.machine.as_deref());
    let mut run = Command::new(build(project, s)?);
    let lab = a.lab.then(|| project.lab()).transpose()?;
    let from = lab.as_ref().unwrap_or(project);
    let listed = crate::qemu::list(from, s)?;
    if a.lab {
        let path = project.target.join("xtask/lab-scenarios.txt");
        // Beside them is what cargo has to say.
        let lines = listed
            .lines()
            .filter(|l| l.starts_with("scenario ") || l.starts_with("wanted "));
        let text: String = lines.map(|l| format!("{l}\n")).collect();
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        run.arg("--scenarios").arg(path);
    }
    let wanted = |group: &str| has(&listed, group, a.scenario.as_deref());
    let mut n = 0;
    for m in MACHINES.iter().filter(|m| only.is_none_or(|o| o == m.name)) {
        for image in firmware::build_some(from, m, wanted, s)? {
            let (machine, group) = (image.machine.name, image.group);
            run.arg(format!(
                "--image={machine}/{group}={}",
                image.path.display()
            ));
            n += 1;
        }
    }
    if v6 && !a.lab && only.is_none_or(|o| o == ARMV6M.name) {
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
        bail!("no image has such a scenario on such a machine");
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

/// Whether a group, as it is listed, has a scenario whose `group/name` contains this.
fn has(listed: &str, group: &str, scenario: Option<&str>) -> bool {
    let Some(part) = scenario else { return true };
    let mut lines = listed.lines().map(|l| l.split(' '));
    lines.any(|mut words| {
        let line = [words.next(), words.next(), words.next()];
        let [Some("scenario"), Some(g), Some(name)] = line else {
            return false;
        };
        g == group && format!("{g}/{name}").contains(part)
    })
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

/// Which scenarios, on which machines: those of the firmware on all, if it says nothing else.
#[derive(Debug, Clone, Copy, Default)]
pub struct Which<'a> {
    /// Those of the lab.
    pub lab: bool,
    /// Only on this machine.
    pub machine: Option<&'a str>,
    /// Only those whose `group/name` contains this.
    pub scenario: Option<&'a str>,
}

impl Which<'_> {
    fn args(self) -> Args {
        Args {
            lab: self.lab,
            machine: self.machine.map(Into::into),
            scenario: self.scenario.map(Into::into),
            ..Args::default()
        }
    }
}

/// Explores scenarios; their figures, and what failed.
///
/// **Errors**: something cannot be built, or the rig broke off.
pub fn campaign(
    project: &Project,
    which: Which<'_>,
    long: bool,
    s: &Step,
) -> Result<(Figures, Option<String>)> {
    let a = Args {
        long,
        ..which.args()
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
    let every = MACHINES.iter().chain([&ARMV6M]).map(|m| m.name);
    let machines: Vec<_> = every
        .filter(|m| a.machine.as_ref().is_none_or(|only| only == m))
        .collect();
    // A part of the work has a part of the cuts.
    let whole = a.scenario.is_none() && !a.lab && a.shard.is_none();
    let wrong = wrong.or_else(|| match whole {
        true => too_few(&figures, a.long, &machines),
        false => None,
    });
    Ok((figures, wrong))
}

/// What the machine code of scenarios costs, without exploring.
///
/// **Errors**: something cannot be built, or a scenario fails without any cut.
pub fn costs(project: &Project, which: Which<'_>, s: &Step) -> Result<Figures> {
    let mut a = which.args();
    let json = project.target.join("xtask/machine-costs.json");
    let _ = std::fs::remove_file(&json);
    a.json = Some(json.clone());
    let mut c = command(project, &a, false, s)?;
    c.arg("--costs");
    s.run(c)?;
    read(&json)
}

/// Why this was no campaign worth the name, on these machines.
fn too_few(f: &Figures, long: bool, machines: &[&str]) -> Option<String> {
    let of = |m: &str, key: &str| f.get(&format!("machine.{m}.{key}")).copied().unwrap_or(0.0);
    let mut all = 0.0;
    for m in MACHINES.iter().filter(|m| machines.contains(&m.name)) {
        let (n, cuts, boots) = (m.name, of(m.name, "cuts"), of(m.name, "boots"));
        if cuts < CUTS_EACH || boots < BOOTS_EACH {
            return Some(format!(
                "{n}: {cuts} cuts and {boots} boots, at least {CUTS_EACH} and {BOOTS_EACH} are required"
            ));
        }
        all += cuts;
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
    if machines.contains(&ARMV6M.name) && cuts < V6.1 {
        return Some(format!("{}: {cuts}, at least {} are required", V6.0, V6.1));
    }
    let least = match (long, MACHINES.iter().all(|m| machines.contains(&m.name))) {
        (true, true) => CUTS_LONG,
        (false, true) => CUTS,
        (_, false) => 0.0,
    };
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

/// The parts of a run that takes one: half of the scenarios and planted bugs of a machine. Those of
/// threads and of the kernel are in both halves.
const PARTS: [(&str, u64); 6] = [
    ("arm", 0),
    ("riscv", 0),
    ("msp430", 0),
    ("arm", 1),
    ("riscv", 1),
    ("msp430", 1),
];

/// The names of [`PARTS`].
///
/// **Errors**: none.
pub fn items(_: &Ctx) -> Result<Vec<String>> {
    let name = |(machine, half): (&str, u64)| format!("{machine}, half {}", half + 1);
    Ok(PARTS.map(name).to_vec())
}

/// The step of `cargo xtask ci`.
pub fn check(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let project = &ctx.project;
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
    if ctx.all {
        let shard = ctx.part("machine");
        let a = Args {
            long: true,
            shard: (shard.of > 1).then_some(shard),
            ..Args::default()
        };
        let (figures, wrong) = explored(project, a, s)?;
        return said(&figures, wrong, tests, &MACHINES.map(|m| m.name));
    }
    let (mut figures, mut wrong) = (Figures::new(), None);
    let mut machines = Vec::new();
    for (machine, half) in ctx.mine("machine", PARTS) {
        let mut of = vec![machine];
        if machine == "arm" {
            of.push(ARMV6M.name);
        }
        for name in of {
            let a = Args {
                machine: Some(name.into()),
                // The last bit chooses the half; the others, states where there are too many.
                sample: Some(ctx.seed("machine") << 1 | half),
                ..Args::default()
            };
            let (found, failed) = explored(project, a, s)?;
            for (key, n) in found {
                match &*key {
                    "machine.planted" | "machine.caught" => *figures.entry(key).or_default() += n,
                    _ => drop(figures.insert(key, n)),
                }
            }
            wrong = wrong.or(failed);
        }
        machines.push(machine);
    }
    said(&figures, wrong, tests, &machines)
}

/// What was found on these machines.
fn said(f: &Figures, wrong: Option<String>, tests: u64, machines: &[&str]) -> Result<Outcome> {
    if let Some(wrong) = wrong {
        bail!("{wrong}");
    }
    let sum = |key: &str| -> f64 {
        let of = machines
            .iter()
            .map(|m| f.get(&format!("machine.{m}.{key}")));
        of.flatten().sum()
    };
    let mut traced = Vec::new();
    for (machine, _) in QEMU.iter().filter(|q| machines.contains(&q.0)) {
        let n = f.get(&format!("machine.{machine}.qemu.instructions"));
        let n = n.with_context(|| format!("{machine}: no threads were compared with QEMU"))?;
        traced.push(format!(
            "; {n} instructions of threads on {machine} as in QEMU"
        ));
    }
    let of = |group: &str| -> f64 {
        let each = machines.iter().map(|m| f.get(&format!("{group}.{m}.cuts")));
        each.flatten().sum()
    };
    let (threads, mirrored, kernel) = (of("threads"), of("mirror"), of("rtos"));
    let devices = of("device");
    let planted = f.get("machine.planted").copied().unwrap_or(0.0);
    let caught = f.get("machine.caught").copied().unwrap_or(0.0);
    Ok(format!(
        "{}: {} cuts, {} boots of {} scenarios; {threads} of these cuts in threads that share a \
         pool, {mirrored} in programs over a mirror, {kernel} in threads of the kernel, {devices} \
         in programs with devices; {caught} of {planted} planted bugs caught; {tests} tests of the \
         rig{}",
        machines.join(", "),
        sum("cuts"),
        sum("boots"),
        sum("scenarios"),
        traced.concat()
    )
    .into())
}

/// The lab's scenarios, each cut at every instruction, or after seeded periods.
///
/// **Errors**: something cannot be built, or a scenario fails.
pub fn check_lab(project: &Project, long: bool, s: &Step) -> Result<Outcome> {
    if let Some(how) = missing() {
        return Ok(Outcome::Skipped(how));
    }
    let which = Which {
        lab: true,
        ..Which::default()
    };
    let (f, wrong) = campaign(project, which, long, s)?;
    if let Some(wrong) = wrong {
        bail!("{wrong}");
    }
    let sum = |key: &str| -> f64 {
        let each = MACHINES.map(|m| f.get(&format!("machine.{}.{key}", m.name)));
        each.into_iter().flatten().sum()
    };
    let (cuts, scenarios) = (sum("cuts"), sum("scenarios"));
    ensure!(cuts > 0.0, "no scenario of the lab was cut");
    Ok(format!("{cuts} cuts of {scenarios} scenarios in machine code").into())
}

/// What is missing to build the rig or the images.
pub fn missing() -> Option<String> {
    let machines = MACHINES.iter().chain([&ARMV6M]);
    let images = machines.into_iter().find_map(firmware::missing);
    let qemu = || {
        let missing = QEMU.iter().find(|q| !has_program(q.1))?;
        Some(format!(
            "the rig is compared with {}: cargo xtask ci --only machine installs it",
            missing.1
        ))
    };
    images.or_else(qemu).or_else(|| {
        crate::install::rig_needs()
            .first()
            .map(|p| format!("the rig needs {p}: cargo xtask ci --only machine installs it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_with_a_scenario_that_is_asked_for_are_built() {
        let listed = "scenario rtos handover 0\nscenario tx-costs begin 1\nbug tx begin 3 what";
        for (group, part, is) in [
            ("rtos", None, true),
            ("rtos", Some("hand"), true),
            ("rtos", Some("-costs/"), false),
            ("tx-costs", Some("-costs/"), true),
            ("tx", Some("tx/begin"), false),
        ] {
            assert_eq!(has(listed, group, part), is, "{group} {part:?}");
        }
    }

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
        let every = ["arm", "riscv", "msp430", "armv6m"];
        let too_few = |f: &Figures, long: bool| super::too_few(f, long, &every);
        assert!(too_few(&with(CUTS_EACH - 1.0), false).is_some());
        assert!(too_few(&with(CUTS_EACH), false).is_some(), "too few in all");
        assert!(too_few(&with(CUTS), false).is_none());
        assert!(too_few(&with(CUTS), true).is_some());
        let mut unmirrored = with(CUTS);
        unmirrored.insert("mirror.riscv.cuts".into(), 29_999.0);
        let said = too_few(&unmirrored, false).unwrap_or_default();
        assert!(said.contains("riscv") && said.contains("mirror"), "{said}");
        assert!(super::too_few(&unmirrored, false, &["arm"]).is_none());
        let mut without_v6 = with(CUTS);
        without_v6.remove(V6.0);
        assert!(too_few(&without_v6, false).is_some());
        assert!(too_few(&Figures::new(), false).is_some());
        assert!(super::too_few(&Figures::new(), false, &["msp430"]).is_some());
    }
}
