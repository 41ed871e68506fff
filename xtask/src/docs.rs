//! `docs-check`: what the documents and comments say must be there to be read.
//!
//! | what | where | refused |
//! |---|---|---|
//! | links, paths in code spans | documents | those that lead to no file or heading |
//! | links of a front page | READMEs of published crates | relative ones: rustdoc shows the page elsewhere |
//! | width ([`columns`]) | documents, comments | lines over 100 columns |
//! | messages of the compiler ([`messages`]) | documents | quotes that no test of messages pins |
//! | names ([`replaced`]) | documents, code, comments | names that the list says are replaced |
//! | planted bugs ([`planted`]) | crates | those that are not one condition on one line |
//! | costs ([`costs`]) | documents | rows that do not show the figure of their key |
//! | invariants ([`invariants`]) | crates | an index that is not that of the sources |
//! | needs x memories ([`matrix`]) | READMEs, COMPARISON | tables that are not docs/matrix.toml's |
//!
//! Every document and every source is read, so that the message lists all findings, each as
//! `file:line: what is wrong`. [`rendered`] and [`errors`] check the pages that rustdoc makes; the
//! step `rustdoc` calls them.

mod columns;
mod costs;
pub mod errors;
mod invariants;
mod matrix;
mod messages;
mod planted;
pub mod rendered;
mod replaced;
mod source;

use crate::figures::COSTS;
use crate::project::Project;
use anyhow::{Context, Result, bail, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// A code span that starts with one of these is the path of a file that must exist.
const ROOTS: [&str; 10] = [
    "lab/",
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

/// The folders whose Rust sources are checked. Each has some.
const SOURCES: [&str; 6] = ["crates", "examples", "firmware", "fuzz", "lab", "xtask"];

/// Documents that a program writes as a whole: their lines may be long.
const GENERATED: [&str; 2] = ["lab/COSTS.md", "lab/SIZES.md"];

/// It lists what names were replaced, so it may name them.
const CHANGES: &str = "CHANGELOG.md";

/// Where a link on the code host leads into this repository.
const ON_HOST: [&str; 2] = [
    concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/"),
    concat!(env!("CARGO_PKG_REPOSITORY"), "/tree/main/"),
];

/// The files below `dir` whose names end so, in order. Folders of built files are left out.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // A link's target is another file of the repository, and is checked where it lies.
        if entry.file_type()?.is_symlink() {
            continue;
        }
        if entry.file_type()?.is_dir() {
            let hidden = name.starts_with('.') && name != ".github" && name != ".ci";
            if !hidden && name != "target" && !path.join("CACHEDIR.TAG").exists() {
                all.extend(files(&path, extension)?);
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
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

/// Checks every document and every source.
///
/// **Errors**: something of the module's table is refused; all findings are listed. A folder has no
/// source or no comment to check.
pub fn check(project: &Project) -> Result<String> {
    let replaced =
        replaced::list(include_str!("docs/replaced.txt")).context("docs/replaced.txt")?;
    let documents = files(&project.root, "md")?;
    let pinned = files(&project.root.join("crates"), "stderr")?;
    let pinned = pinned
        .iter()
        .map(|f| std::fs::read_to_string(f).with_context(|| f.display().to_string()));
    let pinned = messages::Pinned::new(pinned)?;
    let committed = crate::figures::read(&project.root.join(COSTS))?;
    let mut wrong = Vec::new();
    for (path, text) in generated(project)? {
        if std::fs::read_to_string(project.root.join(&path))
            .ok()
            .as_deref()
            != Some(&*text)
        {
            wrong.push(format!("{path}: not as its sources say: cargo xtask docs"));
        }
    }
    let (mut links, mut paths, mut figures) = (0, 0, 0);
    for file in &documents {
        let text = std::fs::read_to_string(file)?;
        let d = read(&text);
        let dir = file.parent().unwrap_or(&project.root);
        let shown = shown(project, file);
        let is_readme = file.ends_with("README.md");
        // A crate's README is its documentation, where rustdoc takes such a block for Rust.
        for line in d
            .unnamed
            .iter()
            .filter(|_| !is_readme || dir == project.root)
        {
            wrong.push(format!(
                "{shown}:{line}: a code block without a language: rust, text, sh, …"
            ));
        }
        let front_page = is_readme && project.published().any(|p| p.dir == dir);
        for (line, link) in &d.links {
            let in_repository = ON_HOST.iter().find_map(|h| link.strip_prefix(h));
            let followed = match in_repository {
                Some(path) => follow(&project.root, path, &d),
                None if link.contains("://") || link.starts_with("mailto:") || is_item(link) => {
                    continue;
                }
                None if front_page => stays_on_page(link).and_then(|()| follow(dir, link, &d)),
                None => follow(dir, link, &d),
            };
            links += 1;
            if let Err(e) = followed {
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
        if !GENERATED.contains(&&*shown) {
            wrong.extend(too_long(&shown, columns::in_document(&text)));
        }
        let (compared, found) = costs::check(&text, &committed);
        figures += compared;
        wrong.extend(found.iter().map(|(line, e)| format!("{shown}:{line}: {e}")));
        for (line, quote) in pinned.stale(&text) {
            wrong.push(format!("{shown}:{line}: no test pins the message: {quote}"));
        }
        if shown != CHANGES {
            let names = replaced::in_document(&replaced, &shown, &text);
            wrong.extend(names.iter().map(|(line, e)| format!("{shown}:{line}: {e}")));
        }
    }
    let index = invariants::names(&invariants::index(project)?);
    let mut sources = 0;
    for folder in SOURCES {
        let mut comments = 0;
        for file in files(&project.root.join(folder), "rs")? {
            let text = std::fs::read_to_string(&file)?;
            let shown = shown(project, &file);
            let (long, seen) = columns::in_comments(&text);
            wrong.extend(too_long(&shown, long));
            let names = replaced::in_source(&replaced, &shown, &text);
            wrong.extend(names.iter().map(|(line, e)| format!("{shown}:{line}: {e}")));
            if folder == "crates" {
                let cited = invariants::unknown(&text, &index);
                wrong.extend(cited.iter().map(|(line, e)| format!("{shown}:{line}: {e}")));
                let planted = planted::misplaced(&text);
                wrong.extend(
                    planted
                        .iter()
                        .map(|(line, e)| format!("{shown}:{line}: {e}")),
                );
            }
            comments += seen;
            sources += 1;
        }
        ensure!(comments > 0, "{folder}/ has no comment to check");
    }
    if !wrong.is_empty() {
        bail!("{}\n{} findings", wrong.join("\n"), wrong.len());
    }
    Ok(format!(
        "{} documents, {links} links, {paths} paths, {figures} figures; {sources} sources, {} \
         invariants",
        documents.len(),
        index.len()
    ))
}

/// Writes what is made from sources: the index of invariants, the tables of needs and memories
#[derive(clap::Args)]
pub struct Args {}

/// `cargo xtask docs`.
pub fn run(_: Args) -> Result<()> {
    let project = Project::load()?;
    for (path, text) in generated(&project)? {
        std::fs::write(project.root.join(&path), text).with_context(|| path.clone())?;
        println!("{path}");
    }
    Ok(())
}

/// The documents that are made from sources: their paths and texts.
fn generated(project: &Project) -> Result<Vec<(String, String)>> {
    let mut all = vec![(invariants::INDEX.to_owned(), invariants::index(project)?)];
    all.extend(matrix::documents(project)?);
    Ok(all)
}

/// A file's path from the root.
fn shown(project: &Project, file: &Path) -> String {
    let path = file.strip_prefix(&project.root).unwrap_or(file);
    path.display().to_string()
}

fn too_long(file: &str, lines: Vec<usize>) -> impl Iterator<Item = String> {
    lines.into_iter().map(move |line| {
        let width = columns::WIDTH;
        format!("{file}:{line}: longer than {width} columns")
    })
}

/// **Errors**: the link of a front page leads to another file. rustdoc shows the page in another
/// folder.
fn stays_on_page(link: &str) -> Result<()> {
    ensure!(
        link.starts_with('#'),
        "the link {link} is dead in rustdoc: write {}{}",
        ON_HOST[0],
        "PATH"
    );
    Ok(())
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
    fn a_front_page_links_to_no_file_beside_it() {
        assert!(stays_on_page("#cost").is_ok());
        for dead in ["../../docs/SPEC.md", "tests/a.rs", "../replay"] {
            let e = stays_on_page(dead).unwrap_err().to_string();
            assert!(e.contains("/blob/main/") && e.contains(dead), "{e}");
        }
        assert!(
            ON_HOST[0].starts_with("https://"),
            "the manifest has `repository`"
        );
    }

    #[test]
    fn all_documents_and_sources_are_found() {
        let root = crate::project::root();
        let documents = files(&root, "md").unwrap();
        for file in ["README.md", "docs/guide/flash.md", "firmware/rig/README.md"] {
            assert!(documents.contains(&root.join(file)), "{file}");
        }
        assert!(
            documents
                .iter()
                .all(|f| !f.starts_with(root.join("target")))
        );
        for folder in SOURCES {
            assert!(
                !files(&root.join(folder), "rs").unwrap().is_empty(),
                "{folder}"
            );
        }
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
