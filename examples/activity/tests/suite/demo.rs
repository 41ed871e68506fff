//! The program `activity`, run as a user runs it.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/basic_motions_train.csv");

fn activity(args: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_activity"));
    c.args(args).output().unwrap()
}

fn figures(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn by_default() {
    let dir = tempfile::tempdir().unwrap();
    let (json, svg) = (dir.path().join("f.json"), dir.path().join("t.svg"));
    let args = [
        "--json",
        json.to_str().unwrap(),
        "--plot",
        svg.to_str().unwrap(),
    ];
    let out = activity(&args);
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{said}");
    println!("{said}");
    let f = figures(&json);
    assert!(f.as_object().unwrap().values().all(Value::is_number), "{f}");
    let figure = |key: &str| f[key].as_f64().unwrap();
    assert!(figure("accuracy") >= 0.95 && figure("accuracy_windows") >= 0.95);
    assert!(figure("runs") >= 3.0 && figure("cuts") >= 1_000.0);
    assert_eq!(figure("runs"), figure("identical_runs"));
    assert!(figure("cuts_in_recovery") >= 50.0);
    assert!((1.0..=2.0).contains(&figure("overhead_bytes")), "{f}");
    // With one store less between cuts the program makes no progress, and the output says so.
    assert_eq!(figure("stuck_runs"), 1.0);
    let fewer = format!("{} stores", figure("smallest_cut_every") - 1.0);
    let line = said
        .lines()
        .find(|l| l.trim_start().starts_with(&fewer))
        .unwrap();
    assert!(line.contains("no progress"), "{said}");
    assert!(!out.stderr.contains(&b'\r'), "progress without a terminal");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("Badminton") && svg.contains("cut every"));
}

#[test]
fn own_recordings_and_own_cuts() {
    let dir = tempfile::tempdir().unwrap();
    let (own, json) = (dir.path().join("own.csv"), dir.path().join("f.json"));
    let file = std::fs::read_to_string(DEFAULT).unwrap();
    let walking = file
        .lines()
        .filter(|l| l.starts_with("series") || l.contains("Walking"));
    std::fs::write(&own, walking.collect::<Vec<_>>().join("\n")).unwrap();
    let (own, at) = (own.to_str().unwrap(), json.to_str().unwrap());
    let args = [
        "--recognize",
        own,
        "--cut-every",
        "150",
        "--cut-every",
        "3",
        "--json",
        at,
    ];
    let out = activity(&args);
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{said}");
    assert!(
        said.contains("40 recordings to learn from, 10 to recognise"),
        "{said}"
    );
    assert!(
        said.contains("3 stores") && said.contains("no progress"),
        "{said}"
    );
    let f = figures(&json);
    assert_eq!(
        (f["accuracy"].as_f64(), f["stuck_runs"].as_u64()),
        (Some(1.0), Some(1))
    );
    assert!(
        f["runs"].as_u64() >= Some(3) && f["runs"] == f["identical_runs"],
        "{f}"
    );
    let only_stuck = activity(&["--cut-every", "2", "--json", at]);
    assert!(only_stuck.status.success());
    assert_eq!(figures(&json)["runs"].as_u64(), Some(0));
    assert!(
        activity(&["--train", own, "--recognize", DEFAULT])
            .status
            .success()
    );
}

#[test]
fn a_malformed_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (bad, json, svg) = (path("bad.csv"), path("f.json"), path("t.svg"));
    let mut file = std::fs::read_to_string(DEFAULT).unwrap();
    file = file.replacen("10,Running,17,", "10,Running,17,oops", 1);
    let line = file.lines().position(|l| l.contains("oops")).unwrap() + 1;
    std::fs::write(&bad, file).unwrap();
    for kept in [&json, &svg] {
        std::fs::write(kept, "kept").unwrap();
    }
    for option in ["--train", "--recognize"] {
        let out = activity(&[option, &bad, "--json", &json, "--plot", &svg]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && out.stdout.is_empty());
        assert!(
            said.contains(&format!("line {line}: ax is `oops")),
            "{said}"
        );
        assert!(said.contains("bad.csv"), "{said}");
        for kept in [&json, &svg] {
            assert_eq!(std::fs::read_to_string(kept).unwrap(), "kept");
        }
    }
    assert!(!activity(&["--cut-every", "0"]).status.success());
    assert!(!activity(&["--train", &path("none.csv")]).status.success());
}
