//! The command line, and the choice of training recordings.

use crate::recordings::{Labels, Recording, parse};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The recordings in the repository.
const DEFAULT: &[u8] = include_bytes!("../../data/basic_motions_train.csv");

/// Activity recognition on motion recordings, without and with power cuts.
///
/// Without --train and --recognize, or with --train alone, the first half of each activity's
/// recordings trains and the others are recognised. --recognize alone trains on the whole default
/// file.
///
/// Without --cut-every, the power is cut after every 1,000, 300 and 100 stores, and after the
/// smallest number of stores with which the program still makes progress; the demo searches for
/// that number.
#[derive(clap::Parser)]
pub struct Args {
    /// Recordings to learn from: series,label,t,ax,ay,az,gx,gy,gz
    #[arg(long, value_name = "CSV")]
    pub train: Option<PathBuf>,
    /// Recordings to recognise, with the same columns
    #[arg(long, value_name = "CSV")]
    pub recognize: Option<PathBuf>,
    /// Cut the power after every N stores; may be given several times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub cut_every: Vec<u64>,
    /// Write the figures here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    pub json: Option<PathBuf>,
    /// Draw the timeline of recognised activities here, with the power cuts
    #[arg(long, value_name = "SVG")]
    pub plot: Option<PathBuf>,
}

/// The recordings to process.
pub struct Job {
    /// The names of the activities.
    pub labels: Labels,
    /// The training recordings.
    pub train: Vec<Recording>,
    /// The recordings to recognise.
    pub recognize: Vec<Recording>,
}

impl Args {
    /// Reads the files.
    pub fn job(&self) -> Result<Job> {
        let mut labels = Labels::default();
        let train = match &self.train {
            Some(path) => load(path, &mut labels)?,
            None => parse(DEFAULT, &mut labels).context("the default recordings")?,
        };
        let (train, recognize) = match &self.recognize {
            Some(path) => (train, load(path, &mut labels)?),
            None => halves(train),
        };
        ensure!(
            !recognize.is_empty(),
            "no activity has two recordings, one to learn from and one to recognise"
        );
        Ok(Job {
            labels,
            train,
            recognize,
        })
    }
}

fn load(path: &Path, labels: &mut Labels) -> Result<Vec<Recording>> {
    let file = std::fs::read(path).with_context(|| path.display().to_string())?;
    parse(&file, labels).with_context(|| path.display().to_string())
}

/// Splits the recordings: the first half of each activity trains, the others are recognised; a
/// middle one trains.
pub fn halves(all: Vec<Recording>) -> (Vec<Recording>, Vec<Recording>) {
    let mut of_class = [0usize; example_activity::CLASSES];
    for r in &all {
        of_class[usize::from(r.class)] += 1;
    }
    let mut seen = [0usize; example_activity::CLASSES];
    all.into_iter().partition(|r| {
        let class = usize::from(r.class);
        seen[class] += 1;
        seen[class] <= of_class[class].div_ceil(2)
    })
}
