//! docs/matrix.toml: which crate does what on which memory, for which kind of program.
//!
//! ```text
//! docs/matrix.toml --.-- <!-- matrix needs -->     README.md            need x memory, code and RAM
//! docs/costs.json  --'-- <!-- matrix missing -->   docs/COMPARISON.md   what there is not, and why
//!                     '- <!-- matrix CRATE -->     crates/*/README.md   memories and modes
//!                     '- names of functions        xtask/matrix-probes  each "yes" compiles
//! ```
//!
//! A table stands between its marker and `<!-- /matrix -->`.

use super::shown;
use crate::figures::{COSTS, Figures};
use crate::project::Project;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use toml::{Table, Value};

const SOURCE: &str = "docs/matrix.toml";
const MODES: [&str; 3] = ["blocking", "async", "threads"];
const BEGIN: &str = "<!-- matrix ";
const END: &str = "<!-- /matrix -->";
/// How the reason begins where a mode would be of no use.
const USELESS: &str = "not needed";
/// Words of a reason.
const REASON: usize = 8;

/// How the part of a crate begins.
const OF_CRATE: &str = "\
## Memories and modes

";

/// A need on a memory.
#[derive(Clone, PartialEq, Eq)]
enum Cell {
    /// For each mode the reason why not, or `None`: yes.
    Crates(Vec<String>, [Option<String>; 3]),
    No(String),
}

struct Need {
    /// Of its functions.
    #[cfg_attr(not(test), expect(dead_code))]
    id: String,
    name: String,
    code: String,
    ram: String,
    /// One for each memory.
    cells: Vec<Cell>,
}

struct Matrix {
    /// `(id, name)`
    memories: Vec<(String, String)>,
    needs: Vec<Need>,
    note: String,
}

/// The documents that have a table of the matrix, with the tables of today.
///
/// **Errors**: the matrix leaves a cell out or has it twice, or a reason is too long; a document
/// that must have a table has none, or one that is not known.
pub fn documents(project: &Project) -> Result<Vec<(String, String)>> {
    let costs = crate::figures::read(&project.root.join(COSTS))?;
    let matrix = Matrix::read(project, &costs)?;
    let must = |name: &str, path: &str| (path.to_owned(), name.to_owned());
    let mut places = vec![
        must("needs", "README.md"),
        must("missing", "docs/COMPARISON.md"),
    ];
    for name in matrix.crates() {
        let package = project.package(&name);
        let package = package.with_context(|| format!("{SOURCE}: no crate {name}"))?;
        places.push((shown(project, &package.dir.join("README.md")), name));
    }
    let mut out = Vec::new();
    for (path, name) in places {
        let text = std::fs::read_to_string(project.root.join(&path)).context(path.clone())?;
        let table = matrix.table(&name)?;
        let text = replaced(&text, &name, &table).with_context(|| path.clone())?;
        out.push((path, text));
    }
    Ok(out)
}

/// The text with this table after its marker.
fn replaced(text: &str, name: &str, table: &str) -> Result<String> {
    let marker = format!("{BEGIN}{name} -->\n");
    let (before, rest) = text
        .split_once(&marker)
        .with_context(|| format!("no {}", marker.trim_end()))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("no {END} after {}", marker.trim_end()))?;
    ensure!(
        !before.contains(BEGIN) && !after.contains(BEGIN),
        "one table of the matrix, {name}, and no other"
    );
    Ok(format!("{before}{marker}\n{table}\n{END}{after}"))
}

impl Matrix {
    fn read(project: &Project, costs: &Figures) -> Result<Self> {
        let text = std::fs::read_to_string(project.root.join(SOURCE)).context(SOURCE)?;
        Self::parse(&text, costs).context(SOURCE)
    }

    fn parse(text: &str, costs: &Figures) -> Result<Self> {
        let all: Table = text.parse()?;
        let list = |t: &Table, name: &str| -> Result<Vec<Table>> {
            let list = t.get(name).and_then(Value::as_array);
            let tables = list.into_iter().flatten().filter_map(Value::as_table);
            let tables: Vec<_> = tables.cloned().collect();
            ensure!(!tables.is_empty(), "no {name}");
            Ok(tables)
        };
        let string = |t: &Table, name: &str| -> Result<String> {
            let s = t.get(name).and_then(Value::as_str);
            Ok(s.with_context(|| format!("no text `{name}`"))?.to_owned())
        };
        let mut memories = Vec::new();
        for m in list(&all, "memory")? {
            memories.push((string(&m, "id")?, string(&m, "name")?));
        }
        let mut needs = Vec::new();
        for n in list(&all, "need")? {
            let id = string(&n, "id")?;
            let mut cells = BTreeMap::new();
            for c in list(&n, "cell").with_context(|| id.clone())? {
                let cell = cell(&c).with_context(|| id.clone())?;
                for m in strings(&c, "memories") {
                    ensure!(
                        memories.iter().any(|(id, _)| *id == m),
                        "{id}: no memory {m}"
                    );
                    let twice = cells.insert(m.clone(), cell.clone());
                    ensure!(twice.is_none(), "{id} has {m} twice");
                }
            }
            let cells = memories.iter().map(|(m, _)| {
                let cell = cells.remove(m);
                cell.with_context(|| format!("{id} says nothing of {m}"))
            });
            needs.push(Need {
                name: string(&n, "name")?,
                code: filled(&string(&n, "code")?, costs)?,
                ram: filled(&string(&n, "ram")?, costs)?,
                cells: cells.collect::<Result<_>>()?,
                id,
            });
        }
        let note = filled(&string(&all, "note")?, costs)?;
        Ok(Matrix {
            memories,
            needs,
            note,
        })
    }

    /// All crates that are named.
    fn crates(&self) -> BTreeSet<String> {
        let cells = self.needs.iter().flat_map(|n| &n.cells);
        let of = |c: &Cell| match c {
            Cell::Crates(crates, _) => crates.clone(),
            Cell::No(_) => Vec::new(),
        };
        cells.flat_map(of).collect()
    }

    /// The functions that show each "yes".
    #[cfg(test)]
    fn probes(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for n in &self.needs {
            for ((memory, _), cell) in self.memories.iter().zip(&n.cells) {
                let Cell::Crates(_, modes) = cell else {
                    continue;
                };
                let yes = MODES.iter().zip(modes).filter(|(_, why)| why.is_none());
                all.extend(yes.map(|(mode, _)| format!("{}_{memory}_{mode}", n.id)));
            }
        }
        all
    }

    fn table(&self, name: &str) -> Result<String> {
        match name {
            "needs" => self.by_need(),
            "missing" => self.missing(),
            _ => self.of_crate(name),
        }
    }

    /// Need x memory. Neighbours that are equal for all needs share a column; for one need the
    /// right one is "same".
    fn by_need(&self) -> Result<String> {
        let mut columns: Vec<(Vec<&str>, usize)> = Vec::new();
        for (i, (_, name)) in self.memories.iter().enumerate() {
            let same = |j: usize| self.needs.iter().all(|n| n.cells[i] == n.cells[j]);
            match columns.last_mut() {
                Some((names, first)) if same(*first) => names.push(name),
                _ => columns.push((vec![name], i)),
            }
        }
        let mut out = String::from("| need |");
        for (names, _) in &columns {
            write!(out, " {} |", names.join(", "))?;
        }
        out += " code | RAM |\n|---|";
        out += &"---|".repeat(columns.len() + 2);
        out.push('\n');
        for n in &self.needs {
            write!(out, "| {} |", n.name)?;
            let mut left = None;
            for (_, i) in &columns {
                let cell = &n.cells[*i];
                match cell {
                    same if left == Some(same) => out += " same |",
                    Cell::No(why) => write!(out, " no ({why}) |")?,
                    Cell::Crates(crates, modes) => {
                        let yes = MODES.iter().zip(modes).filter(|(_, why)| why.is_none());
                        let yes: Vec<_> = yes.map(|(mode, _)| *mode).collect();
                        write!(out, " {}: {} |", code(crates), yes.join(", "))?;
                    }
                }
                left = Some(cell);
            }
            writeln!(out, " {} | {} |", n.code, n.ram)?;
        }
        write!(out, "\n{}\n", wrapped(&self.note))?;
        Ok(out)
    }

    /// What there is not, and why. What nobody needs is left to the crates' parts.
    fn missing(&self) -> Result<String> {
        let mut out = "| need | memory | what there is not | why |\n|---|---|---|---|\n".to_owned();
        for n in &self.needs {
            // The reason, and what lacks for it, in order.
            let mut rows: Vec<(String, &str, Vec<&str>)> = Vec::new();
            let mut add = |what: String, why, memory| match rows
                .iter_mut()
                .find(|(w, y, _)| *w == what && *y == why)
            {
                Some((_, _, memories)) => memories.push(memory),
                None => rows.push((what, why, vec![memory])),
            };
            for ((_, memory), cell) in self.memories.iter().zip(&n.cells) {
                match cell {
                    Cell::No(why) => add("anything".into(), why, memory),
                    Cell::Crates(_, modes) => {
                        for (mode, why) in MODES.iter().zip(modes) {
                            if let Some(why) = why.as_ref().filter(|w| !w.starts_with(USELESS)) {
                                add((*mode).into(), why, memory);
                            }
                        }
                    }
                }
            }
            for (what, why, memories) in rows {
                let memories = self.named(&memories);
                writeln!(out, "| {} | {memories} | {what} | {why} |", n.name)?;
            }
        }
        Ok(out)
    }

    /// These memories; most of them by the others.
    fn named(&self, memories: &[&str]) -> String {
        let all = self.memories.iter().map(|(_, name)| name.as_str());
        let others: Vec<_> = all.filter(|m| !memories.contains(m)).collect();
        match others.len() {
            0 => "any".to_owned(),
            n if n < memories.len() => format!("all but {}", others.join(", ")),
            _ => memories.join(", "),
        }
    }

    /// The part of a crate: what its needs have on which memory.
    fn of_crate(&self, name: &str) -> Result<String> {
        let has = |c: &Cell| matches!(c, Cell::Crates(all, _) if all.iter().any(|c| c == name));
        let mut needs: Vec<_> = self.needs.iter().collect();
        needs.retain(|n| n.cells.iter().any(has));
        ensure!(!needs.is_empty(), "{SOURCE} has no crate {name}");
        let several = needs.len() > 1;
        let mut out = OF_CRATE.to_owned();
        if several {
            out += "| for ";
        }
        out += "| memory | blocking | async | threads |\n|---|---|---|---|";
        out += if several { "---|\n" } else { "\n" };
        for n in needs {
            // Where the crate does a part of the need only, another crate says where it is not met.
            let whole = n.cells.iter().all(|c| has(c) || matches!(c, Cell::No(_)));
            let mut rows: Vec<(&Cell, Vec<&str>)> = Vec::new();
            for ((_, memory), cell) in self.memories.iter().zip(&n.cells) {
                if !has(cell) && !whole {
                    continue;
                }
                match rows.iter_mut().find(|(c, _)| *c == cell) {
                    Some((_, memories)) => memories.push(memory),
                    None => rows.push((cell, vec![memory])),
                }
            }
            let last = rows.len() - 1;
            for (i, (cell, memories)) in rows.into_iter().enumerate() {
                if several {
                    write!(out, "| {} ", n.name)?;
                }
                let memories = match i == last && i > 0 && whole && memories.len() > 2 {
                    true => "others".to_owned(),
                    false => self.named(&memories),
                };
                write!(out, "| {memories}")?;
                match cell {
                    Cell::No(why) => writeln!(out, " | no ({why}) | no | no |")?,
                    Cell::Crates(crates, modes) => {
                        let beside: Vec<_> = crates.iter().filter(|c| *c != name).collect();
                        if !beside.is_empty() {
                            write!(out, ", with {}", code(&beside))?;
                        }
                        let modes = modes.each_ref().map(|why| match why {
                            None => "yes".to_owned(),
                            Some(why) => format!("no ({why})"),
                        });
                        writeln!(out, " | {} |", modes.join(" | "))?;
                    }
                }
            }
        }
        Ok(out)
    }
}

fn cell(c: &Table) -> Result<Cell> {
    let reason = |why: &str| {
        let words = why.split_whitespace().count();
        ensure!(
            words > 0 && words <= REASON,
            "a reason has {REASON} words at most: {why}"
        );
        Ok(why.to_owned())
    };
    if let Some(why) = c.get("no").and_then(Value::as_str) {
        return Ok(Cell::No(reason(why)?));
    }
    let crates = strings(c, "crates");
    ensure!(!crates.is_empty(), "a cell has `crates`, or says `no`");
    let mut modes = [const { None }; 3];
    for (to, mode) in modes.iter_mut().zip(MODES) {
        match c.get(mode) {
            Some(Value::Boolean(true)) => {}
            Some(Value::String(why)) => *to = Some(reason(why)?),
            _ => bail!("`{mode}` is true, or the reason why not"),
        }
    }
    Ok(Cell::Crates(crates, modes))
}

fn strings(t: &Table, name: &str) -> Vec<String> {
    let all = t.get(name).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn code(crates: &[impl AsRef<str>]) -> String {
    let crates: Vec<_> = crates.iter().map(|c| format!("`{}`", c.as_ref())).collect();
    crates.join(" + ")
}

/// The text with the figures that it names in braces.
fn filled(text: &str, costs: &Figures) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (key, after) = after.split_once('}').context("no `}`")?;
        let value = costs.get(key);
        let value = value.with_context(|| format!("no figure `{key}` in {COSTS}"))?;
        out += before;
        out += &thousands(value.round() as u64);
        rest = after;
    }
    Ok(out + rest)
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// In lines of the width of documents.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().map(|l| l.len()).unwrap_or_default();
        if line + 1 + word.len() > super::columns::WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        note = "A note of {a.code} bytes."
        [[memory]]
        id = "fram"
        name = "FRAM"
        [[memory]]
        id = "nor"
        name = "flash"
        [[need]]
        id = "keep"
        name = "keep values"
        code = "{a.code}"
        ram = "0"
        [[need.cell]]
        memories = ["fram"]
        crates = ["a"]
        blocking = true
        async = "it never waits"
        threads = true
        [[need.cell]]
        memories = ["nor"]
        no = "not yet"
    "#;

    fn costs() -> Figures {
        Figures::from([("a.code".to_owned(), 1234.0)])
    }

    /// The functions of xtask/matrix-probes.
    fn functions(source: &str) -> BTreeSet<String> {
        let lines = source.lines().filter_map(|l| {
            let l = l.strip_prefix("pub ")?;
            l.strip_prefix("async ").unwrap_or(l).strip_prefix("fn ")
        });
        let end = |l: &str| l.find(['(', '<']).map(|n| l[..n].to_owned());
        lines.filter_map(end).collect()
    }

    #[test]
    fn tables_say_what_the_source_says() {
        let m = Matrix::parse(SMALL, &costs()).unwrap();
        let needs = m.table("needs").unwrap();
        assert!(
            needs.contains("| keep values | `a`: blocking, threads | no (not yet) | 1,234 | 0 |"),
            "{needs}"
        );
        assert!(needs.ends_with("A note of 1,234 bytes.\n"), "{needs}");
        let missing = m.table("missing").unwrap();
        assert!(missing.contains("| keep values | FRAM | async | it never waits |"));
        assert!(missing.contains("| keep values | flash | anything | not yet |"));
        let of = m.table("a").unwrap();
        assert!(of.contains("| FRAM | yes | no (it never waits) | yes |"));
        assert!(m.table("b").is_err());
    }

    #[test]
    fn gaps_and_long_reasons_are_errors() {
        let wrong = |from: &str, to: &str| {
            let text = SMALL.replace(from, to);
            assert_ne!(text, SMALL);
            Matrix::parse(&text, &costs()).err().unwrap()
        };
        wrong("memories = [\"nor\"]", "memories = []");
        wrong("memories = [\"nor\"]", "memories = [\"nor\", \"fram\"]");
        wrong("memories = [\"nor\"]", "memories = [\"nor\", \"tape\"]");
        wrong("not yet", "one two three four five six seven eight nine");
        wrong("threads = true", "threads = false");
        wrong("{a.code} bytes", "{b.code} bytes");
    }

    #[test]
    fn a_table_stands_between_its_markers() {
        let text = "a\n\n<!-- matrix x -->\nold\n<!-- /matrix -->\nb\n";
        let new = replaced(text, "x", "| t |\n").unwrap();
        assert_eq!(
            new,
            "a\n\n<!-- matrix x -->\n\n| t |\n\n<!-- /matrix -->\nb\n"
        );
        assert_eq!(replaced(&new, "x", "| t |\n").unwrap(), new);
        assert!(replaced(text, "y", "").is_err());
        assert!(replaced("<!-- matrix x -->\n", "x", "").is_err());
    }

    #[test]
    fn each_yes_has_its_function_that_compiles() {
        let project = Project::load().unwrap();
        let costs = crate::figures::read(&project.root.join(COSTS)).unwrap();
        let matrix = Matrix::read(&project, &costs).unwrap();
        let source = project.root.join("xtask/matrix-probes/src/lib.rs");
        let functions = functions(&std::fs::read_to_string(source).unwrap());
        let probes = matrix.probes();
        let without: Vec<_> = probes.difference(&functions).collect();
        let unnamed: Vec<_> = functions.difference(&probes).collect();
        assert!(
            without.is_empty() && unnamed.is_empty(),
            "no function: {without:?}; not in {SOURCE}: {unnamed:?}"
        );
        let bare = project.embedded_examples();
        assert!(bare.map(|p| &p.name).any(|n| n == "matrix-probes"));
    }
}
