//! What would make two runs of a test differ: limits that the wall's clock sets, and choices that a
//! clock or a random source makes.
//!
//! Both are found by the words of the sources, without comments and texts in quotes. Limits that
//! must stay stand in `xtask/wall-time.txt`, one line each: `path | line | reason`. In the path `*`
//! stands for any characters. In place of the line it stands for all lines of the file.

use crate::project::Project;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The list of limits.
const LIST: &str = "xtask/wall-time.txt";
/// The folders that are searched.
const FOLDERS: [&str; 6] = ["crates", "examples", "firmware", "fuzz", "lab", "xtask"];
/// Words that name a time, or a limit on one.
const TIMES: [&str; 7] = [
    "Duration",
    "Instant",
    "timeout",
    "recv_timeout",
    "elapsed",
    "SystemTime",
    "UNIX_EPOCH",
];
/// Words that name a clock, or a source of random numbers, from which a choice can be made.
const SOURCES: [&str; 9] = [
    "UNIX_EPOCH",
    "SystemTime",
    "RandomState",
    "thread_rng",
    "from_entropy",
    "from_os_rng",
    "getrandom",
    "fastrand",
    "OsRng",
];
/// The same, in two words.
const PATHS: [&str; 3] = ["rand::rng", "rand::random", "RngSeed::Random"];
/// Where proptest's seed is fixed: it takes a random one otherwise.
const CARGO_CONFIG: &str = ".cargo/config.toml";
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";

/// The uses of time that are not in the list, and the entries of the list that nothing uses any
/// more.
///
/// **Errors**: a file cannot be read, or the list has a line that is no entry.
pub fn wall_time_limits(project: &Project) -> Result<Vec<String>> {
    let path = project.root.join(LIST);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut entries = entries(&text)?;
    let mut wrong = Vec::new();
    for (path, source) in sources(project)? {
        for (n, line) in source.lines().enumerate() {
            if !has_any(line, &TIMES) {
                continue;
            }
            let mut listed = false;
            for e in entries.iter_mut().filter(|e| e.is(&path, line.trim())) {
                listed = true;
                e.used = true;
            }
            if !listed {
                wrong.push(format!("{path}:{}: {}", n + 1, line.trim()));
            }
        }
    }
    let unused = entries.iter().filter(|e| !e.used);
    wrong.extend(unused.map(|e| format!("{LIST}: nothing is `{} | {}`", e.path, e.line)));
    Ok(wrong)
}

/// The uses of clocks and random sources from which xtask or a test may choose.
///
/// **Errors**: a file cannot be read.
pub fn unseeded_choices(project: &Project) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut proptest = false;
    for (path, source) in sources(project)? {
        for (n, line) in source.lines().enumerate() {
            proptest |= has_any(line, &["proptest"]);
            let chooses = PATHS
                .iter()
                .any(|w| line.contains(w) && code(line).contains(w));
            if chooses || has_any(line, &SOURCES) {
                wrong.push(format!("{path}:{}: {}", n + 1, line.trim()));
            }
        }
    }
    let config = std::fs::read_to_string(project.root.join(CARGO_CONFIG)).unwrap_or_default();
    if proptest && !config.lines().any(|l| l.starts_with(PROPTEST_SEED)) {
        wrong.push(format!("{CARGO_CONFIG}: no {PROPTEST_SEED}"));
    }
    Ok(wrong)
}

/// An entry of the list.
struct Entry {
    path: String,
    line: String,
    used: bool,
}

impl Entry {
    fn is(&self, path: &str, line: &str) -> bool {
        (self.line == "*" || self.line == line) && is_like(path, &self.path)
    }
}

fn entries(text: &str) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // A line of code may hold the separator, too.
        let (Some((path, rest)), Some((_, reason))) =
            (line.split_once(" | "), line.rsplit_once(" | "))
        else {
            bail!("{LIST}: not `path | line | reason`: {line}");
        };
        let Some((code, _)) = rest.rsplit_once(" | ") else {
            bail!("{LIST}: no reason: {line}");
        };
        if reason.trim().is_empty() {
            bail!("{LIST}: no reason: {line}");
        }
        all.push(Entry {
            path: path.to_owned(),
            line: code.to_owned(),
            used: false,
        });
    }
    Ok(all)
}

/// Whether the text is the pattern, in which `*` stands for any characters.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    (0..=rest.len()).any(|i| rest.get(i..).is_some_and(|r| is_like(r, after)))
}

/// The line without texts in quotes and without its comment.
fn code(line: &str) -> String {
    let mut kept = String::new();
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted => _ = chars.next(),
            '"' => quoted = !quoted,
            '/' if !quoted && chars.peek() == Some(&'/') => break,
            // A character literal that is a quote.
            '\'' if !quoted && chars.peek() == Some(&'"') => _ = chars.next(),
            c if !quoted => kept.push(c),
            _ => {}
        }
    }
    kept
}

/// Whether one of the identifiers stands in the line's code.
fn has_any(line: &str, words: &[&str]) -> bool {
    let stands = |word: &str| {
        let code = code(line);
        let mut all = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        all.any(|w| w == word)
    };
    words.iter().any(|w| line.contains(w) && stands(w))
}

/// Path and text of each Rust file in the folders, in order. The words that are looked for stand in
/// this file; it is left out.
fn sources(project: &Project) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        let dir = project.root.join(folder);
        if dir.is_dir() {
            collect(&dir, &mut files)?;
        }
    }
    files.sort();
    let mut all = Vec::new();
    for f in files {
        let name = f.strip_prefix(&project.root).unwrap_or(&f);
        let name = name.to_string_lossy().replace('\\', "/");
        // The lab measures rates; only its tests must not.
        let measures = name.starts_with("lab/") && !name.contains("/tests");
        if measures || name == "xtask/src/clocks.rs" {
            continue;
        }
        let text = std::fs::read_to_string(&f).with_context(|| f.display().to_string())?;
        all.push((name, text));
    }
    Ok(all)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_in_wall_time_has_a_reason() {
        let project = Project::load().unwrap();
        assert_eq!(wall_time_limits(&project).unwrap(), [""; 0]);
    }

    #[test]
    fn every_choice_has_a_seed() {
        let project = Project::load().unwrap();
        assert_eq!(unseeded_choices(&project).unwrap(), [""; 0]);
    }

    #[test]
    fn cargo_gives_each_test_the_seed_of_proptest() {
        let seed = std::env::var(PROPTEST_SEED).unwrap();
        seed.parse::<u64>().unwrap();
    }

    #[test]
    fn words_are_found_in_code_only() {
        let finds = |line: &str| has_any(line, &["timeout"]);
        assert!(finds("let timeout = 3;") && finds(r#"f("\"", timeout)"#));
        assert!(finds(r#"if c == '"' { timeout() }"#));
        assert!(!finds("// timeout") && !finds(r#"f("timeout")"#) && !finds("boot_timeout(3)"));
    }

    #[test]
    fn entries_name_files_and_lines() {
        let of = |text: &str| entries(text).unwrap();
        let all = of("# a\n\na/*b.rs | x | y; | why\nc.rs | * | why\n");
        assert!(all[0].is("a/x/b.rs", "x | y;") && !all[0].is("a/b.rs", "x"));
        assert!(all[1].is("c.rs", "z") && !all[1].is("d/c.rs", "z"));
        assert!(entries("a | b").is_err() && entries("a | b | ").is_err());
    }
}
