//! The program `node`, run as a user runs it.

use serde_json::Value;
use std::process::Command;

#[test]
fn by_default() {
    let dir = tempfile::tempdir().unwrap();
    let (json, svg) = (dir.path().join("f.json"), dir.path().join("f.svg"));
    let mut c = Command::new(env!("CARGO_BIN_EXE_node"));
    let c = c.arg("--json").arg(&json).arg("--plot").arg(&svg);
    let out = c.output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    let wrong = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{said}{wrong}");
    println!("{said}");
    let f: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let of = |key: &str| f[format!("async_demo.{key}")].as_u64();
    assert_eq!(of("reports"), Some(1_000));
    assert_eq!(of("identical"), Some(1));
    assert!(of("cuts") > Some(1_500), "{f}");
    assert!(of("cuts_in_flash_work") > Some(300), "{f}");
    assert!(of("sent_again") > Some(10), "{f}");
    assert_eq!(said.matches("identical").count(), 3, "{said}");
    assert!(!wrong.contains('\r'), "progress without a terminal");
    let svg = std::fs::read_to_string(&svg).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 3);
}
