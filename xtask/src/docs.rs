//! The check of the documents: links, anchors, and paths in code spans.

use crate::project::Project;
use anyhow::{Result, bail};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// A code span that starts with one of these is the path of a file that must exist.
const ROOTS: [&str; 9] = [
    "crates/",
    "docs/",
    "examples/",
    "xtask/",
    "fuzz/",
    ".ci/",
    ".github/",
    ".cargo/",
    "firmware/",
];

/// Every document of the repository, in order.
pub fn documents(project: &Project) -> Vec<PathBuf> {
    let mut all = BTreeSet::new();
    for dir in ["", "docs", "fuzz", ".github"] {
        all.extend(markdown(&project.root.join(dir)));
    }
    for p in &project.packages {
        all.extend(markdown(&p.dir));
    }
    all.into_iter().collect()
}

fn markdown(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect()
}

/// What one document says.
#[derive(Default)]
struct Document {
    anchors: BTreeSet<String>,
    /// `(line, destination)`
    links: Vec<(usize, String)>,
    spans: Vec<(usize, String)>,
    /// Lines of code blocks that do not say what they are.
    unnamed: Vec<usize>,
}

fn read(text: &str) -> Document {
    let mut d = Document::default();
    let mut heading: Option<String> = None;
    let mut used: HashMap<String, usize> = HashMap::new();
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        let line = text[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let n = used.entry(slug.clone()).or_default();
                d.anchors.insert(if *n == 0 {
                    slug.clone()
                } else {
                    format!("{slug}-{n}")
                });
                *n += 1;
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                d.links.push((line, dest_url.to_string()));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if info.is_empty() => {
                d.unnamed.push(line);
            }
            Event::Text(t) => {
                if let Some(h) = &mut heading {
                    h.push_str(&t);
                }
            }
            Event::Code(t) => {
                if let Some(h) = &mut heading {
                    h.push_str(&t);
                }
                d.spans.push((line, t.to_string()));
            }
            _ => {}
        }
    }
    d
}

/// The anchor that a code host gives to a heading.
fn slug(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

/// Checks every document.
///
/// **Errors**: a link leads to no file or no heading, or a path in a code span does not exist; all are listed.
pub fn check(project: &Project) -> Result<String> {
    let all = documents(project);
    let mut wrong = Vec::new();
    let (mut links, mut paths) = (0, 0);
    for file in &all {
        let d = read(&std::fs::read_to_string(file)?);
        let dir = file.parent().unwrap_or(&project.root);
        let shown = file
            .strip_prefix(&project.root)
            .unwrap_or(file)
            .display()
            .to_string();
        // A crate's README is its documentation, where rustdoc takes such a block for Rust.
        let readme = file.ends_with("README.md") && dir != project.root;
        for line in d.unnamed.iter().filter(|_| !readme) {
            wrong.push(format!(
                "{shown}:{line}: a code block without a language: rust, text, sh, …"
            ));
        }
        for (line, link) in &d.links {
            if link.contains("://") || link.starts_with("mailto:") || is_item(link) {
                continue;
            }
            links += 1;
            if let Err(e) = follow(dir, link, &d) {
                wrong.push(format!("{shown}:{line}: {e}"));
            }
        }
        for (line, span) in &d.spans {
            if !ROOTS.iter().any(|r| span.starts_with(r))
                || span.contains(['*', '<', '{', '…', ' '])
            {
                continue;
            }
            paths += 1;
            if let Err(e) = path(&project.root, span) {
                wrong.push(format!("{shown}:{line}: {e}"));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!(
        "{} documents, {links} links, {paths} paths",
        all.len()
    ))
}

/// A link to a Rust item, which rustdoc checks: `crate::Region`, `Region::load`.
fn is_item(link: &str) -> bool {
    !link.contains(['/', '#', '.']) && link.chars().next().is_some_and(|c| c.is_alphabetic())
}

fn follow(dir: &Path, link: &str, here: &Document) -> Result<()> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let there;
    let target = if file.is_empty() {
        here
    } else {
        let path = dir.join(file);
        if !path.exists() {
            bail!("the link {link} leads to no file");
        }
        if anchor.is_empty() || path.extension().is_none_or(|e| e != "md") {
            return Ok(());
        }
        there = read(&std::fs::read_to_string(path)?);
        &there
    };
    if !target.anchors.contains(anchor) {
        bail!("the link {link} leads to no heading");
    }
    Ok(())
}

/// `crates/x/src/y.rs`, with `:12` for a line or `::name` for a function in it.
fn path(root: &Path, span: &str) -> Result<()> {
    let (file, item) = match span.split_once("::") {
        Some((f, i)) => (f, Some(i)),
        None => (span.split(':').next().unwrap_or(span), None),
    };
    let at = root.join(file);
    if !at.exists() {
        bail!("`{file}` does not exist");
    }
    let name = item.and_then(|i| i.rsplit("::").next());
    if let Some(name) = name
        && at.is_file()
        && !std::fs::read_to_string(&at)?.contains(name)
    {
        bail!("`{file}` has no `{name}`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_those_of_code_hosts() {
        assert_eq!(slug("What a cut leaves: `NOR`"), "what-a-cut-leaves-nor");
        assert_eq!(slug("Cost, in stores"), "cost-in-stores");
    }

    #[test]
    fn headings_links_and_spans_are_found() {
        let d = read("# One\n\n# One\n\n[a](b.md#c) `crates/x`\n");
        assert!(d.anchors.contains("one") && d.anchors.contains("one-1"));
        assert_eq!(d.links, [(5, "b.md#c".to_owned())]);
        assert_eq!(d.spans, [(5, "crates/x".to_owned())]);
    }

    #[test]
    fn dead_links_and_anchors_are_errors() {
        let d = read("# One\n");
        let here = crate::project::root();
        assert!(follow(&here, "#one", &d).is_ok());
        assert!(follow(&here, "#two", &d).is_err());
        assert!(follow(&here, "Cargo.toml", &d).is_ok());
        assert!(follow(&here, "Cargo.tomb", &d).is_err());
        assert!(path(&here, "xtask/src/docs.rs::slug").is_ok());
        assert!(
            path(
                &here,
                &format!("xtask/src/docs.rs::{}{}", "no_such", "_name")
            )
            .is_err()
        );
        assert!(path(&here, "xtask/src/none.rs").is_err());
    }
}
