//! The same program in QEMU: every instruction must find the same registers there.
//!
//! QEMU's own timer interrupts, at instants that its instruction counter decides. Its trace says
//! after how many instructions each interrupt was taken. The rig gets these as instants, and then
//! both must execute the same instructions with the same registers: in the threads, in the
//! handlers, through tail-chaining and nesting.

use crate::explore::Case;
use crate::image::Image;
use crate::machine::{Boot, Machine, ZERO};
use crate::state::State;
use anyhow::{Context, Result, bail};
use relume_suite::abi::{self, cell};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Periods of the timer, in about as many instructions: from one that comes again soon after its
/// handlers have ended.
const PERIODS: [u16; 10] = [90, 130, 165, 200, 250, 290, 333, 450, 700, 1000];
/// Instructions that must be compared at least.
const LEAST: u64 = 50_000;
/// The memory that QEMU keeps in a file, and its address.
const FILE: u64 = 16 << 20;
const START: u32 = 0x2100_0000;
/// What a run may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The timer's exception.
const SYSTICK: &str = "exception 15";
/// Of the status: the flags, and the exception's number. How far it is in an if-then block is not
/// up to date in Unicorn.
const STATUS: u32 = 0xF800_01FF;

/// Of the status: how far it is in an if-then block.
const IF_THEN: u32 = 0x0600_FC00;

/// What was the same.
#[derive(Default)]
pub struct Compared {
    /// Instructions that found the same registers.
    pub instructions: u64,
    /// Interrupts of the timer.
    pub interrupts: u64,
    /// Of these, in the handler of another exception.
    pub nested: u64,
    /// Exceptions that were tail-chained.
    pub chained: u64,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} instructions as in QEMU, {} interrupts, {} of them nested, {} exceptions tail-chained",
            self.instructions, self.interrupts, self.nested, self.chained
        )
    }
}

/// Runs a case in QEMU and here. What was the same, or the first difference.
///
/// **Errors**: QEMU cannot be run, or the program does not come to its end in it.
pub fn compare(
    m: &mut dyn Machine,
    case: &Case,
    (program, image): (&Path, &Path),
) -> Result<Result<Compared, String>> {
    let mut all = Compared::default();
    for period in PERIODS {
        let mut state = case.blank();
        state.write_cell(cell::TIMER, period);
        let theirs = trace(program, image, &state)?;
        let boot = Boot {
            state: &state,
            seed: ZERO,
            limit: 10_000_000,
            detail: true,
        };
        let ours = m.traced(&boot, &theirs.instants);
        if ours.is_empty() {
            bail!("the rig has traced nothing");
        }
        let until = theirs.until(m.image());
        let ours: Vec<_> = ours.into_iter().filter(|o| o.ended < until).collect();
        for (i, o) in ours.iter().enumerate() {
            let same = |t: &[u32; 17]| {
                t[..16] == o.registers[..16] && (t[16] ^ o.registers[16]) & STATUS == 0
            };
            let at = theirs.registers.get(o.ended as usize);
            if !at.is_some_and(same) {
                let before = i.checked_sub(1).map(|b| ours[b].pc);
                return Ok(Err(format!(
                    "with the timer at {period}, instruction {} differs from QEMU's\n  here  {:08x?}\n  there {:08x?}\n  \
                     the one before was at {before:08x?}; interrupts after {:?}",
                    o.ended, o.registers, at, theirs.instants
                )));
            }
        }
        let before = |of: &[u64]| of.iter().filter(|at| **at < until).count() as u64;
        all.instructions += ours.len() as u64;
        all.interrupts += before(&theirs.instants);
        all.nested += before(&theirs.nested);
        all.chained += before(&theirs.chained);
    }
    if all.instructions < LEAST || all.nested == 0 || all.chained == 0 {
        bail!("{all}: choose other periods");
    }
    Ok(Ok(all))
}

#[derive(Default)]
struct Trace {
    registers: Vec<[u32; 17]>,
    /// After how many instructions the timer's exceptions were taken, those of them in a handler,
    /// and exceptions tail-chained.
    instants: Vec<u64>,
    nested: Vec<u64>,
    chained: Vec<u64>,
}

impl Trace {
    /// How many instructions can be compared. Unicorn does not stop within an if-then block, so
    /// that an exception comes later here than in QEMU.
    fn until(&self, image: &Image) -> u64 {
        let inside = |at: &&u64| {
            let last = (**at as usize)
                .checked_sub(1)
                .and_then(|i| self.registers.get(i));
            last.is_some_and(|r| r[16] & IF_THEN != 0 || is_if_then(image, r[15]))
        };
        let first = self.instants.iter().find(inside);
        first.copied().unwrap_or(self.registers.len() as u64)
    }
}

/// Whether the instruction there begins an if-then block.
fn is_if_then(image: &Image, pc: u32) -> bool {
    let code = image.segments.iter().find_map(|(start, bytes)| {
        let at = pc.checked_sub(*start)? as usize;
        bytes.get(at..at + 2)
    });
    code.is_some_and(|c| c[1] == 0xBF && c[0] & 0xF != 0)
}

/// Removes the files at the end.
struct Files(PathBuf, PathBuf);
impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(&self.1);
    }
}

/// The run in QEMU.
fn trace(program: &Path, image: &Path, state: &State) -> Result<Trace> {
    let name = format!(
        "rig-qemu-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let dir = std::env::temp_dir();
    let files = Files(
        dir.join(format!("{name}.bin")),
        dir.join(format!("{name}.log")),
    );
    let memory = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&files.0)?;
    memory.set_len(FILE)?;
    let mailbox = u64::from(abi::ARM.mailbox - START);
    memory.write_all_at(state.nvm(), u64::from(abi::ARM.nvm - START))?;
    memory.write_all_at(state.mailbox(), mailbox)?;
    let backend = format!(
        "memory-backend-file,id=nvm,mem-path={},size=16M,share=on",
        files.0.display()
    );
    let mut qemu = Command::new(program)
        .args([
            "-machine",
            "mps2-an386,memory-backend=nvm",
            "-object",
            &backend,
        ])
        .args(["-display", "none", "-monitor", "none", "-serial", "none"])
        .args(["-semihosting-config", "enable=on,target=native"])
        .args(["-icount", "shift=0,sleep=off"])
        .args(["-singlestep", "-d", "cpu,exec,int,nochain", "-D"])
        .arg(&files.1)
        .arg("-kernel")
        .arg(image)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let start = Instant::now();
    while qemu.try_wait()?.is_none() {
        if start.elapsed() > PATIENCE {
            qemu.kill()?;
            qemu.wait()?;
            bail!("the program does not come to its end in QEMU");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut status = [0; 2];
    memory.read_exact_at(&mut status, mailbox + 2 * u64::from(cell::STATUS))?;
    if u16::from_le_bytes(status) != abi::FINISHED {
        bail!(
            "the program fails in QEMU: status {}",
            u16::from_le_bytes(status)
        );
    }
    parse(BufReader::new(File::open(&files.1)?))
}

/// Reads QEMU's log: four lines with registers and one with the status before each instruction, and
/// lines about exceptions, and about instructions before which it stopped.
fn parse(log: impl BufRead) -> Result<Trace> {
    let mut out = Trace::default();
    let mut now = [0; 17];
    for line in log.lines() {
        let line = line?;
        if let Some(status) = line.strip_prefix("XPSR=") {
            now[16] = u32::from_str_radix(status.get(..8).unwrap_or(""), 16).context("a status")?;
            // QEMU logs an instruction again that it had to translate again.
            if out.registers.last() != Some(&now) {
                out.registers.push(now);
            }
        } else if line.starts_with("Stopped execution") {
            // What was logged last is not executed yet.
            out.registers.pop();
        } else if line.starts_with('R') && line.contains('=') {
            for word in line.split_whitespace() {
                let (n, v) = word.split_once('=').context("a register")?;
                let n: usize = n.trim_start_matches('R').parse()?;
                *now.get_mut(n).context("a register")? = u32::from_str_radix(v, 16)?;
            }
        } else if line.contains("taking pending") {
            if line.contains(SYSTICK) {
                out.instants.push(out.registers.len() as u64);
                let handler = out.registers.last().is_some_and(|r| r[16] & 0x1FF != 0);
                if handler {
                    out.nested.push(out.registers.len() as u64);
                }
            }
        } else if line.contains("tailchaining") {
            out.chained.push(out.registers.len() as u64);
        }
    }
    Ok(out)
}
