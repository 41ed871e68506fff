//! `activity`: learns from motion recordings and recognises others, on a device whose power fails
//! again and again.

#[path = "host/args.rs"]
mod args;
#[path = "host/device.rs"]
mod device;
#[path = "host/machine.rs"]
mod machine;
#[path = "host/plot.rs"]
mod plot;
#[path = "host/recordings.rs"]
mod recordings;
#[path = "host/report.rs"]
mod report;
#[path = "host/score.rs"]
mod score;
#[path = "host/sensor.rs"]
mod sensor;
#[cfg(test)]
#[path = "host/tests.rs"]
mod tests;
#[path = "host/trial.rs"]
mod trial;

use anyhow::{Context, Result, ensure};
use args::Args;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use report::{Report, grouped};
use score::Score;
use sensor::Motions;
use std::io::Write;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use trial::Experiment;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let job = args.job()?;
    let motions = Rc::new(Motions::new(&job)?);
    let (unprotected_state, unprotected) = device::unprotected(&motions)?;
    let (factory, formatting) = device::factory(&motions)?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "activity recognition: {} recordings to learn from, {} to recognise, {} steps",
        job.train.len(),
        job.recognize.len(),
        motions.steps()
    )?;
    let experiment = Experiment {
        motions: &motions,
        factory: &factory,
        formatting,
    };
    let reference = experiment.run(None, 0)?;
    let final_state = reference
        .final_state
        .as_ref()
        .context("the run without cuts")?;
    ensure!(
        *final_state == unprotected_state,
        "the final state of the run without cuts differs from that of the unprotected one"
    );

    let bar = progress();
    let (every, smallest) = match &args.cut_every[..] {
        [] => {
            bar.set_message("searching for the smallest number of stores between cuts");
            let n = experiment.smallest(reference.count.stores)?;
            let above = [1_000, 300, 100].into_iter().filter(|m| *m > n);
            let every: Vec<_> = above.chain([n, n - 1]).collect();
            (every, Some(n))
        }
        given => (given.to_vec(), None),
    };
    let mut cuts = 0;
    let trials = experiment.trials(&every, |run| {
        cuts += run.cuts;
        bar.set_message(format!("{} cuts", grouped(cuts)));
        bar.inc(1);
    })?;
    bar.finish_and_clear();

    let score = Score::of(&job, &final_state.results);
    let report = Report {
        score: &score,
        unprotected,
        reference: &reference,
        trials: &trials,
        smallest,
    };
    writeln!(out, "\n{}\n", report.table())?;
    writeln!(
        out,
        "{:.1} % of recordings recognised, {:.1} % of windows\n",
        100.0 * score.recordings,
        100.0 * score.windows
    )?;
    writeln!(out, "{}", score.matrix(&job.labels.0))?;
    if let Some(path) = &args.plot {
        plot::draw(path, &job, &motions, &report)?;
        writeln!(out, "\ntimeline: {}", path.display())?;
    }
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{:#}\n", report.json()))
            .with_context(|| path.display().to_string())?;
    }
    ensure!(
        report.identical(),
        "the final state of a run differs from that of the run without cuts"
    );
    Ok(())
}

/// Shown only on a terminal.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} runs, {msg}");
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
