//! The committed figures, and the documents made of them.

use super::{heap, intermittent, plot, yields};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use xtask::figures::{Figures, has_grown, json, read};
use xtask::project::Project;

pub const FIGURES: &str = "docs/costs.json";
const TABLES: &str = "lab/COSTS.md";
const IMAGES: &str = "lab/img";

/// Sections of the document: title, what it shows, prefix of its keys.
const SECTIONS: &[(&str, &str, &str)] = &[
    (
        "Transactions",
        "Stores are of one atomic unit; bytes are all that went to the medium. 32-bit units and offsets unless the key \
         says otherwise; instructions are of an x86-64 host (callgrind).",
        "pmem_tx.",
    ),
    (
        "Replay",
        "What a step adds to the stores of its body, the commit included.",
        "nv_replay.",
    ),
    (
        "Machine code",
        "Of real machine code in emulators, instruction by instruction: `arm` is a Cortex-M4, `riscv` RV32IMC, `msp430` an MSP430 \
         with 16-bit units. Costs are those of the operation alone, of `update_8` what it costs beyond the plain store; `stack` is \
         the deepest stack of any scenario, in bytes. A cut is a point that was judged, a boot a distinct state that was started and \
         checked; the rate is of one core.",
        "machine.",
    ),
    (
        "Threads",
        "What a kernel of many threads needs: an empty step in a loop of one step with its iteration, an empty step alone, an \
         empty iteration; on a Cortex-M4.",
        "threads.",
    ),
    (
        "Kernel",
        "The calls of `nv-rtos` on a Cortex-M4.\n\n\
         - `step` is a turn of a loop of one empty step.\n\
         - `send`, `receive`, `give`, `take`, `event` and `event_wait` are what the call adds to it. A\n  message has 8 \
         bytes, its queue 8 slots. `event` sets a flag.\n\
         - `lock_unlock` and `delay` are whole calls. The deadline has come.\n\
         - `switch` is from one thread's `yield_now` to where another one goes on.\n\
         - `masked` is the longest run of instructions with interrupts masked, in runs of two threads with\n  each kind of object \
         and interrupts anywhere; `riscv.masked` and `msp430.masked` are those of the\n  other machines, with the handlers, \
         which are masked there.\n\
         - `ram_per_thread` is the kernel's part and the thread's runtime, in bytes, without the stack.\n\
         - `mq`, `em` and nine others are the programs of `lab/programs`, from the start of their\n  threads to the \
         end of the last: with protection, and on a kernel without, in the same memory\n  and in RAM. `open_instructions` and \
         `open_nvm_bytes` are what it takes to format the memory and\n  make the threads. `identical` is 1 if all builds, with \
         cuts too, find what a plain reference\n  finds. `cut_ratio` is what the program takes with a cut each `cut_every` \
         instructions, the boots\n  included, over what it takes without. `boot_instructions` is the longest boot there,\n  and `restart_instructions` the longest way from a reset to the first store of a thread.\n\
         - `max_step_instructions` is the longest step of the protected build, `steps` how many it has,\n  records of loops \
         included. `full_restart_instructions` is the longest way from a reset to the\n  first store of a thread. The cut came right \
         before a commit store, when the step's journal is\n  full. `full_rollback_instructions` is the part of it that looks \
         for entries of journals and\n  undoes them. `longest_restart_instructions` and `rollback_instructions` are the most \
         after all\n  cuts. `lines` are the lines of a program, and `port_lines` those that a port from a program for\n  RAM \
         adds or changes.\n\
         - `rollback` is a restart of four threads that wait in a step. All have full journals\n  (`eager`), or only the first \
         one has (`one`). `undo` is the part of the\n  rollback. `lazy` is the first one without the \
         rollback of three journals. `variants` are programs\n  with one optimisation less: \
         lab/EVALUATION.md says which.\n\
         - `geomean` is over the eleven programs: protected and unprotected over IntOS without\n  protection (`base`), protected \
         over unprotected (`own`), the bytes of the protected one over\n  those of IntOS without protection, and `cut_ratio`.\n  `mq.code` is the whole program with its constants, in bytes, at \
         `opt-level = \"s\"`.\n\
         - `msp430.` is these programs on an MSP430FR5994 at 16 MHz, in cycles and nanojoules: without\n  \
         protection in SRAM (`volatile`) and in FRAM (`unprotected`), with protection, and with a cut each\n  10, 5 and 1 ms, over \
         the volatile ones. `programs` is how many come to their end, `least_ms` the\n  shortest on-time with which one does, \
         `too_large` by how many bytes it does not fit.\n\
         - `kernel.code` is what the sources of `nv-rtos` add to a program with two threads and an object\n  of each kind, \
         in bytes, at `opt-level = \"s\"`, without a port.",
        "rtos.",
    ),
    (
        "Devices",
        "The calls of `nv-device`: one lamp of a port is switched, on a Cortex-M4 and on an MSP430.\n\n\
         - `bare` is that alone, in a function of its own, from its first instruction to its return.\n  `own_commit` is the \
         same with a context of a byte that commits by itself, `two_unit` with one of\n  two units.\n\
         - `set` is what a set of a lamp and a ring adds to a step that uses neither, and `staged` what a\n  change of the \
         lamp's context of a byte adds to that. `top_half` is what an interrupt does.\n\
         - `arm.cuts`, `riscv.cuts` and `msp430.cuts` are points in machine code at which the power failed\n  in programs \
         with models of lamps, buttons, an ADC, a radio and a clock.\n\
         - `qemu_kills` are kills of a program with a thermometer on QEMU's I2C bus: its registers are as\n  committed \
         before each first use.\n\
         - `toggle_percent` is what the own commit adds to the bare toggle, in cycles. In the paper a call\n  on a stack of \
         its own adds 1325 %. `sense`, `sleep`, `wake` and `send` are other calls of its third\n  table, with what the \
         bare ones take.\n\
         - `rsa`, `leds`, `sense`, `wsn` and their like are programs of that paper on an MSP430:\n  lab/EVALUATION.md has \
         them, and says what is what.",
        "device.",
    ),
    (
        "Mirrors",
        "A step that changes 8 bytes of a struct of 64, by `nv-replay` over `nv-mirror`, and the whole struct stored by two other \
         crates.",
        "mirror.",
    ),
    (
        "Async tasks over a mirror",
        "Cuts of the suites, and resets in QEMU, where embassy runs three tasks.",
        "async.",
    ),
    (
        "Lists, machine code",
        "`nvlist`, in the same way.",
        "nvlist.",
    ),
    (
        "The same lists with an undo log, machine code",
        "An insertion by a transaction of `pmem-tx`.",
        "undo_list.",
    ),
    (
        "The MSP430's emulator",
        "Instructions compared with another emulator's.",
        "msp430.",
    ),
    (
        "Exploration",
        "On the machine that made this page, one core. A cut is a point that was judged, a boot a distinct state that was \
         started and checked.",
        "powerfail.",
    ),
    (
        "Memory safety",
        "Probes are attempts to break memory safety from safe code: each does not compile, or runs and does no harm. Open ones \
         are the misuses that docs/INVARIANTS.md lists.",
        "soundness.",
    ),
    (
        "Preempted transactions",
        "A second context runs between any two stores of the first, and the power is cut everywhere.",
        "contexts.",
    ),
    (
        "Flipped bits in a heap's image",
        "Every bit of an image is flipped, one at a time. Spread counts the flips that lost an object they did not touch.",
        "heap.bit_flips",
    ),
    (
        "Damaged pages of a heap's image",
        "A page of the image holds noise. Spread counts the pages that lost an object they did not touch.",
        "heap.damaged_pages",
    ),
    (
        "Campaigns",
        "What the suites of all crates cut and booted.",
        "tests.",
    ),
];

/// Figures that depend on the machine or on how much is run: shown, never compared.
fn varies(key: &str) -> bool {
    let counts = [
        "cuts",
        "boots",
        "boots_per_second",
        "failures",
        "scenarios",
        "planted",
        "caught",
        "interrupts",
    ];
    let of_the_rig = |k: &str| {
        ["machine.", "threads.", "rtos.", "mirror.", "device."]
            .iter()
            .any(|p| k.starts_with(p))
            && k.split('.').any(|w| counts.contains(&w))
    };
    let of_suites = [
        "heap.cuts",
        "heap.boots",
        "heap.failures",
        "mirror.cuts",
        "mirror.failures",
        "checkpoint.cuts",
        "checkpoint.boots",
        "checkpoint.failures",
        "heap.bit_flips",
        "heap.bit_flips_spread",
        "heap.damaged_pages",
        "heap.damaged_pages_spread",
        "threads.nvm_per_thread",
        "threads.preemption_points",
        "rtos.preemption_points",
        "rtos.qemu_kills",
        "rtos.qemu_failures",
        "rtos.programs.qemu_kills",
        "rtos.programs.qemu_failures",
    ];
    // How bytes are copied is up to the C library, which asks the processor.
    key.ends_with(".ir_total")
        || yields::varies(key)
        || of_suites.contains(&key)
        || [
            "powerfail.",
            "tests.",
            "msp430.",
            "soundness.",
            "contexts.",
            "adoption.",
            "loop.",
            "async.",
        ]
        .iter()
        .any(|p| key.starts_with(p))
        || of_the_rig(key)
}

/// Figures that are better when they are larger.
fn more_is_better(key: &str) -> bool {
    key.contains(".yield_max")
        || key.contains(".yield_") && key.ends_with("ms")
        || key.starts_with("heap.usable_")
        || key.contains(".heap_usable_")
        || key.ends_with(".identical")
        || intermittent::more_is_better(key)
}

/// With thousands apart.
pub fn shown(v: f64) -> String {
    if v.fract() != 0.0 && v.abs() < 1000.0 {
        return format!("{v:.2}");
    }
    let digits = format!("{:.0}", v.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    if v < 0.0 { format!("-{out}") } else { out }
}

pub fn committed(project: &Project) -> Result<Figures> {
    read(&project.root.join(FIGURES)).context("run cargo xtask evaluate --json PATH")
}

/// Writes the figures and what shows them.
pub fn write(project: &Project, figures: &Figures) -> Result<()> {
    std::fs::write(project.root.join(FIGURES), json(figures))?;
    std::fs::write(project.root.join(TABLES), tables(figures))?;
    if let Some(text) = heap::document::made(project, figures)? {
        std::fs::write(project.root.join(heap::document::PATH), text)?;
    }
    for (name, svg) in plot::all(figures)? {
        let path = project.root.join(IMAGES).join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&project.root))?;
        std::fs::write(path, svg)?;
    }
    Ok(())
}

/// **Errors**: a document is not the one that these figures give.
pub fn fresh(project: &Project, figures: &Figures) -> Result<()> {
    let mut made = vec![(TABLES.to_owned(), tables(figures))];
    made.extend(heap::document::made(project, figures)?.map(|t| (heap::document::PATH.into(), t)));
    made.extend(
        plot::all(figures)?
            .into_iter()
            .map(|(n, svg)| (format!("{IMAGES}/{n}"), svg)),
    );
    for (path, text) in made {
        if std::fs::read_to_string(project.root.join(&path))
            .ok()
            .as_ref()
            != Some(&text)
        {
            bail!(
                "{path} is not what {FIGURES} gives: cargo xtask evaluate --json PATH writes both"
            );
        }
    }
    Ok(())
}

/// **Errors**: a figure is missing on either side, or more than 2 % worse.
pub fn compare(committed: &Figures, now: &Figures) -> Result<()> {
    let mut wrong = Vec::new();
    for (key, value) in now.iter().filter(|f| !varies(f.0)) {
        match committed.get(key) {
            None => wrong.push(format!("{key} is not in {FIGURES}")),
            Some(was) if more_is_better(key) && *value >= was * 0.98 => {}
            Some(was) if more_is_better(key) || has_grown(*was, *value) => {
                wrong.push(format!("{key}: {was} became {value}"))
            }
            Some(_) => {}
        }
    }
    for key in committed
        .keys()
        .filter(|k| !varies(k) && !now.contains_key(*k))
    {
        wrong.push(format!("{key} is in {FIGURES} but was not measured"));
    }
    if !wrong.is_empty() {
        bail!(
            "{}\nif this is meant: cargo xtask evaluate --check --json {FIGURES}",
            wrong.join("\n")
        );
    }
    Ok(())
}

/// The committed figures, with the exact ones as measured now.
pub fn accept(mut committed: Figures, now: Figures) -> Figures {
    committed.retain(|key, _| varies(key));
    committed.extend(now.into_iter().filter(|(key, _)| !varies(key)));
    committed
}

fn tables(figures: &Figures) -> String {
    let mut out = String::from(
        "# Costs\n\nGenerated by `cargo xtask evaluate`; checked by `cargo xtask ci`, which fails when a count of stores, bytes\n\
         or instructions gets more than 2 % worse.\n",
    );
    for (title, about, prefix) in SECTIONS {
        let mine: Vec<_> = figures.iter().filter(|f| f.0.starts_with(prefix)).collect();
        if mine.is_empty() {
            continue;
        }
        let _ = write!(out, "\n## {title}\n\n{about}\n\n| figure | |\n|---|---:|\n");
        for (key, value) in mine {
            let _ = writeln!(out, "| `{key}` | {} |", shown(*value));
        }
        out += &plot::shown_under(prefix, figures);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, v: f64) -> Figures {
        Figures::from([(key.to_owned(), v)])
    }

    #[test]
    fn only_exact_figures_are_accepted() {
        let was = Figures::from([
            ("pmem_tx.gone".into(), 1.0),
            ("pmem_tx.a".into(), 2.0),
            ("powerfail.x".into(), 3.0),
        ]);
        let now = Figures::from([("pmem_tx.a".into(), 5.0), ("powerfail.x".into(), 9.0)]);
        let expected = Figures::from([("pmem_tx.a".into(), 5.0), ("powerfail.x".into(), 3.0)]);
        assert_eq!(accept(was, now), expected);
    }

    #[test]
    fn worse_missing_and_unmeasured_figures_are_errors() {
        let was = one("pmem_tx.a", 100.0);
        assert!(compare(&was, &one("pmem_tx.a", 102.0)).is_ok());
        assert!(compare(&was, &one("pmem_tx.a", 103.0)).is_err());
        assert!(compare(&was, &Figures::new()).is_err());
        assert!(compare(&Figures::new(), &was).is_err());
        assert!(compare(&one("pmem_tx.a", 0.0), &one("pmem_tx.a", 1.0)).is_err());
        assert!(compare(&one("powerfail.x", 1.0), &one("powerfail.x", 9.0)).is_ok());
        assert!(compare(&one("machine.arm.cuts", 1.0), &Figures::new()).is_ok());
        assert!(compare(&one("threads.arm.cuts", 1.0), &Figures::new()).is_ok());
        assert!(compare(&one("threads.turn.instructions", 1.0), &Figures::new()).is_err());
        assert!(compare(&one("adoption.msrv_ok", 1.0), &Figures::new()).is_ok());
        for key in ["heap.open_read_max", "record.erases_1000_boots_multiwrite"] {
            assert!(compare(&one(key, 100.0), &one(key, 103.0)).is_err());
            assert!(compare(&one(key, 100.0), &Figures::new()).is_err());
        }
        let cost = "machine.arm.update_8.instructions";
        assert!(compare(&one(cost, 50.0), &one(cost, 60.0)).is_err());
        let room = |v| one("heap.usable_32", v);
        assert!(
            compare(&room(0.75), &room(0.74)).is_ok() && compare(&room(0.75), &room(0.8)).is_ok()
        );
        assert!(compare(&room(0.75), &room(0.73)).is_err());
    }

    #[test]
    fn numbers_are_shown_with_thousands_apart() {
        assert_eq!(
            (shown(1234567.0), shown(12.0), shown(1.5)),
            ("1,234,567".into(), "12".into(), "1.50".into())
        );
    }
}
