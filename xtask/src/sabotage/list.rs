//! The lists of planted bugs, `crates/*/sabotage.txt`.

use crate::project::Project;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// One line of a list: `name | arguments of cargo test | what is wrong`, and perhaps `| why no
/// generated program notices it`.
#[derive(Clone)]
pub struct Bug {
    pub package: String,
    pub name: String,
    pub args: String,
    pub what: String,
    /// Why no generated program notices it, if none does.
    pub unseen: Option<String>,
    /// How many times the generated programs of `cargo xtask test` are made with it.
    pub times: u32,
}

/// All lists, and where they disagree with the sources: a name that no source plants, a planted
/// name that is not listed.
///
/// **Errors**: a line that is not of three or four columns, a name listed twice.
pub fn read(project: &Project) -> Result<(Vec<Bug>, Vec<String>)> {
    let mut bugs: Vec<Bug> = Vec::new();
    let mut wrong = Vec::new();
    for p in project.published() {
        let file = p.dir.join("sabotage.txt");
        let mut listed = BTreeSet::new();
        if file.is_file() {
            for (n, line) in std::fs::read_to_string(&file)?.lines().enumerate() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let at = || format!("{}:{}", file.display(), n + 1);
                let bug = parse(&p.name, line).with_context(at)?;
                if !listed.insert(bug.name.clone()) {
                    bail!("{}: `{}` is listed twice", at(), bug.name);
                }
                bugs.push(bug);
            }
        }
        let mut planted = BTreeSet::new();
        sources(&p.dir.join("src"), &p.name, &mut planted)?;
        for name in listed.difference(&planted) {
            wrong.push(format!(
                "`{name}` is listed but planted nowhere in src/ of {}",
                p.name
            ));
        }
        for name in planted.difference(&listed) {
            wrong.push(format!(
                "`{name}` is planted but not in the sabotage.txt of {}",
                p.name
            ));
        }
    }
    Ok((bugs, wrong))
}

fn parse(package: &str, line: &str) -> Result<Bug> {
    let columns: Vec<_> = line.split('|').map(str::trim).collect();
    let (&[name, args, what], unseen) = match columns.split_at_checked(3) {
        Some((first, [])) => (first.try_into()?, None),
        Some((first, &[why])) => (first.try_into()?, Some(why.to_owned())),
        _ => bail!("not `name | arguments | what is planted`, and perhaps `| why it is unseen`"),
    };
    if !name.starts_with(&format!("{package}/")) {
        bail!("the name must start with `{package}/`");
    }
    if args.is_empty() || what.is_empty() || unseen.as_deref() == Some("") {
        bail!("an empty column");
    }
    Ok(Bug {
        package: package.into(),
        name: name.into(),
        args: args.into(),
        what: what.into(),
        unseen,
        times: 1,
    })
}

/// Collects each `planted!("package/…")` under `dir`.
fn sources(dir: &Path, package: &str, out: &mut BTreeSet<String>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Ok(());
    };
    for e in entries.flatten() {
        let path = e.path();
        if path.is_dir() {
            sources(&path, package, out)?;
        } else if path.extension().is_some_and(|x| x == "rs") {
            names(&std::fs::read_to_string(&path)?, package, out);
        }
    }
    Ok(())
}

fn names(text: &str, package: &str, out: &mut BTreeSet<String>) {
    for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
        for (i, _) in line.match_indices("planted!(") {
            let name = line[i..].split('"').nth(1).unwrap_or_default();
            if name.starts_with(&format!("{package}/")) {
                out.insert(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_three_or_four_columns_and_the_packages_name() {
        let b = parse(
            "nvmem",
            "nvmem/no-crc | --test record | the CRC is not compared",
        )
        .unwrap();
        assert_eq!(
            (b.name.as_str(), b.args.as_str()),
            ("nvmem/no-crc", "--test record")
        );
        assert!(parse("nvmem", "nvmem/no-crc | --test record").is_err());
        assert!(parse("nvmem", "other/no-crc | --test record | x").is_err());
        assert!(parse("nvmem", "nvmem/no-crc | | x").is_err());
        assert!(b.unseen.is_none());
        let b = parse("nvmem", "nvmem/x | --lib | x | no program tries it").unwrap();
        assert_eq!(b.unseen.as_deref(), Some("no program tries it"));
        assert!(parse("nvmem", "nvmem/x | --lib | x | ").is_err());
        assert!(parse("nvmem", "nvmem/x | --lib | x | y | z").is_err());
    }

    #[test]
    fn planted_names_are_found_in_code_and_not_in_comments() {
        let mut out = BTreeSet::new();
        names(
            "if planted!(\"a/b\") {}\n// planted!(\"a/c\")\nnvmem::planted!(\"b/d\")",
            "a",
            &mut out,
        );
        assert_eq!(out.into_iter().collect::<Vec<_>>(), ["a/b"]);
    }
}
