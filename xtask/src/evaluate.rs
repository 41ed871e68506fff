//! `cargo xtask evaluate`: the figures that the documents show and that CI watches.

use crate::project::Project;
use crate::run::{Outcome, Step};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Measures costs, speeds and campaigns, and writes the tables and plots of docs/.
#[derive(clap::Args)]
pub struct Args {
    /// Only this evaluation
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Where to write the figures: one flat JSON object of `"key": number`
    #[arg(long, value_name = "PATH", required_unless_present_any = ["check", "list"])]
    json: Option<PathBuf>,
    /// Compare with the committed figures instead of writing docs/: more than 2 % worse is a failure
    #[arg(long)]
    check: bool,
    /// List the evaluations
    #[arg(long)]
    list: bool,
}

/// What is measured: `"key"` and number.
type Figures = BTreeMap<String, f64>;

/// One evaluation.
struct Evaluation {
    name: &'static str,
    about: &'static str,
    measure: fn(&Project, &Step) -> Result<Figures>,
}

const ALL: &[Evaluation] = &[];

pub fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    if a.list {
        for e in ALL {
            println!("{:12} {}", e.name, e.about);
        }
        return Ok(());
    }
    let wanted: Vec<_> = ALL
        .iter()
        .filter(|e| a.only.as_ref().is_none_or(|o| o == e.name))
        .collect();
    if wanted.is_empty() {
        bail!("no evaluation has this name; cargo xtask evaluate --list");
    }
    let mut figures = Figures::new();
    for e in wanted {
        let step = Step::alone(
            project
                .target
                .join(format!("xtask/evaluate-{}.log", e.name)),
            e.name,
        );
        figures.extend((e.measure)(&project, &step).with_context(|| e.name)?);
    }
    if let Some(path) = a.json {
        std::fs::write(&path, json(&figures)).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The step of `cargo xtask ci`.
pub fn check(_: &Project, _: &Step) -> Result<Outcome> {
    Ok(Outcome::NotRequired("nothing to measure yet".into()))
}

fn json(figures: &Figures) -> String {
    let map: serde_json::Map<_, _> = figures
        .iter()
        .map(|(k, v)| (k.clone(), number(*v)))
        .collect();
    format!("{:#}\n", serde_json::Value::Object(map))
}

/// A whole number without a point.
fn number(v: f64) -> serde_json::Value {
    if v.fract() == 0.0 && v.abs() < 9e15 {
        (v as i64).into()
    } else {
        v.into()
    }
}
