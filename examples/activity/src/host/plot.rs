//! The timeline of recognised activities as SVG.

use crate::args::Job;
use crate::score::Score;
use anyhow::{Result, anyhow};
use example_activity::Found;
use plotters::prelude::*;
use std::path::Path;

const COLOURS: [RGBColor; example_activity::CLASSES] = [
    RGBColor(78, 121, 167),
    RGBColor(225, 87, 89),
    RGBColor(89, 161, 79),
    RGBColor(242, 142, 43),
    RGBColor(118, 183, 178),
    RGBColor(237, 201, 72),
    RGBColor(176, 122, 161),
    RGBColor(156, 117, 95),
];
const LEFT: i32 = 120;
const WIDTH: i32 = 960;
const ROW: i32 = 26;
const TOP: i32 = 40;

/// Draws what each recording was, what each of its windows and all of them together were taken for.
pub fn draw(path: &Path, job: &Job, results: &[Vec<Found>], score: &Score) -> Result<()> {
    let rows = 3 + 1;
    let size = ((LEFT + WIDTH + 20) as u32, (TOP + rows * ROW + 30) as u32);
    let area = SVGBackend::new(path, size).into_drawing_area();
    let drawn = |e| anyhow!("{}: {e}", path.display());
    area.fill(&WHITE).map_err(drawn)?;
    let text = |s: &str, x: i32, y: i32| {
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        area.draw(&Text::new(s.to_owned(), (x, y), style))
    };
    let bar = |row: i32, from: i32, to: i32, class: u8| {
        let (top, bottom) = (TOP + row * ROW, TOP + (row + 1) * ROW - 6);
        let colour = COLOURS[usize::from(class) % COLOURS.len()];
        area.draw(&Rectangle::new(
            [(from, top), (to, bottom)],
            colour.filled(),
        ))
    };
    for (row, name) in ["was", "windows", "recognised"].into_iter().enumerate() {
        text(name, 10, TOP + row as i32 * ROW + 3).map_err(drawn)?;
    }
    let all: usize = results.iter().map(Vec::len).sum();
    let x = |window: usize| LEFT + (window * WIDTH as usize / all.max(1)) as i32;
    let mut at = 0;
    for ((recording, found), verdict) in job.recognize.iter().zip(results).zip(&score.verdicts) {
        let (from, to) = (x(at), x(at + found.len()) - 1);
        bar(0, from, to, recording.class).map_err(drawn)?;
        for (i, f) in found.iter().enumerate() {
            bar(1, x(at + i), x(at + i + 1) - 1, f.class).map_err(drawn)?;
        }
        bar(2, from, to, *verdict).map_err(drawn)?;
        at += found.len();
    }
    for (class, label) in job.labels.0.iter().enumerate() {
        let from = LEFT + class as i32 * 120;
        bar(3, from, from + 14, class as u8).map_err(drawn)?;
        text(label, from + 20, TOP + 3 * ROW + 3).map_err(drawn)?;
    }
    let title = format!(
        "{} recordings, {:.1} % recognised",
        score.verdicts.len(),
        100.0 * score.recordings
    );
    text(&title, LEFT, 12).map_err(drawn)?;
    area.present().map_err(drawn)
}
