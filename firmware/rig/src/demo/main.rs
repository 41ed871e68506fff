//! `cargo xtask demo checkpoint`: an ordinary program on a Cortex-M4 whose power never lasts, with
//! checkpoints in several modes.

mod board;
mod flash;
mod life;
mod report;
mod time;

use anyhow::{Context, Result, bail, ensure};
use board::Program;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use life::{Ended, Life, Power};
use report::Report;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Looks for all ways to place queens, with the power cut again and again, once with each mode of
/// checkpoints
#[derive(Parser)]
#[command(name = "demo checkpoint")]
struct Args {
    /// A program: MODE=FILE
    #[arg(long = "program", value_name = "MODE=FILE", value_parser = program, required = true, hide = true)]
    programs: Vec<(String, PathBuf)>,
    /// Queens, and rows of the board
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u8).range(4..=11))]
    queens: u8,
    /// How long the power lasts, in milliseconds: from half of that to one and a half
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    period: u32,
    /// How long exactly is random; this is where the random numbers begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

fn program(s: &str) -> Result<(String, PathBuf), String> {
    let (mode, file) = s.split_once('=').ok_or("not MODE=FILE")?;
    Ok((mode.into(), file.into()))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(a: &Args) -> Result<()> {
    let mut programs = Vec::new();
    for (mode, path) in &a.programs {
        programs.push((mode, Program::read(path)?));
    }
    let mut out = std::io::stdout();
    // Once without a cut: what the others must come to.
    let uncut = life::run(&programs[0].1, a.queens, None, |_| {})?;
    let Ended::Finished(text) = &uncut.ended else {
        bail!("without a cut: {}", uncut.ended);
    };
    writeln!(
        out,
        "{}\n{}, on a Cortex-M4 at {} kHz; the power lasts for {} ms in the mean\n",
        text.lines().next().context("it says nothing")?,
        report::length(&uncut),
        time::KHZ,
        a.period
    )?;
    let bar = progress(u64::from(uncut.placed) * programs.len() as u64);
    let mut lives: Vec<(&str, Life)> = Vec::new();
    for (i, (mode, program)) in programs.iter().enumerate() {
        let power = Power::new(a.period, a.seed);
        bar.set_message((*mode).clone());
        let before = u64::from(uncut.placed) * i as u64;
        let life = life::run(program, a.queens, Some(power), |placed| {
            bar.set_position(before + u64::from(placed));
        })?;
        lives.push((mode, life));
    }
    bar.finish_and_clear();
    let report = Report {
        uncut: &uncut,
        lives: &lives,
        period: a.period,
    };
    writeln!(out, "{report}")?;
    if let Some(path) = &a.json {
        std::fs::write(path, format!("{:#}\n", report.json()))
            .with_context(|| path.display().to_string())?;
    }
    let stuck = lives.iter().filter(|l| l.1.ended == Ended::Stuck).count();
    ensure!(
        stuck == 0,
        "with {stuck} of {} modes the power does not last from one checkpoint to the next: --period is too short",
        lives.len()
    );
    ensure!(
        report.identical() == lives.len(),
        "a run left something else"
    );
    Ok(())
}

/// On a terminal only.
fn progress(all: u64) -> ProgressBar {
    let bar = ProgressBar::new(all);
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
