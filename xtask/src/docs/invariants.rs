//! docs/INVARIANTS.md: an index of the invariants that stand beside the code.
//!
//! ```text
//! // INVARIANT "Sole region": a range of addresses has one owner. `Region` is not `Clone`.
//! // Noticed by: compile-fail tests of `pmem-tx`.
//! ```
//!
//! A block goes on as long as its lines are comments of the same kind and not empty. What follows
//! `Noticed by:` are the tests. A name stands once in a crate.

use super::shown;
use crate::project::Project;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// The document.
pub const INDEX: &str = "docs/INVARIANTS.md";

const HEAD: &str = "\
# Invariants

What always holds in each crate, and the file that keeps it. There a comment that begins with
`INVARIANT` and the name says what it is, and which test would notice if it broke. `SAFETY` comments
and failure reports cite these names. `cargo xtask docs` writes this index.
";

/// The index, from the sources of the published crates.
///
/// **Errors**: a block without a name, a text or tests; a name that a crate has twice; a crate with
/// `unsafe` code and no invariant.
pub fn index(project: &Project) -> Result<String> {
    let mut out = HEAD.to_owned();
    for p in project.published() {
        let mut names = BTreeSet::new();
        let mut rows = String::new();
        for file in super::files(&p.dir.join("src"), "rs")? {
            let path = shown(project, &file);
            let text = std::fs::read_to_string(&file)?;
            for name in in_source(&text).with_context(|| path.clone())? {
                ensure!(
                    names.insert(name.clone()),
                    "{path}: {} has the invariant \"{name}\" twice",
                    p.name
                );
                let file = Path::new(&path).file_name().unwrap_or_default();
                let file = file.to_string_lossy();
                writeln!(rows, "| {name} | [{file}](../{path}) |")?;
            }
        }
        if !rows.is_empty() {
            write!(
                out,
                "\n## {}\n\n| name | kept in |\n|---|---|\n{rows}",
                p.name
            )?;
        }
    }
    Ok(out)
}

/// The names in an index.
pub fn names(index: &str) -> BTreeSet<String> {
    let rows = index.lines().filter_map(|l| l.strip_prefix("| "));
    let names = rows.filter_map(|r| r.split(" |").next());
    names.filter(|n| *n != "name").map(str::to_owned).collect()
}

/// Where a `SAFETY` comment of this source cites an invariant that no crate has.
pub fn unknown(text: &str, names: &BTreeSet<String>) -> Vec<(usize, String)> {
    let lines: Vec<_> = text.lines().map(comment).collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let cites = |t: &str| t.starts_with("SAFETY: invariant");
        if !line.is_some_and(|(_, t)| cites(t)) {
            continue;
        }
        let block = lines[i..].iter().map_while(|l| l.map(|(_, t)| t));
        let said = block.collect::<Vec<_>>().join(" ");
        for name in said.split('"').skip(1).step_by(2) {
            if !names.contains(name) {
                found.push((i + 1, format!("no invariant \"{name}\"")));
            }
        }
    }
    found
}

/// The comment marker of a line, and the text after it.
fn comment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    ["///", "//!", "//"]
        .into_iter()
        .find_map(|m| Some((m, line.strip_prefix(m)?.trim())))
}

/// The names of the invariants of a source.
///
/// **Errors**: as [`index`].
fn in_source(text: &str) -> Result<Vec<String>> {
    let lines: Vec<_> = text.lines().map(comment).collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let Some((marker, begins)) = line.filter(|(_, t)| t.starts_with("INVARIANT ")) else {
            continue;
        };
        let block = lines[i..].iter().map_while(|l| *l);
        let block = block.take_while(|(m, t)| *m == marker && !t.is_empty());
        let block: Vec<_> = block.map(|(_, t)| t).collect();
        let mut quoted = begins.split('"');
        let name = quoted.nth(1).filter(|n| !n.is_empty());
        let name = name.with_context(|| format!("line {}: no name in quotes", i + 1))?;
        let tests = block.iter().position(|t| t.starts_with("Noticed by:"));
        let Some(tests) = tests.filter(|_| quoted.next().is_some_and(|t| t.starts_with(": ")))
        else {
            bail!("\"{name}\": it is `INVARIANT \"name\": text`, and `Noticed by: tests`");
        };
        let said = block[tests..].join(" ");
        let noticed_by = said.trim_start_matches("Noticed by:").trim();
        ensure!(!noticed_by.is_empty(), "\"{name}\": no test notices it");
        found.push(name.to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_a_name_and_tests() {
        let text = "    // INVARIANT \"One loan\": there is one\n    // loan. Noticed by: nobody.\n    // Noticed by: a test,\n    // and Miri.\n    //\n    // More.\n    fn f() {}\n";
        let found = in_source(text).unwrap();
        assert_eq!(found, ["One loan"]);
        let names = names("| name | x |\n| One loan | x |\n");
        assert!(unknown("// SAFETY: invariant \"One\n// loan\".", &names).is_empty());
        assert_eq!(unknown("\n// SAFETY: invariant \"Two\"", &names)[0].0, 2);
        for wrong in [
            "// INVARIANT no name",
            "// INVARIANT \"a\": text",
            "// INVARIANT \"a\": text\n\n// Noticed by: x",
            "// INVARIANT \"a\" text\n// Noticed by: x",
            "// INVARIANT \"a\": text\n// Noticed by:",
        ] {
            assert!(in_source(wrong).is_err(), "{wrong}");
        }
    }
}
