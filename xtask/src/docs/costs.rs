//! Figures in tables of costs: a row whose last cell is a key of docs/costs.json must show its
//! value.
//!
//! ```text
//! | operation | cost | key |
//! |---|---|---|
//! | commit | 1 store | `pmem_tx.commit.stores` |
//! ```

use crate::figures::Figures;

/// A row that disagrees with the committed figures, for each: its line and what is wrong. And how
/// many figures were compared.
pub fn check(text: &str, committed: &Figures) -> (usize, Vec<(usize, String)>) {
    let (mut n, mut wrong) = (0, Vec::new());
    // The column of keys in the table that this line is in.
    let mut keys = false;
    for (i, line) in text.lines().enumerate() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, cells @ .., _] = &cells[..] else {
            keys = false;
            continue;
        };
        let Some((last, others)) = cells.split_last() else {
            continue;
        };
        if *last == "key" {
            keys = true;
            continue;
        }
        if !keys || last.starts_with("--") || last.starts_with(":-") || last.is_empty() {
            continue;
        }
        for key in last.split(',').map(|k| k.trim().trim_matches('`')) {
            n += 1;
            match committed.get(key) {
                None => wrong.push((i + 1, format!("no figure `{key}` in docs/costs.json"))),
                Some(value) if !others.iter().any(|c| shows(c, *value)) => wrong.push((
                    i + 1,
                    format!("`{key}` is {value}, which the row does not show"),
                )),
                Some(_) => {}
            }
        }
    }
    (n, wrong)
}

/// Whether a cell shows this number: whole, with thousands apart, or rounded to the digits shown.
fn shows(cell: &str, value: f64) -> bool {
    let cell = cell.replace([','], "");
    let numbers = cell.split(|c: char| !c.is_ascii_digit() && c != '.');
    numbers
        .map(|n| n.trim_matches('.'))
        .filter(|n| !n.is_empty())
        .any(|n| {
            let digits = n.split_once('.').map_or(0, |(_, d)| d.len());
            n == format!("{value:.digits$}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_figure_that_it_names() {
        let committed = Figures::from([("a.stores".into(), 1.0), ("b.bytes".into(), 2345.678)]);
        let of = |row: &str| {
            let text = format!("| what | cost | key |\n|---|---|---|\n{row}\n\n| x | y |\n");
            check(&text, &committed)
        };
        assert_eq!(of("| commit | 1 store | `a.stores` |"), (1, vec![]));
        assert_eq!(
            of("| save | 2,346 bytes, 1 | b.bytes, a.stores |"),
            (2, vec![])
        );
        assert_eq!(of("| save | 2345.7 | b.bytes |"), (1, vec![]));
        assert_eq!(of("| no figure | much | |"), (0, vec![]));
        assert_eq!(of("| commit | 2 stores | a.stores |").1.len(), 1);
        assert_eq!(of("| commit | 1 store | a.store |").1[0].0, 3);
    }
}
