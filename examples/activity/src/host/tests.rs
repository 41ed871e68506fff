//! Tests that the demo detects errors.

use crate::args::{Job, halves};
use crate::device;
use crate::recordings::{Labels, parse};
use crate::report::{Report, grouped};
use crate::score::Score;
use crate::sensor::Motions;
use crate::trial::{Experiment, Run, Trial};
use std::rc::Rc;

/// Two recordings of each activity: one to learn from, one to recognise.
fn job() -> Job {
    let mut labels = Labels::default();
    let file = include_bytes!("../../data/basic_motions_train.csv");
    let mut all = parse(file, &mut labels).unwrap();
    all.retain(|r| r.series % 10 < 2);
    let (train, recognize) = halves(all);
    Job {
        labels,
        train,
        recognize,
    }
}

fn with_bench(test: impl FnOnce(&Experiment<'_>)) {
    let motions = Rc::new(Motions::new(&job()).unwrap());
    let (factory, formatting) = device::factory(&motions).unwrap();
    test(&Experiment {
        motions: &motions,
        factory: &factory,
        formatting,
    })
}

#[test]
fn halves_of_each_activity() {
    let job = job();
    assert_eq!((job.train.len(), job.recognize.len()), (4, 4));
    let classes =
        |r: &[crate::recordings::Recording]| r.iter().map(|r| r.class).collect::<Vec<_>>();
    assert_eq!(classes(&job.train), [0, 1, 2, 3]);
    assert_eq!(classes(&job.recognize), [0, 1, 2, 3]);
    let (one, other) = halves(job.train[..1].to_vec());
    assert_eq!((one.len(), other.len()), (1, 0));
}

#[test]
fn cuts_fall_everywhere_and_change_nothing() {
    with_bench(|experiment| {
        let reference = experiment.run(None, 0).unwrap();
        let (bare, unprotected) = device::unprotected(experiment.motions).unwrap();
        assert_eq!(reference.final_state.as_ref(), Some(&bare));
        assert_eq!((reference.cuts, bare.results.len()), (0, 16));
        assert!(reference.count.bytes > unprotected);
        let n = experiment.smallest(reference.count.stores).unwrap();
        let mut at = [false; 20];
        // Each store of the run is the first cut of one device.
        for first in n..reference.count.stores {
            let run = experiment.run(Some(first), 0).unwrap();
            assert_eq!(run.final_state, reference.final_state, "cut every {first}");
            run.at.iter().for_each(|step| at[usize::from(*step)] = true);
        }
        for number in 0..20 {
            let run = experiment.run(Some(n), number).unwrap();
            assert!(run.final_state.is_none() || run.final_state == reference.final_state);
            run.at.iter().for_each(|step| at[usize::from(*step)] = true);
        }
        assert_eq!(at, [true; 20]);
    })
}

#[test]
fn no_progress_is_an_end() {
    with_bench(|experiment| {
        for every in [1, 2, 5, 20] {
            let run = experiment.run(Some(every), 0).unwrap();
            assert!(run.final_state.is_none() && run.cuts < 10_000);
            assert!(run.count.stores - experiment.formatting.stores <= run.cuts * every);
        }
        let trials = experiment.trials(&[1, 200], |_| {}).unwrap();
        assert!(trials[0].stuck() && trials[0].runs.len() == 1);
        assert!(!trials[1].stuck() && trials[1].runs.len() > 10);
        assert!(trials[1].ended().map(|r| r.cuts).sum::<u64>() >= 1_000);
    })
}

#[test]
fn a_difference_is_reported() {
    with_bench(|experiment| {
        let job = job();
        let reference = experiment.run(None, 0).unwrap();
        let score = Score::of(&job, &reference.final_state.as_ref().unwrap().results);
        let mut trials = experiment.trials(&[300], |_| {}).unwrap();
        let report = |trials: &[Trial]| {
            let report = Report {
                score: &score,
                unprotected: 1_000,
                reference: &reference,
                trials,
                smallest: None,
            };
            let figures = report.json();
            let differ = figures["runs"]
                .as_u64()
                .zip(figures["identical_runs"].as_u64());
            let differ = differ.map(|(all, identical)| all - identical);
            (report.identical(), report.table(), differ)
        };
        let (identical, table, differ) = report(&trials);
        assert!(
            identical && table.contains("identical") && differ == Some(0),
            "{table}"
        );
        let last = |r: &mut Run| *r.final_state.as_mut().unwrap().bytes.last_mut().unwrap() ^= 1;
        last(&mut trials[0].runs[1]);
        let (identical, table, differ) = report(&trials);
        assert!(
            !identical && table.contains("1 of") && differ == Some(1),
            "{table}"
        );
    })
}

#[test]
fn thousands() {
    let n = [0, 7, 999, 1_000, 12_345, 1_000_000].map(grouped);
    assert_eq!(n, ["0", "7", "999", "1,000", "12,345", "1,000,000"]);
}
