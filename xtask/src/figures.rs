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
