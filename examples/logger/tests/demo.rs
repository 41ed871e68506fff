//! The program `logger`, run as a user runs it.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/seattle_temps_2010.csv");

fn logger(args: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_logger"));
    c.args(args).output().unwrap()
}

fn figures(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn by_default() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("f.json");
    let out = logger(&["--json", json.to_str().unwrap()]);
    let said = String::from_utf8(out.stdout).unwrap();
    let wrong = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{said}{wrong}");
    println!("{said}");
    let f = figures(&json);
    assert_eq!(f["values"], 8_759);
    assert_eq!(f["identical"], true);
    let (cuts, reopens) = (f["cuts"].as_u64(), f["cold_reopens"].as_u64());
    assert!(cuts >= Some(1_000) && reopens >= cuts, "{f}");
    assert!(f["cuts_in_open"].as_u64() > Some(10), "{f}");
    assert!(f["bytes_written"].as_u64() > Some(2 * 8_759), "{f}");
    // The known climate of that year: 37.5 in winter, 75.9 in summer.
    assert!(
        said.contains("lowest 37.5") && said.contains("highest 75.9"),
        "{said}"
    );
    assert!(said.matches('●').count() > 70, "no chart: {said}");
    assert!(!wrong.contains('\r'), "progress without a terminal");
}

#[test]
fn own_data() {
    let dir = tempfile::tempdir().unwrap();
    let (own, json) = (dir.path().join("own.csv"), dir.path().join("f.json"));
    let rows: String = (0..500).map(|h| format!("{h},{}\n", h % 40 - 20)).collect();
    std::fs::write(&own, format!("hour,tenths_f\n{rows}")).unwrap();
    let (own, at) = (own.to_str().unwrap(), json.to_str().unwrap());
    let out = logger(&[
        "--data",
        own,
        "--json",
        at,
        "--commit-every",
        "1",
        "--seed",
        "7",
    ]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let f = figures(&json);
    assert_eq!(
        (f["values"].as_u64(), &f["identical"]),
        (Some(500), &Value::Bool(true))
    );
}

#[test]
fn a_malformed_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (bad, json) = (path("bad.csv"), path("f.json"));
    let file = std::fs::read_to_string(DEFAULT).unwrap();
    let file = file.replacen("\n100,", "\n100,oops", 1);
    std::fs::write(&bad, file).unwrap();
    std::fs::write(&json, "kept").unwrap();
    let out = logger(&["--data", &bad, "--json", &json]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && out.stdout.is_empty());
    assert!(
        said.contains("line 102: tenths_f is `oops") && said.contains("bad.csv"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&json).unwrap(), "kept");
    assert!(!logger(&["--data", &path("none.csv")]).status.success());
    assert!(!logger(&["--commit-every", "0"]).status.success());
}
