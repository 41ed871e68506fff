//! `cargo xtask coverage`: which lines and branches of a crate its generated programs alone reach.

use crate::generated::ALL;
use crate::install::Need;
use crate::project::Project;
use crate::run::{Step, cargo_nightly};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The document.
const DOCUMENT: &str = "lab/COVERAGE.md";

/// Counts the lines and branches that generated programs reach, and names what they do not
///
/// Writes lab/COVERAGE.md. Installs cargo-llvm-cov.
#[derive(clap::Args)]
pub struct Args {
    /// Only this crate, and only to the terminal
    #[arg(long, value_name = "PACKAGE")]
    package: Option<String>,
}

/// `cargo xtask coverage`.
///
/// **Errors**: a program fails, or a tool is missing.
pub fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    let step = Step::alone(project.target.join("xtask/coverage.log"), "coverage");
    let mut text = String::from(
        "# What generated programs reach\n\n\
         Written by `cargo xtask coverage`: the module `generated` of each suite alone, with the\n\
         seed and the number of programs of `cargo xtask test`. A function counts as reached if one\n\
         of its instances is.\n",
    );
    for g in ALL {
        if a.package.as_ref().is_none_or(|p| p == g.package) {
            section(
                &mut text,
                &project,
                g.package,
                &of(&project, &step, g.package)?,
            )?;
        }
    }
    drop(step);
    match a.package {
        Some(_) => print!("{text}"),
        None => std::fs::write(project.root.join(DOCUMENT), text)?,
    }
    Ok(())
}

/// How many of how many.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Share {
    /// What was reached.
    pub reached: u64,
    /// What there is.
    pub of: u64,
}

/// A source file.
#[derive(Debug, Default, PartialEq)]
pub struct File {
    /// Its path in the crate.
    pub path: String,
    /// Lines of code.
    pub lines: Share,
    /// Each way of each branch.
    pub branches: Share,
    /// The first lines of functions of which no instance was reached.
    unreached: Vec<u64>,
}

/// The coverage of a crate by its generated programs.
///
/// **Errors**: a program fails, or a tool is missing.
pub fn of(project: &Project, step: &Step, package: &str) -> Result<Vec<File>> {
    Need::LlvmCov.install()?;
    let json = project.target.join("xtask/coverage.json");
    let mut c = cargo_nightly();
    c.current_dir(&project.root)
        .args(["llvm-cov", "test", "--branch", "--json", "-p", package])
        .args(["--test", "suite", "--output-path"])
        .arg(&json)
        .args(["--", "generated::", "--skip", "generated::found"]);
    step.run(c)?;
    let said: Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    let dir = &project.package(package).context("no such package")?.dir;
    let files = files(&said, dir);
    ensure!(!files.is_empty(), "no file of {package} was reached");
    Ok(files)
}

/// What llvm-cov says of the sources in `dir`.
fn files(said: &Value, dir: &Path) -> Vec<File> {
    let data = &said["data"][0];
    let source = |name: &Value| {
        let path = Path::new(name.as_str()?).strip_prefix(dir).ok()?;
        path.starts_with("src").then(|| path.display().to_string())
    };
    // An instance for each set of types: the function is reached if one of them is.
    let mut functions: BTreeMap<(String, u64), bool> = BTreeMap::new();
    for f in data["functions"].as_array().into_iter().flatten() {
        let line = f["regions"][0][0].as_u64();
        if let (Some(path), Some(line)) = (source(&f["filenames"][0]), line) {
            *functions.entry((path, line)).or_default() |= f["count"].as_u64() > Some(0);
        }
    }
    let share = |s: &Value| Share {
        reached: s["covered"].as_u64().unwrap_or(0),
        of: s["count"].as_u64().unwrap_or(0),
    };
    let listed = data["files"].as_array().into_iter().flatten();
    let file = |f: &Value| {
        let path = source(&f["filename"])?;
        let mine = functions
            .iter()
            .filter(|((p, _), reached)| *p == path && !**reached);
        Some(File {
            lines: share(&f["summary"]["lines"]),
            branches: share(&f["summary"]["branches"]),
            unreached: mine.map(|((_, line), _)| *line).collect(),
            path,
        })
    };
    listed.filter_map(file).collect()
}

/// The sum over files.
pub fn sum(shares: impl Iterator<Item = Share>) -> Share {
    shares.fold(Share::default(), |a, b| Share {
        reached: a.reached + b.reached,
        of: a.of + b.of,
    })
}

/// The table of a crate.
fn section(text: &mut String, project: &Project, package: &str, files: &[File]) -> Result<()> {
    let dir = &project.package(package).context("no such package")?.dir;
    let lines = sum(files.iter().map(|f| f.lines));
    let branches = sum(files.iter().map(|f| f.branches));
    writeln!(
        text,
        "\n## {package}\n\nReached: {} of {} lines, {} of {} ways of branches.\n\n\
         | file | lines | branches | functions that are not reached |\n|---|---|---|---|",
        lines.reached, lines.of, branches.reached, branches.of
    )?;
    for f in files {
        let source = std::fs::read_to_string(dir.join(&f.path))?;
        let source: Vec<_> = source.lines().collect();
        let mut names: Vec<_> = (f.unreached.iter())
            .map(|line| function(source.get(*line as usize - 1).copied().unwrap_or_default()))
            .collect();
        names.dedup();
        writeln!(
            text,
            "| {} | {} | {} | {} |",
            f.path.trim_start_matches("src/"),
            percent(f.lines),
            percent(f.branches),
            names.join(", ")
        )?;
    }
    Ok(())
}

/// The name of the function that this line begins.
fn function(line: &str) -> String {
    let name = line
        .split("fn ")
        .nth(1)
        .and_then(|l| l.split(['(', '<']).next());
    match name {
        Some(name) => format!("`{name}`"),
        None => "a closure".into(),
    }
}

fn percent(s: Share) -> String {
    match s.of {
        0 => String::new(),
        of => format!("{} %", s.reached * 100 / of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_function_is_reached_if_one_of_its_instances_is() {
        let function = |line: u64, count: u64| json!({"filenames": ["/x/src/a.rs"], "regions": [[line, 1]], "count": count});
        let summary = json!({
            "lines": {"count": 10, "covered": 7},
            "branches": {"count": 4, "covered": 1},
        });
        let said = json!({"data": [{
            "files": [
                {"filename": "/x/src/a.rs", "summary": summary},
                {"filename": "/y/src/b.rs", "summary": summary},
            ],
            "functions": [function(3, 0), function(3, 2), function(9, 0)],
        }]});
        let found = files(&said, Path::new("/x"));
        let [a] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (a.lines, a.branches),
            (Share { reached: 7, of: 10 }, Share { reached: 1, of: 4 })
        );
        assert_eq!(a.unreached, [9]);
    }

    #[test]
    fn a_function_has_the_name_in_its_first_line() {
        assert_eq!(function("    pub fn take<T>(&self) {"), "`take`");
        assert_eq!(function("        .map(|x| {"), "a closure");
    }
}
