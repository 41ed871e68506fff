//! Writes a module for each document at the root and below docs/, with its Rust code blocks as the
//! documentation.
//!
//! Only blocks fenced as `rust` count, and every other line is left empty: rustdoc would take an
//! indented shell command for Rust, and the line numbers of its messages stay those of the
//! document.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    let root = here.join("../..");
    let docs = root.join("docs");
    // Of a folder cargo watches all that is below it: the root would be the target folder too.
    println!("cargo::rerun-if-changed={}", docs.display());
    let mut files = Vec::new();
    documents(&root, false, &mut files);
    documents(&docs, true, &mut files);
    files.sort();
    let mut code = String::new();
    for f in &files {
        println!("cargo::rerun-if-changed={}", f.display());
        // A document's path is the name of its module: two folders have a README.md.
        let path = f.strip_prefix(&root).unwrap_or(f).with_extension("");
        let name: String = path
            .to_string_lossy()
            .to_lowercase()
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '_' })
            .collect();
        let text = std::fs::read_to_string(f).expect("a document");
        let blocks = out.join(format!("{name}.md"));
        std::fs::write(&blocks, rust_blocks(&text)).expect("the output folder is writable");
        writeln!(
            code,
            "#[doc = include_str!({blocks:?})]\npub mod {name} {{}}"
        )
        .expect("a string");
    }
    std::fs::write(out.join("documents.rs"), code).expect("the output folder is writable");
}

/// The documents in a folder; with `below`, also those of the folders in it.
fn documents(dir: &Path, below: bool, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if below && path.is_dir() {
            documents(&path, below, files);
        } else if path.extension().is_some_and(|e| e == "md") {
            files.push(path);
        }
    }
}

/// The text with all but its Rust blocks made empty lines.
fn rust_blocks(text: &str) -> String {
    let mut kept = String::new();
    // The fence of the block that this line is in, and whether the block is kept.
    let mut open: Option<(String, bool)> = None;
    for line in text.lines() {
        let fence: String = line
            .trim_start()
            .chars()
            .take_while(|c| *c == '`')
            .collect();
        let keep = match &open {
            None if fence.len() >= 3 => {
                let rust = line.trim_start()[fence.len()..]
                    .trim_start()
                    .starts_with("rust");
                open = Some((fence, rust));
                rust
            }
            None => false,
            Some((by, rust)) => {
                let (ends, rust) = (fence == *by && line.trim() == by, *rust);
                if ends {
                    open = None;
                }
                rust
            }
        };
        if keep {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}
