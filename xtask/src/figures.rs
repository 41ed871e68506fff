//! Figures: numbers with keys such as `machine.arm.open.instructions`.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// What is measured: key and number.
pub type Figures = BTreeMap<String, f64>;

/// Figures from a file: one flat JSON object of `"key": number`.
pub fn read(path: &Path) -> Result<Figures> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    let v: serde_json::Value = serde_json::from_str(&text).with_context(name)?;
    let map = v
        .as_object()
        .with_context(|| format!("{} is no object", name()))?;
    map.iter()
        .map(|(k, v)| {
            Ok((
                k.clone(),
                v.as_f64().with_context(|| format!("{k} is no number"))?,
            ))
        })
        .collect()
}

/// The same file from figures.
pub fn json(figures: &Figures) -> String {
    // A whole number without a point.
    let number = |v: f64| -> serde_json::Value {
        if v.fract() == 0.0 && v.abs() < 9e15 {
            (v as i64).into()
        } else {
            v.into()
        }
    };
    let all = figures.iter().map(|(k, v)| (k.clone(), number(*v)));
    let map: serde_json::Map<_, _> = all.collect();
    format!("{:#}\n", serde_json::Value::Object(map))
}

/// The committed figures.
pub const COSTS: &str = "docs/costs.json";

/// Figures from lines `key value` among others.
pub fn printed(said: &str) -> Figures {
    said.lines()
        .filter_map(|l| {
            let mut words = l.split_whitespace();
            let (key, value) = (words.next()?, words.next()?.parse().ok()?);
            (key.contains('.') && words.next().is_none()).then(|| (key.to_owned(), value))
        })
        .collect()
}

/// Whether a cost has grown by more than 2 %.
pub fn has_grown(was: f64, now: f64) -> bool {
    now > was * 1.02
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_lines_of_a_key_and_a_number() {
        let f = printed("cost of a step\npmem_tx.begin.stores 0\na.b 1.5\nnot.this one two\n");
        assert_eq!(f.len(), 2);
        assert_eq!(f["a.b"], 1.5);
    }
}
