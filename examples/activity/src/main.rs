//! `activity`: learns from motion recordings and recognises others.

#[path = "host/args.rs"]
mod args;
#[path = "host/plot.rs"]
mod plot;
#[path = "host/recordings.rs"]
mod recordings;
#[path = "host/score.rs"]
mod score;

use anyhow::{Context, Result};
use args::{Args, Job};
use clap::Parser;
use example_activity::{Class, Features, Found, Nearest, Sample, WINDOW};
use score::Score;

fn main() -> Result<()> {
    let args = Args::parse();
    let job = args.job()?;
    println!(
        "activity recognition, {} recordings, {} learnt from",
        job.recognize.len(),
        job.train.len()
    );
    let results = recognise(&job);
    let score = Score::of(&job, &results);
    println!(
        "{:.1} % of recordings recognised, {:.1} % of windows",
        100.0 * score.recordings,
        100.0 * score.windows
    );
    println!("{}", score.matrix(&job.labels.0));
    if let Some(path) = &args.plot {
        plot::draw(path, &job, &results, &score)?;
    }
    if let Some(path) = &args.json {
        let figures = serde_json::json!({
            "accuracy": score.recordings,
            "accuracy_windows": score.windows,
        });
        std::fs::write(path, format!("{figures:#}\n"))
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn recognise(job: &Job) -> Vec<Vec<Found>> {
    let model: Vec<(Class, Features)> = job
        .train
        .iter()
        .flat_map(|r| r.windows().iter().map(|w| (r.class, Features::of(w))))
        .collect();
    let one = |window: &[Sample; WINDOW]| {
        let features = Features::of(window);
        let mut nearest = Nearest::to(&features);
        for (class, trained) in &model {
            nearest.look(*class, trained);
        }
        nearest.found()
    };
    let of = |r: &recordings::Recording| r.windows().iter().filter_map(&one).collect();
    job.recognize.iter().map(of).collect()
}
