//! The plots of lab/EVALUATION.md.

use super::{goals, peers};
use crate::Figures;
use crate::draw::{self, Diagram, Series, Svg};
use anyhow::{Result, anyhow};

/// The cases of reference retrieval.
pub const CASES: [&str; 3] = ["best", "bad", "worst"];
/// Sizes of the objects of reference retrieval.
pub const SIZES: [u32; 6] = [32, 64, 128, 256, 512, 1024];
/// Lengths of the queue.
pub const LENGTHS: [u32; 12] = [1, 5, 10, 12, 14, 15, 16, 20, 30, 60, 90, 120];
/// RAM of the persists at a limit of 2 KiB.
pub const RAMS: [u32; 5] = [2048, 3072, 4096, 6144, 8192];

/// File and content of every plot that has something to show.
pub fn all(figures: &Figures) -> Result<Vec<(String, String)>> {
    if !figures.contains_key("heap.kv_uniform.ir") {
        return Ok(Vec::new());
    }
    let f = peers::with(figures);
    let mut out = Vec::new();
    let mut keep = |name: &str, drawn: Svg| {
        let svg = drawn.map_err(|e| anyhow!("{name}: {e}"))?;
        out.push((name.to_owned(), svg));
        Ok::<_, anyhow::Error>(())
    };
    keep("heap-retrieval.svg", retrieval(&f))?;
    keep("heap-retrieval-time.svg", retrieval_time(&f))?;
    keep("heap-fifo.svg", fifo(&f))?;
    keep("heap-fifo-time.svg", fifo_time(&f))?;
    keep("heap-persist-limit.svg", persist_by_limit(&f))?;
    keep("heap-persist-ram.svg", persist_by_ram(&f))?;
    let written = kv(&f, "bytes_written", "bytes written by an update");
    keep("heap-kv-bytes.svg", written)?;
    keep("heap-kv-ir.svg", kv(&f, "ir", "instructions of an update"))?;
    let time = "modelled time on the bus of an update, by words, in µs";
    keep(
        "heap-kv-time.svg",
        kv(&f, "bus_microseconds_by_words", time),
    )?;
    keep("heap-kv-metadata.svg", metadata(&f))?;
    Ok(out)
}

/// The points of the keys that there are.
fn series(f: &Figures, name: &str, xs: &[u32], key: impl Fn(u32) -> String) -> Series {
    let point = |x: &u32| Some((f64::from(*x), *f.get(&key(*x))?));
    (name.to_owned(), xs.iter().filter_map(point).collect())
}

/// A diagram of lines.
fn lines(title: &str, axes: (&str, &str), series: &[Series]) -> Svg {
    draw::diagrams(&[Diagram {
        title,
        axes,
        joined: true,
        series,
    }])
}

/// Diagrams of the three cases, one below the other.
fn cases(title: &str, y: &str, of: impl Fn(&str) -> Vec<Series>) -> Svg {
    let all = CASES.map(|case| (format!("{title}, {case} case"), of(case)));
    let diagrams = all.iter().map(|(title, series)| Diagram {
        title,
        axes: ("bytes of the object", y),
        joined: true,
        series,
    });
    draw::diagrams(&diagrams.collect::<Vec<_>>())
}

fn retrieval(f: &Figures) -> Svg {
    cases("getting an object", "instructions", |case| {
        let of = |name, who: &str, unit: &str| {
            series(f, name, &SIZES, |s| format!("{who}{case}_{s}.{unit}"))
        };
        vec![
            of("heap, with copying", "heap.retrieval_", "ir_total"),
            of("heap", "heap.retrieval_", "ir"),
            of("modules, with copying", "modules.", "ir_total"),
            of("modules", "modules.", "ir"),
            of("vNV-Heap, measured", "vnv.retrieval_", "ir"),
        ]
    })
}

fn retrieval_time(f: &Figures) -> Svg {
    cases("modelled time to get an object", "µs", |case| {
        let of = |name, who: &str, unit: &str| {
            series(f, name, &SIZES, |s| format!("{who}{case}_{s}.{unit}"))
        };
        vec![
            of("heap, by bursts", "heap.retrieval_", "modelled"),
            of("heap, by words", "heap.retrieval_", "modelled_by_words"),
            of("modules' bus, by bursts", "modules.", "modelled"),
            of("modules' bus, by words", "modules.", "modelled_by_words"),
        ]
    })
}

/// Bytes that a queue of this length must write of each element, if 15 elements fit into RAM: one
/// that is not written stays in RAM from its put to its take, which is as many operations as the
/// queue is long.
pub fn least_written(length: u32) -> f64 {
    256.0 * (1.0 - 15.0 / f64::from(length)).max(0.0)
}

fn fifo(f: &Figures) -> Svg {
    let of = |name, who: &'static str| {
        let key = |l| format!("{who}.fifo_{l}.bytes_written");
        series(f, name, &LENGTHS, key)
    };
    let least = LENGTHS.map(|l| (f64::from(l), least_written(l)));
    let all = [
        of("heap", "heap"),
        of("vNV-Heap, measured", "vnv"),
        ("least possible".to_owned(), least.to_vec()),
        of("NVM only", "nvm"),
        of("RAM only", "ram"),
    ];
    let title = "a queue of 256-byte elements, 4 KiB of RAM";
    lines(title, ("length", "bytes written"), &all)
}

fn fifo_time(f: &Figures) -> Svg {
    let of = |name, who: &'static str, unit: &'static str| {
        series(f, name, &LENGTHS, |l| format!("{who}.fifo_{l}.{unit}"))
    };
    let all = [
        of("heap, by bursts", "heap", "modelled"),
        of("heap, by words", "heap", "modelled_by_words"),
        of("NVM only, bus by bursts", "nvm", "modelled"),
        of("NVM only, bus by words", "nvm", "modelled_by_words"),
    ];
    let title = "modelled time of an enqueue and a dequeue";
    lines(title, ("length", "µs"), &all)
}

/// The energy of a persist and of saving all RAM, by bursts and by words. `x` are the limits or the
/// sizes of RAM; the keys lack the unit.
fn persist(
    f: &Figures,
    title: &str,
    x: (&str, &[u32]),
    heap: impl Fn(u32) -> String,
    unmanaged: impl Fn(u32) -> String,
) -> Svg {
    let of = |name, key: &dyn Fn(u32) -> String, unit: &str| {
        series(f, name, x.1, |v| format!("{}.{unit}", key(v)))
    };
    let (bursts, words) = ("microjoules", "microjoules_by_words");
    let all = [
        of("heap's bound, by bursts", &heap, bursts),
        of("heap's bound, by words", &heap, words),
        of("unmanaged, by bursts", &unmanaged, bursts),
        of("unmanaged, by words", &unmanaged, words),
    ];
    lines(title, (x.0, "µJ"), &all)
}

fn persist_by_limit(f: &Figures) -> Svg {
    persist(
        f,
        "energy of a persist, 4 KiB of RAM",
        ("dirty limit in bytes", &goals::LIMITS),
        |d| format!("heap.persist_bound_{d}"),
        |_| "unmanaged.persist_ram_4096".into(),
    )
}

fn persist_by_ram(f: &Figures) -> Svg {
    persist(
        f,
        "energy of a persist, dirty limit 2 KiB",
        ("RAM in bytes", &RAMS),
        |r| format!("heap.persist_ram_{r}"),
        |r| format!("unmanaged.persist_ram_{r}"),
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

fn bars(f: &Figures, title: &str, groups: &[&str], key: impl Fn(&str, &str) -> String) -> Svg {
    let values = |g: &str| BARS.map(|(who, _)| f.get(&key(who, g)).copied()).to_vec();
    let groups: Vec<_> = groups.iter().map(|g| (*g, values(g))).collect();
    draw::bars(title, &BARS.map(|b| b.1), &groups)
}

fn kv(f: &Figures, unit: &str, title: &str) -> Svg {
    bars(f, title, &goals::PATTERNS, |who, p| {
        format!("{who}.kv_{p}.{unit}")
    })
}

fn metadata(f: &Figures) -> Svg {
    bars(f, "bytes of metadata for 256 values", &[""], |who, _| {
        format!("{who}.kv_metadata")
    })
}
