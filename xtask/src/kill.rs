//! Kills of QEMU at given instructions, by the plugin in `firmware/qemu-kill`; and the limit that
//! only a program that hangs can reach.

use crate::project::Project;
use crate::run::{Step, capture, cargo};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// The seed of a run that was given none.
pub const SEED: u64 = 0;
/// A program of the checks takes seconds. One that takes so long hangs, however busy the computer.
pub const HANG: Duration = Duration::from_secs(900);

/// The plugin, built for the QEMU that is installed.
pub struct Plugin(PathBuf);

/// What the plugin does at its instruction.
pub enum End {
    /// It kills QEMU.
    Kill,
    /// It holds the guest, and writes `stopped` to QEMU's standard error.
    Stop,
}

impl Plugin {
    /// Why this QEMU cannot have plugins, if it cannot.
    pub fn missing(program: &str) -> Option<String> {
        let mut c = Command::new(program);
        c.arg("-help");
        let can = capture(c).is_ok_and(|said| said.lines().any(|l| l.starts_with("-plugin ")));
        (!can).then(|| format!("{program} was built without TCG plugins"))
    }

    /// Builds it.
    ///
    /// **Errors**: it cannot be built, or `program` does not say its version.
    pub fn build(project: &Project, program: &str, s: &Step) -> Result<Self> {
        let mut version = Command::new(program);
        version.arg("--version");
        let said = capture(version)?;
        let major = said
            .split_once("version ")
            .and_then(|(_, v)| v.split('.').next()?.parse::<u32>().ok());
        let major = major.with_context(|| format!("{program} --version: {said}"))?;
        let mut c = cargo();
        c.current_dir(&project.root)
            .args(["build", "--release", "-p", "relume-qemu-kill"])
            .env("QEMU_PLUGIN_API", if major < 9 { "1" } else { "2" });
        s.run(c)?;
        let name = format!(
            "{}qemu_kill{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        );
        Ok(Plugin(project.target.join("release").join(name)))
    }

    /// Adds it to QEMU's command line: it ends the run after so many instructions, counted from the
    /// reset, or from the change of a cell (a file and the offset of 16 bits).
    pub fn add_to(&self, qemu: &mut Command, end: &End, after: u64, cell: Option<(&Path, u64)>) {
        let end = match end {
            End::Kill => "kill",
            End::Stop => "stop",
        };
        // QEMU reads two commas as one.
        let path = |p: &Path| p.display().to_string().replace(',', ",,");
        let mut argument = format!("{},end={end},after={after}", path(&self.0));
        if let Some((file, at)) = cell {
            argument += &format!(",memory={},cell={at}", path(file));
        }
        qemu.args(["-plugin", &argument]);
    }
}

/// A running program. It is killed when this is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Waits for its end.
    ///
    /// **Errors**: it hangs.
    pub fn ended(mut self) -> Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if began.elapsed() > HANG {
                bail!("it hangs: no end after {} s", HANG.as_secs());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Pseudo-random numbers (xorshift): the same for the same seed and stream.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of one stream. Streams of one seed are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut x = seed;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x = (x ^ (x >> 31)) ^ stream;
        Random(if x == 0 { 1 } else { x })
    }

    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_follow_from_seed_and_stream() {
        let of = |seed, stream| {
            let mut r = Random::new(seed, stream);
            [r.next(), r.next(), r.next()]
        };
        assert_eq!(of(1, 2), of(1, 2));
        assert_ne!(of(1, 2), of(2, 2));
        assert_ne!(of(1, 2), of(1, 3));
        assert_ne!(of(0, 0), [0; 3]);
    }
}
