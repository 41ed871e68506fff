//! mspdebug: one process for one script.

use super::Failure;
use super::session::{MEMORY, Session, Stepped};
use crate::cpu::SR;
use crate::disassemble::disassemble;
use crate::image::Image;
use crate::timer_a::TA0;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether mspdebug can be started.
pub fn installed() -> bool {
    Command::new("mspdebug")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// A folder that is removed with its content.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("msp430-crosscheck-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn compare(s: &Session, name: &str, image: &Image) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Simulator(e.to_string());
    let folder = Folder::new().map_err(failed)?;
    let dir = &folder.0;
    std::fs::write(dir.join("memory"), &s.memory).map_err(failed)?;
    let length = 0x10000 - u32::from(MEMORY);
    let script = format!(
        "opt color 0\nload_raw memory 0x{MEMORY:x}\n{}save_raw 0x{MEMORY:x} 0x{length:x} after\n",
        s.script
    );
    std::fs::write(dir.join("script"), script).map_err(failed)?;
    registers(s, dir, name, image)?;
    let after = std::fs::read(dir.join("after")).map_err(failed)?;
    let ours = &s.cpu.mem[usize::from(MEMORY)..];
    if after.len() != ours.len() {
        let n = after.len();
        return Err(Failure::Simulator(format!("{n} bytes of memory saved")));
    }
    let mut all = (usize::from(MEMORY)..).zip(ours.iter().zip(&after));
    let is_timer = |at: usize| TA0.contains(&(at as u16));
    match all.find(|(at, (a, b))| a != b && !is_timer(*at)) {
        None => Ok(()),
        Some((at, (a, b))) => {
            let stored = |t: &Stepped| t.stored.is_some_and(|x| usize::from(x & !1) == at & !1);
            let all = s.expected.iter().filter_map(|e| e.stepped);
            let last = all.enumerate().filter(|(_, t)| stored(t)).last();
            let by = last.map_or("which nothing has stored".into(), |(n, t)| {
                format!("stored by instruction {}: {}", n + 1, text(&t, image))
            });
            Err(Failure::Differs(format!(
                "{name}: memory at the end, 0x{at:04x}, {by}: ours 0x{a:02x}, the simulator's 0x{b:02x}"
            )))
        }
    }
}

/// Runs the script and compares each print of the registers with what is expected.
fn registers(s: &Session, dir: &Path, name: &str, image: &Image) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Simulator(e.to_string());
    let mut child = Command::new("mspdebug")
        .args(["-n", "-q", "sim", "read script"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let out = child.stdout.take().expect("piped");
    let result = follow(s, BufReader::new(out), name, image);
    if result.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(failed)?;
    result?;
    if !status.success() {
        return Err(Failure::Simulator(status.to_string()));
    }
    Ok(())
}

fn follow(s: &Session, mut out: impl BufRead, name: &str, image: &Image) -> Result<(), Failure> {
    let mut expected = s.expected.iter();
    let mut before = [0; 16];
    let mut regs = [0; 16];
    let (mut lines, mut done) = (0, 0);
    let mut line = String::new();
    loop {
        line.clear();
        let n = out.read_line(&mut line);
        if n.map_err(|e| Failure::Simulator(e.to_string()))? == 0 {
            break;
        }
        if line.starts_with("sim:") {
            return Err(Failure::Simulator(format!("{name}: {}", line.trim())));
        }
        if !line.starts_with("    (") {
            continue;
        }
        row(&line, lines, &mut regs).ok_or_else(|| Failure::Simulator(line.clone()))?;
        lines += 1;
        if lines < 4 {
            continue;
        }
        lines = 0;
        let e = expected
            .next()
            .ok_or_else(|| Failure::Simulator("more registers than asked for".into()))?;
        done += u64::from(e.stepped.is_some());
        let differs = (0..16).find(|&r| (regs[r] ^ e.regs[r]) & e.mask[r] != 0);
        if let (Some(r), Some(t)) = (differs, e.stepped) {
            let at = format!("{name}, instruction {done}: {}", text(&t, image));
            return Err(Failure::Differs(format!(
                "{at}\n  R{r}: ours {:04x}, the simulator's {:04x}\n  before {}\n  ours   {}\n  theirs {}",
                e.regs[r],
                regs[r],
                row_of(&before),
                row_of(&e.regs),
                row_of(&regs)
            )));
        }
        before = regs;
    }
    match expected.len() {
        0 => Ok(()),
        n => Err(Failure::Simulator(format!("{n} commands gave no answer"))),
    }
}

/// The registers of the `n`-th line of four: `( PC: 04000) ( R4: 0ffff) …`, one column for four
/// registers.
fn row(line: &str, n: usize, regs: &mut [u16; 16]) -> Option<()> {
    let values = line.split(':').skip(1);
    let mut found = 0;
    for (column, v) in values.enumerate() {
        let digits = v.trim_start().split(')').next()?;
        *regs.get_mut(4 * column + n)? = u32::from_str_radix(digits, 16).ok()? as u16;
        found += 1;
    }
    (found == 4).then_some(())
}

fn text(t: &Stepped, image: &Image) -> String {
    let word = |a: u16| {
        let n = usize::from(a.wrapping_sub(t.pc) / 2);
        t.words.get(n).copied().unwrap_or_default()
    };
    let d = disassemble(t.pc, word, |a| image.symbol(a));
    let at = image.symbol(t.pc).unwrap_or_default();
    format!("{:04x}  {}  {at}", t.pc, d.text)
}

fn row_of(regs: &[u16; 16]) -> String {
    let all: Vec<_> = regs.iter().map(|r| format!("{r:04x}")).collect();
    format!("{}  (SR {:09b})", all.join(" "), regs[SR])
}
