//! The same program in QEMU: every instruction must find the same registers there.
//!
//! QEMU's own timer interrupts, at instants that its instruction counter decides. Its trace says
//! after how many instructions each interrupt was taken. The rig gets these as instants, and then
//! both must execute the same instructions with the same registers: in the threads, in the
//! handlers, through tail-chaining and nesting.

use crate::explore::Case;
use crate::image::Image;
use crate::machine::{Boot, LATE, Machine, Registers, ZERO};
use crate::state::State;
use anyhow::{Context, Result, bail};
use relume_suite::abi::{self, cell};
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Instructions that must be compared at least.
const LEAST: u64 = 50_000;
/// The memory that QEMU keeps in a file.
const FILE: u64 = 16 << 20;
/// A run takes seconds. One that takes so long hangs, however busy the computer.
const HANG: Duration = Duration::from_secs(900);

/// A machine in QEMU, and how to read what it logs.
struct Emulated {
    machine: &'static abi::Machine,
    /// The address at which the file begins.
    file: u32,
    options: &'static [&'static str],
    /// Periods of the timer, in about as many instructions: from one that comes again soon after
    /// its
    /// handlers have ended.
    periods: [u16; 10],
    /// Reads a line of the log.
    read: fn(&mut Trace, &str, &Image) -> Result<()>,
    /// Which bits of each register are compared.
    compared: fn(usize) -> u32,
    /// Whether an interrupt after this instruction comes later in the rig.
    late: fn(&Image, &Registers) -> bool,
}

const EMULATED: [Emulated; 2] = [
    Emulated {
        machine: &abi::ARM,
        file: 0x2100_0000,
        options: &[
            "-machine",
            "mps2-an386,memory-backend=nvm",
            "-semihosting-config",
            "enable=on,target=native",
        ],
        periods: [90, 130, 165, 200, 250, 290, 333, 450, 700, 1000],
        read: arm::read,
        compared: arm::compared,
        late: arm::late,
    },
    Emulated {
        machine: &abi::RISCV,
        file: 0x8000_0000,
        options: &[
            "-machine",
            "virt,memory-backend=nvm",
            "-m",
            "16M",
            "-bios",
            "none",
        ],
        // Its clock ticks every 100 instructions.
        periods: [150, 250, 350, 450, 550, 650, 750, 850, 1050, 1450],
        read: riscv::read,
        compared: |_| u32::MAX,
        late: |_, _| false,
    },
];

/// What was the same.
#[derive(Default)]
pub struct Compared {
    /// Instructions that found the same registers.
    pub instructions: u64,
    /// Interrupts of the timer.
    pub interrupts: u64,
    /// Of these, in the handler of another exception.
    pub nested: u64,
    /// Interrupts that were taken where a handler ended: tail-chained on a Cortex-M.
    pub chained: u64,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} instructions as in QEMU, {} interrupts, {} of them nested; {} taken where a handler ended",
            self.instructions, self.interrupts, self.nested, self.chained
        )
    }
}

/// Runs a case in QEMU and here. What was the same, or the first difference. With `longer` handlers
/// of the timer its periods are as much longer: a thread must come on between two of them.
///
/// **Errors**: QEMU cannot be run, or the program does not come to its end in it.
pub fn compare(
    m: &mut dyn Machine,
    case: &Case,
    (program, image): (&Path, &Path),
    longer: u16,
) -> Result<Result<Compared, String>> {
    let mut all = Compared::default();
    let name = m.map().name;
    let emulated = EMULATED.iter().find(|e| e.machine.name == name);
    let emulated = emulated.with_context(|| format!("{name} is not compared with QEMU"))?;
    for period in emulated.periods.map(|p| p * longer) {
        let mut state = case.blank();
        state.write_cell(cell::TIMER, period);
        let theirs = emulated.trace((program, image), m.image(), &state)?;
        let boot = Boot {
            state: &state,
            seed: ZERO,
            limit: 10_000_000,
            detail: true,
        };
        let late = |at: &u64| at | if theirs.late.contains(at) { LATE } else { 0 };
        let instants: Vec<u64> = theirs.instants.iter().map(late).collect();
        let ours = m.traced(&boot, &instants);
        if ours.is_empty() {
            bail!("the rig has traced nothing");
        }
        let until = theirs.until(emulated, m.image());
        let ours: Vec<_> = ours.into_iter().filter(|o| o.ended < until).collect();
        // What a register holds after a reset is not the same, and it is compared from its first
        // agreement on.
        let mut known = [false; 40];
        for (i, o) in ours.iter().enumerate() {
            let at = theirs.registers.get(o.ended as usize);
            let mut same = at.is_some();
            for (r, t) in at.into_iter().flatten().enumerate() {
                let agrees = (t ^ o.registers[r]) & (emulated.compared)(r) == 0;
                same &= agrees || !known[r];
                known[r] |= agrees;
            }
            if !same {
                let before = i.checked_sub(1).map(|b| ours[b].pc);
                return Ok(Err(format!(
                    "with the timer at {period}, instruction {} differs from QEMU's\n  here  {:08x?}\n  there {:08x?}\n  \
                     the one before was at {before:08x?}; the last interrupt came after {:?}",
                    o.ended,
                    o.registers,
                    at,
                    theirs.instants.iter().rfind(|at| **at <= o.ended)
                )));
            }
        }
        if let Some(r) = known.iter().position(|k| !k) {
            bail!("register {r} is never as in QEMU");
        }
        let before = |of: &[u64]| of.iter().filter(|at| **at < until).count() as u64;
        all.instructions += ours.len() as u64;
        all.interrupts += before(&theirs.instants);
        all.nested += before(&theirs.nested);
        all.chained += before(&theirs.chained);
    }
    if all.instructions < LEAST {
        bail!("{all}: choose other periods");
    }
    Ok(Ok(all))
}

struct Trace {
    registers: Vec<Registers>,
    /// What the log has said of the next instruction.
    now: Registers,
    /// After how many instructions the timer's interrupts came, those of them in a handler, and
    /// interrupts that were taken where a handler ended.
    instants: Vec<u64>,
    nested: Vec<u64>,
    chained: Vec<u64>,
    /// Those of the instants at which another interrupt had been taken just before; and where one
    /// was taken last.
    late: HashSet<u64>,
    taken: Option<u64>,
}

impl Trace {
    fn new() -> Self {
        Trace {
            registers: Vec::new(),
            now: [0; 40],
            instants: Vec::new(),
            nested: Vec::new(),
            chained: Vec::new(),
            late: HashSet::new(),
            taken: None,
        }
    }

    /// How many instructions can be compared.
    fn until(&self, e: &Emulated, image: &Image) -> u64 {
        let late = |at: &&u64| {
            let last = (**at as usize)
                .checked_sub(1)
                .and_then(|i| self.registers.get(i));
            last.is_some_and(|r| (e.late)(image, r))
        };
        let first = self.instants.iter().find(late);
        first.copied().unwrap_or(self.registers.len() as u64)
    }

    /// All registers of an instruction are known.
    fn next(&mut self) {
        // QEMU logs an instruction again that it had to translate again.
        if self.registers.last() != Some(&self.now) {
            self.registers.push(self.now);
        }
    }

    fn len(&self) -> u64 {
        self.registers.len() as u64
    }
}

/// The bytes of the code there.
fn code<const N: usize>(image: &Image, pc: u32) -> Option<[u8; N]> {
    image.segments.iter().find_map(|(start, bytes)| {
        let at = pc.checked_sub(*start)? as usize;
        bytes.get(at..at + N)?.try_into().ok()
    })
}

/// How QEMU logs a Cortex-M: four lines with registers and one with the status.
mod arm {
    use super::*;

    /// The timer's exception.
    const SYSTICK: &str = "exception 15";
    /// Of the status: the flags, and the exception's number. How far it is in an if-then block is
    /// not up to date in Unicorn.
    const STATUS: u32 = 0xF800_01FF;
    const EXCEPTION: u32 = 0x1FF;
    /// Of the status: how far it is in an if-then block.
    const IF_THEN: u32 = 0x0600_FC00;

    pub fn compared(register: usize) -> u32 {
        if register == 16 { STATUS } else { u32::MAX }
    }

    /// Unicorn does not stop within an if-then block.
    pub fn late(image: &Image, r: &Registers) -> bool {
        let begins = code(image, r[15]).is_some_and(|[a, b]: [u8; 2]| b == 0xBF && a & 0xF != 0);
        r[16] & IF_THEN != 0 || begins
    }

    pub fn read(t: &mut Trace, line: &str, _: &Image) -> Result<()> {
        if let Some(status) = line.strip_prefix("XPSR=") {
            t.now[16] = u32::from_str_radix(status.get(..8).unwrap_or(""), 16)?;
            t.next();
        } else if line.starts_with('R') && line.contains('=') {
            for word in line.split_whitespace() {
                let (n, v) = word.split_once('=').context("a register")?;
                let n: usize = n.trim_start_matches('R').parse()?;
                *t.now.get_mut(n).context("a register")? = u32::from_str_radix(v, 16)?;
            }
        } else if line.contains("taking pending") {
            let at = t.len();
            let before = t.taken.replace(at) == Some(at);
            if line.contains(SYSTICK) {
                t.instants.push(at);
                let handler = t.registers.last().is_some_and(|r| r[16] & EXCEPTION != 0);
                if before {
                    t.late.insert(at);
                }
                if before || handler {
                    t.nested.push(at);
                }
            }
        } else if line.contains("tailchaining") {
            t.chained.push(t.len());
        }
        Ok(())
    }
}

/// How QEMU logs a RISC-V core: a line for each register of the system, four registers a line then.
mod riscv {
    use super::*;

    /// Where the rig has them.
    const SYSTEM: [(&str, usize); 6] = [
        ("pc", 32),
        ("mstatus", 33),
        ("mie", 34),
        ("mepc", 35),
        ("mcause", 36),
        ("mip", 37),
    ];
    const MIE: usize = 34;
    const MIP: usize = 37;
    const SOFTWARE: u32 = 1 << 3;
    const TIMER: u32 = 1 << 7;
    const MRET: [u8; 4] = 0x3020_0073_u32.to_le_bytes();

    pub fn read(t: &mut Trace, line: &str, image: &Image) -> Result<()> {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        if let Some((_, n)) = SYSTEM.iter().find(|s| s.0 == first) {
            t.now[*n] = u32::from_str_radix(words.next().context("a value")?, 16)?;
        } else if first.starts_with('x') && first.contains('/') {
            let mut words = line.split_whitespace();
            while let (Some(name), Some(v)) = (words.next(), words.next()) {
                let n = name[1..].split('/').next().unwrap_or("");
                let n: usize = n.parse().context("a register")?;
                *t.now.get_mut(n).context("a register")? = u32::from_str_radix(v, 16)?;
            }
            // What its boot ROM does is not the program's.
            if first.starts_with("x28/") && code::<2>(image, t.now[32]).is_some() {
                let was = t.registers.last().map_or(TIMER, |r| r[MIP]);
                if t.now[MIP] & !was & TIMER != 0 {
                    t.instants.push(t.len());
                }
                t.next();
            }
        } else if line.starts_with("riscv_cpu_do_interrupt") {
            let last = t.registers.last();
            if last.is_some_and(|r| code(image, r[32]) == Some(MRET)) {
                t.chained.push(t.len());
            } else if line.contains("cause:00000007")
                && last.is_some_and(|r| r[MIE] & SOFTWARE == 0)
                && t.registers.iter().any(|r| r[MIE] & SOFTWARE != 0)
            {
                // The switch has masked the interrupt that it serves.
                t.nested.push(t.len());
            }
        }
        Ok(())
    }
}

/// Removes the files at the end.
struct Files(PathBuf, PathBuf);
impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(&self.1);
    }
}

impl Emulated {
    /// The run in QEMU.
    fn trace(
        &self,
        (program, path): (&Path, &Path),
        image: &Image,
        state: &State,
    ) -> Result<Trace> {
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
        let mailbox = u64::from(self.machine.mailbox - self.file);
        memory.write_all_at(state.nvm(), u64::from(self.machine.nvm - self.file))?;
        memory.write_all_at(state.mailbox(), mailbox)?;
        let backend = format!(
            "memory-backend-file,id=nvm,mem-path={},size=16M,share=on",
            files.0.display()
        );
        let mut qemu = Command::new(program)
            .args(self.options)
            .args(["-object", &backend])
            .args(["-display", "none", "-monitor", "none", "-serial", "none"])
            .args(["-icount", "shift=0,sleep=off"])
            .args(["-singlestep", "-d", "cpu,exec,int,nochain", "-D"])
            .arg(&files.1)
            .arg("-kernel")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let start = Instant::now();
        while qemu.try_wait()?.is_none() {
            if start.elapsed() > HANG {
                qemu.kill()?;
                qemu.wait()?;
                bail!(
                    "the program hangs in QEMU: no end after {} s",
                    HANG.as_secs()
                );
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
        self.parse(BufReader::new(File::open(&files.1)?), image)
    }

    /// Reads QEMU's log: the registers before each instruction, and lines about interrupts and
    /// about
    /// instructions before which it stopped.
    fn parse(&self, log: impl BufRead, image: &Image) -> Result<Trace> {
        let mut out = Trace::new();
        for line in log.lines() {
            let line = line?;
            if line.starts_with("Stopped execution") {
                // What was logged last is not executed yet.
                out.registers.pop();
            } else {
                (self.read)(&mut out, &line, image).with_context(|| line.clone())?;
            }
        }
        Ok(out)
    }
}
