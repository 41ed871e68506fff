//! The accuracy on unseen recordings, over many choices of training recordings.

use crate::recordings::{Labels, Recording, parse};
use example_activity::{Features, Nearest, Votes, WINDOW};

fn all() -> Vec<Recording> {
    parse(
        include_bytes!("../../data/basic_motions_train.csv"),
        &mut Labels::default(),
    )
    .unwrap()
}

/// Correct recordings, recordings, correct windows, windows.
fn count(all: &[Recording], trains: impl Fn(usize) -> bool) -> [usize; 4] {
    let features = |r: &Recording| r.windows().iter().map(Features::of).collect::<Vec<_>>();
    let of: Vec<_> = all.iter().map(features).collect();
    let mut n = [0; 4];
    for unseen in (0..all.len()).filter(|i| !trains(*i)) {
        let mut votes = Votes::default();
        for window in &of[unseen] {
            let mut nearest = Nearest::to(window);
            for seen in (0..all.len()).filter(|i| trains(*i)) {
                for w in &of[seen] {
                    nearest.compare(all[seen].class, w);
                }
            }
            let recognition = nearest.result().unwrap();
            votes.add(recognition);
            n[2] += usize::from(recognition.class == all[unseen].class);
            n[3] += 1;
        }
        n[0] += usize::from(votes.verdict() == Some(all[unseen].class));
        n[1] += 1;
    }
    n
}

fn report(name: &str, n: [usize; 4], recordings: f64, windows: f64) {
    let share = |a: usize, b: usize| a as f64 / b as f64;
    let (r, w) = (share(n[0], n[1]), share(n[2], n[3]));
    println!(
        "{name:22} recordings {r:.4} of {:5}   windows {w:.4} of {:6}",
        n[1], n[3]
    );
    assert!(r >= recordings, "{name}: {r} of recordings");
    assert!(w >= windows, "{name}: {w} of windows");
}

#[test]
fn every_half_recognises_the_other() {
    let all = all();
    let in_class = |i: usize| all[..i].iter().filter(|r| r.class == all[i].class).count();
    report("first half", count(&all, |i| in_class(i) < 5), 1.0, 0.97);
    report("second half", count(&all, |i| in_class(i) >= 5), 1.0, 0.97);
    report("even", count(&all, |i| in_class(i) % 2 == 0), 1.0, 0.97);
    report("odd", count(&all, |i| in_class(i) % 2 == 1), 1.0, 0.97);
}

#[test]
fn random_splits() {
    let all = all();
    let mut state = 1u64;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for (name, train, recordings, windows) in [
        ("half, 200 splits", 5, 0.99, 0.97),
        ("a fifth, 200 splits", 2, 0.97, 0.95),
    ] {
        let mut sum = [0; 4];
        for _ in 0..200 {
            let mut trains = vec![false; all.len()];
            for class in 0..4 {
                let mut of: Vec<_> = (0..all.len()).filter(|i| all[*i].class == class).collect();
                for _ in 0..train {
                    trains[of.swap_remove(next(of.len()))] = true;
                }
            }
            let n = count(&all, |i| trains[i]);
            sum.iter_mut().zip(n).for_each(|(s, n)| *s += n);
        }
        report(name, sum, recordings, windows);
    }
}

#[test]
fn all_but_one() {
    let all = all();
    let mut sum = [0; 4];
    for one in 0..all.len() {
        let n = count(&all, |i| i != one);
        sum.iter_mut().zip(n).for_each(|(s, n)| *s += n);
    }
    report("all but one", sum, 0.97, 0.97);
}

#[test]
fn any_reading_has_features() {
    for a in [i32::MIN, -1, 0, 1, 34_866, i32::MAX] {
        for b in [i32::MIN, 0, i32::MAX] {
            let mut w = [[a; 6]; WINDOW];
            w.iter_mut().step_by(2).for_each(|s| *s = [b; 6]);
            let f = Features::of(&w);
            assert_eq!(f.distance(&f), 0);
            assert!(f.distance(&Features::of(&[[0; 6]; WINDOW])) <= 6132);
        }
    }
}
