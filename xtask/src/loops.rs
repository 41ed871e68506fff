//! How long the loop of a change is: figures that are reported, and not compared.

use crate::ci::gates;
use crate::clocks::{unseeded_choices, wall_time_limits};
use crate::figures::Figures;
use crate::project::Project;
use crate::run::capture;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The figures.
///
/// **Errors**: git or cargo does not answer, or a file cannot be read.
pub fn figures(project: &Project) -> Result<Figures> {
    let all = [
        ("words", words(project)?),
        ("gated_figures", gates::gates(project)?.len()),
        ("test_programs", test_programs(project)),
        ("src_lines", src_lines(project)?),
        ("lab_lines", lab_lines(project)?),
        ("wall_time_limits", wall_time_limits(project)?.len()),
        ("unseeded_choices", unseeded_choices(project)?.len()),
    ];
    Ok(all.map(|(k, n)| (format!("loop.{k}"), n as f64)).into())
}

/// The tracked files whose path is chosen.
///
/// **Errors**: git does not answer.
pub fn tracked(project: &Project, chosen: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut c = Command::new("git");
    c.current_dir(&project.root).args(["ls-files", "-z"]);
    let said = capture(c)?;
    let paths = said.split('\0').filter(|p| !p.is_empty() && chosen(p));
    Ok(paths.map(str::to_owned).collect())
}

/// The sum of what is counted in each of these files. A file that is deleted and still tracked
/// counts as nothing.
fn sum(project: &Project, paths: &[String], count: fn(&str) -> usize) -> Result<usize> {
    let paths = paths.iter().map(|p| project.root.join(p));
    let each = paths
        .filter(|p| p.exists())
        .map(|path: std::path::PathBuf| {
            let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
            Ok(count(&String::from_utf8_lossy(&text)))
        });
    each.sum()
}

/// The words of the tracked documents outside of the lab, as `wc -w` counts them: a link to a
/// document counts as that document.
///
/// **Errors**: as [`figures`].
pub fn words(project: &Project) -> Result<usize> {
    let outside = |p: &str| p.ends_with(".md") && !p.starts_with("lab/");
    let words = |text: &str| text.split_ascii_whitespace().count();
    sum(project, &tracked(project, outside)?, words)
}

/// How many programs of integration tests the workspace of the crates has.
pub fn test_programs(project: &Project) -> usize {
    let targets = project.packages.iter().flat_map(|p| &p.targets);
    targets.filter(|t| t.1 == "test").count()
}

/// The lines of code of the crates, without their tests.
///
/// **Errors**: as [`figures`].
pub fn src_lines(project: &Project) -> Result<usize> {
    let source = |p: &str| {
        let crates = p.strip_prefix("crates/").and_then(|p| p.split_once('/'));
        crates.is_some_and(|(_, p)| p.starts_with("src/")) && p.ends_with(".rs")
    };
    sum(project, &tracked(project, source)?, code)
}

/// The lines of code of the lab.
///
/// **Errors**: as [`figures`].
pub fn lab_lines(project: &Project) -> Result<usize> {
    let source = |p: &str| Path::new(p).starts_with("lab") && p.ends_with(".rs");
    sum(project, &tracked(project, source)?, code)
}

/// Lines that are neither blank nor a comment.
fn code(source: &str) -> usize {
    let mut depth = 0;
    let mut n = 0;
    for line in source.lines().map(str::trim) {
        let begins = line.starts_with("/*");
        if depth == 0 && !begins {
            n += usize::from(!line.is_empty() && !line.starts_with("//"));
            continue;
        }
        depth += line.matches("/*").count();
        depth = depth.saturating_sub(line.matches("*/").count());
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_neither_blank_nor_comments() {
        let source = "//! What it is.\n\nfn f() { // a call\n    /* a /* nested */\n    comment */\n    g()\n}\n";
        assert_eq!(code(source), 3);
        assert_eq!(code("/* one line */\nlet a = \"*/\";\n"), 1);
    }

    #[test]
    fn each_figure_counts_something() {
        let project = Project::load().unwrap();
        let found = figures(&project).unwrap();
        for key in ["words", "test_programs", "src_lines", "lab_lines"] {
            assert!(found[&format!("loop.{key}")] > 10.0, "{key}: {found:?}");
        }
    }
}
