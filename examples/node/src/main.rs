//! `node`: three durable tasks under embassy's executor, on a simulated flash whose power is cut
//! again and again.

#[path = "host/clock.rs"]
mod clock;
#[path = "host/flash.rs"]
mod flash;
#[path = "host/random.rs"]
mod random;
#[path = "host/report.rs"]
mod report;
#[path = "host/trial.rs"]
mod trial;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use report::{Report, grouped};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs a node of three async tasks on flash, without power cuts and through thousands of them.
#[derive(Parser)]
struct Args {
    /// Windows of eight readings that are measured, averaged and sent
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    windows: u32,
    /// Seed of the random power cuts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Draw where each task was, with the cuts marked
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
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

/// How long the power lasts on average, in microseconds.
const POWER: [u64; 3] = [2_000_000, 500_000, 200_000];

fn run(args: &Args) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "node: three tasks, {} windows of {} readings, one in {} ms, on a flash of {} pages",
        grouped(args.windows.into()),
        example_node::WINDOW,
        trial::PERIOD / 1000,
        flash::PAGES
    )?;
    let all = u64::from(args.windows);
    let bar = progress(all * POWER.len() as u64);
    let mut runs = vec![trial::run(args.windows, None, args.seed, |_, _| {})?];
    let mut before = 0;
    for (i, power) in POWER.into_iter().enumerate() {
        let seed = args.seed.wrapping_add(i as u64);
        let run = trial::run(args.windows, Some(power), seed, |cuts, reports| {
            bar.set_position(all * i as u64 + reports as u64);
            bar.set_message(grouped(before + cuts));
        })?;
        before += run.cuts;
        runs.push(run);
    }
    bar.finish_and_clear();
    let report = Report { runs: &runs };
    writeln!(out, "\n{}", report.table())?;
    writeln!(out, "{}", report.timeline())?;
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{:#}\n", report.json()))
            .with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.plot {
        std::fs::write(path, report.svg()).with_context(|| path.display().to_string())?;
    }
    ensure!(
        report.identical(),
        "a run has sent or kept something else than the run without cuts"
    );
    Ok(())
}

/// Shown only on a terminal.
fn progress(reports: u64) -> ProgressBar {
    let bar = ProgressBar::new(reports);
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} reports, {msg} cuts");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
