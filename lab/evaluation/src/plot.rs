//! The plots of lab/img.

use super::Figures;
use super::draw::PER_LETTER;
use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// A bar chart: its file, its title, the unit, the prefix and the suffix of the keys that it shows.
struct Chart {
    file: &'static str,
    title: &'static str,
    prefix: &'static str,
    suffix: &'static str,
}

const CHARTS: &[Chart] = &[
    Chart {
        file: "pmem-tx-bytes.svg",
        title: "bytes stored by an operation of pmem-tx",
        prefix: "pmem_tx.",
        suffix: ".bytes",
    },
    Chart {
        file: "nv-replay-bytes.svg",
        title: "bytes stored by a step of nv-replay",
        prefix: "nv_replay.",
        suffix: ".bytes",
    },
];

impl Chart {
    fn bars<'f>(&self, figures: &'f Figures) -> Vec<(&'f str, f64)> {
        figures
            .iter()
            .filter_map(|(k, v)| {
                Some((k.strip_prefix(self.prefix)?.strip_suffix(self.suffix)?, *v))
            })
            .collect()
    }
}

/// File and content of every chart that has something to show.
pub fn all(figures: &Figures) -> Result<Vec<(String, String)>> {
    let mut out = Vec::new();
    for c in CHARTS {
        let bars = c.bars(figures);
        if !bars.is_empty() {
            let svg = draw(c, &bars).map_err(|e| anyhow!("{}: {e}", c.file))?;
            out.push((c.file.to_owned(), svg));
        }
    }
    Ok(out)
}

/// File and title of the charts of a section.
pub fn shown_under(prefix: &str, figures: &Figures) -> Vec<(&'static str, &'static str)> {
    CHARTS
        .iter()
        .filter(|c| c.prefix == prefix && !c.bars(figures).is_empty())
        .map(|c| (c.file, c.title))
        .collect()
}

/// Horizontal bars, the name left and the number at the end of each.
fn draw(c: &Chart, bars: &[(&str, f64)]) -> Result<String, Box<dyn std::error::Error>> {
    const ROW: i32 = 26;
    const WIDTH: i32 = 640;
    let height = 50 + ROW * bars.len() as i32;
    let most = bars.iter().map(|b| b.1).fold(1.0, f64::max);
    let letters = bars.iter().map(|b| b.0.len()).max().unwrap_or(0);
    let left = 20 + (letters as f64 * PER_LETTER) as i32;
    let mut svg = String::new();
    {
        let root =
            SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        let text = |s: f64| ("sans-serif", s).into_font().color(&BLACK);
        root.draw(&Text::new(c.title, (10, 10), text(16.0)))?;
        for (i, (name, value)) in bars.iter().enumerate() {
            let y = 40 + ROW * i as i32;
            let end = left + (value / most * f64::from(WIDTH - left - 70)) as i32;
            root.draw(&Text::new((*name).to_owned(), (10, y + 4), text(13.0)))?;
            root.draw(&Rectangle::new(
                [(left, y), (end, y + ROW - 8)],
                RGBColor(64, 110, 160).filled(),
            ))?;
            root.draw(&Text::new(
                super::report::shown(*value),
                (end + 6, y + 4),
                text(13.0),
            ))?;
        }
        root.present()?;
    }
    Ok(svg)
}
