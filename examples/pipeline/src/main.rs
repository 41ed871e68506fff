//! `pipeline`: the program `etl` with real data, on a simulated FRAM whose power is cut again and
//! again.

#[path = "../../logger/src/host/recording.rs"]
mod recording;
mod report;
mod trial;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use report::{Report, grouped};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Loads temperatures into a table by five threads, without power cuts and through thousands.
#[derive(Parser)]
struct Args {
    /// What the sensors read: hour,tenths_f; the file of examples/logger if not given
    #[arg(long, value_name = "CSV")]
    data: Option<PathBuf>,
    /// Records, each of two hours
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=4000))]
    rounds: u32,
    /// Write the figures here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Draw how far each thread was, with the cuts marked
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

/// For how many events the power lasts on average.
const POWER: [u64; 3] = [1000, 200, 40];
/// Values that a file may have.
const MOST: usize = 100_000;

fn run(args: &Args) -> Result<()> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../logger/data/seattle_temps_2010.csv");
    let path = args.data.as_ref().unwrap_or(&own);
    let file = std::fs::read(path).with_context(|| path.display().to_string())?;
    let values = recording::parse(&file, MOST).with_context(|| path.display().to_string())?;
    let degrees = values
        .iter()
        .map(|tenths| (i32::from(*tenths)).div_euclid(10) as u32);
    let mut out = std::io::stdout();
    writeln!(
        out,
        "pipeline: five threads, {} records of two hours from {} values of {}",
        grouped(args.rounds.into()),
        grouped(values.len() as u64),
        path.file_name().unwrap_or_default().to_string_lossy()
    )?;
    let bar = ProgressBar::new(u64::from(args.rounds) * POWER.len() as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} records, {msg} cuts");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    trial::begin(degrees.collect(), args.rounds, bar.clone());
    let mut runs = vec![trial::run(None)?];
    for power in POWER {
        runs.push(trial::run(Some(power))?);
    }
    bar.finish_and_clear();
    let report = Report {
        runs: &runs,
        rounds: args.rounds,
    };
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
        "a run has another table than the run without cuts"
    );
    Ok(())
}
