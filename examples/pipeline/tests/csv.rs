//! A file that is not as it must be is refused with its line number, and nothing is written.

use std::path::Path;
use std::process::Command;

#[test]
fn a_malformed_file_changes_nothing() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (data, json) = (dir.join("malformed.csv"), dir.join("malformed.json"));
    std::fs::write(&data, "hour,tenths_f\n0,394\n1,warm\n").unwrap();
    let _ = std::fs::remove_file(&json);
    let ran = Command::new(env!("CARGO_BIN_EXE_pipeline"))
        .args(["--data".as_ref(), data.as_os_str()])
        .args(["--json".as_ref(), json.as_os_str()])
        .output()
        .unwrap();
    assert!(!ran.status.success());
    assert!(ran.stdout.is_empty());
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        said.contains("malformed.csv") && said.contains("line 3"),
        "{said}"
    );
    assert!(!json.exists());
}
