//! No line of prose is longer than 100 columns: documents, and comments of Rust sources.
//!
//! Excepted are what cannot be broken, or is not prose: a row of a table, a code block, the
//! definition of a link, a line whose only word is a link, and what a program writes between
//! markers.

use super::source::{Kind, kinds};

/// The widest line.
pub const WIDTH: usize = 100;

/// The code block that a line is in, if any.
#[derive(Default)]
struct Fence(Option<String>);

impl Fence {
    /// Whether this line belongs to a code block, its fences included.
    fn contains(&mut self, line: &str) -> bool {
        let line = line.trim_start_matches(['>', ' ']);
        let mark = ['`', '~'].into_iter().find_map(|c| {
            let n = line.chars().take_while(|x| *x == c).count();
            (n >= 3).then(|| line[..n].to_owned())
        });
        match (&self.0, mark) {
            (None, None) => false,
            (None, mark) => {
                self.0 = mark;
                true
            }
            (Some(open), Some(mark)) if mark.starts_with(open) && line.trim() == mark => {
                self.0 = None;
                true
            }
            (Some(_), _) => true,
        }
    }
}

/// Whether a line of prose has nowhere to be broken.
fn cannot_be_broken(line: &str) -> bool {
    let line = line.trim_start_matches(['>', ' ']);
    let text = line.strip_prefix(['-', '*']).unwrap_or(line).trim();
    let link = text.contains("://") || text.contains("](");
    let definition = text.starts_with('[') && text.contains("]: ");
    line.starts_with('|') || definition || (link && !text.contains(' '))
}

fn is_too_long(line: &str) -> bool {
    line.chars().count() > WIDTH
}

/// The numbers of the lines of a document that are too long, from 1.
pub fn in_document(text: &str) -> Vec<usize> {
    let mut fence = Fence::default();
    let mut generated = false;
    let mut long = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.starts_with("<!-- generated: ") {
            generated = true;
        } else if line.starts_with("<!-- end -->") {
            generated = false;
        }
        let code = fence.contains(line);
        if is_too_long(line) && !code && !generated && !cannot_be_broken(line) {
            long.push(i + 1);
        }
    }
    long
}

/// The numbers of the lines of a Rust source that are too long for their comment, from 1; and how
/// many lines have a comment.
pub fn in_comments(text: &str) -> (Vec<usize>, usize) {
    let kinds = kinds(text);
    let mut fence = Fence::default();
    let (mut long, mut seen) = (Vec::new(), 0);
    let mut start = 0;
    for (i, line) in text.split('\n').enumerate() {
        let of_line = &kinds[start..start + line.len()];
        start += line.len() + 1;
        let Some(at) = of_line.iter().position(|k| *k == Kind::Comment) else {
            fence = Fence::default();
            continue;
        };
        seen += 1;
        let comment = line[at..].trim_start_matches(['/', '!', '*']).trim();
        let alone = line[..at].trim().is_empty();
        let code = alone && fence.contains(comment);
        if is_too_long(line) && !code && !cannot_be_broken(comment) {
            long.push(i + 1);
        }
    }
    (long, seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(columns: usize) -> String {
        let mut s = "word ".repeat(columns.div_ceil(5));
        s.truncate(columns);
        s.replace(' ', "-").replacen('-', " ", 1)
    }

    #[test]
    fn a_long_line_of_a_document_is_found() {
        let (fits, long) = (words(100), words(101));
        assert_eq!(in_document(&format!("{fits}\n{long}\n")), [2]);
        assert_eq!(
            in_document(&format!("- {long}\n> {long}\n# {long}\n")),
            [1, 2, 3]
        );
        let umlauts = "ü ".repeat(50);
        assert!(in_document(&umlauts).is_empty(), "columns, not bytes");
    }

    #[test]
    fn tables_code_links_and_generated_parts_may_be_long() {
        let long = words(120);
        let url = format!("https://example.org/{}", "x".repeat(100));
        for fine in [
            format!("| {long} |"),
            format!("```text\n{long}\n```"),
            format!("~~~~\n```\n{long}\n~~~~"),
            url.clone(),
            format!("- [a]({url})."),
            format!("[a]: {url}"),
            format!("<!-- generated: x -->\n{long}\n<!-- end -->"),
        ] {
            assert!(in_document(&fine).is_empty(), "{fine}");
            assert_eq!(
                in_document(&format!("{fine}\n{long}")).len(),
                1,
                "after {fine}"
            );
        }
        assert_eq!(in_document(&format!("some words before {url}")), [1]);
    }

    #[test]
    fn a_long_comment_is_found_and_a_long_string_is_none() {
        let long = words(100);
        let found = |text: &str| in_comments(text).0;
        assert_eq!(found(&format!("fn a() {{}}\n    /// {long}\n")), [2]);
        assert_eq!(found(&format!("let a = 1; // {long}")), [1]);
        assert_eq!(found(&format!("/* a\n{long} b\n*/")), [2]);
        assert!(found(&format!("let a = \"// {long}\";")).is_empty());
        assert!(found(&format!("//! ```text\n//! {long}\n//! ```")).is_empty());
        // A fence that is never closed ends with the comment.
        assert_eq!(found(&format!("/// ```\nfn a() {{}}\n// {long}")), [3]);
        assert_eq!(in_comments("// a\nb\n/* c\nd */").1, 3);
    }
}
