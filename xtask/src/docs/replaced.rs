//! Names that were replaced must not come back: neither in code nor in backticks.
//!
//! The list is `xtask/src/docs/replaced.txt`. A name there is a whole identifier, or a path like
//! `Type::method`. Strings, and comments outside of backticks, are free.

use super::source::{Kind, is_word, kinds};
use anyhow::{Context, Result, bail, ensure};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// A replaced name.
#[derive(Debug, PartialEq, Eq)]
pub struct Replaced {
    old: String,
    new: String,
    /// The old name is refused only below this folder.
    folder: String,
}

/// The list, from lines `old new` or `old new folder/`; `#` begins a comment.
///
/// **Errors**: a line is none of these, a name is no path of identifiers or is there twice, or
/// there is no line at all.
pub fn list(text: &str) -> Result<Vec<Replaced>> {
    let mut all: Vec<Replaced> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().collect();
        let (old, new, folder) = match words[..] {
            [] => continue,
            [old, new] => (old, new, ""),
            [old, new, folder] if folder.ends_with('/') => (old, new, folder),
            _ => bail!("line {}: not `old new` or `old new folder/`", i + 1),
        };
        let path = |name: &str| name.split("::").all(is_identifier);
        ensure!(
            path(old) && path(new) && old != new,
            "line {}: {line}",
            i + 1
        );
        let twice = all.iter().any(|r| r.old == old && r.folder == folder);
        ensure!(!twice, "line {}: {old} is there twice", i + 1);
        let (old, new, folder) = (old.into(), new.into(), folder.into());
        all.push(Replaced { old, new, folder });
    }
    all.first().context("no replaced name in the list")?;
    Ok(all)
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_word) && !name.as_bytes()[0].is_ascii_digit()
}

impl Replaced {
    /// Where the old name stands in `text`.
    fn places<'t>(&'t self, text: &'t str) -> impl Iterator<Item = usize> + 't {
        let edge = |b: Option<&u8>| b.is_none_or(|b| !is_word(*b));
        let found = text.match_indices(&self.old).map(|(at, _)| at);
        found.filter(move |at| {
            let b = text.as_bytes();
            edge(at.checked_sub(1).and_then(|i| b.get(i))) && edge(b.get(at + self.old.len()))
        })
    }
}

/// The replaced names in one file.
struct Search<'l> {
    list: Vec<&'l Replaced>,
    /// Line and message.
    found: Vec<(usize, String)>,
}

impl<'l> Search<'l> {
    fn new(list: &'l [Replaced], file: &str) -> Self {
        let list = list.iter().filter(|r| file.starts_with(&r.folder));
        let (list, found) = (list.collect(), Vec::new());
        Search { list, found }
    }

    /// `first`: the line on which the text begins.
    fn within(&mut self, text: &str, first: usize) {
        for r in &self.list {
            for at in r.places(text) {
                let line = first + newlines(&text[..at]);
                self.found
                    .push((line, format!("`{}` is now `{}`", r.old, r.new)));
            }
        }
    }

    /// The code spans and code blocks of Markdown.
    fn in_markdown(&mut self, text: &str, first: usize) {
        let mut block = false;
        for (event, range) in Parser::new(text).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(_)) => block = true,
                Event::End(TagEnd::CodeBlock) => block = false,
                Event::Code(t) => self.within(&t, first + newlines(&text[..range.start])),
                Event::Text(t) if block => self.within(&t, first + newlines(&text[..range.start])),
                _ => {}
            }
        }
    }

    fn sorted(mut self) -> Vec<(usize, String)> {
        self.found.sort();
        self.found.dedup();
        self.found
    }
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

/// Line and message of each replaced name in a document. `file` is its path from the root.
pub fn in_document(list: &[Replaced], file: &str, text: &str) -> Vec<(usize, String)> {
    let mut search = Search::new(list, file);
    search.in_markdown(text, 1);
    search.sorted()
}

/// Line and message of each replaced name in a Rust source: its code, and the backticks of its
/// comments.
pub fn in_source(list: &[Replaced], file: &str, text: &str) -> Vec<(usize, String)> {
    let kinds = kinds(text);
    let mut search = Search::new(list, file);
    // Blanks instead of the other bytes keep the numbers of lines and the ends of words.
    let only = |kind: Kind| {
        let keep = |(b, k): (u8, &Kind)| if *k == kind || b == b'\n' { b } else { b' ' };
        let bytes = text.bytes().zip(&kinds).map(keep).collect();
        // The edges of tokens are edges of characters.
        String::from_utf8(bytes).unwrap_or_default()
    };
    search.within(&only(Kind::Code), 1);
    // Each run of lines that begin with the same mark is a piece of Markdown.
    let comments = only(Kind::Comment);
    let mut run = (String::new(), 1, "");
    for (i, line) in comments.lines().chain([""]).enumerate() {
        let line = line.trim();
        let mark = &line[..line.len() - line.trim_start_matches(['/', '!', '*']).len()];
        if mark != run.2 {
            search.in_markdown(&run.0, run.1);
            run = (String::new(), i + 1, mark);
        }
        let body = &line[mark.len()..];
        run.0 += body.strip_prefix(' ').unwrap_or(body);
        run.0.push('\n');
    }
    search.in_markdown(&run.0, run.1);
    search.sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<Replaced> {
        list("# a comment\nold_name new_name\nMiss::There Miss::SlowPath\nDesk Mailbox rig/\n")
            .unwrap()
    }

    fn lines(found: Vec<(usize, String)>) -> Vec<usize> {
        found.into_iter().map(|f| f.0).collect()
    }

    #[test]
    fn a_list_that_is_empty_or_wrong_is_refused() {
        assert_eq!(two().len(), 3);
        for wrong in [
            "",
            "# a\n",
            "a\n",
            "a a\n",
            "a b c\n",
            "a b\na c\n",
            "a-b c\n",
            "1a b\n",
        ] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
        let committed = list(include_str!("replaced.txt")).unwrap();
        assert!(committed.iter().any(|r| r.old == "believe_it"));
    }

    #[test]
    fn an_old_name_in_code_is_found() {
        let found = |text: &str| lines(in_source(&two(), "a.rs", text));
        assert_eq!(found("fn a() {}\nfn old_name() {}\n"), [2]);
        assert_eq!(found("Miss::There => old_name(),"), [1, 1]);
        assert!(found("Miss::Elsewhere => my_old_name(\"old_name\"), // old_name").is_empty());
    }

    #[test]
    fn an_old_name_in_backticks_is_found() {
        let found = |text: &str| lines(in_source(&two(), "a.rs", text));
        assert_eq!(found("let a = 1;\n    /// a\n    /// `old_name` b\nb"), [3]);
        assert_eq!(found("// one\n/// ```\n/// x.old_name();\n/// ```\n"), [3]);
        let found = |text: &str| lines(in_document(&two(), "a.md", text));
        assert_eq!(found("# A\n\n`old_name()` and `Miss::There`\n"), [3, 3]);
        assert_eq!(found("a\n\n```rust\nlet a = 1;\nold_name();\n```\n"), [5]);
        assert!(found("the old_name in prose\n").is_empty());
    }

    #[test]
    fn a_name_of_one_folder_is_free_in_others() {
        assert_eq!(lines(in_source(&two(), "rig/a.rs", "trait Desk {}")), [1]);
        assert!(in_source(&two(), "a.rs", "trait Desk {}").is_empty());
    }
}
