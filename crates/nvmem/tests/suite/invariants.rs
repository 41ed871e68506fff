//! Each `unsafe` block names the invariant of docs/INVARIANTS.md that makes it sound.

#![cfg(not(miri))]

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in dir.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else {
            out.push(path);
        }
    }
}

/// The names in quotation marks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).collect()
}

#[test]
fn every_safety_comment_names_one_of_the_document() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let doc = read_to_string(root.join("../../docs/INVARIANTS.md")).unwrap();
    let names: Vec<&str> = doc
        .lines()
        .filter_map(|l| l.strip_prefix("| ")?.split(" |").next())
        .collect();
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let mut comments = 0;
    for file in files {
        let text = read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        for (i, line) in lines.iter().enumerate() {
            let Some(said) = line.strip_prefix("// SAFETY:") else {
                continue;
            };
            let rest = lines[i + 1..]
                .iter()
                .map_while(|l| l.strip_prefix("// "))
                .collect::<Vec<_>>();
            let said = format!("{said} {}", rest.join(" "));
            let at = format!("{}:{}:{said}", file.display(), i + 1);
            assert!(said.trim_start().starts_with("invariant"), "{at}");
            let named = quoted(&said);
            assert!(!named.is_empty(), "{at}");
            for name in named {
                assert!(names.contains(&name), "no invariant {name:?}: {at}");
            }
            comments += 1;
        }
    }
    assert!(comments > 60, "{comments}");
}
