//! `cargo xtask boards`: the firmware of examples/boards and the template, as a user would build
//! them. Two of the boards run in QEMU, and are reset after seeded numbers of instructions.
//!
//! ```text
//! board  | boot;      count 41;  count 42;  cou| boot;      count 42;  count 43;
//! QEMU   |                                     ^ before instruction N: a reset
//! ```
//!
//! A line that was printed completely is a promise: its count is durable. So no later count is
//! smaller, and each count is the one before or one more; the one before only directly after a
//! boot. A line that a reset cut has no `;` and is not counted.
//!
//! A result may follow the count: `count 41 7 -3;`. It is the same whenever that count is printed,
//! also in a run without resets.
//!
//! A reset is the end of one QEMU and the start of the next. The plugin of `kill.rs` holds the
//! guest before its instruction, QEMU's monitor saves the memory that a reset keeps, and the next
//! QEMU begins with it. QEMU's clock is its count of instructions. So one seed gives the same
//! output on every computer, and each image shows that for its first boots.

use crate::abi::MSP430;
use crate::figures::Figures;
use crate::firmware;
use crate::kill::{self, HANG, Plugin, Random, Running};
use crate::msp430::{self, emulator};
use crate::project::{Project, has_program, has_target};
use crate::run::{Outcome, Step, cargo};
use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSegment};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Builds the firmware of examples/boards and tests its template, and runs two boards in QEMU
#[derive(clap::Args)]
pub struct Args {
    /// Write `adoption.boards_built`, `.boards_run`, `.resets_survived`, `async.qemu_kills` and
    /// `.qemu_failures` here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

/// A package of examples/boards.
struct Board {
    name: &'static str,
    target: &'static str,
    /// The images that run: in QEMU, as the machine of its name, or in the MSP430's emulator.
    runs: &'static [&'static str],
    /// In QEMU: the addresses of what a reset keeps and QEMU does not load again.
    kept: Range<u32>,
}

const fn board(name: &'static str, target: &'static str, runs: &'static [&'static str]) -> Board {
    let kept = 0..0;
    Board {
        name,
        target,
        runs,
        kept,
    }
}

const fn keeps(mut b: Board, kept: Range<u32>) -> Board {
    b.kept = kept;
    b
}

const BOARDS: [Board; 7] = [
    board("esp32c3", "riscv32imc-unknown-none-elf", &[]),
    // The record's pages at the end of the flash.
    keeps(
        board("microbit", "thumbv6m-none-eabi", &["board-microbit"]),
        0x3_F400..0x4_0000,
    ),
    board("msp430fr5994", MSP430.target, &["board-msp430fr5994"]),
    // Its RAM.
    keeps(
        board(
            "netduinoplus2",
            "thumbv7em-none-eabihf",
            &["board-netduinoplus2", TASKS[0], TASKS[1]],
        ),
        0x2000_0000..0x2002_0000,
    ),
    board("nrf52840", "thumbv7em-none-eabihf", &[]),
    board("rp2350", "thumbv8m.main-none-eabihf", &[]),
    board("stm32l476", "thumbv7em-none-eabihf", &[]),
];

/// The images of async tasks: one task, and a node of three tasks over a mirror.
const TASKS: [&str; 2] = ["board-netduinoplus2-task", "board-netduinoplus2-node"];
const QEMU: &str = "qemu-system-arm";
/// Resets of each image that runs in QEMU.
const RESETS: u32 = 100;
/// Power cuts of each image in the MSP430's emulator.
const CUTS: u32 = 300;
/// A reset comes at most so many instructions after a boot has begun.
const LATEST: u64 = 2_000_000;
/// Boots that are made a second time with the same seed.
const TWICE: u32 = 3;
/// QEMU's clock: 8 ns for an instruction, and no waiting while the guest sleeps.
const CLOCK: &str = "shift=3,sleep=off";
const TEMPLATE: &str = "examples/template";
/// The template's placeholder, and what stands there in the test.
const NAME: (&str, &str) = ("{{project-name}}", "relume-template");

/// What was done.
#[derive(Default)]
struct Done {
    remarks: Vec<String>,
    built: u32,
    run: u32,
    resets: u32,
    task_resets: u32,
}

/// The targets of the boards that the toolchain has; one may be there twice.
pub fn targets() -> impl Iterator<Item = &'static str> {
    let of = BOARDS.iter().filter(|b| !b.is_msp430());
    of.map(|b| b.target)
}

impl Board {
    fn is_msp430(&self) -> bool {
        self.target == MSP430.target
    }
}

pub(crate) fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    let step = Step::alone(project.target.join("xtask/boards.log"), "boards");
    let done = build_and_run(&project, &step)?;
    drop(step);
    println!("{}", done.remarks.join("\n"));
    if let Some(path) = a.json {
        let text = serde_json::to_string_pretty(&done.figures())?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Builds all boards, and runs those that QEMU has. The figures `adoption.*`.
///
/// **Errors**: something is not installed, or fails.
pub fn figures(project: &Project, step: &Step) -> Result<Figures> {
    let mut all = build_and_run(project, step)?.figures();
    all.retain(|key, _| key.starts_with("adoption."));
    Ok(all)
}

/// Resets the async tasks: the figures `async.qemu_*`, and the first failure.
///
/// **Errors**: something is not installed, or cannot be built.
pub fn tasks(project: &Project, step: &Step) -> Result<(Figures, Option<String>)> {
    let (mut resets, mut failures, mut wrong) = (0, 0, None);
    for b in BOARDS.iter().filter(|b| b.runs.contains(&TASKS[0])) {
        if let Some(why) = missing(&[b]) {
            bail!("{why}");
        }
        build(project, b, step)?;
        let plugin = Plugin::build(project, QEMU, step)?;
        for bin in TASKS {
            step.says(format!("{bin}: resets in QEMU"));
            match campaign(project, b, bin, &plugin, kill::SEED) {
                Ok(_) => resets += RESETS,
                Err(e) => {
                    failures += 1;
                    wrong = wrong.or(Some(format!("{bin}: {e:#}")));
                }
            }
        }
    }
    let figures = Figures::from([
        ("async.qemu_kills".to_owned(), f64::from(resets)),
        ("async.qemu_failures".to_owned(), f64::from(failures)),
    ]);
    Ok((figures, wrong))
}

fn build_and_run(project: &Project, step: &Step) -> Result<Done> {
    if let Some(why) = missing(&BOARDS.each_ref()) {
        bail!("{why}");
    }
    all(project, true, step, kill::SEED)
}

impl Done {
    /// A reset that was not survived is an error, not a figure.
    fn figures(&self) -> Figures {
        let of = |key: &str, n: u32| (key.to_owned(), f64::from(n));
        Figures::from([
            of("adoption.boards_built", self.built),
            of("adoption.boards_run", self.run),
            of("adoption.resets_survived", self.resets),
            of("async.qemu_kills", self.task_resets),
            of("async.qemu_failures", 0),
        ])
    }
}

/// The step of CI. The two boards of QEMU are built and reset each time. Another package is built
/// if one of its own files has changed since it was built last; with `long`, always. The seed
/// decides where the resets come.
pub fn check(project: &Project, long: bool, s: &Step, seed: u64) -> Result<Outcome> {
    let wanted: Vec<_> = (BOARDS.iter())
        .filter(|b| long || !b.runs.is_empty() || stale(project, &package(b)))
        .collect();
    if let Some(why) = missing(&wanted) {
        return Ok(Outcome::Skipped(why));
    }
    Ok(all(project, long, s, seed)?.remarks.join("; ").into())
}

/// What these boards need and is not installed.
fn missing(wanted: &[&Board]) -> Option<String> {
    for b in wanted {
        if b.is_msp430() {
            match firmware::missing(&MSP430) {
                Some(how) => return Some(format!("{} needs: {how}", b.name)),
                None => continue,
            }
        }
        if !has_target("", b.target) {
            let target = b.target;
            return Some(format!("{} needs: rustup target add {target}", b.name));
        }
        if !b.runs.is_empty() && !has_program(QEMU) {
            return Some(format!("{QEMU} is not installed (Debian package {QEMU})"));
        }
        if !b.runs.is_empty()
            && let Some(why) = Plugin::missing(QEMU)
        {
            return Some(why);
        }
    }
    None
}

fn all(project: &Project, rebuild: bool, s: &Step, seed: u64) -> Result<Done> {
    let mut done = Done::default();
    let plugin = Plugin::build(project, QEMU, s)?;
    for b in &BOARDS {
        if b.runs.is_empty() && !rebuild && !stale(project, &package(b)) {
            done.remarks.push(format!("{} unchanged", b.name));
            continue;
        }
        let bytes = build(project, b, s)?;
        done.built += 1;
        let mut remark = format!("{} {bytes} bytes of flash", b.name);
        for &bin in b.runs {
            s.says(format!("{bin}: resets in an emulator"));
            let (resets, count) = match b.is_msp430() {
                true => (CUTS, emulated(project, b, bin, s, seed).context(bin)?),
                false => (
                    RESETS,
                    campaign(project, b, bin, &plugin, seed).context(bin)?,
                ),
            };
            done.resets += resets;
            if TASKS.contains(&bin) {
                done.task_resets += resets;
            }
            remark += &format!(", {resets} resets of {bin} up to count {count}");
        }
        done.run += u32::from(!b.runs.is_empty());
        done.remarks.push(remark);
    }
    if !rebuild && !stale(project, TEMPLATE) {
        done.remarks.push("template unchanged".to_owned());
        return Ok(done);
    }
    template(project, s)?;
    done.remarks.push("template".to_owned());
    Ok(done)
}

fn target_dir(project: &Project) -> PathBuf {
    project.target.join("boards")
}

fn image(project: &Project, b: &Board, bin: &str) -> PathBuf {
    let dir = target_dir(project).join(b.target).join("release");
    dir.join(bin)
}

/// Builds a board's package with its own lock file. Returns the bytes of the image that go to the
/// flash.
fn build(project: &Project, b: &Board, s: &Step) -> Result<u64> {
    let mut c = cargo();
    c.current_dir(project.root.join(package(b)))
        .args(["build", "--release", "--locked"])
        .env("CARGO_TARGET_DIR", target_dir(project));
    s.run(c)?;
    let path = image(project, b, &format!("board-{}", b.name));
    let elf = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let file = object::File::parse(elf.as_slice())?;
    let bytes = file.segments().map(|s| s.file_range().1).sum();
    ensure!(bytes > 1000, "{}: an image of {bytes} bytes", b.name);
    built(project, &package(b))?;
    Ok(bytes)
}

/// The folder of a board's package, from the root of the repository.
fn package(b: &Board) -> String {
    format!("examples/boards/{}", b.name)
}

/// Lines `folder fingerprint`: what was built last. It is committed, so that a fresh clone builds
/// only what has changed since.
const BUILT: &str = "examples/boards/built.txt";

/// The lines of [`BUILT`].
fn built_before(project: &Project) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(project.root.join(BUILT)).unwrap_or_default();
    let lines = text.lines().filter_map(|l| l.split_once(' '));
    lines.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// Notes that the folder's package was built.
fn built(project: &Project, folder: &str) -> Result<()> {
    let mut all = built_before(project);
    all.insert(folder.to_owned(), fingerprint(project, folder)?);
    let lines: String = all.iter().map(|(k, v)| format!("{k} {v}\n")).collect();
    std::fs::write(project.root.join(BUILT), lines)?;
    Ok(())
}

/// Whether a file of the folder has changed since its package was built.
fn stale(project: &Project, folder: &str) -> bool {
    let now = fingerprint(project, folder).ok();
    now.is_none() || built_before(project).get(folder) != now.as_ref()
}

/// Of all files of the folder: their names and contents.
fn fingerprint(project: &Project, folder: &str) -> Result<String> {
    let mut files = Vec::new();
    collect(&project.root.join(folder), &mut files)?;
    files.sort();
    let mut hash = DefaultHasher::new();
    for f in files {
        let name = f.strip_prefix(&project.root).unwrap_or(&f);
        name.to_string_lossy().hash(&mut hash);
        std::fs::read(&f)
            .with_context(|| f.display().to_string())?
            .hash(&mut hash);
    }
    Ok(format!("{:016x}", hash.finish()))
}

/// All files in the folder and below, without folders called `target`.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if !path.is_dir() {
            files.push(path);
        } else if path.file_name().is_none_or(|n| n != "target") {
            collect(&path, files)?;
        }
    }
    Ok(())
}

/// Resets the running board. Then another one runs as far without resets, and must print the same
/// results. Returns the last count.
fn campaign(project: &Project, b: &Board, bin: &str, plugin: &Plugin, seed: u64) -> Result<u64> {
    let stream = bin.bytes().fold(0x9E37_79B9_7F4A_7C15_u64, |h, byte| {
        (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let run = |boots: u32| -> Result<(Counts, Emulated<'_>, Vec<u8>)> {
        let mut machine = Emulated::new(project, b, bin)?;
        let mut counts = Counts::default();
        let mut random = Random::new(seed, stream);
        let mut all = Vec::new();
        for boot in 0..boots {
            let after = random.next() % LATEST;
            let said = machine.boot(plugin, after).with_context(|| {
                format!("reset {boot}, after {after} instructions of the boot, seed {seed}")
            })?;
            counts.text(&said)?;
            all.extend(said);
        }
        Ok((counts, machine, all))
    };
    let (_, _, before) = run(TWICE)?;
    let (mut counts, machine, all) = run(RESETS)?;
    ensure!(
        all.starts_with(&before),
        "the same resets, and another output"
    );
    // The last boot counts, too.
    machine.run_to(counts.last + 2, &mut counts)?;
    ensure!(
        counts.last >= u64::from(RESETS) / 2,
        "only {} counts in {RESETS} boots: the resets come before it has begun",
        counts.last
    );
    if counts.results.values().any(|r| !r.is_empty()) {
        let mut whole = Counts::default();
        Emulated::new(project, b, bin)?.run_to(counts.last, &mut whole)?;
        same_results(&whole, &counts)?;
    }
    Ok(counts.last)
}

/// Cuts the power of a MSP430's image after seeded numbers of instructions, in its emulator. Then
/// it runs as far without cuts, and must print the same results. Returns the last count.
fn emulated(project: &Project, b: &Board, bin: &str, s: &Step, seed: u64) -> Result<u64> {
    let serial = emulator(project, "serial", s)?;
    let counts = |cuts: u32, until: String| -> Result<Counts> {
        let mut c = Command::new(serial.get_program());
        c.args(["--kills", &cuts.to_string(), "--until", &until])
            .args(["--seed", &msp430::first(seed).to_string()])
            .arg(image(project, b, bin));
        let mut counts = Counts::default();
        let said = s.run(c)?;
        for line in said.lines().map(str::trim).filter(|l| !l.is_empty()) {
            counts.line(line)?;
        }
        Ok(counts)
    };
    let cut = counts(CUTS, "count ".into())?;
    ensure!(
        cut.boots > CUTS * 9 / 10 && cut.last >= u64::from(CUTS) / 2,
        "{} boots up to count {}: the power goes off before it has begun",
        cut.boots,
        cut.last
    );
    let whole = counts(0, format!("count {} ", cut.last))?;
    same_results(&whole, &cut)?;
    Ok(cut.last)
}

/// A board in QEMU: its image, and what a reset keeps.
struct Emulated<'a> {
    board: &'a Board,
    image: PathBuf,
    /// What the guest has sent to its serial port since its reset.
    serial: PathBuf,
    /// The memory that the last reset has kept.
    kept: PathBuf,
}

impl<'a> Emulated<'a> {
    /// Before its first boot.
    fn new(project: &Project, board: &'a Board, bin: &str) -> Result<Self> {
        let file = |kind: &str| target_dir(project).join(format!("{bin}.{kind}"));
        let kept = file("kept");
        if kept.exists() {
            std::fs::remove_file(&kept)?;
        }
        let mut elf = std::fs::read(image(project, board, bin))?;
        leave_ram(&mut elf).context("the image is no ELF file of 32 bits")?;
        let image = file("elf");
        std::fs::write(&image, elf)?;
        Ok(Emulated {
            board,
            image,
            serial: file("serial"),
            kept,
        })
    }

    fn command(&self) -> Command {
        let path = |p: &Path| p.display().to_string().replace(',', ",,");
        let mut c = Command::new(QEMU);
        c.args(["-machine", self.board.name, "-display", "none"])
            .args(["-monitor", "none", "-icount", CLOCK])
            .arg("-serial")
            .arg(format!("file:{}", self.serial.display()))
            .arg("-kernel")
            .arg(&self.image)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if self.kept.exists() {
            let at = self.board.kept.start;
            c.arg("-device").arg(format!(
                "loader,file={},addr={at:#x},force-raw=on",
                path(&self.kept)
            ));
        }
        c
    }

    /// One boot, to a reset after so many instructions. Returns what the board has sent.
    fn boot(&mut self, plugin: &Plugin, after: u64) -> Result<Vec<u8>> {
        let mut c = self.command();
        plugin.add_to(&mut c, &kill::End::Stop, after, None);
        c.args(["-qmp", "stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let qemu = c.spawn().with_context(|| format!("cannot start {QEMU}"))?;
        let mut qemu = Running(qemu);
        let pipes = (
            qemu.0.stdin.take(),
            qemu.0.stdout.take(),
            qemu.0.stderr.take(),
        );
        let (Some(mut monitor), Some(answers), Some(errors)) = pipes else {
            bail!("no pipes to {QEMU}");
        };
        let (answers, errors) = (lines(answers), lines(errors));
        loop {
            match receive(&errors)?.as_str() {
                "stopped" => break,
                // QEMU warns of devices that it does not have.
                _ => continue,
            }
        }
        let Range { start, end } = self.board.kept;
        let save = serde_json::json!({
            "execute": "memsave",
            "arguments": { "val": start, "size": end - start, "filename": self.kept },
        });
        write!(monitor, "{{\"execute\":\"qmp_capabilities\"}}\n{save}\n")?;
        let mut done = 0;
        while done < 2 {
            let answer: serde_json::Value = serde_json::from_str(&receive(&answers)?)?;
            ensure!(answer.get("error").is_none(), "{QEMU}: {answer}");
            done += u32::from(answer.get("return").is_some());
        }
        drop(qemu);
        Ok(std::fs::read(&self.serial)?)
    }

    /// One boot to this count.
    fn run_to(&self, count: u64, counts: &mut Counts) -> Result<()> {
        // Not what the boot before has sent.
        std::fs::write(&self.serial, "")?;
        let qemu = (self.command().spawn()).with_context(|| format!("cannot start {QEMU}"))?;
        let mut qemu = Running(qemu);
        let mut read = 0;
        let mut began = Instant::now();
        while counts.last < count {
            ensure!(
                qemu.0.try_wait()?.is_none(),
                "{QEMU} has left before count {count}"
            );
            let said = std::fs::read(&self.serial)?;
            let new = said.get(read..).unwrap_or_default();
            if new.is_empty() {
                ensure!(
                    began.elapsed() < HANG,
                    "it hangs: it printed nothing for {} s",
                    HANG.as_secs()
                );
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            for byte in new {
                if counts.last < count {
                    counts.text(&[*byte])?;
                }
            }
            read = said.len();
            began = Instant::now();
        }
        Ok(())
    }
}

/// Each result of the run with resets is that of the whole run.
fn same_results(whole: &Counts, reset: &Counts) -> Result<()> {
    for (n, result) in &reset.results {
        let expected = whole.results.get(n);
        ensure!(
            expected == Some(result),
            "count {n} is `{result}`, and {expected:?} without resets"
        );
    }
    Ok(())
}

/// Cuts each segment of an image to the bytes that the file holds: QEMU would set the others to
/// zero, and refuses other content for them. `None` if the file is damaged.
fn leave_ram(elf: &mut [u8]) -> Option<()> {
    let half = |elf: &[u8], at: usize| Some(u16::from_le_bytes(*elf.get(at..)?.first_chunk()?));
    let first = u32::from_le_bytes(*elf.get(28..)?.first_chunk()?) as usize;
    let (size, n) = (half(elf, 42)? as usize, half(elf, 44)? as usize);
    for header in elf.get_mut(first..)?.chunks_exact_mut(size).take(n) {
        let in_file: [u8; 4] = *header.get(16..)?.first_chunk()?;
        header.get_mut(20..24)?.copy_from_slice(&in_file);
    }
    Some(())
}

/// The lines of a pipe, read by a thread of its own.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn receive(lines: &Receiver<String>) -> Result<String> {
    let hangs = || {
        format!(
            "{QEMU} has left, or hangs: nothing for {} s",
            HANG.as_secs()
        )
    };
    lines.recv_timeout(HANG).with_context(hangs)
}

/// What the board has printed so far, and whether it keeps its promise.
#[derive(Default)]
struct Counts {
    last: u64,
    boots: u32,
    /// No complete count since the boot.
    first: bool,
    /// A line that was cut: a boot must follow.
    cut: Option<String>,
    /// What followed each count.
    results: BTreeMap<u64, String>,
    /// A line whose end has not been sent yet.
    begun: Vec<u8>,
}

impl Counts {
    /// What the serial port sends next.
    fn text(&mut self, text: &[u8]) -> Result<()> {
        for &byte in text {
            if byte != b'\n' {
                self.begun.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.begun);
            self.line(String::from_utf8_lossy(&line).trim())?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<()> {
        if line == "boot;" {
            self.boots += 1;
            self.first = true;
            self.cut = None;
            return Ok(());
        }
        if let Some(cut) = &self.cut {
            bail!("`{cut}` is followed by `{line}`, not by a boot");
        }
        let count = line
            .strip_prefix("count ")
            .and_then(|l| l.strip_suffix(';'))
            .map(|l| l.split_once(' ').unwrap_or((l, "")))
            .and_then(|(n, result)| Some((n.parse::<u64>().ok()?, result)));
        match count {
            Some((n, result)) => {
                let again = self.first && n == self.last;
                ensure!(
                    again || n == self.last + 1,
                    "count {n} after {} in boot {}",
                    self.last,
                    self.boots
                );
                let before = self.results.insert(n, result.to_owned());
                ensure!(
                    before.as_deref().is_none_or(|b| b == result),
                    "count {n} is `{result}`, and was {before:?} before boot {}",
                    self.boots
                );
                self.last = n;
                self.first = false;
            }
            None if line.is_empty() => {}
            // A reset may cut any line but this one, which the program prints before it stops.
            None if line.starts_with("stopped") => bail!("{line}"),
            None => self.cut = Some(line.to_owned()),
        }
        Ok(())
    }
}

/// Expands the template as `cargo generate` would, with the crates of this repository, runs its
/// test and builds its firmware.
fn template(project: &Project, s: &Step) -> Result<()> {
    let from = project.root.join(TEMPLATE);
    let to = target_dir(project).join("template");
    let mut files = Vec::new();
    collect(&from, &mut files)?;
    if to.exists() {
        for old in ["src", "tests", ".cargo"] {
            let _ = std::fs::remove_dir_all(to.join(old));
        }
    }
    for file in files {
        let name = file.strip_prefix(&from)?;
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let mut text = text.replace(NAME.0, NAME.1);
        ensure!(
            !text.contains("{{"),
            "{}: a placeholder that cargo-generate does not ask for",
            name.display()
        );
        if name == Path::new("Cargo.toml") {
            text = with_paths(&text, &project.root)?;
        }
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&to))?;
        std::fs::write(path, text)?;
    }
    let mut c = cargo();
    c.current_dir(&to)
        .arg("test")
        .env("CARGO_TARGET_DIR", target_dir(project));
    let said = s.run(c)?;
    ensure!(
        said.contains("test no_tick_is_lost ... ok"),
        "the template's test did not run:\n{said}"
    );
    let firmware = || {
        let mut c = cargo();
        c.current_dir(&to)
            .args(["build", "--release", "--features=device"])
            .args(["--target", "thumbv7em-none-eabihf"])
            .env("CARGO_TARGET_DIR", target_dir(project));
        c
    };
    s.run(firmware())?;
    // With the data's region inside of the program, the linker must refuse it.
    let script = to.join("memory.x");
    let text = std::fs::read_to_string(&script)?;
    std::fs::write(&script, overlapping(&text)?)?;
    let linked = s.run(firmware());
    std::fs::write(&script, text)?;
    match linked {
        Ok(_) => bail!("a program that reaches into NVM was linked"),
        Err(e) if format!("{e:#}").contains(REACHES) => {}
        Err(e) => return Err(e.context("the linker refuses it for another reason")),
    }
    built(project, TEMPLATE)
}

/// What the linker says of a program that reaches into the data's region.
const REACHES: &str = "the program reaches into NVM";

/// The template's `memory.x` with the region NVM after the first page of the program.
fn overlapping(memory: &str) -> Result<String> {
    let (at, early) = ("ORIGIN = 0x000FD000", "ORIGIN = 0x00001000");
    ensure!(
        memory.matches(at).count() == 1,
        "memory.x has no region at {at}"
    );
    Ok(memory.replace(at, early))
}

/// The manifest with the crates of this repository, not those of the registry.
fn with_paths(manifest: &str, root: &Path) -> Result<String> {
    let mut text = manifest.to_owned();
    for name in ["nvmem", "powerfail"] {
        let line = format!("\n{name} = {{ version = \"0.1\"");
        let path = root.join("crates").join(name);
        ensure!(text.matches(&line).count() == 1, "Cargo.toml has no {name}");
        text = text.replace(&line, &format!("{line}, path = \"{}\"", path.display()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flash driver reaches the program, too. So each linker script that reserves a part of the
    /// chip's flash compares it with the program's end.
    #[test]
    fn scripts_that_reserve_flash_check_the_programs_end() {
        let root = crate::project::root();
        let folders = BOARDS.iter().map(package).chain([TEMPLATE.to_owned()]);
        let mut checked = Vec::new();
        for folder in folders {
            let Ok(script) = std::fs::read_to_string(root.join(&folder).join("memory.x")) else {
                continue;
            };
            if script.contains("__flash_base =") {
                let end = "ASSERT(__sidata + SIZEOF(.data) <= __";
                assert!(script.contains(end), "{folder}/memory.x");
                checked.push(folder);
            }
        }
        assert_eq!(checked.len(), 4, "{checked:?}");
    }

    #[test]
    fn the_guide_shows_the_linker_script_of_the_template() {
        let root = crate::project::root();
        let text = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
        let guide = text("docs/guide/flash.md");
        let template = |file: &str| text(&format!("{TEMPLATE}/{file}"));
        for (file, from) in [("memory.x", "MEMORY\n"), ("src/nvm.rs", "// Symbols of")] {
            let all = template(file);
            let shown = &all[all.find(from).unwrap()..];
            assert!(guide.contains(shown), "{file} is another one in the guide");
        }
        let early = overlapping(&template("memory.x")).unwrap();
        assert!(early.contains(REACHES), "{early}");
    }

    fn read(lines: &[&str]) -> Result<u64> {
        let mut counts = Counts::default();
        for line in lines {
            counts.line(line)?;
        }
        Ok(counts.last)
    }

    #[test]
    fn counts_go_on_after_a_reset() {
        let cut = ["boot;", "count 0;", "count 1;", "cou", "boot;"];
        assert_eq!(read(&[&cut[..], &["count 1;"]].concat()).unwrap(), 1);
        assert_eq!(
            read(&[&cut[..], &["count 2;", "count 3;"]].concat()).unwrap(),
            3
        );
        assert_eq!(read(&["boot;", "bo", "boot;", "count 1;"]).unwrap(), 1);
    }

    #[test]
    fn a_count_that_is_lost_or_left_out_is_found() {
        let cut = ["boot;", "count 1;", "count 2;", "boot;"];
        for wrong in ["count 1;", "count 4;", "count 0;"] {
            let e = read(&[&cut[..], &[wrong]].concat()).unwrap_err();
            assert!(e.to_string().contains("after 2 in boot 2"), "{e}");
        }
        assert!(read(&["boot;", "count 1;", "count 1;", "count 1;"]).is_err());
        assert!(read(&["boot;", "count 1", "count 2;"]).is_err());
        assert!(read(&["boot;", "stopped: the record is damaged;"]).is_err());
    }

    #[test]
    fn a_result_stays_what_it_is() {
        let lines = ["boot;", "count 1 5;", "count 2 -7 3;", "boot;"];
        assert_eq!(read(&[&lines[..], &["count 2 -7 3;"]].concat()).unwrap(), 2);
        let e = read(&[&lines[..], &["count 2 -7 4;"]].concat()).unwrap_err();
        assert!(e.to_string().contains("was Some(\"-7 3\")"), "{e}");
    }

    #[test]
    fn results_are_compared_with_a_run_without_resets() {
        let counts = |lines: &[&str]| {
            let mut counts = Counts::default();
            lines.iter().for_each(|l| counts.line(l).unwrap());
            counts
        };
        let reset = counts(&["boot;", "count 1 5;", "boot;", "count 2 6;"]);
        let whole = counts(&["boot;", "count 1 5;", "count 2 6;", "count 3 7;"]);
        same_results(&whole, &reset).unwrap();
        let other = counts(&["boot;", "count 1 5;", "count 2 9;"]);
        let e = same_results(&other, &reset).unwrap_err();
        assert!(e.to_string().contains("count 2 is `6`"), "{e}");
    }
}
