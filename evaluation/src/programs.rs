//! The whole programs of `examples/programs` on a Cortex-M4: what each build costs, and what IntOS
//! takes for the same work.

use super::{Figures, Measured, Options};
use anyhow::{Context, Result};
use xtask::project::Project;
use xtask::run::Step;

/// How the groups of whole programs begin.
pub const GROUP: &str = "program-";
const MACHINE: &str = "arm";

/// A program, and what IntOS takes for it without protection: instructions and bytes of
/// non-volatile memory.
struct Baseline {
    name: &'static str,
    instructions: f64,
    nvm_bytes: f64,
}

const fn of(name: &'static str, instructions: u32, nvm_bytes: u32) -> Baseline {
    Baseline {
        name,
        instructions: instructions as f64,
        nvm_bytes: nvm_bytes as f64,
    }
}

/// IntOS (OSDI'24) from its public artifact, measured in QEMU on a Cortex-M4 in November 2026: its
/// build without crash safety and without its time accounting, with fat LTO at -O3, from the start
/// to the end of each benchmark without idle loops; the bytes of its release build.
const INTOS: [Baseline; 11] = [
    of("bc", 329_025, 16_004),
    of("mlp", 171_619, 14_404),
    of("ar", 5_558_266, 610_804),
    of("kv", 6_070, 3_116),
    of("sen", 11_468, 4_789),
    of("em", 112_031, 88_872),
    of("mq", 82_717, 37_064),
    of("etl", 219_046, 56_396),
    of("pred", 246_757, 72_649),
    of("stats", 258_214, 80_578),
    of("train", 31_165, 3_593),
];

/// Figure of a program, and what the rig calls it.
const OF_PROGRAM: [(&str, &str); 12] = [
    ("instructions", "protected.instructions"),
    ("nvm_bytes", "protected.nvm_bytes"),
    ("open_instructions", "protected.open_instructions"),
    ("open_nvm_bytes", "protected.open_nvm_bytes"),
    ("unprotected_instructions", "unprotected.instructions"),
    ("unprotected_nvm_bytes", "unprotected.nvm_bytes"),
    ("volatile_instructions", "volatile.instructions"),
    ("volatile_nvm_bytes", "volatile.nvm_bytes"),
    ("identical", "identical"),
    ("cut_ratio", "cut_ratio"),
    ("cut_every", "cut_every"),
    ("boot_instructions", "boot_instructions"),
];

/// The programs that are killed in QEMU, on each machine so many times; the evaluation `rtos` kills
/// `mq` and `em`.
const KILLED: [&str; 5] = ["kv", "etl", "pred", "stats", "train"];
const KILLS: u32 = 100;

/// What is the same on every computer.
pub fn exact(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let costs = xtask::machine::costs_of(project, MACHINE, GROUP, step)?;
    let names = INTOS.each_ref().map(|b| b.name);
    let mut figures = figures(&costs, &names)?;
    figures.extend(means(&figures));
    Ok(figures.into())
}

/// The same, and programs that are cut after seeded periods.
pub fn all(project: &Project, step: &Step, options: Options) -> Result<Measured> {
    let mut figures = exact(project, step, options)?.figures;
    let (cut, wrong) = xtask::machine::campaign(project, Some(GROUP), false, step)?;
    for Baseline { name, .. } in INTOS {
        let of = |machine: &str| cut.get(&format!("machine.{machine}.program_{name}.cuts"));
        let cuts = ["arm", "riscv"].into_iter().filter_map(of).sum();
        figures.insert(format!("rtos.{name}.cuts"), cuts);
    }
    let programs = KILLED.map(|name| (format!("{GROUP}{name}"), format!("{name}_protected")));
    let programs = programs.each_ref().map(|(group, name)| (&**group, &**name));
    let (kills, failed) = xtask::qemu::kills_of(project, &programs, KILLS, step)?;
    figures.insert("rtos.programs.qemu_kills".to_owned(), kills.into());
    figures.insert(
        "rtos.programs.qemu_failures".to_owned(),
        failed.len() as f64,
    );
    let wrong = wrong.or((!failed.is_empty()).then(|| failed.join("\n")));
    Ok(Measured { figures, wrong })
}

/// The figures of programs, from what the rig has measured.
pub fn figures(costs: &Figures, names: &[&str]) -> Result<Figures> {
    let mut out = Figures::new();
    for name in names {
        for (figure, of_rig) in OF_PROGRAM {
            let key = format!("machine.{MACHINE}.program_{name}.{of_rig}");
            let found = costs.get(&key).copied();
            let found = found.with_context(|| format!("no figure {key}"))?;
            out.insert(format!("rtos.{name}.{figure}"), found);
        }
    }
    Ok(out)
}

/// Geometric means over all programs.
fn means(figures: &Figures) -> Figures {
    let of = |name: &str, figure: &str| {
        let found = figures.get(&format!("rtos.{name}.{figure}"));
        found.copied().unwrap_or(f64::NAN)
    };
    let mean = |ratio: &dyn Fn(&Baseline) -> f64| {
        let logs = INTOS.iter().map(|b| ratio(b).ln());
        (logs.sum::<f64>() / INTOS.len() as f64).exp()
    };
    let instructions = |b: &Baseline| of(b.name, "instructions");
    let unprotected = |b: &Baseline| of(b.name, "unprotected_instructions");
    let all: [(&str, f64); 5] = [
        ("base", mean(&|b| instructions(b) / b.instructions)),
        (
            "unprotected_base",
            mean(&|b| unprotected(b) / b.instructions),
        ),
        ("own", mean(&|b| instructions(b) / unprotected(b))),
        (
            "nvm_bytes",
            mean(&|b| of(b.name, "nvm_bytes") / b.nvm_bytes),
        ),
        ("cuts", mean(&|b| of(b.name, "cut_ratio"))),
    ];
    all.map(|(key, v)| (format!("rtos.geomean_{key}"), v))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_figure_is_an_error() {
        let key = |name: &str, of: &str| format!("machine.arm.program_{name}.{of}");
        let each = |name| OF_PROGRAM.map(|(_, of)| (key(name, of), 7.0));
        let mut costs: Figures = ["mq", "em"].into_iter().flat_map(each).collect();
        assert_eq!(figures(&costs, &["em"]).unwrap()["rtos.em.nvm_bytes"], 7.0);
        costs.remove(&key("mq", "identical"));
        assert!(figures(&costs, &["em", "mq"]).is_err());
    }

    #[test]
    fn means_are_over_all_programs() {
        let mut figures = Figures::new();
        for b in &INTOS {
            let double = if b.name == "ar" { 2.0 } else { 1.0 };
            for (figure, v) in [
                ("instructions", 4.0 * b.instructions * double),
                ("unprotected_instructions", 2.0 * b.instructions),
                ("nvm_bytes", b.nvm_bytes / 2.0),
                ("cut_ratio", 1.0),
            ] {
                figures.insert(format!("rtos.{}.{figure}", b.name), v);
            }
        }
        let means = means(&figures);
        let more = 2f64.powf(1.0 / 11.0);
        for (key, wanted) in [
            ("base", 4.0 * more),
            ("unprotected_base", 2.0),
            ("own", 2.0 * more),
            ("nvm_bytes", 0.5),
            ("cuts", 1.0),
        ] {
            let found = means[&format!("rtos.geomean_{key}")];
            assert!((found - wanted).abs() < 1e-9, "{key}: {found}");
        }
    }
}
