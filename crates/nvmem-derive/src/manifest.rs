//! Finds the path of `nvmem` in the program that uses the derive, from its `Cargo.toml`.
//!
//! ```text
//!  Cargo.toml of the program
//!    [dependencies]  nvmem = "0.1"                          ->  ::nvmem
//!                    mem = { package = "nvmem", .. }        ->  ::mem
//!                    mem.workspace = true                   ->  the name in [workspace.dependencies]
//!                    pmem-tx = "0.1"                        ->  ::pmem_tx::nvmem
//! ```
//!
//! A dependency that is always there comes first, then one that is optional or for some targets,
//! then one for tests. Within each, `nvmem` comes before the crates that re-export it.
//!
//! Without a manifest, or with one that does not follow TOML, the path is `::nvmem`: Cargo has not
//! built this program, and another build system may name its crates as it likes.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// The crates that re-export `nvmem` under that name.
const FACADES: [&str; 7] = [
    "pmem-tx",
    "nv-replay",
    "nvlist",
    "vnv-heap",
    "checkpoint",
    "nv-rtos",
    "nv-device",
];

/// Where the program finds `package`: the name of the crate, and whether it re-exports `nvmem`.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub facade: bool,
}

/// Finds `nvmem` in the manifest of the package that is being compiled. `Err` if it has neither
/// `nvmem` nor a crate that re-exports it.
pub fn nvmem() -> Result<Found, ()> {
    find("nvmem", &FACADES)
}

/// Finds `vnv-heap` in the same way.
pub fn vnv_heap() -> Result<Found, ()> {
    find("vnv-heap", &[])
}

fn find(package: &str, facades: &[&str]) -> Result<Found, ()> {
    let itself = Found {
        name: crate_name(package),
        facade: false,
    };
    let Some(folder) = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) else {
        return Ok(itself);
    };
    let Some(manifest) = read(&folder) else {
        return Ok(itself);
    };
    if value(&manifest, &["package", "name"]) == Some(package) {
        return Ok(itself);
    }
    let workspace = || {
        // The workspace is in this folder or above, or where the package says.
        let root = value(&manifest, &["package", "workspace"]);
        let start = root.map_or(folder.clone(), |root| folder.join(root));
        let mut above = start.ancestors().filter_map(read);
        above.find(|m| m.iter().any(|e| e.path[0] == "workspace"))
    };
    choose(&dependencies(&manifest, workspace), package, facades).ok_or(())
}

fn read(folder: &Path) -> Option<Vec<Entry>> {
    parse(&read_to_string(folder.join("Cargo.toml")).ok()?)
}

fn crate_name(package: &str) -> String {
    package.replace('-', "_")
}

fn choose(all: &[Dependency], package: &str, facades: &[&str]) -> Option<Found> {
    for kind in [Kind::Always, Kind::Sometimes, Kind::Tests] {
        for wanted in [package].iter().chain(facades) {
            let mut fits = all.iter().filter(|d| d.kind == kind);
            if let Some(d) = fits.find(|d| d.package == *wanted) {
                return Some(Found {
                    name: crate_name(&d.key),
                    facade: *wanted != package,
                });
            }
        }
    }
    None
}

/// When a dependency is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Always,
    /// It is optional, or for some targets only.
    Sometimes,
    /// In tests, examples and benchmarks.
    Tests,
}

#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    /// Its name in the program.
    key: String,
    package: String,
    kind: Kind,
}

fn dependencies(manifest: &[Entry], workspace: impl Fn() -> Option<Vec<Entry>>) -> Vec<Dependency> {
    let mut all = Vec::new();
    for entry in manifest {
        let at = if entry.path[0] == "target" { 2 } else { 0 };
        let (Some(table), Some(key)) = (entry.path.get(at), entry.path.get(at + 1)) else {
            continue;
        };
        let tests = match table.as_str() {
            "dependencies" => false,
            "dev-dependencies" | "dev_dependencies" => true,
            _ => continue,
        };
        let table = &entry.path[..at + 2];
        let option = |option: &str| {
            let table = table.iter().map(String::as_str);
            value(manifest, &table.chain([option]).collect::<Vec<_>>())
        };
        let package = match (option("package"), option("workspace")) {
            (Some(package), _) => package.to_owned(),
            (None, Some("true")) => {
                let of_workspace = workspace().unwrap_or_default();
                let path = ["workspace", "dependencies", key, "package"];
                value(&of_workspace, &path).unwrap_or(key).to_owned()
            }
            _ => key.clone(),
        };
        let kind = if tests {
            Kind::Tests
        } else if at > 0 || option("optional") == Some("true") {
            Kind::Sometimes
        } else {
            Kind::Always
        };
        all.push(Dependency {
            key: key.clone(),
            package,
            kind,
        });
    }
    all
}

fn value<'m>(manifest: &'m [Entry], path: &[&str]) -> Option<&'m str> {
    let entry = manifest.iter().find(|e| e.path == path)?;
    Some(&entry.value)
}

/// One value of a TOML file and the keys that lead to it. A value is a string or the word as it
/// stands there; that of an array is empty.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    path: Vec<String>,
    value: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A bare word, or a string without its quotes.
    Word(String),
    /// One of `[ ] { } = . ,` or the end of a line.
    Mark(char),
}

fn parse(text: &str) -> Option<Vec<Entry>> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        entries: Vec::new(),
    };
    let mut table = Vec::new();
    while let Some(token) = parser.tokens.get(parser.at).cloned() {
        match token {
            Token::Mark('\n') => parser.at += 1,
            Token::Mark('[') => {
                parser.at += 1;
                let array = parser.skip('[');
                table = parser.keys(&[])?;
                parser.expect(']')?;
                if array {
                    parser.expect(']')?;
                }
                // An empty table is an entry too: `[workspace]`.
                parser.entry(&table, String::new());
            }
            _ => parser.assignment(&table)?,
        }
    }
    Some(parser.entries)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    entries: Vec<Entry>,
}

impl Parser {
    fn entry(&mut self, path: &[String], value: String) {
        let path = path.to_vec();
        self.entries.push(Entry { path, value });
    }

    /// Skips this mark if it is the next token.
    fn skip(&mut self, mark: char) -> bool {
        let is_next = self.tokens.get(self.at) == Some(&Token::Mark(mark));
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, mark: char) -> Option<()> {
        self.skip(mark).then_some(())
    }

    /// Dotted keys, appended to those of `table`.
    fn keys(&mut self, table: &[String]) -> Option<Vec<String>> {
        let mut path = table.to_vec();
        loop {
            let Token::Word(key) = self.tokens.get(self.at)?.clone() else {
                return None;
            };
            self.at += 1;
            path.push(key);
            if !self.skip('.') {
                return Some(path);
            }
        }
    }

    /// `key = value`.
    fn assignment(&mut self, table: &[String]) -> Option<()> {
        let path = self.keys(table)?;
        self.expect('=')?;
        if self.skip('{') {
            // An empty entry, so that a table without a value is not forgotten.
            self.entry(&path, String::new());
            loop {
                while self.skip('\n') || self.skip(',') {}
                if self.skip('}') {
                    return Some(());
                }
                self.assignment(&path)?;
            }
        }
        if self.skip('[') {
            self.entry(&path, String::new());
            let mut depth = 1;
            while depth > 0 {
                match self.tokens.get(self.at)? {
                    Token::Mark('[') => depth += 1,
                    Token::Mark(']') => depth -= 1,
                    _ => {}
                }
                self.at += 1;
            }
            return Some(());
        }
        let mut value = String::new();
        // A number or a date may be several tokens.
        loop {
            match self.tokens.get(self.at) {
                Some(Token::Word(word)) => value.push_str(word),
                Some(Token::Mark('.')) => value.push('.'),
                _ => break,
            }
            self.at += 1;
        }
        self.entry(&path, value);
        Some(())
    }
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut all = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    while let Some(c) = rest.chars().next() {
        match c {
            '#' => {
                let end = rest.find('\n').unwrap_or(rest.len());
                rest = &rest[end..];
            }
            '"' | '\'' => {
                let (word, behind) = string(rest, c)?;
                all.push(Token::Word(word));
                rest = behind;
            }
            '[' | ']' | '{' | '}' | '=' | '.' | ',' | '\n' => {
                all.push(Token::Mark(c));
                rest = &rest[1..];
            }
            ' ' | '\t' | '\r' => rest = &rest[1..],
            _ => {
                let bare = |c: char| c.is_alphanumeric() || "-_+:".contains(c);
                let end = rest.find(|c| !bare(c)).unwrap_or(rest.len());
                if end == 0 {
                    return None;
                }
                all.push(Token::Word(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
    }
    Some(all)
}

/// The string at the beginning of `text`, and the text after it. `None` if it has no end.
/// Names of packages need no escapes, so they stay as they are.
fn string(text: &str, quote: char) -> Option<(String, &str)> {
    let triple: String = [quote; 3].iter().collect();
    let (delimiter, body) = match text.strip_prefix(&*triple) {
        Some(body) => (triple.as_str(), body),
        None => (&triple[..1], &text[1..]),
    };
    let mut at = 0;
    loop {
        let behind = &body[at..];
        if let Some(after) = behind.strip_prefix(delimiter) {
            // A string of several lines may end with quotes of its own.
            let more = after
                .chars()
                .take_while(|c| delimiter.len() == 3 && *c == quote);
            let end = at + more.count();
            return Some((body[..end].to_owned(), &body[end + delimiter.len()..]));
        }
        let mut chars = behind.chars();
        let c = chars.next()?;
        at += c.len_utf8();
        if c == '\\' && quote == '"' {
            at += chars.next()?.len_utf8();
        }
        if c == '\n' && delimiter.len() == 1 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str, workspace: &str) -> Option<(String, bool)> {
        let manifest = parse(manifest).expect("TOML");
        let all = dependencies(&manifest, || parse(workspace));
        choose(&all, "nvmem", &FACADES).map(|f| (f.name, f.facade))
    }

    fn direct(name: &str) -> Option<(String, bool)> {
        Some((name.to_owned(), false))
    }
    fn through(name: &str) -> Option<(String, bool)> {
        Some((name.to_owned(), true))
    }

    #[test]
    fn names() {
        let cases = [
            ("[dependencies]\nnvmem = '0.1'", direct("nvmem")),
            (
                "[dependencies]\n\"nvmem\" = \"0.1\" # why\n",
                direct("nvmem"),
            ),
            ("dependencies.nvmem.path = 'a'", direct("nvmem")),
            ("[dependencies.nvmem]\npath = 'a'", direct("nvmem")),
            ("[dependencies.nvmem]\n", direct("nvmem")),
            ("dependencies = { nvmem = {} }", direct("nvmem")),
            (
                "[dependencies]\nmy-mem = { features = [\"a\", [\"b\"]],\n  package = \"nvmem\" }",
                direct("my_mem"),
            ),
            (
                "[dependencies.memory]\nversion = \"0.1\"\npackage = 'nvmem'",
                direct("memory"),
            ),
            ("[dependencies]\npmem-tx = '0.1'", through("pmem_tx")),
            ("[dependencies]\nnv-device = '0.1'", through("nv_device")),
            (
                "[dependencies]\nnv-replay = '0.1'\nserde = '1'",
                through("nv_replay"),
            ),
            (
                "[dependencies]\nr = { package = \"nv-replay\", path = '../x' }",
                through("r"),
            ),
            // Another package has the name.
            ("[dependencies]\nnvmem = { package = 'other' }", None),
            ("[build-dependencies]\nnvmem = '0.1'", None),
            ("[dependencies]\nserde = '1'", None),
            ("", None),
        ];
        for (manifest, expected) in cases {
            assert_eq!(found(manifest, ""), expected, "{manifest}");
        }
    }

    #[test]
    fn what_is_always_there_comes_first() {
        let tests = "[dependencies]\nnvlist = '1'\n[dev-dependencies]\nnvmem = '1'";
        assert_eq!(found(tests, ""), through("nvlist"));
        let both = "[dependencies]\npmem-tx = '1'\nnvmem = '1'";
        assert_eq!(found(both, ""), direct("nvmem"));
        let optional = "[dependencies]\nnvmem = { version = '1', optional = true }\nvnv-heap = '1'";
        assert_eq!(found(optional, ""), through("vnv_heap"));
        let target = "[target.'cfg(target_os = \"none\")'.dependencies]\nnvmem = '1'";
        assert_eq!(found(target, ""), direct("nvmem"));
        let only_tests = "[dev-dependencies]\ncheckpoint = '1'";
        assert_eq!(found(only_tests, ""), through("checkpoint"));
    }

    #[test]
    fn names_of_the_workspace() {
        let workspace = "[workspace.dependencies]\nmem = { package = 'nvmem', version = '1' }";
        assert_eq!(
            found("[dependencies]\nmem.workspace = true", workspace),
            direct("mem")
        );
        assert_eq!(
            found("[dependencies]\nmem = { workspace = true }", workspace),
            direct("mem")
        );
        assert_eq!(found("[dependencies]\nmem = '1'", workspace), None);
        assert_eq!(
            found("[dependencies]\npmem-tx.workspace = true", workspace),
            through("pmem_tx")
        );
    }

    #[test]
    fn strings_and_other_values() {
        let text = "\u{feff}[package]\r\nname = 'a#b'\nabout = \"\"\"say \"hi\" ] = \"\"\"\"\n\
                    at = 1979-05-27T07:32:00.5Z\nn = 1_000.5\nyes = true\n[[bin]]\nname = \"x\\\"y\"";
        let all = parse(text).expect("TOML");
        assert_eq!(value(&all, &["package", "name"]), Some("a#b"));
        assert_eq!(
            value(&all, &["package", "about"]),
            Some("say \"hi\" ] = \"")
        );
        assert_eq!(
            value(&all, &["package", "at"]),
            Some("1979-05-27T07:32:00.5Z")
        );
        assert_eq!(value(&all, &["package", "yes"]), Some("true"));
        assert_eq!(value(&all, &["bin", "name"]), Some("x\\\"y"));
    }

    #[test]
    fn what_is_not_toml() {
        for text in [
            "[a",
            "a = 'b",
            "= 1",
            "a = [1",
            "a = {",
            "a = \"x\ny\"",
            "a b",
            "§",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
