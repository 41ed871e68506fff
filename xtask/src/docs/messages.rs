//! The compiler's messages that a document quotes are those that the tests of messages pin.
//!
//! Quoted is what stands in a code block whose first line begins with `error`. Its lines `error…`
//! and `= note: …` must each be a line of a pinned message; other lines may be shortened.

use anyhow::Result;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};
use std::collections::HashSet;

/// The lines that are compared: without the space before them.
fn comparable(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim)
        .filter(|l| l.starts_with("error") || l.starts_with("= note:"))
}

/// The comparable lines of all pinned messages.
pub struct Pinned(HashSet<String>);

impl Pinned {
    /// From the texts of the pinned messages.
    pub fn new<S: AsRef<str>>(texts: impl IntoIterator<Item = Result<S>>) -> Result<Self> {
        let mut lines = HashSet::new();
        for text in texts {
            lines.extend(comparable(text?.as_ref()).map(str::to_owned));
        }
        Ok(Pinned(lines))
    }

    /// `(line, quote)` of what a document quotes and no pinned message says.
    pub fn stale(&self, document: &str) -> Vec<(usize, String)> {
        let mut stale = Vec::new();
        let mut quoted = None;
        for (event, range) in Parser::new(document).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    quoted = (&*language == "text").then_some(range.start);
                }
                Event::Text(text) if quoted.is_some() && text.starts_with("error") => {
                    let line = document[..range.start].lines().count() + 1;
                    let missing = comparable(&text).filter(|l| !self.0.contains(*l));
                    stale.extend(missing.map(|l| (line, l.to_owned())));
                }
                Event::End(_) => quoted = None,
                _ => {}
            }
        }
        stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_no_test_pins_is_found() {
        let pinned = Pinned::new([Ok("error[E1]: old\n  |\n  = note: do this\n")]).expect("text");
        let quote = |s: &str| format!("# A\n\n```text\n{s}```\n");
        assert_eq!(
            pinned.stale(&quote("error[E1]: old\n   = note: do this\n")),
            []
        );
        let stale = pinned.stale(&quote("error[E1]: new\n   = note: do this\n"));
        assert_eq!(stale, [(4, "error[E1]: new".to_owned())]);
    }
}
