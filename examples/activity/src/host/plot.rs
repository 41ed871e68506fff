//! Draws the timeline of recognised activities as SVG, with the power cuts.

use crate::args::Job;
use crate::report::{Report, grouped};
use crate::sensor::Motions;
use anyhow::{Result, anyhow};
use example_activity::{CLASSES, Class};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

const COLOURS: [RGBColor; CLASSES] = [
    RGBColor(78, 121, 167),
    RGBColor(225, 87, 89),
    RGBColor(89, 161, 79),
    RGBColor(242, 142, 43),
    RGBColor(118, 183, 178),
    RGBColor(237, 201, 72),
    RGBColor(176, 122, 161),
    RGBColor(156, 117, 95),
];
const LEFT: i32 = 130;
const WIDTH: i32 = 1000;
const ROW: i32 = 26;
const TOP: i32 = 44;

struct Chart<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
    steps: i32,
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws for each step the lesson or the window's activity and its recognition, then each
/// recording's verdict. For each number of stores it marks the steps in which the power was cut.
pub fn draw(path: &Path, job: &Job, motions: &Motions, report: &Report<'_>) -> Result<()> {
    let rows = 4 + report.trials.len() as i32;
    let size = ((LEFT + WIDTH + 20) as u32, (TOP + rows * ROW + 10) as u32);
    let chart = Chart {
        area: SVGBackend::new(path, size).into_drawing_area(),
        steps: i32::from(motions.steps()).max(1),
    };
    chart
        .draw(job, motions, report)
        .map_err(|e| anyhow!("{}: {e}", path.display()))
}

impl Chart<'_> {
    fn draw(&self, job: &Job, motions: &Motions, report: &Report<'_>) -> Drawn {
        let lessons = motions.lessons.len() as i32;
        self.area.fill(&WHITE)?;
        self.text("learnt", self.x(0), 8)?;
        let share = 100.0 * report.score.recordings;
        let title = format!(
            "recognised: {share:.1} % of {} recordings",
            job.recognize.len()
        );
        self.text(&title, self.x(lessons) + 4, 8)?;
        for (row, name) in ["was", "window by window", "recording"].iter().enumerate() {
            self.text(name, 8, TOP + row as i32 * ROW + 3)?;
        }
        for (i, class) in motions.classes().enumerate() {
            self.bar(0, i as i32, i as i32 + 1, class)?;
        }
        let results = report.reference.final_state.iter().flat_map(|l| &l.results);
        for (i, recognition) in results.enumerate() {
            let at = lessons + i as i32;
            self.bar(1, at, at + 1, recognition.class)?;
        }
        let mut at = lessons;
        for (recording, verdict) in job.recognize.iter().zip(&report.score.verdicts) {
            let end = at + recording.windows().len() as i32;
            self.bar(0, at, end, recording.class)?;
            self.bar(2, at, end, *verdict)?;
            at = end;
        }
        for (row, trial) in report.trials.iter().enumerate() {
            let row = 3 + row as i32;
            let top = TOP + row * ROW;
            self.text(&format!("cut every {}", grouped(trial.every)), 8, top + 3)?;
            for step in trial.runs.iter().flat_map(|r| &r.at) {
                let x = (self.x(i32::from(*step)) + self.x(i32::from(*step) + 1)) / 2;
                let mark = [(x, top), (x, top + ROW - 8)];
                self.area.draw(&PathElement::new(mark, BLACK.mix(0.6)))?;
            }
        }
        let row = 3 + report.trials.len() as i32;
        for (class, label) in job.labels.0.iter().enumerate() {
            let from = LEFT + class as i32 * 120;
            let top = TOP + row * ROW;
            let colour = COLOURS[class % CLASSES].filled();
            let corners = [(from, top), (from + 14, top + ROW - 6)];
            self.area.draw(&Rectangle::new(corners, colour))?;
            self.text(label, from + 20, top + 3)?;
        }
        self.area.present()
    }

    fn x(&self, step: i32) -> i32 {
        LEFT + step * WIDTH / self.steps
    }

    fn text(&self, s: &str, x: i32, y: i32) -> Drawn {
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        self.area.draw(&Text::new(s.to_owned(), (x, y), style))
    }

    /// Steps `from..to` have this class.
    fn bar(&self, row: i32, from: i32, to: i32, class: Class) -> Drawn {
        let (top, bottom) = (TOP + row * ROW, TOP + (row + 1) * ROW - 6);
        let colour = COLOURS[usize::from(class) % CLASSES].filled();
        let corners = [(self.x(from), top), (self.x(to) - 1, bottom)];
        self.area.draw(&Rectangle::new(corners, colour))
    }
}
