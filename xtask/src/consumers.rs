//! `cargo xtask consumers`: does what a new user does, with what the documents say, and nothing
//! else.
//!
//! - For each published crate: a new package that depends on this crate alone, with the first
//!   example of its README as `src/main.rs`. It is built and run. Files and shell commands that
//!   follow the example at once are tried too.
//! - For each chapter of the guide: each shell command is run in order, and each file is written as
//!   it stands there.
//!
//! The packages are made in a temporary folder, outside of the workspace. Only two things differ
//! from what a user types: a crate of this repository is added by its path, because it may not be
//! published yet; and the lock file of the repository is the first lock file of each package.
//!
//! In a document a file is a code block after a paragraph that ends with its name in backticks and
//! a colon. A command that is expected to fail has a comment that begins with `# fails`.

use crate::ci::Ctx;
use crate::figures::Figures;
use crate::project::Project;
use crate::run::{Outcome, Step, cargo};
use anyhow::{Context, Result, bail, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds and runs what READMEs and the guide show, as a new user would
#[derive(clap::Args)]
pub struct Args {
    /// Write the figures here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Only these: names of crates, or `guide`
    #[arg(value_name = "NAME")]
    only: Vec<String>,
}

pub fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    let step = Step::alone(project.target.join("xtask/consumers.log"), "consumers");
    let figures = try_all(&project, &step, &a.only, usize::MAX)?;
    if let Some(path) = &a.json {
        let text = serde_json::to_string_pretty(&figures.named())?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    drop(step);
    println!("{}", figures.line());
    figures.judge()
}

/// The step `examples`: the first example of each README, and the guide's first chapter with steps.
pub fn check_first(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    judged(try_all(&ctx.project, s, &[], 1)?)
}

/// The step `consumers`: the same with the whole guide.
pub fn check(project: &Project, s: &Step) -> Result<Outcome> {
    judged(try_all(project, s, &[], usize::MAX)?)
}

fn judged(tried: Tried) -> Result<Outcome> {
    tried.judge()?;
    Ok(tried.line().into())
}

/// The figures, and whether anything failed.
///
/// **Errors**: a document cannot be read, or a folder not made.
pub fn figures(project: &Project, s: &Step) -> Result<(Figures, Result<()>)> {
    let tried = try_all(project, s, &[], usize::MAX)?;
    Ok((tried.named(), tried.judge()))
}

/// What was tried, and what failed.
#[derive(Default)]
struct Tried {
    crates: usize,
    failed_crates: usize,
    steps: usize,
    failed_steps: usize,
    failures: Vec<String>,
}

impl Tried {
    fn named(&self) -> Figures {
        let of = |key: &str, n: usize| (format!("adoption.{key}"), n as f64);
        Figures::from([
            of("consumers", self.crates),
            of("consumers_ok", self.crates - self.failed_crates),
            of("guide_steps", self.steps),
            of("guide_steps_ok", self.steps - self.failed_steps),
        ])
    }

    fn line(&self) -> String {
        format!(
            "{} of {} crates alone, {} of {} steps of the guide",
            self.crates - self.failed_crates,
            self.crates,
            self.steps - self.failed_steps,
            self.steps
        )
    }

    fn judge(&self) -> Result<()> {
        ensure!(self.failures.is_empty(), "{}", self.failures.join("\n\n"));
        Ok(())
    }
}

/// What is wanted of the READMEs and of the guide, of which at most so many chapters with steps.
fn try_all(project: &Project, s: &Step, only: &[String], most: usize) -> Result<Tried> {
    let scratch = Scratch::new(project)?;
    let mut figures = Tried::default();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|n| n == name);
    for package in project.published().filter(|p| wanted(&p.name)) {
        s.says(format!("the first example of {}", package.name));
        figures.crates += 1;
        if let Err(e) = first_example(&scratch, s, &package.name, &package.dir) {
            figures.failed_crates += 1;
            figures.failures.push(format!("{}: {e:#}", package.name));
        }
    }
    if wanted("guide") {
        let mut walked = 0;
        for chapter in chapters(&project.root.join(GUIDE))? {
            let before = figures.steps;
            walk_chapter(&scratch, s, &chapter, &mut figures)?;
            walked += usize::from(figures.steps > before);
            if walked == most {
                break;
            }
        }
        ensure!(figures.steps > 0, "the guide has no step");
    }
    Ok(figures)
}

/// The folder of the guide, a book of mdBook.
const GUIDE: &str = "docs/guide";

/// The chapters of a book, in the order of its `SUMMARY.md`.
///
/// **Errors**: the summary names a file that is not there, or leaves out one that is.
fn chapters(book: &Path) -> Result<Vec<PathBuf>> {
    const SUMMARY: &str = "SUMMARY.md";
    let summary = std::fs::read_to_string(book.join(SUMMARY)).context(SUMMARY)?;
    let chapters: Vec<_> = Parser::new(&summary)
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. }) => Some(book.join(&*dest_url)),
            _ => None,
        })
        .collect();
    for file in std::fs::read_dir(book)? {
        let path = file?.path();
        let is_chapter = path.extension().is_some_and(|e| e == "md") && !path.ends_with(SUMMARY);
        ensure!(
            !is_chapter || chapters.contains(&path),
            "{SUMMARY} leaves out {}",
            path.display()
        );
    }
    Ok(chapters)
}

/// A code block, and the file that the paragraph before it names.
struct Block {
    language: String,
    file: Option<String>,
    code: String,
}

/// The code blocks of a document, in order.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    // The last word of the last paragraph, if it is code followed by a colon.
    let (mut file, mut last_code): (Option<String>, Option<String>) = (None, None);
    let mut open: Option<Block> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                open = Some(Block {
                    language: language.to_string(),
                    file: file.take(),
                    code: String::new(),
                });
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            Event::Text(t) => match &mut open {
                Some(block) => block.code.push_str(&t),
                None => file = last_code.take().filter(|_| &*t == ":"),
            },
            Event::Code(c) => (file, last_code) = (None, Some(c.to_string())),
            Event::Start(Tag::Paragraph | Tag::Heading { .. }) => (file, last_code) = (None, None),
            _ => {}
        }
    }
    blocks
}

/// The folder of the consumers. Removed at the end.
struct Scratch<'p> {
    project: &'p Project,
    dir: PathBuf,
}

impl<'p> Scratch<'p> {
    fn new(project: &'p Project) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("relume-consumers-{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        // The compiler of the project, with its targets.
        let toolchain = "rust-toolchain.toml";
        std::fs::copy(project.root.join(toolchain), dir.join(toolchain))?;
        Ok(Scratch { project, dir })
    }

    /// A shell command of a document, in the folder `at`.
    fn command(&self, line: &str, at: &Path) -> Result<Command> {
        let words: Vec<_> = line.split_whitespace().collect();
        let Some(("cargo", arguments)) = words.split_first().map(|(w, rest)| (*w, rest)) else {
            bail!("only `cargo` and `cd` are known here: {line}");
        };
        let mut c = cargo();
        c.current_dir(at);
        c.env("CARGO_TARGET_DIR", self.project.target.join("consumers"));
        c.env_remove("RUSTFLAGS");
        let mut arguments = arguments.iter().peekable();
        let adds = arguments.peek().is_some_and(|w| **w == "add");
        while let Some(word) = arguments.next() {
            if adds && *word == "--git" {
                arguments.next();
                continue;
            }
            match self.project.package(word).filter(|_| adds) {
                Some(p) => c.arg(word).arg("--path").arg(&p.dir),
                None => c.arg(word),
            };
        }
        Ok(c)
    }

    /// Gives a package the lock file of the repository, so that it is built with the same versions.
    fn adopt_lock(&self, package: &Path) -> Result<()> {
        std::fs::copy(
            self.project.root.join("Cargo.lock"),
            package.join("Cargo.lock"),
        )?;
        Ok(())
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The commands of a shell block, without comments. `true` for one that is to fail.
fn commands(code: &str) -> Vec<(String, bool)> {
    let lines = code.lines().map(|line| match line.split_once('#') {
        Some((command, comment)) => (command, comment.trim_start().starts_with("fails")),
        None => (line, false),
    });
    lines
        .map(|(command, fails)| (command.trim().to_owned(), fails))
        .filter(|(command, _)| !command.is_empty())
        .collect()
}

/// The first Rust example of a README in a package that depends on its crate alone, and on what a
/// shell block before the example adds.
fn first_example(scratch: &Scratch, s: &Step, name: &str, dir: &Path) -> Result<()> {
    let readme = std::fs::read_to_string(dir.join("README.md"))?;
    let blocks = blocks(&readme);
    let is_rust = |b: &Block| b.language.split(',').next() == Some("rust");
    let first = blocks.iter().position(is_rust).context("no example")?;
    let example = &blocks[first];
    ensure!(
        example.language == "rust",
        "the first example is `{}`, so it cannot be tried",
        example.language
    );
    ensure!(
        !example.code.lines().any(|l| l.starts_with("# ")),
        "the first example has hidden lines, which a reader sees"
    );
    let package = scratch.dir.join(format!("uses-{name}"));
    let new = format!("cargo new --quiet --name uses-{name} uses-{name}");
    s.run(scratch.command(&new, &scratch.dir)?)?;
    scratch.adopt_lock(&package)?;
    let mut add = vec![format!("cargo add --quiet {name}")];
    for block in blocks[..first].iter().filter(|b| b.language == "sh") {
        add.extend(commands(&block.code).into_iter().map(|c| c.0));
    }
    for line in add {
        s.run(scratch.command(&line, &package)?)?;
    }
    std::fs::write(package.join("src/main.rs"), &example.code)?;
    s.run(scratch.command("cargo run --quiet", &package)?)?;
    // What follows at once: files that belong to it, and commands.
    for block in &blocks[first + 1..] {
        match (&block.file, block.language.as_str()) {
            (Some(file), _) => write_file(&package, file, &block.code)?,
            (None, "sh") => {
                for (line, _) in commands(&block.code) {
                    s.run(scratch.command(&line, &package)?)?;
                }
            }
            _ => break,
        }
    }
    Ok(())
}

/// Does what a chapter of the guide says, in a folder of its own. A step that fails ends what
/// belongs to the same `cargo new`.
fn walk_chapter(scratch: &Scratch, s: &Step, chapter: &Path, figures: &mut Tried) -> Result<()> {
    let text = std::fs::read_to_string(chapter).with_context(|| chapter.display().to_string())?;
    let name = chapter.file_stem().unwrap_or_default();
    let home = scratch.dir.join("guide").join(name);
    std::fs::create_dir_all(&home)?;
    let mut at = home.clone();
    let mut broken = true;
    for block in blocks(&text) {
        let mut outcome = Ok(());
        match (&block.file, block.language.as_str()) {
            (None, "sh") => {
                for (line, fails) in commands(&block.code) {
                    if line.starts_with("cargo new") {
                        (at, broken) = (home.clone(), false);
                    }
                    if broken {
                        continue;
                    }
                    s.says(line.clone());
                    figures.steps += 1;
                    outcome = guide_command(scratch, s, &line, fails, &mut at);
                    if outcome.is_err() {
                        break;
                    }
                }
            }
            (Some(file), _) if !broken => {
                figures.steps += 1;
                outcome = write_file(&at, file, &block.code);
            }
            _ => {}
        }
        if let Err(e) = outcome {
            broken = true;
            figures.failed_steps += 1;
            let name = name.display();
            figures.failures.push(format!("{GUIDE}/{name}.md: {e:#}"));
        }
    }
    Ok(())
}

fn guide_command(
    scratch: &Scratch,
    s: &Step,
    line: &str,
    fails: bool,
    at: &mut PathBuf,
) -> Result<()> {
    if let Some(folder) = line.strip_prefix("cd ") {
        *at = at.join(folder.trim());
        ensure!(at.is_dir(), "no folder {folder}");
        if !at.join("Cargo.lock").exists() {
            scratch.adopt_lock(at)?;
        }
        return Ok(());
    }
    match (s.run(scratch.command(line, at)?), fails) {
        (Ok(_), false) | (Err(_), true) => Ok(()),
        (Ok(said), true) => bail!("`{line}` is said to fail, and passes:\n{said}"),
        (Err(e), false) => Err(e),
    }
}

fn write_file(at: &Path, file: &str, code: &str) -> Result<()> {
    let path = at.join(file);
    let dir = path.parent().context("a file in a folder")?;
    std::fs::create_dir_all(dir)?;
    std::fs::write(&path, code).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_the_paragraph_before_it() {
        let all = blocks(
            "Write `src/lib.rs`:\n\n```rust\nfn a() {}\n```\n\nThen `x` is it.\n\n```sh\ncargo test\n```\n",
        );
        let files: Vec<_> = all.iter().map(|b| b.file.as_deref()).collect();
        assert_eq!(files, [Some("src/lib.rs"), None]);
        assert_eq!(all[0].code, "fn a() {}\n");
    }

    #[test]
    fn the_summary_names_every_chapter() {
        let root = crate::project::root();
        let all = chapters(&root.join(GUIDE)).unwrap();
        assert!(all.len() > 5 && all.iter().all(|c| c.is_file()), "{all:?}");
    }

    #[test]
    fn a_comment_says_that_a_command_fails() {
        let all = commands("cargo test   # fails: the value is old\n\n# nothing\ncargo build\n");
        let want = [
            ("cargo test".to_owned(), true),
            ("cargo build".to_owned(), false),
        ];
        assert_eq!(all, want);
    }
}
