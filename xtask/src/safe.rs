//! How safe programs are that somebody gets wrong: misuse that is tried, stacks that overflow, and
//! numbers of another owner. Figures that are reported.

use crate::figures::Figures;
use crate::generated;
use crate::loops::tracked;
use crate::project::Project;
use crate::run::Step;
use crate::stacks;
use anyhow::{Context, Result};

/// The suites in which numbers of another owner resolve contexts, and the module with them.
const OWNERS: [&str; 2] = ["nv-device", "nv-replay"];
const OF_OWNERS: &str = "crash::owners::";
/// The least that must be tried.
const PROBES: usize = 291;
const OWNER_CUTS: f64 = 1e5;

/// The figures, and what is not as it must be.
///
/// **Errors**: something cannot be built or started.
pub fn figures(project: &Project, s: &Step) -> Result<(Figures, Vec<String>)> {
    let mut wrong = Vec::new();
    let probes = probes(project)?;
    if probes < PROBES {
        wrong.push(format!("{probes} probes of misuse, {PROBES} are required"));
    }
    let (overflows, open) = stacks::overflows(project, s)?;
    wrong.extend(open);
    let (mut cuts, mut failures) = (0.0, 0.0);
    for package in OWNERS {
        let counts = generated::campaigns(project, s, package, OF_OWNERS, |_| {})?;
        cuts += counts.cuts;
        failures += counts.failed;
    }
    if cuts < OWNER_CUTS || failures > 0.0 {
        wrong.push(format!(
            "owners of numbers: {cuts} cuts, {failures} failures"
        ));
    }
    // Tests that Miri leaves out because a library reads what has no value.
    let is_exception = |l: &&str| l.contains("miri, ignore") && l.contains("padding");
    let exceptions = lines(project, |text| text.lines().filter(is_exception).count())?;
    let all = [
        ("probes", probes as f64),
        ("stack_overflows", overflows.overflows.into()),
        ("stack_overflows_named", overflows.named.into()),
        ("open", wrong.len() as f64),
        ("owner_cuts", cuts),
        ("owner_failures", failures),
        ("miri_exceptions", exceptions as f64),
    ];
    let figures = all.map(|(key, n)| (format!("safe.{key}"), n));
    Ok((figures.into(), wrong))
}

/// Misuse that must not compile, or must be an error: programs of `tests/ui`, code blocks that must
/// not compile, and the tests of modules that are named for it.
fn probes(project: &Project) -> Result<usize> {
    let is_ui = |p: &str| p.starts_with("crates/") && p.contains("/tests/ui") && p.ends_with(".rs");
    let programs = tracked(project, is_ui)?.len();
    let blocks = lines(project, |text| {
        let is_block = |l: &&str| l.contains("```") && l.contains("compile_fail");
        text.lines().filter(is_block).count()
    })?;
    let is_named = |p: &str| p.contains("misuse") || p.contains("soundness") || p.contains("refus");
    let of_misuse = |p: &str| p.contains("/tests/suite/") && p.ends_with(".rs") && is_named(p);
    let mut tests = 0;
    for path in tracked(project, of_misuse)? {
        tests += text(project, &path)?.matches("#[test]").count();
    }
    Ok(programs + blocks + tests)
}

/// What is counted in all sources of the crates.
fn lines(project: &Project, count: impl Fn(&str) -> usize) -> Result<usize> {
    let sources = tracked(project, |p| p.starts_with("crates/") && p.ends_with(".rs"))?;
    let mut sum = 0;
    for path in sources {
        sum += count(&text(project, &path)?);
    }
    Ok(sum)
}

fn text(project: &Project, path: &str) -> Result<String> {
    std::fs::read_to_string(project.root.join(path)).with_context(|| path.to_owned())
}
