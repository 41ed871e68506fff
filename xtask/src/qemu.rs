//! Whole systems: the images of Cortex-M and RISC-V in QEMU, interrupts on, killed after seeded
//! numbers of instructions and started again.
//!
//! The non-volatile memory and the mailbox lie in a file that QEMU maps; SIGKILL is the power cut.
//! Instructions are counted from the store by which start-up counts the boot in the mailbox. QEMU's
//! clock is its count of instructions, too. So one seed gives the same kills and the same memories
//! on every computer, and each run shows that with one program.
//!
//! A kill counts when the scenario was running: the mailbox says that a boot has begun and that the
//! scenario has not ended.

use crate::abi::{
    ARM, ENDLESS, FAILED, FINISHED, Machine, PANICKED, RISCV, RUNNING, cell, runs_on, source_line,
};
use crate::firmware::{self, Image};
use crate::kill::{self, Plugin, Random, Running};
use crate::project::{Project, has_program};
use crate::run::{Outcome, Step};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Kills in running programs, of each machine; ten times as many with `--long`.
const KILLS: u32 = 200;
/// The scenarios that can be made long, and for how many operations.
const LONG: [(&str, &str); 25] = [
    ("nvmem", "superblock"),
    ("nvmem", "record"),
    ("nvmem", "loan"),
    ("tx", "update"),
    ("tx", "fields"),
    ("tx", "nested"),
    ("objects", "two_objects"),
    ("objects", "list"),
    ("objects", "cell"),
    ("replay-loops", "loop"),
    ("heap", "trees"),
    ("heap-queue-snapshot", "queue_snapshot"),
    ("checkpoint", "fram"),
    ("checkpoint", "flash"),
    ("checkpoint-interrupt", "handler"),
    ("switch", "two_threads"),
    ("threads", "letters"),
    ("rtos", "handover"),
    ("rtos-events", "signals"),
    ("rtos-timers", "expiries"),
    ("rtos-locks", "locks"),
    ("rtos-posts", "posts"),
    ("rtos-places", "places"),
    ("program-mq", "mq_protected"),
    ("program-etl", "etl_protected"),
];
/// Planted bugs whose wrong state lasts long enough for a kill to meet it.
const NOTICED: [u16; 2] = [1, 3];
/// How many kills may miss such a bug.
const MISSES: u32 = 1000;
const ROUNDS: u16 = 60_000;
/// The timer's period, in about as many instructions.
const PERIOD: u16 = 2000;
/// The file is all of the memory that QEMU puts there, and must be as long.
const FILE: u64 = 16 << 20;
/// [`Emulated::latest`] of programs that only use memory, and of one that uses a bus.
const LATEST: u64 = 400_000;
const LATEST_ON_A_BUS: u64 = 4_000_000;
/// How often a program may end before it was killed often enough.
const LIVES: u32 = 300;
/// Kills of the program that is run twice with one seed.
const TWICE: u32 = 6;
const SIGKILL: i32 = 9;

/// How a machine is emulated.
struct Emulated {
    machine: &'static Machine,
    program: &'static str,
    package: &'static str,
    /// The address at which the file begins.
    file: u32,
    /// After how many instructions a program is killed at the latest; less if it ends before that.
    latest: u64,
    options: &'static [&'static str],
}

const EMULATED: [Emulated; 2] = [
    Emulated {
        machine: &ARM,
        program: "qemu-system-arm",
        package: "qemu-system-arm",
        file: 0x2100_0000,
        latest: LATEST,
        options: &[
            "-machine",
            "mps2-an386,memory-backend=nvm",
            "-semihosting-config",
            "enable=on,target=native",
        ],
    },
    Emulated {
        machine: &RISCV,
        program: "qemu-system-riscv32",
        package: "qemu-system-misc",
        file: 0x8000_0000,
        latest: LATEST,
        options: &[
            "-machine",
            "virt,memory-backend=nvm",
            "-m",
            "16M",
            "-bios",
            "none",
        ],
    },
];

/// `(program, package)` of the emulators.
pub fn programs() -> impl Iterator<Item = (&'static str, &'static str)> {
    EMULATED.iter().map(|e| (e.program, e.package))
}

/// The Cortex-M4 with a thermometer on its I2C bus.
const TMP105: Emulated = Emulated {
    machine: &ARM,
    program: "qemu-system-arm",
    package: "qemu-system-arm",
    file: 0x2100_0000,
    latest: LATEST_ON_A_BUS,
    options: &[
        "-machine",
        "mps2-an386,memory-backend=nvm",
        "-semihosting-config",
        "enable=on,target=native",
        "-device",
        "tmp105,address=0x48",
    ],
};
/// How often its program changes the limits, and how many kills may miss a driver that is not
/// restored.
const CHANGES: u16 = 20_000;
const DEVICE_MISSES: u32 = 20;

/// What was done on one machine.
#[derive(Default, PartialEq)]
struct Count {
    kills: u32,
    boots: u32,
    ends: u32,
    ticks: u64,
    noticed: u32,
    /// Kills after which the scenario's first own cell was another than before the boot.
    moved: u32,
    /// The memories that the kills have left, as hashes, of the program that is run twice.
    left: Vec<u64>,
}

/// The step of CI. The seed decides where the kills fall.
pub fn kills(project: &Project, long: bool, s: &Step, seed: u64) -> Result<Outcome> {
    for e in &EMULATED {
        if !has_program(e.program) {
            return Ok(Outcome::Skipped(format!(
                "{} is not installed: cargo xtask ci --only system-qemu installs it (package {})",
                e.program, e.package
            )));
        }
        if let Some(how) = firmware::missing(e.machine) {
            return Ok(Outcome::Skipped(format!("{} needs: {how}", e.machine.name)));
        }
        if let Some(why) = Plugin::missing(e.program) {
            return Ok(Outcome::Skipped(why));
        }
    }
    let wanted = if long { 10 * KILLS } else { KILLS };
    let mut images = Vec::new();
    for e in &EMULATED {
        images.push(firmware::build(project, e.machine, s)?);
    }
    let suite = &listed(project, s)?;
    let plugin = &Plugin::build(project, EMULATED[0].program, s)?;
    s.says("whole systems in QEMU, killed and started again");
    let done: Vec<Result<Count>> = std::thread::scope(|scope| {
        let all: Vec<_> = (EMULATED.iter().zip(&images))
            .map(|(e, images)| {
                let systems = Systems {
                    project,
                    plugin,
                    e,
                    images,
                    suite,
                };
                scope.spawn(move || campaign(&systems, wanted, seed))
            })
            .collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, Result<Count>>| {
            t.join()
                .unwrap_or_else(|_| bail!("a campaign's thread panicked"))
        };
        all.into_iter().map(join).collect()
    });
    let (device, failed) = device_kills(project, wanted, s, seed)?;
    if let Some(failure) = failed.first() {
        bail!("tmp105: {failure}");
    }
    let mut remarks = vec![format!(
        "tmp105: {device} kills, its registers as committed before each first use, a driver that is \
         not restored noticed"
    )];
    for (e, count) in EMULATED.iter().zip(done) {
        let (name, count) = (e.machine.name, count?);
        if count.kills < wanted {
            bail!(
                "{name}: {} kills of running programs, {wanted} are required",
                count.kills
            );
        }
        if count.ticks == 0 {
            bail!("{name}: the timer has never interrupted");
        }
        remarks.push(format!(
            "{name}: {} kills of running programs in {} boots, {} programs to their end, {} interrupts, {} \
             planted bugs noticed",
            count.kills, count.boots, count.ends, count.ticks, count.noticed
        ));
    }
    Ok(remarks.join("; ").into())
}

/// Kills the program of the thermometer so many times. How many kills there were while it ran, and
/// what has failed.
///
/// **Errors**: something cannot be built or started, or a driver that is not restored is not
/// noticed.
pub fn kills_of_a_device(project: &Project, wanted: u32, s: &Step) -> Result<(u32, Vec<String>)> {
    device_kills(project, wanted, s, kill::SEED)
}

fn device_kills(project: &Project, wanted: u32, s: &Step, seed: u64) -> Result<(u32, Vec<String>)> {
    if !has_program(TMP105.program) {
        bail!(
            "{} is not installed (package {})",
            TMP105.program,
            TMP105.package
        );
    }
    let image = firmware::build_tmp105(project, s)?;
    let plugin = Plugin::build(project, TMP105.program, s)?;
    let system = |argument| System {
        plugin: &plugin,
        e: &TMP105,
        image: &image,
        number: 0,
        argument,
        rounds: CHANGES,
        path: project.target.join("xtask/qemu-tmp105.bin"),
    };
    let mut random = Random::new(seed, 0xA076_1D64_78BD_642F);
    let mut count = Count::default();
    let failed = system(0).run(wanted, &mut random, &mut count)?;
    if count.moved < wanted / 3 && failed.is_none() {
        bail!("tmp105: {} kills of {wanted} after a change", count.moved);
    }
    let mut planted = Count::default();
    if system(1)
        .run(DEVICE_MISSES, &mut random, &mut planted)?
        .is_none()
    {
        bail!("tmp105: not noticed: a driver that is not restored");
    }
    Ok((count.kills, failed.into_iter().collect()))
}

/// Kills each of some scenarios (group and name) so many times on each machine that runs it. How
/// many kills there were in running programs, and what has failed. The scenarios are the lab's, if
/// the project is the lab.
///
/// **Errors**: something cannot be built or started.
pub fn kills_of(
    project: &Project,
    scenarios: &[(&str, &str)],
    wanted: u32,
    s: &Step,
) -> Result<(u32, Vec<String>)> {
    let (mut kills, mut failed) = (0, Vec::new());
    std::fs::create_dir_all(project.target.join("xtask"))?;
    for e in &EMULATED {
        if !has_program(e.program) {
            bail!("{} is not installed (package {})", e.program, e.package);
        }
        let images = firmware::build(project, e.machine, s)?;
        let suite = listed(project, s)?;
        let plugin = Plugin::build(project, e.program, s)?;
        let systems = Systems {
            project,
            plugin: &plugin,
            e,
            images: &images,
            suite: &suite,
        };
        let mut random = Random::new(kill::SEED, u64::from(e.file) ^ 0xD1B5_4A32_D192_ED03);
        for (group, name) in scenarios {
            let whole = || format!("{}/{group}/{name}", e.machine.name);
            let mut count = Count::default();
            let system = systems.system(group, name, 0, ROUNDS)?;
            let found = system.run(wanted, &mut random, &mut count);
            kills += count.kills;
            failed.extend(
                found
                    .with_context(whole)?
                    .map(|f| format!("{}: {f}", whole())),
            );
        }
    }
    Ok((kills, failed))
}

/// A line of what the suite's program `list` prints.
struct Listed {
    kind: String,
    group: String,
    scenario: String,
    number: u16,
    /// What the bug is.
    what: String,
}

/// What the suite's program `list` prints: that of the firmware's suite, or of the lab's if the
/// project is the lab.
///
/// **Errors**: it cannot be built.
pub fn list(project: &Project, s: &Step) -> Result<String> {
    let suites = ["relume-suite", "lab-suite"];
    let suite = suites.iter().find_map(|name| project.package(name));
    let suite = suite.context("no package of a suite")?;
    let mut c = project.cargo();
    c.args(["run", "--quiet", "-p", &suite.name, "--bin", "list"]);
    s.run(c)
}

/// The scenarios and the planted bugs of the suite.
fn listed(project: &Project, s: &Step) -> Result<Vec<Listed>> {
    let said = list(project, s)?;
    let listed = |line: &str| {
        let words: Vec<_> = line.splitn(5, ' ').map(str::to_owned).collect();
        let [kind, group, scenario, number, what @ ..] = &words[..] else {
            return None;
        };
        Some(Listed {
            kind: kind.clone(),
            group: group.clone(),
            scenario: scenario.clone(),
            number: number.parse().ok()?,
            what: what.concat(),
        })
    };
    Ok(said.lines().filter_map(listed).collect())
}

fn campaign(systems: &Systems<'_>, wanted: u32, seed: u64) -> Result<Count> {
    let Systems { e, suite, .. } = *systems;
    let mut count = Count::default();
    let mut random = Random::new(seed, u64::from(e.file) ^ 0x9E37_79B9_7F4A_7C15);
    twice(systems, &random)?;
    let mut long = LONG.to_vec();
    long.retain(|(group, _)| runs_on(group, e.machine.name));
    let each = wanted.div_ceil(long.len() as u32);
    let path = systems.path();
    for (group, name) in long {
        let whole = || format!("{}/{group}/{name}", e.machine.name);
        let found = systems
            .system(group, name, 0, ROUNDS)?
            .run(each, &mut random, &mut count)
            .with_context(whole)?;
        if let Some(failure) = found {
            bail!("{}: {failure}; its memory is {}", whole(), path.display());
        }
    }
    // Kills that find nothing prove nothing. These programs do not end: each kill meets one that
    // runs.
    let bugs = suite.iter().filter(|l| l.kind == "bug");
    for b in bugs.filter(|b| NOTICED.contains(&b.number)) {
        // Without the bug, and with it.
        for (argument, kills) in [(0, each), (b.number, MISSES)] {
            let mut ignored = Count::default();
            let found = systems
                .system(&b.group, &b.scenario, argument, ENDLESS)?
                .run(kills, &mut random, &mut ignored)
                .with_context(|| format!("{}/{}/{}", e.machine.name, b.group, b.scenario))?;
            match found {
                Some(failure) if argument == 0 => bail!("{}: {failure}, without a bug", b.scenario),
                None if argument != 0 => bail!("{}: not noticed: {}", e.machine.name, b.what),
                _ => {}
            }
        }
        count.noticed += 1;
    }
    if count.noticed as usize != NOTICED.len() {
        bail!("the suite does not list the planted bugs {NOTICED:?}");
    }
    Ok(count)
}

/// One program is killed twice in the same way: the counts, and the memory after each kill, are the
/// same.
fn twice(systems: &Systems<'_>, random: &Random) -> Result<()> {
    let (group, name) = LONG[0];
    let run = || {
        let mut count = Count::default();
        let system = systems.system(group, name, 0, ROUNDS)?;
        let found = system.run(TWICE, &mut random.clone(), &mut count)?;
        anyhow::Ok((count, found))
    };
    let (first, second) = (run()?, run()?);
    let kept = first.0.left.len();
    if first != second || kept < TWICE as usize {
        bail!(
            "{}: {group}/{name} killed twice with one seed: {} and {} kills, {} and {} boots, and \
             other memories",
            systems.e.machine.name,
            first.0.kills,
            second.0.kills,
            first.0.boots,
            second.0.boots
        );
    }
    Ok(())
}

/// The images of a machine, and the scenarios in them.
struct Systems<'a> {
    project: &'a Project,
    plugin: &'a Plugin,
    e: &'a Emulated,
    images: &'a [Image],
    suite: &'a [Listed],
}

impl<'a> Systems<'a> {
    /// The file that is the machine's memory.
    fn path(&self) -> PathBuf {
        let name = format!("xtask/qemu-{}.bin", self.e.machine.name);
        self.project.target.join(name)
    }

    fn system(&self, group: &str, name: &str, argument: u16, rounds: u16) -> Result<System<'a>> {
        let image = self.images.iter().find(|i| i.group == group);
        let image = image.with_context(|| format!("no image of {group}"))?;
        let all = self.suite.iter().filter(|l| l.kind == "scenario");
        let mut all = all.filter(|l| l.group == group && l.scenario == name);
        let listed = all.next();
        let listed = listed.with_context(|| format!("no scenario {group}/{name}"))?;
        Ok(System {
            plugin: self.plugin,
            e: self.e,
            image,
            number: listed.number,
            argument,
            rounds,
            path: self.path(),
        })
    }
}

/// One scenario on one machine.
struct System<'a> {
    plugin: &'a Plugin,
    e: &'a Emulated,
    image: &'a Image,
    number: u16,
    argument: u16,
    rounds: u16,
    path: PathBuf,
}

impl System<'_> {
    /// Kills it so many times, then lets it come to its end; from a blank memory again when it ends
    /// too early, and then sooner. What has failed, if a check has. A program without an end is
    /// only killed.
    fn run(&self, kills: u32, random: &mut Random, count: &mut Count) -> Result<Option<String>> {
        let (mut killed, mut latest) = (0, self.e.latest);
        for _ in 0..LIVES {
            let file = self.blank()?;
            loop {
                let last = killed >= kills;
                if last && self.rounds == ENDLESS {
                    return Ok(None);
                }
                let after = (!last).then(|| random.next() % latest);
                match self.boot(&file, after, random, count)? {
                    End::Killed => killed += 1,
                    End::Finished => break,
                    End::Failed(what) => return Ok(Some(what)),
                }
            }
            count.ends += 1;
            count.ticks += u64::from(self.read_cell(&file, cell::TICKS)?);
            if killed >= kills {
                return Ok(None);
            }
            latest = (latest / 2).max(100);
        }
        bail!("the program ends before it can be killed: raise its operations")
    }

    /// A memory that has never been used, and what the mailbox asks for.
    fn blank(&self) -> Result<File> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&self.path)
            .with_context(|| self.path.display().to_string())?;
        file.set_len(FILE)?;
        for (c, v) in [
            (cell::SCENARIO, self.number),
            (cell::ARGUMENT, self.argument),
            (cell::TIMER, PERIOD),
            (cell::ROUNDS, self.rounds),
        ] {
            file.write_all_at(&v.to_le_bytes(), self.mailbox(c))?;
        }
        Ok(file)
    }

    fn mailbox(&self, c: u16) -> u64 {
        u64::from(self.e.machine.mailbox - self.e.file) + 2 * u64::from(c)
    }

    fn read_cell(&self, file: &File, c: u16) -> Result<u16> {
        let mut b = [0; 2];
        file.read_exact_at(&mut b, self.mailbox(c))?;
        Ok(u16::from_le_bytes(b))
    }

    /// One boot, to a kill `after` so many instructions or to the end.
    fn boot(
        &self,
        file: &File,
        after: Option<u64>,
        random: &mut Random,
        count: &mut Count,
    ) -> Result<End> {
        let m = self.e.machine;
        if m.ram >= self.e.file && m.ram < self.e.file + FILE as u32 {
            // Volatile memory that the file keeps: what a cut leaves there means nothing.
            let garbage: Vec<u8> = (0..m.ram_len).map(|_| random.next() as u8).collect();
            file.write_all_at(&garbage, u64::from(m.ram - self.e.file))?;
        }
        // The status is of the boot before until start-up has counted this one.
        let before = self.read_cell(file, cell::BOOTS)?;
        let progress = self.read_cell(file, cell::OWN)?;
        let status = self.start(after)?.ended()?;
        count.boots += 1;
        if let Some(what) = self.failure(file)? {
            return Ok(End::Failed(what));
        }
        let started = self.read_cell(file, cell::BOOTS)? != before;
        let killed = status.signal() == Some(SIGKILL) && after.is_some();
        match self.read_cell(file, cell::STATUS)? {
            RUNNING if killed && started => {
                count.kills += 1;
                count.moved += u32::from(self.read_cell(file, cell::OWN)? != progress);
                count.left.push(self.memory(file)?);
                Ok(End::Killed)
            }
            // Also when the kill came between the scenario's end and QEMU's.
            FINISHED if started => Ok(End::Finished),
            state => bail!("QEMU has left before the end: {status}, state {state}"),
        }
    }

    /// What is in the non-volatile memory and the mailbox, as a hash.
    fn memory(&self, file: &File) -> Result<u64> {
        let m = self.e.machine;
        let mut hash = DefaultHasher::new();
        for (from, len) in [(m.nvm, m.nvm_len), (m.mailbox, 64)] {
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, u64::from(from - self.e.file))?;
            hash.write(&bytes);
        }
        Ok(hash.finish())
    }

    /// The check of the scenario that has failed.
    fn failure(&self, file: &File) -> Result<Option<String>> {
        if self.read_cell(file, cell::STATUS)? != FAILED {
            return Ok(None);
        }
        let code = self.read_cell(file, cell::FAILURE)?;
        let boots = self.read_cell(file, cell::BOOTS)?;
        Ok(Some(match source_line(code) {
            Some((file, line)) => format!("firmware/{file}:{line} failed in boot {boots}"),
            None if code & PANICKED == PANICKED => {
                format!("a panic in line {} in boot {boots}", code & !PANICKED)
            }
            None => format!("failure {code:#x} in boot {boots}"),
        }))
    }

    fn start(&self, kill_after: Option<u64>) -> Result<Running> {
        let object = format!(
            "memory-backend-file,id=nvm,mem-path={},size=16M,share=on",
            self.path.display()
        );
        let mut qemu = Command::new(self.e.program);
        if let Some(after) = kill_after {
            let boots = Some((self.path.as_path(), self.mailbox(cell::BOOTS)));
            (self.plugin).add_to(&mut qemu, &kill::End::Kill, after, boots);
        }
        qemu.args(self.e.options)
            .args(["-object", &object])
            .args(["-display", "none", "-monitor", "none", "-serial", "none"])
            .args(["-icount", "shift=0,sleep=off", "-kernel"])
            .arg(&self.image.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Running)
            .with_context(|| format!("cannot start {}", self.e.program))
    }
}

/// How a boot ended.
enum End {
    /// By a kill, in the middle of the program.
    Killed,
    /// By itself, or by a kill that came too late.
    Finished,
    /// A check has failed.
    Failed(String),
}
