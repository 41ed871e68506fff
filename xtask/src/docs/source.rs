//! Tells the comments, the literals and the code of a Rust source apart.
//!
//! ```text
//! let a = "// text"; // a comment
//! CCCCCCCCLLLLLLLLLCCMMMMMMMMMMMM     C code, L literal, M comment
//! ```
//!
//! One pass from the first byte to the last one. A literal can contain `//` and a comment can
//! contain quotes; whichever begins first decides what the bytes up to its end are. Raw strings and
//! nested block comments are understood. A quote that begins a lifetime is code.

/// What a byte of a source belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Code,
    Literal,
    Comment,
}

/// The kind of each byte of `text`.
pub fn kinds(text: &str) -> Vec<Kind> {
    let b = text.as_bytes();
    let mut out = Vec::with_capacity(b.len());
    let mut at = 0;
    while at < b.len() {
        let (kind, end) = token(b, at);
        out.resize(end, kind);
        at = end;
    }
    out
}

/// The kind of the token that begins at `at`, and where it ends.
fn token(b: &[u8], at: usize) -> (Kind, usize) {
    let after_word = at > 0 && is_word(b[at - 1]);
    match b[at] {
        b'/' if b[at..].starts_with(b"//") => (Kind::Comment, line_end(b, at)),
        b'/' if b[at..].starts_with(b"/*") => (Kind::Comment, block_comment_end(b, at)),
        b'"' => (Kind::Literal, string_end(b, at + 1)),
        b'\'' => char_end(b, at).map_or((Kind::Code, at + 1), |end| (Kind::Literal, end)),
        b'r' | b'b' | b'c' if !after_word => {
            raw_string_end(b, at).map_or((Kind::Code, at + 1), |end| (Kind::Literal, end))
        }
        _ => (Kind::Code, at + 1),
    }
}

pub fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

fn line_end(b: &[u8], at: usize) -> usize {
    let newline = b[at..].iter().position(|c| *c == b'\n');
    newline.map_or(b.len(), |n| at + n)
}

fn block_comment_end(b: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < b.len() {
        if b[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if b[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    b.len()
}

/// The end of a string whose content begins at `at`.
fn string_end(b: &[u8], mut at: usize) -> usize {
    while at < b.len() {
        match b[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    b.len()
}

/// `r"…"`, `r#"…"#`, also after `b` or `c`.
fn raw_string_end(b: &[u8], at: usize) -> Option<usize> {
    let prefix = b[at..].iter().take_while(|c| b"rbc".contains(c)).count();
    if b[at + prefix - 1] != b'r' {
        return None;
    }
    let hashes = b[at + prefix..].iter().take_while(|c| **c == b'#').count();
    let quote = at + prefix + hashes;
    if b.get(quote) != Some(&b'"') {
        return None;
    }
    let ends = |i: &usize| {
        b[*i] == b'"' && b[i + 1..].iter().take_while(|c| **c == b'#').count() >= hashes
    };
    let end = (quote + 1..b.len()).find(ends);
    Some(end.map_or(b.len(), |i| i + 1 + hashes))
}

/// The end of a character literal; `None` for a lifetime.
fn char_end(b: &[u8], at: usize) -> Option<usize> {
    if b.get(at + 1) == Some(&b'\\') {
        // The escaped character itself may be a quote.
        let end = b[(at + 3).min(b.len())..]
            .iter()
            .position(|c| *c == b'\'')?;
        return Some(at + 3 + end + 1);
    }
    // One character has at most four bytes.
    let text = b.get(at + 1..(at + 6).min(b.len()))?;
    let quote = text.iter().position(|c| *c == b'\'')?;
    let one = std::str::from_utf8(&text[..quote]).is_ok_and(|s| s.chars().count() == 1);
    one.then_some(at + 1 + quote + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let letter = |k: &Kind| match k {
            Kind::Code => 'C',
            Kind::Literal => 'L',
            Kind::Comment => 'M',
        };
        kinds(text).iter().map(letter).collect()
    }

    #[test]
    fn comments_and_literals_are_told_apart() {
        assert_eq!(shown(r#"a"//"//""#), "CLLLLMMM");
        assert_eq!(shown("a/*/**/\"*/b"), "CMMMMMMMMMC");
        assert_eq!(shown(r##"r#"""#a"##), "LLLLLLC");
        assert_eq!(shown(r#"br"\"a"#), "LLLLLC");
        assert_eq!(shown(r#""\"//"a"#), "LLLLLLC");
        assert_eq!(shown("'\"'a"), "LLLC");
        assert_eq!(shown("'\\''a"), "LLLLC");
        assert_eq!(shown("&'a b//"), "CCCCCMM");
        assert_eq!(shown("r b//"), "CCCMM");
        assert_eq!(shown("// a\nb"), "MMMMCC");
        assert_eq!(shown("'ü'a"), "LLLLC");
    }
}
