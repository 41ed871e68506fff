//! The charts of the heap in lab/EVALUATION.md.

use super::{goals, peers};
use crate::Figures;
use crate::draw::{self, File, Series};
use anyhow::Result;

/// The cases of reference retrieval.
pub const CASES: [&str; 3] = ["best", "bad", "worst"];
/// Sizes of the objects of reference retrieval.
pub const SIZES: [u32; 6] = [32, 64, 128, 256, 512, 1024];
/// Lengths of the queue.
pub const LENGTHS: [u32; 12] = [1, 5, 10, 12, 14, 15, 16, 20, 30, 60, 90, 120];
/// RAM of the persists at a limit of 2 KiB.
pub const RAMS: [u32; 5] = [2048, 3072, 4096, 6144, 8192];

/// Bytes that a queue of this length must write of each element, if 15 elements fit into RAM: one
/// that is not written stays in RAM from its put to its take, which is as many operations as the
/// queue is long.
pub fn least_written(length: u32) -> f64 {
    256.0 * (1.0 - 15.0 / f64::from(length)).max(0.0)
}

/// Every chart; none when these figures are not of the heap.
pub fn all(figures: &Figures) -> Result<Vec<File>> {
    if !figures.contains_key("heap.kv_uniform.ir") {
        return Ok(Vec::new());
    }
    let f = &peers::with(figures);
    Ok(vec![
        retrieval_time(f)?,
        fifo(f)?,
        fifo_time(f)?,
        persist(f)?,
        kv(f, "heap-kv-bytes.svg", "bytes written", "bytes_written")?,
        kv(f, "heap-kv-ir.svg", "instructions", "ir")?,
    ])
}

/// The points of the keys that there are; `@` in a key stands for `x`.
fn series(f: &Figures, xs: &[u32], name: &str, key: &str) -> Series {
    let point = |x: &u32| {
        let key = key.replace('@', &x.to_string());
        Some((f64::from(*x), *f.get(&key)?))
    };
    (name.to_owned(), xs.iter().filter_map(point).collect())
}

fn retrieval_time(f: &Figures) -> Result<File> {
    let of = |name, key| series(f, &SIZES, name, key);
    let all = [
        of("heap, by bursts", "heap.retrieval_bad_@.modelled"),
        of("heap, by words", "heap.retrieval_bad_@.modelled_by_words"),
        of("modules, by bursts", "modules.bad_@.modelled"),
        of("modules, by words", "modules.bad_@.modelled_by_words"),
    ];
    let axes = ("size of the object, bytes", "time, µs");
    draw::lines("heap-retrieval-time.svg", axes, true, &all)
}

const LENGTH: &str = "length of the queue, elements";

fn fifo(f: &Figures) -> Result<File> {
    let of = |name, key| series(f, &LENGTHS, name, key);
    let least = LENGTHS.map(|l| (f64::from(l), least_written(l)));
    let all = [
        of("heap", "heap.fifo_@.bytes_written"),
        of("vNV-Heap, measured", "vnv.fifo_@.bytes_written"),
        ("least possible".to_owned(), least.to_vec()),
        of("NVM only", "nvm.fifo_@.bytes_written"),
    ];
    draw::lines("heap-fifo.svg", (LENGTH, "bytes written"), true, &all)
}

fn fifo_time(f: &Figures) -> Result<File> {
    let of = |name, key| series(f, &LENGTHS, name, key);
    let all = [
        of("heap, by bursts", "heap.fifo_@.modelled"),
        of("heap, by words", "heap.fifo_@.modelled_by_words"),
        of("bus of NVM only, by bursts", "nvm.fifo_@.modelled"),
        of("bus of NVM only, by words", "nvm.fifo_@.modelled_by_words"),
    ];
    draw::lines("heap-fifo-time.svg", (LENGTH, "time, µs"), true, &all)
}

/// The energy of a persist and of saving all RAM.
fn persist(f: &Figures) -> Result<File> {
    let of = |name, who: &str, unit| {
        let key = format!("{who}.persist_ram_@.{unit}");
        series(f, &RAMS, name, &key)
    };
    let (bursts, words) = ("microjoules", "microjoules_by_words");
    let all = [
        of("bound of the heap, by bursts", "heap", bursts),
        of("bound of the heap, by words", "heap", words),
        of("all RAM, by bursts", "unmanaged", bursts),
        of("all RAM, by words", "unmanaged", words),
    ];
    let axes = ("RAM, bytes", "energy, µJ");
    draw::lines("heap-persist-ram.svg", axes, true, &all)
}

/// The managers whose bars stand side by side.
const BARS: [(&str, &str); 7] = [
    ("heap", "heap"),
    ("pages_32", "pages of 32 bytes"),
    ("pages_64", "pages of 64 bytes"),
    ("pages_128", "pages of 128 bytes"),
    ("pages_256", "pages of 256 bytes"),
    ("pages_512", "pages of 512 bytes"),
    ("vnv", "vNV-Heap, measured"),
];

fn kv(f: &Figures, file: &str, axis: &str, unit: &str) -> Result<File> {
    let groups = goals::PATTERNS.map(|p| {
        let value = |(who, _)| f.get(&format!("{who}.kv_{p}.{unit}")).copied();
        (p, BARS.map(value).to_vec())
    });
    draw::bars(file, axis, &BARS.map(|b| b.1), &groups)
}
