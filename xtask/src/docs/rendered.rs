//! Dead links in rendered rustdoc: links to files and to places of the same page.
//!
//! rustdoc itself refuses links to items that do not exist. It copies other links as they are, also
//! those of a README that stands as a crate's front page. What works beside the README, such as
//! `../../docs`, leads nowhere from the rendered page.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Checks the pages of these crates below `doc`. The number of links.
///
/// **Errors**: a link is dead; all are listed. A crate has no page, or no page has a link.
pub fn check(doc: &Path, crates: &[String]) -> Result<usize> {
    let (mut links, mut dead) = (0, Vec::new());
    for name in crates {
        let mut pages = Vec::new();
        collect_pages(&doc.join(name), &mut pages)?;
        ensure!(!pages.is_empty(), "rustdoc wrote no page of {name}");
        for page in pages {
            let text = std::fs::read_to_string(&page)?;
            let shown = page.strip_prefix(doc).unwrap_or(&page).display();
            for link in relative_links(&text) {
                links += 1;
                if !leads_somewhere(&page, &text, &link) {
                    dead.push(format!("{shown}: the link {link} is dead"));
                }
            }
        }
    }
    dead.sort();
    dead.dedup();
    ensure!(dead.is_empty(), "{}", dead.join("\n"));
    ensure!(links > 0, "no page of rustdoc has a link");
    Ok(links)
}

pub(super) fn collect_pages(dir: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect_pages(&path, pages)?;
        } else if path.extension().is_some_and(|e| e == "html") {
            pages.push(path);
        }
    }
    Ok(())
}

/// The links of a page that name no host.
fn relative_links(html: &str) -> Vec<String> {
    let values = ["href=\"", "src=\""].into_iter().flat_map(|attribute| {
        let after = html.split(attribute).skip(1);
        after.filter_map(|rest| rest.split('"').next())
    });
    // The last two are rustdoc's own: a template of a link, and a script that may be missing.
    const FOREIGN: [&str; 6] = [
        "://",
        "mailto:",
        "data:",
        "javascript:",
        "${",
        "/trait.impl/",
    ];
    values
        .filter(|link| !FOREIGN.iter().any(|f| link.contains(f)))
        .map(|link| link.replace("&amp;", "&"))
        .collect()
}

fn leads_somewhere(page: &Path, html: &str, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file = file.split('?').next().unwrap_or_default();
    if file.is_empty() {
        return anchor.is_empty() || html.contains(&format!("id=\"{anchor}\""));
    }
    page.parent().is_some_and(|dir| dir.join(file).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_of_a_page_are_found() {
        let doc = std::env::temp_dir().join(format!("relume-rendered-{}", std::process::id()));
        let dir = doc.join("a/b");
        std::fs::create_dir_all(&dir).unwrap();
        let page = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        page(
            "x.html",
            "<a href=\"y.html#z\">y</a> <a href=\"#here\">h</a> <h2 id=\"here\">",
        );
        let crates = ["a".to_owned()];
        let message = || check(&doc, &crates).map_err(|e| e.to_string());
        assert!(
            message()
                .unwrap_err()
                .contains("b/x.html: the link y.html#z is dead")
        );
        page("y.html", "<a href=\"https://example.org/none\">e</a>");
        assert_eq!(message(), Ok(2));
        page(
            "y.html",
            "<a href=\"#none\">n</a> <img src=\"../../../docs/a.svg\">",
        );
        let both = message().unwrap_err();
        assert!(
            both.contains("#none") && both.contains("docs/a.svg"),
            "{both}"
        );
        page("x.html", "");
        page("y.html", "");
        assert!(message().is_err(), "nothing was checked");
        assert!(check(&doc, &["none".to_owned()]).is_err());
        std::fs::remove_dir_all(&doc).unwrap();
    }
}
