//! `logger`: a year of hourly temperatures on a device with 2 KiB of RAM for them, whose power
//! fails again and again.

#[path = "host/chart.rs"]
mod chart;
#[path = "host/chip.rs"]
mod chip;
#[path = "host/recording.rs"]
mod recording;
#[path = "host/report.rs"]
mod report;
#[path = "host/trial.rs"]
mod trial;

use anyhow::{Context, Result, ensure};
use clap::Parser;
// Links the implementation for hosts.
use critical_section as _;
use example_logger::{RAM, VALUES};
use indicatif::{ProgressBar, ProgressStyle};
use report::{Report, grouped};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// The recording in the repository.
const DEFAULT: &[u8] = include_bytes!("../data/seattle_temps_2010.csv");

/// Logs a year of temperatures into a heap on a serial FRAM, without power cuts and through
/// thousands of them.
#[derive(Parser)]
struct Args {
    /// The values to log: hour,tenths_f
    #[arg(long, value_name = "CSV")]
    data: Option<PathBuf>,
    /// Commit after every N values
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    commit_every: u32,
    /// Seed of the random power cuts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
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

/// The mean energy of a boot, in quarters of the bytes on the bus for a cold boot at the end.
const POWER: [u64; 3] = [16, 6, 3];

fn run(args: &Args) -> Result<()> {
    let values = match &args.data {
        Some(path) => {
            let name = || path.display().to_string();
            let file = std::fs::read(path).with_context(name)?;
            recording::parse(&file, VALUES).with_context(name)?
        }
        None => recording::parse(DEFAULT, VALUES).context("the built-in recording")?,
    };
    let mut out = std::io::stdout();
    writeln!(
        out,
        "logger: {} hourly values, a heap with {} bytes of RAM on a {} ({} bytes), a commit {}",
        grouped(values.len() as u64),
        grouped(RAM as u64),
        chip::PART.name(),
        grouped(chip::PART.capacity().into()),
        match args.commit_every {
            1 => "for each value".to_owned(),
            n => format!("every {n} values"),
        }
    )?;
    let bar = progress(values.len() as u64);
    let mut runs = vec![trial::run(
        &values,
        args.commit_every,
        None,
        args.seed,
        |_, _| {},
    )?];
    let mut before = 0;
    for (i, quarters) in POWER.into_iter().enumerate() {
        let power = runs[0].opening * quarters / 4;
        let seed = args.seed.wrapping_add(i as u64);
        let run = trial::run(
            &values,
            args.commit_every,
            Some(power),
            seed,
            |cuts, values| {
                bar.set_position(values.into());
                bar.set_message(grouped(before + cuts));
            },
        )?;
        before += run.cuts;
        runs.push(run);
    }
    bar.finish_and_clear();
    let report = Report {
        logged: &values,
        runs: &runs,
    };
    writeln!(out, "\n{}", report.table())?;
    let last = &runs[runs.len() - 1];
    let s = last.statistics;
    writeln!(
        out,
        "The last run's record, read after a cold boot:\n\n{}",
        chart::draw(&last.values)
    )?;
    writeln!(
        out,
        "{} values, mean {:.1} °F, deviation {:.1}, lowest {:.1} in hour {}, highest {:.1} in hour {}",
        grouped(s.values.into()),
        s.mean() / 10.0,
        s.variance().sqrt() / 10.0,
        f64::from(s.lowest) / 10.0,
        s.lowest_at,
        f64::from(s.highest) / 10.0,
        s.highest_at
    )?;
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{:#}\n", report.json()))
            .with_context(|| path.display().to_string())?;
    }
    ensure!(
        report.identical(),
        "a run has other values than the run without cuts"
    );
    Ok(())
}

/// Shown only on a terminal.
fn progress(values: u64) -> ProgressBar {
    let bar = ProgressBar::new(values);
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} values, {msg} cuts");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
