//! Rendered pages: each public function that returns a `Result` says its **Errors**.
//!
//! The pages have what a user can call, also what a macro has written; items that are private or
//! hidden are not on them.

use super::rendered::collect_pages;
use anyhow::{Result, ensure};
use std::path::Path;

const ITEM: &str = "<pre class=\"rust item-decl\"><code>";
const METHOD: &str = "<h4 class=\"code-header\">";

/// From the first of these on, a page has what was documented elsewhere: methods of other types,
/// and implementations of traits.
const ELSEWHERE: [&str; 6] = [
    "id=\"deref-methods-",
    "id=\"trait-implementations\"",
    "id=\"synthetic-implementations\"",
    "id=\"blanket-implementations\"",
    "id=\"foreign-impls\"",
    "id=\"implementors\"",
];

/// Checks the pages of these crates below `doc`. The number of functions that return a `Result`.
///
/// **Errors**: a function does not say its errors; all are listed. There is no such function.
pub fn check(doc: &Path, crates: &[String]) -> Result<usize> {
    let (mut checked, mut silent) = (0, Vec::new());
    for name in crates {
        let mut pages = Vec::new();
        collect_pages(&doc.join(name), &mut pages)?;
        for page in pages {
            let text = std::fs::read_to_string(&page)?;
            let shown = page.strip_prefix(doc).unwrap_or(&page).display();
            for (function, says) in functions(&text) {
                checked += 1;
                if !says {
                    silent.push(format!("{shown}: `{function}` does not say its **Errors**"));
                }
            }
        }
    }
    silent.sort();
    ensure!(silent.is_empty(), "{}", silent.join("\n"));
    ensure!(
        checked > 0,
        "no page has a function that returns a `Result`"
    );
    Ok(checked)
}

/// The functions of a page that return a `Result`, and whether they say their errors.
fn functions(page: &str) -> Vec<(String, bool)> {
    let starts = ELSEWHERE.iter().filter_map(|e| page.find(e));
    let own = &page[..starts.min().unwrap_or(page.len())];
    let mut all = Vec::new();
    if let Some((_, item)) = own.split_once(ITEM) {
        all.extend(item.split_once("</code></pre>"));
    }
    for method in own.split(METHOD).skip(1) {
        let next = method.find("<section id=\"").unwrap_or(method.len());
        all.extend(method[..next].split_once("</h4>"));
    }
    all.iter()
        .filter_map(|(signature, doc)| {
            let signature = text(signature);
            let (name, output) = name_and_output(&signature)?;
            let says = doc.contains("<strong>Errors</strong>");
            output.contains("Result").then(|| (name.to_owned(), says))
        })
        .collect()
}

/// HTML without its tags.
fn text(html: &str) -> String {
    let outside = html.split('<').map(|part| match part.split_once('>') {
        Some((_, after)) => after,
        None => part,
    });
    let text: String = outside.collect();
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

/// The name of a function and what it returns; `None` for another item.
fn name_and_output(signature: &str) -> Option<(&str, &str)> {
    const BEFORE: [&str; 6] = ["pub", "const", "async", "unsafe", "extern", "\"C\""];
    let (before, after) = signature.split_once("fn ")?;
    // Attributes come first.
    let before = before.rsplit(']').next()?;
    if !before.split_whitespace().all(|word| BEFORE.contains(&word)) {
        return None;
    }
    let name = after.split(['<', '(']).next()?;
    let (mut depth, mut last) = (0, ' ');
    for (i, c) in after.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if last == '-' => (),
            '>' | ')' | ']' => depth -= 1,
            _ => (),
        }
        if c == ')' && depth == 0 {
            return Some((name, after[i + 1..].split("where").next()?));
        }
        last = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(signature: &str, doc: &str) -> String {
        format!("<section id=\"method.x\">{METHOD}{signature}</h4></section><p>{doc}</p>")
    }

    #[test]
    fn functions_without_their_errors_are_found() {
        let result = "<a href=\"x\">Result</a>&lt;u8, Error&gt;";
        let says = "Reads. <strong>Errors</strong>: none.";
        let open = format!("pub fn <a>open</a>&lt;F: FnOnce() -&gt; u8&gt;(f: F) -&gt; {result}");
        let (miss, none) = (
            vec![("open".to_owned(), false)],
            Vec::<(String, bool)>::new(),
        );
        assert_eq!(functions(&method(&open, "Opens.")), miss);
        assert_eq!(functions(&method(&open, says)), [("open".to_owned(), true)]);
        // What the next method says is not said by this one.
        let two = method(&open, "Opens.") + &method("pub fn <a>size</a>(&amp;self) -&gt; u8", says);
        assert_eq!(functions(&two), miss);
        // A bound or an argument may return a `Result`, and a trait's page shows it as a whole.
        let bound = format!("pub fn <a>with</a>(f: F) -&gt; R where F: Fn() -&gt; {result}");
        assert_eq!(functions(&method(&bound, "")), none);
        let argument = format!("pub fn <a>edit</a>(f: fn(u8) -&gt; {result})");
        assert_eq!(functions(&method(&argument, "")), none);
        let item = format!("{ITEM}pub unsafe fn <a>open</a>() -&gt; {result}</code></pre>Opens.");
        assert_eq!(functions(&item), miss);
        let whole = format!("{ITEM}pub trait T {{ fn <a>a</a>() -&gt; {result}; }}</code></pre>");
        assert_eq!(functions(&whole), none);
        let derived = "<h2 id=\"trait-implementations\">".to_owned() + &method(&open, "");
        assert_eq!(functions(&derived), none);
    }

    #[test]
    fn a_planted_miss_is_refused() {
        let doc = std::env::temp_dir().join(format!("relume-errors-{}", std::process::id()));
        let dir = doc.join("a");
        std::fs::create_dir_all(&dir).unwrap();
        let page = |doc: &str| {
            let page = method("pub fn <a>open</a>() -&gt; Result", doc);
            std::fs::write(dir.join("struct.X.html"), page).unwrap();
        };
        let crates = ["a".to_owned()];
        page("Opens.");
        let message = check(&doc, &crates).unwrap_err().to_string();
        assert!(
            message.contains("struct.X.html: `open` does not"),
            "{message}"
        );
        page("Opens. <strong>Errors</strong>: none.");
        assert_eq!(check(&doc, &crates).unwrap(), 1);
        std::fs::write(dir.join("struct.X.html"), "").unwrap();
        assert!(check(&doc, &crates).is_err(), "nothing was checked");
        std::fs::remove_dir_all(&doc).unwrap();
    }
}
