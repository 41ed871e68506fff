//! The step `stacks` of `cargo xtask ci`: threads of `nv-rtos` that overflow their stacks on
//! purpose (`firmware/stacks`), on each kind of guard, as cargo builds programs by default and in
//! release. Each overflow must be named; the next boot finds the name, goes on where the thread had
//! committed, and comes to its end.

use crate::firmware;
use crate::kill::Running;
use crate::msp430::emulator;
use crate::project::{Project, has_program, has_target};
use crate::run::{Outcome, Step};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A kind of core.
struct Core {
    name: &'static str,
    target: &'static str,
    /// How QEMU runs it. MSP430: an emulator of the repository does.
    qemu: Option<Qemu>,
    /// What guards its stacks: the core, or words, which leave what an overflow has overwritten.
    by: &'static [By],
}

struct Qemu {
    program: &'static str,
    options: &'static [&'static str],
    /// Where in the file of its memory the cells are.
    cells: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Core,
    Words,
}

const SEMIHOSTING: &str = "enable=on,target=native";
const CORES: [Core; 4] = [
    Core {
        name: "cortex-m4",
        target: "thumbv7em-none-eabihf",
        qemu: Some(Qemu {
            program: "qemu-system-arm",
            options: &[
                "-machine",
                "mps2-an386,memory-backend=nvm",
                "-semihosting-config",
                SEMIHOSTING,
            ],
            cells: 0x1_0000,
        }),
        by: &[By::Core, By::Words],
    },
    Core {
        name: "cortex-m33",
        target: "thumbv8m.main-none-eabihf",
        qemu: Some(Qemu {
            program: "qemu-system-arm",
            options: &[
                "-machine",
                "mps2-an505,memory-backend=nvm",
                "-semihosting-config",
                SEMIHOSTING,
            ],
            cells: 0x1_0000,
        }),
        by: &[By::Core],
    },
    Core {
        name: "riscv",
        target: "riscv32imc-unknown-none-elf",
        qemu: Some(Qemu {
            program: "qemu-system-riscv32",
            options: &[
                "-machine",
                "virt,memory-backend=nvm",
                "-m",
                "16M",
                "-bios",
                "none",
            ],
            cells: 0x11_0000,
        }),
        by: &[By::Core, By::Words],
    },
    Core {
        name: "msp430",
        target: "msp430-none-elf",
        qemu: None,
        by: &[By::Words],
    },
];

/// The ways to overflow that the program knows, and what is added to them for its second thread and
/// for words as the guard.
const WAYS: [(u16, &str); 4] = [
    (1, "in functions that call each other"),
    (2, "in a masked section"),
    (3, "by one frame of 256 bytes"),
    (4, "in the input of a record"),
];
const SECOND: u16 = 16;
const WORDS: u16 = 256;
/// What is asked for the guide's program, and the core that it is for.
const GUIDE: (u16, &str) = (512, "cortex-m4");
/// Bytes of a stack of the program on that core, without its guard.
const STACK: u16 = (12 << 10) - 256;
/// The file is all of the memory that QEMU puts there.
const FILE: u64 = 16 << 20;

/// What the cells say after a boot, in their order.
#[derive(Debug, Clone, Copy)]
struct Said {
    named: u16,
    ended: u16,
    hurt: u16,
    failed: u16,
    unused: [u16; 2],
}

impl Said {
    fn of(cells: &[u16]) -> Option<Said> {
        let &[_, named, ended, hurt, failed, first, second, ..] = cells else {
            return None;
        };
        Some(Said {
            named,
            ended,
            hurt,
            failed,
            unused: [first, second],
        })
    }
}

/// What was run.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// The bytes of stack that a thread of the guide's program uses, on a Cortex-M4, in the
    /// profiles dev and release.
    pub guide: [u16; 2],
    /// On all cores, in both profiles.
    pub overflows: u32,
    /// Those whose thread the next boot has found, and has gone on.
    pub named: u32,
}

/// The step.
pub fn check(project: &Project, s: &Step) -> Result<Outcome> {
    for core in &CORES {
        if let Some(q) = core.qemu.as_ref().filter(|q| !has_program(q.program)) {
            return Ok(Outcome::Skipped(format!(
                "{} is not installed: cargo xtask ci --only stacks installs it",
                q.program
            )));
        }
        if core.qemu.is_some() && !has_target("", core.target) {
            return Ok(Outcome::Skipped(format!(
                "{} needs: rustup target add {}",
                core.name, core.target
            )));
        }
    }
    let (counts, wrong) = overflows(project, s)?;
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let [dev, release] = counts.guide;
    Ok(format!(
        "{} of {} overflows named; a thread of the guide uses {dev} bytes in dev, {release} in release",
        counts.named, counts.overflows
    )
    .into())
}

/// Runs all overflows. The second part of the result says what was not as it must be.
///
/// **Errors**: something cannot be built or started.
pub fn overflows(project: &Project, s: &Step) -> Result<(Counts, Vec<String>)> {
    let (mut counts, mut wrong) = (Counts::default(), Vec::new());
    for core in &CORES {
        for dev in [true, false] {
            let image = firmware::build_stacks(project, core.target, dev, s)?;
            let name = format!("{}, {}", core.name, if dev { "dev" } else { "release" });
            s.says(format!("overflows of stacks on {name}"));
            let boots = |asked| boots(project, core, &image, asked, s);
            let [whole, _] = boots(0).with_context(|| name.clone())?;
            if whole.named != 0 || whole.ended != 1 || whole.failed != 0 {
                wrong.push(format!("{name}: without an overflow: {whole:?}"));
            }
            // Less than the stacks are, and more than nothing.
            if !whole
                .unused
                .iter()
                .all(|bytes| (1..12 << 10).contains(bytes))
            {
                wrong.push(format!("{name}: unused bytes of the stacks: {whole:?}"));
            }
            if core.name == GUIDE.1 {
                let [whole, _] = boots(GUIDE.0).with_context(|| name.clone())?;
                let used = whole.unused.map(|unused| STACK.saturating_sub(unused));
                counts.guide[usize::from(!dev)] = used[0].max(used[1]);
                if whole.named != 0 || whole.ended != 1 || whole.failed != 0 {
                    wrong.push(format!("{name}: the guide's program: {whole:?}"));
                }
            }
            for (way, what) in WAYS {
                for (by, thread) in core.by.iter().flat_map(|by| [(*by, 0), (*by, 1)]) {
                    let words = by == By::Words && core.by.len() > 1;
                    let asked = way + thread * SECOND + if words { WORDS } else { 0 };
                    let [first, second] = boots(asked).with_context(|| name.clone())?;
                    counts.overflows += 1;
                    let named = first.named == thread + 1 && first.ended == 0;
                    let goes_on = second.ended == 1 && first.failed + second.failed == 0;
                    // What a core guards is not overwritten; words are, so that there was an
                    // overflow is certain.
                    let hurt = by == By::Words && thread == 0;
                    if named && goes_on && (first.hurt == 1) == hurt {
                        counts.named += 1;
                    } else {
                        wrong.push(format!(
                            "{name}: thread {thread} {what}: {first:?}, then {second:?}"
                        ));
                    }
                }
            }
        }
    }
    Ok((counts, wrong))
}

/// Two boots, from a blank memory.
fn boots(project: &Project, core: &Core, image: &Path, asked: u16, s: &Step) -> Result<[Said; 2]> {
    let said = match &core.qemu {
        Some(qemu) => {
            let path = project
                .target
                .join(format!("xtask/stacks-{}.bin", core.name));
            let file = blank(&path, qemu, asked)?;
            let boot = || {
                qemu.start(image, &path)?.ended()?;
                let mut bytes = [0; 14];
                file.read_exact_at(&mut bytes, qemu.cells)?;
                let cells: Vec<_> = bytes
                    .chunks(2)
                    .map(|c| u16::from_le_bytes([c[0], c[1]]))
                    .collect();
                anyhow::Ok(cells)
            };
            vec![boot()?, boot()?]
        }
        None => {
            let mut c = Command::new(emulator(project, "cells", s)?.get_program());
            c.arg(image).arg(asked.to_string());
            let said = s.run(c)?;
            let lines = said.lines().filter(|l| l.starts_with(&format!("{asked} ")));
            let cells = |l: &str| {
                l.split(' ')
                    .skip(1)
                    .map(|n| n.parse().unwrap_or(u16::MAX))
                    .collect()
            };
            lines.map(cells).collect()
        }
    };
    let said: Option<Vec<_>> = said
        .iter()
        .map(|cells: &Vec<u16>| Said::of(cells))
        .collect();
    let said = said.and_then(|said| <[Said; 2]>::try_from(said).ok());
    said.context("there are not the cells of two boots")
}

/// The file of a memory that was never used, with what is asked for.
fn blank(path: &Path, qemu: &Qemu, asked: u16) -> Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .with_context(|| path.display().to_string())?;
    file.set_len(FILE)?;
    file.write_all_at(&asked.to_le_bytes(), qemu.cells)?;
    Ok(file)
}

impl Qemu {
    fn start(&self, image: &Path, memory: &Path) -> Result<Running> {
        let memory = memory.display();
        Command::new(self.program)
            .args(self.options)
            .arg("-object")
            .arg(format!(
                "memory-backend-file,id=nvm,mem-path={memory},size=16M,share=on"
            ))
            .args(["-display", "none", "-monitor", "none", "-serial", "none"])
            .args(["-icount", "shift=0,sleep=off", "-kernel"])
            .arg(image)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Running)
            .with_context(|| format!("cannot start {}", self.program))
    }
}
