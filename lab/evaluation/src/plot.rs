//! The charts of lab/img: what each is called, and what to see in it.

use crate::Figures;
use crate::draw::{self, File};
use crate::heap::document::wrapped;
use crate::{checkpoint, heap, intermittent, mirror, programs, yields};
use anyhow::{Context, Result};

/// File, title, and what to see in it.
const CHARTS: &[(&str, &str, &str)] = &[
    (
        "pmem-tx-bytes.svg",
        "Bytes that an operation of pmem-tx stores",
        "A first change logs the old bytes and a header: 8 bytes more than the object has. Shorter \
         units take shorter headers.",
    ),
    (
        "nv-replay-bytes.svg",
        "Bytes that a step of nv-replay stores",
        "An empty step stores its commit word alone. A result, a record or a change adds a few \
         words.",
    ),
    (
        "heap-retrieval-time.svg",
        "Time to get an object that is not resident (model)",
        "The smaller the object, the more time the heap saves: modules always move 1 KiB. At 1 KiB \
         the heap takes longer.",
    ),
    (
        "heap-fifo.svg",
        "Bytes written by an enqueue and a dequeue of 256 bytes, 4 KiB of RAM",
        "The heap stays close to the least possible. vNV-Heap writes whole elements as soon as the \
         queue does not fit into RAM.",
    ),
    (
        "heap-fifo-time.svg",
        "Time of an enqueue and a dequeue (model)",
        "The heap is faster than the bus alone of a queue in NVM until the queue is two to four times \
         as long as what fits into RAM. Then the time of the heap's core makes it the slower one.",
    ),
    (
        "heap-persist-ram.svg",
        "Energy of a persist with a dirty limit of 2 KiB (model)",
        "The heap's bound does not grow with the RAM. A system that saves all of its RAM needs \
         more energy than the bound once the RAM is large.",
    ),
    (
        "heap-kv-bytes.svg",
        "Bytes written by an update of the key-value store",
        "Except for *partitioned*, where larger pages write about as little, the heap writes \
         least. Large pages write much more for random keys.",
    ),
    (
        "heap-kv-ir.svg",
        "Instructions of an update of the key-value store",
        "The heap takes a small part of the instructions of vNV-Heap. Large pages take fewest, \
         because there are fewer of them to keep track of.",
    ),
    (
        "checkpoint-fig7.svg",
        "Figure 7: checkpoint of contiguous data, Cortex-M3",
        "All modes grow with the data alike. Only the table of five bytes a block adds a constant.",
    ),
    (
        "checkpoint-fig8.svg",
        "Figure 8: checkpoint when scattered blocks change, Cortex-M3",
        "When few blocks change, comparing saves most of the energy. `Adaptive` costs less than \
         `CopyIfChange` throughout and never much more than `Full`.",
    ),
    (
        "checkpoint-fig9.svg",
        "Figure 9: restore of contiguous data, Cortex-M3",
        "The crate takes up to twice the energy of the paper's layout: it reads an image twice, to \
         check all of it before it writes memory.",
    ),
    (
        "checkpoint-fig10.svg",
        "Figure 10: checkpoint of two chunks, Cortex-M3",
        "`Split` also writes the free chunks between the two, so its energy grows with them. The \
         modes that know the heap stay flat.",
    ),
    (
        "checkpoint-fig10-restore.svg",
        "Figure 10: restore of two chunks, Cortex-M3",
        "A restore has the same shape as the checkpoint, at a small part of its energy.",
    ),
    (
        "checkpoint-fig11.svg",
        "Figure 11: checkpoint of two chunks, Cortex-M0",
        "`Split` rises in steps, where one more erase unit of 2 KiB comes into reach.",
    ),
    (
        "checkpoint-fig13-m3.svg",
        "Figure 13: checkpoint of fragmented data, Cortex-M3",
        "The wider the heap spreads, the more `HeapTracker` saves over `Split`. The paper's table \
         of five bytes a block pays only at the right edge. `Adaptive` writes only what changed.",
    ),
    (
        "checkpoint-fig13-m0.svg",
        "Figure 13: checkpoint of fragmented data, Cortex-M0",
        "The same on a Cortex-M0, where a step up is one more erase unit. `Adaptive` stays far below \
         the others.",
    ),
    (
        "checkpoint-fig14.svg",
        "Figure 14: energy against fragmentation, Cortex-M3",
        "Each point is one of the heaps of figure 13. `Split` costs most where fragmentation is \
         low, because those heaps are the widest. `HeapTracker` depends on it less.",
    ),
    (
        "mirror-bytes.svg",
        "Bytes written by a step that changes 8 of 64 bytes and survives",
        "A mirror writes the change and a header. Saving each tenth commit spreads the header over \
         ten steps. Crates that store the whole struct write more.",
    ),
    (
        "programs.svg",
        "Instructions of a program on a Cortex-M4, relative to IntOS without protection",
        "In about half of the programs our protected build takes fewer instructions than that of IntOS. The \
         next table says why `kv` and `bc` take more.",
    ),
    (
        "program-variants.svg",
        "Programs with one optimisation less, relative to the programs as they are",
        "To log the whole window costs the most bytes. To make each call a step of its own costs the \
         most instructions.",
    ),
    (
        "programs-msp430.svg",
        "Cycles on an MSP430FR5994, relative to unprotected programs in SRAM",
        "The shorter the on-time, the more of it the boots take. A program without a bar does not \
         come to its end at that on-time.",
    ),
    (
        "device-yields.svg",
        "Yield of programs with devices, by on-time",
        "The yields rise steeply up to 10 ms and hardly after 42 ms. The node is above the model \
         of the paper's node throughout.",
    ),
];

/// A chart of [`CHARTS`].
fn chart(file: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    CHARTS.iter().find(|c| c.0 == file)
}

/// The title of a chart.
///
/// **Errors**: there is no such chart.
pub fn title(file: &str) -> Result<&'static str> {
    Ok(chart(file)
        .with_context(|| format!("plot.rs does not name {file}"))?
        .1)
}

/// The chart in a document, with what to see in it.
pub fn shown(file: &str) -> String {
    let Some((file, title, see)) = chart(file) else {
        return String::new();
    };
    format!("\n![{title}](img/{file})\n\n{}\n", wrapped(see))
}

/// Bars of lab/COSTS.md: the section's prefix of keys, the file, and the operations with their
/// names.
type Costs = (
    &'static str,
    &'static str,
    [(&'static str, &'static str); 5],
);

const COSTS: [Costs; 2] = [
    (
        "pmem_tx.",
        "pmem-tx-bytes.svg",
        [
            ("first_mut_8", "first change of an object of 8 bytes"),
            ("first_mut_64", "first change of an object of 64 bytes"),
            ("ptr_write_8", "write of 8 bytes through a Ptr"),
            ("alloc_32", "allocation of 32 bytes"),
            ("abort_8", "abort after a change of 8 bytes"),
        ],
    ),
    (
        "nv_replay.",
        "nv-replay-bytes.svg",
        [
            ("step_empty", "empty step"),
            ("step_u32", "step with a result of 4 bytes"),
            ("step_update_4", "step that changes 4 bytes"),
            ("record_u32", "recorded input of 4 bytes"),
            ("loop_of_3_empty_steps", "loop of three empty steps"),
        ],
    ),
];

fn costs(f: &Figures, (prefix, file, operations): &Costs) -> Result<File> {
    let groups = operations.map(|(key, name)| {
        let of = |units: &str| f.get(&format!("{prefix}{units}{key}.bytes")).copied();
        (name, vec![of(""), of("units_of_16.")])
    });
    draw::bars(
        file,
        "bytes",
        &["units of 32 bits", "units of 16 bits"],
        &groups,
    )
}

/// The charts of a section of lab/COSTS.md.
pub fn shown_under(prefix: &str, f: &Figures) -> String {
    let mine = COSTS.iter().filter(|c| c.0 == prefix && has(f, c));
    mine.map(|c| shown(c.1)).collect()
}

fn has(f: &Figures, (prefix, _, [(key, _), ..]): &Costs) -> bool {
    f.contains_key(&format!("{prefix}{key}.bytes"))
}

/// Every chart that has something to show.
pub fn all(f: &Figures) -> Result<Vec<File>> {
    let mine = COSTS.iter().filter(|c| has(f, c));
    let mut all = mine.map(|c| costs(f, c)).collect::<Result<Vec<_>>>()?;
    all.extend(heap::plots::all(f)?);
    all.extend(checkpoint::plots::all(f)?);
    all.extend(mirror::plots(f)?);
    all.extend(programs::plots(f)?);
    all.extend(yields::plots(f)?);
    all.extend(intermittent::plots(f)?);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use xtask::project::Project;

    #[test]
    fn each_chart_is_drawn_shown_and_in_its_file() {
        let root = Project::load().unwrap().root;
        let figures = xtask::figures::read(&root.join(crate::report::FIGURES)).unwrap();
        let drawn = all(&figures).unwrap();
        let named: BTreeSet<_> = CHARTS.iter().map(|c| c.0.to_owned()).collect();
        assert_eq!(
            drawn.iter().map(|d| d.0.clone()).collect::<BTreeSet<_>>(),
            named
        );
        let files = std::fs::read_dir(root.join("lab/img")).unwrap();
        let files = files.map(|f| f.unwrap().file_name().into_string().unwrap());
        assert_eq!(files.collect::<BTreeSet<_>>(), named);
        let pages = ["EVALUATION", "COSTS"]
            .map(|p| std::fs::read_to_string(root.join(format!("lab/{p}.md"))).unwrap());
        for (file, ..) in CHARTS {
            assert!(pages.iter().any(|p| p.contains(&shown(file))), "{file}");
        }
        for (file, svg) in drawn {
            // An identifier is no label.
            assert!(
                !svg.lines().any(|l| !l.starts_with('<') && l.contains('_')),
                "{file}"
            );
        }
    }
}
