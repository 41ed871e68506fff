//! The plots of docs/EVALUATION.md.

use super::{goals, peers};
use crate::Figures;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

/// Sizes of the objects of reference retrieval.
pub const SIZES: [u32; 6] = [32, 64, 128, 256, 512, 1024];
/// Lengths of the queue.
pub const LENGTHS: [u32; 12] = [1, 5, 10, 12, 14, 15, 16, 20, 30, 60, 90, 120];
/// RAM of the persists at a limit of 2 KiB.
pub const RAMS: [u32; 5] = [2048, 3072, 4096, 6144, 8192];

const COLOURS: [RGBColor; 7] = [
    RGBColor(30, 100, 170),
    RGBColor(200, 90, 30),
    RGBColor(90, 140, 60),
    RGBColor(130, 130, 130),
    RGBColor(150, 90, 160),
    RGBColor(190, 160, 40),
    RGBColor(80, 170, 180),
];
const WIDTH: u32 = 680;
const HEIGHT: u32 = 340;

pub type Series = (String, Vec<(f64, f64)>);
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// File and content of every plot that has something to show.
pub fn all(figures: &Figures) -> Result<Vec<(String, String)>> {
    if !figures.contains_key("heap.kv_uniform.ir") {
        return Ok(Vec::new());
    }
    let f = peers::with(figures);
    let mut out = Vec::new();
    let mut keep = |name: &str, drawn: Result<String, Box<dyn std::error::Error>>| {
        let svg = drawn.map_err(|e| anyhow!("{name}: {e}"))?;
        out.push((name.to_owned(), svg));
        Ok::<_, anyhow::Error>(())
    };
    keep("heap-retrieval.svg", retrieval(&f))?;
    keep("heap-fifo.svg", fifo(&f))?;
    keep("heap-persist-limit.svg", persist_by_limit(&f))?;
    keep("heap-persist-ram.svg", persist_by_ram(&f))?;
    keep(
        "heap-kv-bytes.svg",
        kv(&f, "bytes_written", "bytes written by an update"),
    )?;
    keep("heap-kv-ir.svg", kv(&f, "ir", "instructions of an update"))?;
    keep("heap-kv-metadata.svg", metadata(&f))?;
    Ok(out)
}

/// The points of the keys that there are.
fn series(f: &Figures, name: &str, xs: &[u32], key: impl Fn(u32) -> String) -> Series {
    let point = |x: &u32| Some((f64::from(*x), *f.get(&key(*x))?));
    (name.to_owned(), xs.iter().filter_map(point).collect())
}

pub fn lines(
    title: &str,
    x: &str,
    y: &str,
    all: &[Series],
) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        one(&root, title, (x, y), all)?;
        root.present()?;
    }
    Ok(svg)
}

/// A diagram of lines with a legend on its right.
fn one(root: &Area<'_>, title: &str, axes: (&str, &str), all: &[Series]) -> Drawn {
    let points = || all.iter().flat_map(|s| s.1.iter());
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(1.0, f64::max);
    let (wide, high) = (most(|p| p.0), most(|p| p.1) * 1.08);
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 16))
        .margin(8)
        .margin_right(170)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..wide, 0.0..high)?;
    chart
        .configure_mesh()
        .x_desc(axes.0)
        .y_desc(axes.1)
        .light_line_style(WHITE)
        .draw()?;
    let right = root.dim_in_pixel().0 as i32 - 165;
    for (i, (name, points)) in all.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        chart.draw_series([PathElement::new(points.clone(), colour.stroke_width(2))])?;
        chart.draw_series(points.iter().map(|p| Circle::new(*p, 3, colour.filled())))?;
        let y = 44 + 18 * i as i32;
        root.draw(&Rectangle::new(
            [(right, y), (right + 12, y + 8)],
            colour.filled(),
        ))?;
        root.draw(&Text::new(
            name.clone(),
            (right + 18, y - 2),
            ("sans-serif", 13),
        ))?;
    }
    Ok(())
}

fn retrieval(f: &Figures) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 3 * HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        for (case, area) in ["best", "bad", "worst"]
            .iter()
            .zip(root.split_evenly((3, 1)))
        {
            let all = [
                series(f, "heap, with copying", &SIZES, |s| {
                    format!("heap.retrieval_{case}_{s}.ir_total")
                }),
                series(f, "heap", &SIZES, |s| {
                    format!("heap.retrieval_{case}_{s}.ir")
                }),
                series(f, "modules, with copying", &SIZES, |s| {
                    format!("modules.{case}_{s}.ir_total")
                }),
                series(f, "modules", &SIZES, |s| format!("modules.{case}_{s}.ir")),
                series(f, "vNV-Heap, measured", &SIZES, |s| {
                    format!("vnv.retrieval_{case}_{s}.ir")
                }),
            ];
            one(
                &area,
                &format!("getting an object, {case} case"),
                ("bytes of the object", "instructions"),
                &all,
            )?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn fifo(f: &Figures) -> Result<String, Box<dyn std::error::Error>> {
    let of = |who: &'static str| move |l: u32| format!("{who}.fifo_{l}.bytes_written");
    let all = [
        series(f, "heap", &LENGTHS, of("heap")),
        series(f, "vNV-Heap, measured", &LENGTHS, of("vnv")),
        series(f, "ideal for 15 in RAM", &LENGTHS, |l| {
            format!("heap.fifo_{l}.ideal")
        }),
        series(f, "NVM only", &LENGTHS, of("nvm")),
        series(f, "RAM only", &LENGTHS, of("ram")),
    ];
    lines(
        "a queue of 256-byte elements, 4 KiB of RAM",
        "length",
        "bytes written",
        &all,
    )
}

fn persist_by_limit(f: &Figures) -> Result<String, Box<dyn std::error::Error>> {
    let limits = goals::LIMITS;
    let all = [
        series(f, "heap, bound", &limits, |d| {
            format!("heap.persist_bound_{d}.microjoules_by_words")
        }),
        series(f, "unmanaged RAM", &limits, |_| {
            "unmanaged.persist_ram_4096.microjoules_by_words".into()
        }),
    ];
    lines(
        "energy of a persist, 4 KiB of RAM",
        "dirty limit in bytes",
        "µJ",
        &all,
    )
}

fn persist_by_ram(f: &Figures) -> Result<String, Box<dyn std::error::Error>> {
    let all = [
        series(f, "heap, bound", &RAMS, |r| {
            format!("heap.persist_ram_{r}.microjoules_by_words")
        }),
        series(f, "unmanaged RAM", &RAMS, |r| {
            format!("unmanaged.persist_ram_{r}.microjoules_by_words")
        }),
    ];
    lines(
        "energy of a persist, dirty limit 2 KiB",
        "RAM in bytes",
        "µJ",
        &all,
    )
}

/// The managers whose bars stand side by side.
const BARS: [(&str, &str); 7] = [
    ("heap", "heap"),
    ("pages_32", "pages of 32"),
    ("pages_64", "pages of 64"),
    ("pages_128", "pages of 128"),
    ("pages_256", "pages of 256"),
    ("pages_512", "pages of 512"),
    ("vnv", "vNV-Heap, measured"),
];

fn kv(f: &Figures, unit: &str, title: &str) -> Result<String, Box<dyn std::error::Error>> {
    let key = |who: &str, p: &str| format!("{who}.kv_{p}.{unit}");
    let groups = goals::PATTERNS.map(|p| (p, BARS.map(|(who, _)| f.get(&key(who, p)).copied())));
    bars(title, &groups)
}

fn metadata(f: &Figures) -> Result<String, Box<dyn std::error::Error>> {
    let of = |who: &str| f.get(&format!("{who}.kv_metadata")).copied();
    bars(
        "bytes of metadata for 256 values",
        &[("", BARS.map(|(who, _)| of(who)))],
    )
}

fn bars(
    title: &str,
    groups: &[(&str, [Option<f64>; BARS.len()])],
) -> Result<String, Box<dyn std::error::Error>> {
    let most = groups
        .iter()
        .flat_map(|g| g.1)
        .flatten()
        .fold(1.0, f64::max)
        * 1.08;
    let wide = groups.len() as f64;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 16))
            .margin(8)
            .margin_right(170)
            .x_label_area_size(24)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..wide, 0.0..most)?;
        let mesh = &mut chart.configure_mesh();
        mesh.disable_x_mesh()
            .disable_x_axis()
            .light_line_style(WHITE)
            .draw()?;
        let step = 0.9 / BARS.len() as f64;
        for (g, (name, values)) in groups.iter().enumerate() {
            let left = g as f64 + 0.05;
            for (i, v) in values.iter().enumerate() {
                let (x, v) = (left + step * i as f64, v.unwrap_or(0.0));
                let bar = [(x, 0.0), (x + step * 0.85, v)];
                chart.draw_series([Rectangle::new(bar, COLOURS[i].filled())])?;
            }
            let at = chart.backend_coord(&(left, 0.0));
            root.draw(&Text::new(
                (*name).to_owned(),
                (at.0, at.1 + 8),
                ("sans-serif", 13),
            ))?;
        }
        for (i, (_, name)) in BARS.iter().enumerate() {
            let (x, y) = (WIDTH as i32 - 165, 44 + 18 * i as i32);
            root.draw(&Rectangle::new(
                [(x, y), (x + 12, y + 8)],
                COLOURS[i].filled(),
            ))?;
            root.draw(&Text::new(
                (*name).to_owned(),
                (x + 18, y - 2),
                ("sans-serif", 13),
            ))?;
        }
        root.present()?;
    }
    Ok(svg)
}
