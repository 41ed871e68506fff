//! Diagrams as SVG: lines, points, bars, with a legend on the right.
//!
//! Nothing may hide what it is drawn over. Series that cannot be told apart anywhere are one line
//! with several names in the legend. Where later lines cover a part of a line, that part is wider.

use crate::report::shown;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

/// A name and its points, in the order of `x`.
pub type Series = (String, Vec<(f64, f64)>);
/// What is in a file, or why it could not be drawn.
pub type Svg = Result<String, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

const COLOURS: [RGBColor; 7] = [
    RGBColor(30, 100, 170),
    RGBColor(200, 90, 30),
    RGBColor(90, 140, 60),
    RGBColor(130, 130, 130),
    RGBColor(150, 90, 160),
    RGBColor(190, 160, 40),
    RGBColor(80, 170, 180),
];
const WIDTH: u32 = 700;
const HEIGHT: u32 = 340;
/// Of a text of the legend, in pixels, at most.
pub const PER_LETTER: f64 = 6.5;
/// Two values are drawn at the same place when they differ by less than this part of the axis: two
/// pixels.
const SAME: f64 = 0.008;

/// A diagram of several series.
pub struct Diagram<'a> {
    /// What stands above it.
    pub title: &'a str,
    /// The names of both axes.
    pub axes: (&'a str, &'a str),
    /// Whether lines join the points of a series.
    pub joined: bool,
    /// What it shows.
    pub series: &'a [Series],
}

/// Draws them, one below the other.
pub fn diagrams(all: &[Diagram<'_>]) -> Svg {
    let mut svg = String::new();
    {
        let size = (WIDTH, HEIGHT * all.len() as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (d, area) in all.iter().zip(root.split_evenly((all.len(), 1))) {
            diagram(&area, d)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// The text at a tick: whole numbers without a point.
fn tick(v: &f64) -> String {
    let v = (v * 1000.0).round() / 1000.0 + 0.0;
    if v.fract() == 0.0 {
        return shown(v);
    }
    format!("{v:.3}").trim_end_matches('0').to_owned()
}

/// Series that are drawn as one line: the names, and the points of the first.
struct Line<'a> {
    names: Vec<String>,
    points: &'a [(f64, f64)],
}

/// The pairs of `y` that two series have at the same `x`.
fn common<'a>(a: &'a [(f64, f64)], b: &'a [(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let at = |x: f64| b.iter().find(move |p| p.0 == x);
    a.iter().filter_map(move |p| Some((p.1, at(p.0)?.1)))
}

/// Puts series together that have all points in common, at an axis of this length.
fn together(all: &[Series], axis: f64) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (name, points) in all.iter().filter(|s| !s.1.is_empty()) {
        let same = |l: &&mut Line<'_>| {
            let pairs: Vec<_> = common(l.points, points).collect();
            pairs.len() == points.len()
                && pairs.len() == l.points.len()
                && pairs.iter().all(|(a, b)| (a - b).abs() < SAME * axis)
        };
        if let Some(line) = lines.iter_mut().find(same) {
            let sign = if line.points == points { '=' } else { '≈' };
            line.names.push(format!("{sign} {name}"));
        } else {
            lines.push(Line {
                names: vec![name.clone()],
                points,
            });
        }
    }
    lines
}

/// How many of the later lines cover each point of line `i`.
fn covered(lines: &[Line<'_>], i: usize, axis: f64) -> Vec<u32> {
    let covers = |p: &(f64, f64), l: &Line<'_>| {
        common(std::slice::from_ref(p), l.points).any(|(a, b)| (a - b).abs() < SAME * axis)
    };
    let over = |p| lines[i + 1..].iter().filter(|l| covers(p, l)).count() as u32;
    lines[i].points.iter().map(over).collect()
}

fn diagram(root: &Area<'_>, d: &Diagram<'_>) -> Drawn {
    let largest = |of: fn(&(f64, f64)) -> f64| {
        let points = d.series.iter().flat_map(|s| s.1.iter());
        let most = points.map(of).fold(0.0, f64::max);
        if most > 0.0 { most } else { 1.0 }
    };
    let (wide, high) = (largest(|p| p.0) * 1.02, largest(|p| p.1) * 1.08);
    let names = d.series.iter().map(|s| s.0.len() + 2);
    let legend = legend_width(names);
    let mut chart = ChartBuilder::on(root)
        .caption(d.title, ("sans-serif", 16))
        .margin(8)
        .margin_right(legend + 12)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..wide, 0.0..high)?;
    chart
        .configure_mesh()
        .x_desc(d.axes.0)
        .y_desc(d.axes.1)
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .light_line_style(WHITE)
        .draw()?;
    let lines = together(d.series, high);
    let mut key = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let over = covered(&lines, i, high);
        if d.joined {
            for (ends, over) in line.points.windows(2).zip(over.windows(2)) {
                let stroke = colour.stroke_width(2 + 2 * over[0].min(over[1]));
                chart.draw_series([PathElement::new(ends, stroke)])?;
            }
        }
        let dot =
            |(p, over): (&(f64, f64), &u32)| Circle::new(*p, 3 + *over as i32, colour.filled());
        chart.draw_series(line.points.iter().zip(&over).map(dot))?;
        for (n, name) in line.names.iter().enumerate() {
            key.push(((n == 0).then_some(colour), name.as_str()));
        }
    }
    draw_legend(root, legend, &key)
}

fn legend_width(letters: impl Iterator<Item = usize>) -> u32 {
    let most = letters.max().unwrap_or(0);
    (most as f64 * PER_LETTER) as u32 + 24
}

/// A name without a colour belongs to the line above it.
fn draw_legend(root: &Area<'_>, width: u32, key: &[(Option<RGBColor>, &str)]) -> Drawn {
    let left = root.dim_in_pixel().0 as i32 - width as i32;
    for (i, (colour, name)) in key.iter().enumerate() {
        let y = 44 + 18 * i as i32;
        if let Some(c) = colour {
            let square = [(left, y), (left + 12, y + 8)];
            root.draw(&Rectangle::new(square, c.filled()))?;
        }
        let text = (*name).to_owned();
        root.draw(&Text::new(text, (left + 18, y - 2), ("sans-serif", 13)))?;
    }
    Ok(())
}

/// Groups of bars side by side. A name that has no value in any group is left out.
pub fn bars(title: &str, names: &[&str], groups: &[(&str, Vec<Option<f64>>)]) -> Svg {
    let there = |i: &usize| groups.iter().any(|g| g.1[*i].is_some());
    let kept: Vec<usize> = (0..names.len()).filter(there).collect();
    let values = groups.iter().flat_map(|g| &g.1).flatten();
    let high = values.copied().fold(0.0, f64::max) * 1.08;
    let key: Vec<_> = (kept.iter().zip(COLOURS))
        .map(|(i, c)| (Some(c), names[*i]))
        .collect();
    let legend = legend_width(key.iter().map(|k| k.1.len()));
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 16))
            .margin(8)
            .margin_right(legend + 12)
            .x_label_area_size(24)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..groups.len() as f64, 0.0..high)?;
        let mesh = &mut chart.configure_mesh();
        mesh.disable_x_mesh()
            .disable_x_axis()
            .y_label_formatter(&tick)
            .light_line_style(WHITE)
            .draw()?;
        let step = 0.9 / kept.len() as f64;
        for (g, (name, values)) in groups.iter().enumerate() {
            let left = g as f64 + 0.05;
            for (n, i) in kept.iter().enumerate() {
                let x = left + step * n as f64;
                if let Some(v) = values[*i] {
                    let bar = [(x, 0.0), (x + step * 0.85, v)];
                    let filled = COLOURS[n % COLOURS.len()].filled();
                    chart.draw_series([Rectangle::new(bar, filled)])?;
                }
            }
            let (x, y) = chart.backend_coord(&(left, 0.0));
            let text = (*name).to_owned();
            root.draw(&Text::new(text, (x, y + 8), ("sans-serif", 13)))?;
        }
        draw_legend(&root, legend, &key)?;
        root.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, ys: [f64; 3]) -> Series {
        let points = ys.iter().enumerate().map(|(x, y)| (x as f64, *y));
        (name.to_owned(), points.collect())
    }

    #[test]
    fn what_cannot_be_told_apart_is_one_line_with_all_names() {
        let all = [
            series("a", [0.0, 50.0, 100.0]),
            series("b", [0.0, 50.0, 100.0]),
            series("c", [0.1, 50.1, 99.9]),
            series("d", [0.0, 50.0, 90.0]),
            ("e".to_owned(), vec![(0.0, 0.0), (1.0, 50.0)]),
            ("nothing".to_owned(), Vec::new()),
        ];
        let lines = together(&all, 100.0);
        let names: Vec<_> = lines.iter().map(|l| l.names.clone()).collect();
        assert_eq!(names, [vec!["a", "= b", "≈ c"], vec!["d"], vec!["e"]]);
        // The first two points of `d` and of `e` lie on `a`.
        let over = [0, 1, 2].map(|i| covered(&lines, i, 100.0));
        assert_eq!(over, [vec![2, 2, 0], vec![1, 1, 0], vec![0, 0]]);
    }

    #[test]
    fn ticks_are_whole_numbers_where_the_values_are() {
        let all = [0.0, 5_000.0, 0.5, 0.025, 1.1 + 2.2].map(|v| tick(&v));
        assert_eq!(all, ["0", "5,000", "0.5", "0.025", "3.3"]);
    }

    #[test]
    fn all_names_fit_and_a_bar_without_value_is_not_named() {
        let svg = bars("t", &["one", "two"], &[("g", vec![Some(1.0), None])]).unwrap();
        assert!(svg.contains("one") && !svg.contains("two"));
        assert!(legend_width([30].into_iter()) as f64 >= 18.0 + 30.0 * PER_LETTER);
    }
}
