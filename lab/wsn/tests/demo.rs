//! The program, as a user runs it.

use std::process::Command;

fn run(args: &[&str]) -> (bool, String) {
    let plot = std::env::temp_dir().join(format!("wsn-{}.svg", std::process::id()));
    let mut c = Command::new(env!("CARGO_BIN_EXE_wsn"));
    let out = c
        .args(args)
        .arg("--plot")
        .arg(&plot)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    (out.status.success(), text)
}

#[test]
fn the_same_packets() {
    for args in [&["--seed", "1"][..], &["--seed", "2"], &["--on-time", "4"]] {
        let (good, text) = run(args);
        assert!(good && text.contains("the same packets: yes"), "{text}");
    }
}

#[test]
fn a_life_that_is_too_short() {
    let (good, _) = run(&["--on-time", "2"]);
    assert!(!good, "nothing can be sent in 2 ms");
}
