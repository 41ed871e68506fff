//! Charts as SVG, drawn by `plotters`: lines with a mark at each point, or groups of bars.

use crate::plot::title;
use crate::report::shown;
use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A name and its points, in the order of `x`.
pub type Series = (String, Vec<(f64, f64)>);
/// The name of a file and what is in it.
pub type File = (String, String);

/// A chart brings its background along: no colour has a contrast of 4.5:1 both on a white page
/// and on a dark one, #0d1117.
const BACKGROUND: RGBColor = RGBColor(246, 248, 250);
const GRID: RGBColor = RGBColor(208, 215, 222);
/// Each has a contrast of 4.5:1 or more on the background.
const COLOURS: [RGBColor; 7] = [
    RGBColor(5, 80, 174),
    RGBColor(180, 60, 0),
    RGBColor(26, 110, 50),
    RGBColor(125, 50, 160),
    RGBColor(95, 100, 106),
    RGBColor(130, 90, 0),
    RGBColor(0, 105, 115),
];
const TITLE: (&str, u32) = ("sans-serif", 17);
const TEXT: (&str, u32) = ("sans-serif", 13);
const SMALL: (&str, u32) = ("sans-serif", 11);
/// Sizes in pixels: of a chart, and of the legend on its right.
const WIDTH: u32 = 760;
const HEIGHT: u32 = 360;
const LEGEND: u32 = 190;
/// Lines that are nowhere farther apart than this part of the axis, two pixels, are drawn as one.
const SAME: f64 = 0.008;

/// The text at a tick: whole numbers without a point.
fn tick(v: &f64) -> String {
    let v = (v * 1000.0).round() / 1000.0 + 0.0;
    if v.fract() == 0.0 {
        return shown(v);
    }
    format!("{v:.3}").trim_end_matches('0').to_owned()
}

/// Series whose lines cannot be told apart on an axis of this length are drawn as one.
fn together(all: &[Series], axis: f64) -> Vec<Vec<&Series>> {
    let same = |a: &Series, b: &Series| {
        let near =
            |(a, b): (&(f64, f64), &(f64, f64))| a.0 == b.0 && (a.1 - b.1).abs() < SAME * axis;
        a.1.len() == b.1.len() && a.1.iter().zip(&b.1).all(near)
    };
    let mut lines: Vec<Vec<&Series>> = Vec::new();
    for s in all.iter().filter(|s| !s.1.is_empty()) {
        match lines.iter_mut().find(|l| same(l[0], s)) {
            Some(line) => line.push(s),
            None => lines.push(vec![s]),
        }
    }
    lines
}

/// The mark of the points of series `i`. Later ones are smaller or hollow, so what they are drawn
/// over stays visible.
fn mark<'a, C: Clone + 'static>(i: usize, at: C) -> DynElement<'static, SVGBackend<'a>, C> {
    let colour = COLOURS[i % COLOURS.len()];
    match i % 4 {
        0 => Circle::new(at, 4, colour.filled()).into_dyn(),
        1 => TriangleMarker::new(at, 5, colour.filled()).into_dyn(),
        2 => Cross::new(at, 4, colour.stroke_width(2)).into_dyn(),
        _ => Circle::new(at, 5, colour.stroke_width(2)).into_dyn(),
    }
}

/// The names of the series, right of the chart: `plotters` draws its own legends only inside it.
/// A name without a number belongs to the line above it.
fn legend<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    names: &[(Option<usize>, String)],
    mark: impl Fn(usize, (i32, i32)) -> DynElement<'static, SVGBackend<'a>, (i32, i32)>,
) -> Result<()> {
    for (y, (i, name)) in (50..).step_by(19).zip(names) {
        if let Some(i) = i {
            area.draw(&mark(*i, (8, y)))?;
        }
        area.draw(&Text::new(name.as_str(), (20, y - 6), TEXT))?;
    }
    Ok(())
}

/// Lines through the points of several series; with `joined` false the points alone. `axes` are
/// the titles of both axes, with their units.
pub fn lines(file: &str, axes: (&str, &str), joined: bool, series: &[Series]) -> Result<File> {
    let most = |of: fn(&(f64, f64)) -> f64| {
        let points = series.iter().flat_map(|s| &s.1);
        points.map(of).fold(f64::MIN_POSITIVE, f64::max)
    };
    let (wide, high) = (most(|p| p.0) * 1.02, most(|p| p.1) * 1.08);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&BACKGROUND)?;
        let (left, right) = root.split_horizontally(WIDTH - LEGEND);
        let mut chart = ChartBuilder::on(&left)
            .caption(title(file)?, TITLE)
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..wide, 0.0..high)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(axes.0).y_desc(axes.1).axis_desc_style(TEXT);
        mesh.x_label_formatter(&tick).y_label_formatter(&tick);
        mesh.bold_line_style(GRID).light_line_style(TRANSPARENT);
        mesh.label_style(TEXT).draw()?;
        let mut names = Vec::new();
        for (i, line) in together(series, high).into_iter().enumerate() {
            let (name, points) = line[0];
            if joined {
                let colour = COLOURS[i % COLOURS.len()].stroke_width(2);
                chart.draw_series([PathElement::new(points.as_slice(), colour)])?;
            }
            chart.draw_series(points.iter().map(|p| mark(i, *p)))?;
            names.push((Some(i), name.clone()));
            let others = line[1..].iter();
            names.extend(others.map(|(name, _)| (None, format!("and {name}"))));
        }
        legend(&right, &names, mark)?;
        root.present()?;
    }
    Ok((file.to_owned(), svg))
}

/// Groups of bars, from the top to the bottom, with their values. A group has a name and a value
/// for each of `names`, or none. `axis` is the title of the values' axis, with its unit.
pub fn bars(
    file: &str,
    axis: &str,
    names: &[&str],
    groups: &[(&str, Vec<Option<f64>>)],
) -> Result<File> {
    let letters = groups.iter().map(|g| g.0.chars().count()).max();
    let label = 7 * letters.context("no groups")? as u32 + 14;
    // In pixels, from the top: a group, the first bar of it, and a bar with the space after it.
    let (group, first, step) = (15 * names.len() as i32 + 10, 6, 15);
    let end = group * groups.len() as i32;
    let values = groups.iter().flat_map(|g| &g.1).flatten();
    let most = values.copied().fold(f64::MIN_POSITIVE, f64::max) * 1.12;
    let middles = (0..groups.len() as i32).map(|g| group * g + group / 2);
    let key = if names.len() > 1 { LEGEND } else { 0 };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 100 + end as u32)).into_drawing_area();
        root.fill(&BACKGROUND)?;
        let (left, right) = root.split_horizontally(WIDTH - key);
        let mut chart = ChartBuilder::on(&left)
            .caption(title(file)?, TITLE)
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(label)
            .build_cartesian_2d(0.0..most, (end..0).with_key_points(middles.collect()))?;
        let name = |middle: &i32| groups[(*middle / group) as usize].0.to_owned();
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(axis).axis_desc_style(TEXT).disable_y_mesh();
        mesh.x_label_formatter(&tick).y_label_formatter(&name);
        mesh.bold_line_style(GRID).light_line_style(TRANSPARENT);
        mesh.label_style(TEXT).draw()?;
        for i in 0..names.len() {
            let colour = COLOURS[i % COLOURS.len()].filled();
            let value = |(g, (_, values)): (usize, &(&str, Vec<Option<f64>>))| {
                Some((values[i]?, group * g as i32 + first + step * i as i32))
            };
            let all: Vec<_> = groups.iter().enumerate().filter_map(value).collect();
            let bar = |(v, top): &(f64, i32)| Rectangle::new([(0.0, *top), (*v, top + 12)], colour);
            chart.draw_series(all.iter().map(bar))?;
            let style = SMALL.into_font().color(&BLACK);
            let style = style.pos(Pos::new(HPos::Left, VPos::Center));
            let text = |(v, top): &(f64, i32)| {
                EmptyElement::at((*v, top + 6)) + Text::new(shown(*v), (4, 0), style.clone())
            };
            chart.draw_series(all.iter().map(text))?;
        }
        if names.len() > 1 {
            let names = names.iter().enumerate();
            let names: Vec<_> = names.map(|(i, n)| (Some(i), n.to_string())).collect();
            let square = |i: usize, (x, y)| {
                let colour = COLOURS[i % COLOURS.len()].filled();
                Rectangle::new([(x - 6, y - 5), (x + 6, y + 5)], colour).into_dyn()
            };
            legend(&right, &names, square)?;
        }
        root.present()?;
    }
    Ok((file.to_owned(), svg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_cannot_be_told_apart_are_one_with_all_names() {
        let series = |name: &str, ys: [f64; 3]| {
            let points = ys.iter().enumerate().map(|(x, y)| (x as f64, *y));
            (name.to_owned(), points.collect())
        };
        let all = [
            series("a", [0.0, 50.0, 100.0]),
            series("b", [0.1, 50.1, 99.9]),
            series("c", [0.0, 50.0, 90.0]),
            ("nothing".to_owned(), Vec::new()),
        ];
        let lines = together(&all, 100.0);
        let names: Vec<Vec<_>> = lines
            .iter()
            .map(|l| l.iter().map(|s| s.0.as_str()).collect())
            .collect();
        assert_eq!(names, [vec!["a", "b"], vec!["c"]]);
    }

    #[test]
    fn ticks_are_whole_numbers_where_the_values_are() {
        let all = [0.0, 5_000.0, 0.5, 0.025, 1.1 + 2.2].map(|v| tick(&v));
        assert_eq!(all, ["0", "5,000", "0.5", "0.025", "3.3"]);
    }

    #[test]
    fn colours_have_contrast() {
        let luminance = |c: RGBColor| {
            let part = |v: u8| {
                let v = f64::from(v) / 255.0;
                if v <= 0.04045 {
                    v / 12.92
                } else {
                    ((v + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * part(c.0) + 0.7152 * part(c.1) + 0.0722 * part(c.2)
        };
        for c in COLOURS {
            let ratio = (luminance(BACKGROUND) + 0.05) / (luminance(c) + 0.05);
            assert!(ratio >= 4.5, "{c:?}: {ratio}");
        }
    }
}
