//! The whole programs of `lab/programs` on a Cortex-M4: what each build costs, and what IntOS
//! takes for the same work.

mod paper;
mod port;
mod tables;

use super::draw::{self, File};
use super::heap::document::Table;
use super::report::shown;
use super::{Figures, Measured, Options, plot};
use anyhow::{Context, Result};
use xtask::machine::Which;
use xtask::project::Project;
use xtask::run::Step;

/// How the groups of whole programs begin.
pub const GROUP: &str = "program-";
const MACHINE: &str = "arm";

/// A program, and what IntOS takes for it: instructions without protection and with it, bytes of
/// non-volatile memory without it.
struct Baseline {
    name: &'static str,
    instructions: f64,
    safe: f64,
    nvm_bytes: f64,
}

const fn of(name: &'static str, instructions: u32, safe: u32, nvm_bytes: u32) -> Baseline {
    Baseline {
        name,
        instructions: instructions as f64,
        safe: safe as f64,
        nvm_bytes: nvm_bytes as f64,
    }
}

/// IntOS (OSDI'24) from its public artifact, measured in QEMU on a Cortex-M4 in November 2026: its
/// builds without crash safety and with it, both without its time accounting, with fat LTO at -O3,
/// from the start to the end of each benchmark without idle loops; the bytes of its release build
/// without crash safety.
const INTOS: [Baseline; 11] = [
    of("bc", 329_025, 435_242, 16_004),
    of("mlp", 171_619, 271_942, 14_404),
    of("ar", 5_558_266, 7_217_783, 610_804),
    of("kv", 6_070, 17_549, 3_116),
    of("sen", 11_468, 13_816, 4_789),
    of("em", 112_031, 151_397, 88_872),
    of("mq", 82_717, 194_423, 37_064),
    of("etl", 219_046, 466_583, 56_396),
    of("pred", 246_757, 547_502, 72_649),
    of("stats", 258_214, 576_131, 80_578),
    of("train", 31_165, 40_995, 3_593),
];

/// The programs.
pub const NAMES: [&str; INTOS.len()] = {
    let (mut names, mut i) = ([""; INTOS.len()], 0);
    while i < names.len() {
        names[i] = INTOS[i].name;
        i += 1;
    }
    names
};

/// Figure of a program, and what the rig calls it.
const OF_PROGRAM: [(&str, &str); 19] = [
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
    ("restart_instructions", "restart_instructions"),
    ("max_step_instructions", "max_step_instructions"),
    ("steps", "steps"),
    ("full_restart_instructions", "full_restart_instructions"),
    ("full_rollback_instructions", "full_rollback_instructions"),
    (
        "longest_restart_instructions",
        "longest_restart_instructions",
    ),
    ("rollback_instructions", "rollback_instructions"),
];

/// The programs that are killed in QEMU, on each machine so many times; the evaluation `rtos` kills
/// `mq` and `em`.
const KILLED: [&str; 5] = ["kv", "etl", "pred", "stats", "train"];
const KILLS: u32 = 100;

/// What is the same on every computer.
pub fn exact(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let which = |lab| Which {
        lab,
        machine: Some(MACHINE),
        scenario: Some(GROUP),
    };
    let mut costs = xtask::machine::costs(project, which(false), step)?;
    costs.extend(xtask::machine::costs(project, which(true), step)?);
    let mut figures = figures(&costs, &NAMES)?;
    figures.extend(means(&figures));
    figures.extend(tables::figures(&costs)?);
    figures.extend(tables::lines(project)?);
    figures.extend(super::intermittent::exact(project, step)?);
    Ok(figures.into())
}

/// The same, and programs that are cut after seeded periods.
pub fn all(project: &Project, step: &Step, options: Options) -> Result<Measured> {
    let mut figures = exact(project, step, options)?.figures;
    let which = Which {
        lab: true,
        scenario: Some(GROUP),
        ..Which::default()
    };
    let (cut, wrong) = xtask::machine::campaign(project, which, false, step)?;
    for Baseline { name, .. } in INTOS {
        let of = |machine: &str| cut.get(&format!("machine.{machine}.program_{name}.cuts"));
        let cuts = ["arm", "riscv"].into_iter().filter_map(of).sum();
        figures.insert(format!("rtos.{name}.cuts"), cuts);
    }
    let programs = KILLED.map(|name| (format!("{GROUP}{name}"), format!("{name}_protected")));
    let programs = programs.each_ref().map(|(group, name)| (&**group, &**name));
    let (kills, failed) = xtask::qemu::kills_of(&project.lab()?, &programs, KILLS, step)?;
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

const PLOT: &str = "programs.svg";

fn key(b: &Baseline, figure: &str) -> String {
    format!("rtos.{}.{figure}", b.name)
}

/// The generated part of lab/EVALUATION.md. Empty when nothing was measured.
pub fn part(name: &str, f: &Figures) -> Option<String> {
    if name != "programs" {
        return tables::part(name, f);
    }
    if !f.contains_key(&key(&INTOS[0], "instructions")) {
        return Some(String::new());
    }
    let ratio = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => format!("{:.2}", a / b),
        _ => "-".into(),
    };
    let head = [
        "instructions",
        "IntOS, unprotected",
        "IntOS, protected",
        "ours, unprotected",
        "ours, protected",
        "the last over IntOS, unprotected",
        "over ours, unprotected",
    ];
    let mut instructions = Table::new(f, &head);
    let head = [
        "",
        "NVM bytes of IntOS, unprotected",
        "ours, protected",
        "ratio",
        "longest boot with cuts, instructions",
        "to the first store of a thread",
        "a cut each",
        "with cuts, over without",
    ];
    let mut others = Table::new(f, &head);
    for b in &INTOS {
        let of = |figure: &str| f.get(&key(b, figure)).copied();
        let (protected, unprotected) = (of("instructions"), of("unprotected_instructions"));
        let all = [
            shown(b.instructions),
            shown(b.safe),
            instructions.figure(&key(b, "unprotected_instructions")),
            instructions.figure(&key(b, "instructions")),
            ratio(protected, Some(b.instructions)),
            ratio(protected, unprotected),
        ];
        instructions.row(b.name, all);
        let all = [
            shown(b.nvm_bytes),
            others.figure(&key(b, "nvm_bytes")),
            ratio(of("nvm_bytes"), Some(b.nvm_bytes)),
            others.figure(&key(b, "boot_instructions")),
            others.figure(&key(b, "restart_instructions")),
            others.figure(&key(b, "cut_every")),
            ratio(of("cut_ratio"), Some(1.0)),
        ];
        others.row(b.name, all);
    }
    let mean = |name: &str| ratio(f.get(&format!("rtos.geomean_{name}")).copied(), Some(1.0));
    let none = String::new;
    let all = [none(), none(), none(), none(), mean("base"), mean("own")];
    instructions.row("geometric mean", all);
    let all = [
        none(),
        none(),
        mean("nvm_bytes"),
        none(),
        none(),
        none(),
        mean("cuts"),
    ];
    others.row("geometric mean", all);
    Some(instructions.text + "\n" + &others.text + &plot::shown(PLOT))
}

/// The charts that have something to show.
pub fn plots(f: &Figures) -> Result<Vec<File>> {
    if !f.contains_key(&key(&INTOS[0], "instructions")) {
        return Ok(Vec::new());
    }
    let names = ["IntOS, protected", "ours, unprotected", "ours, protected"];
    let groups = INTOS.each_ref().map(|b| {
        let over = |figure: &str| Some(f.get(&key(b, figure))? / b.instructions);
        let ours = [over("unprotected_instructions"), over("instructions")];
        let safe = Some(b.safe / b.instructions);
        (b.name, vec![safe, ours[0], ours[1]])
    });
    let axis = "instructions, times those of IntOS without protection";
    let mut all = vec![draw::bars(PLOT, axis, &names, &groups)?];
    all.extend(tables::plots(f)?);
    Ok(all)
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
    fn the_part_shows_what_was_measured() {
        assert_eq!(part("programs", &Figures::new()).unwrap(), "");
        assert!(part("other", &Figures::new()).is_none());
        let f = Figures::from([
            (key(&INTOS[0], "instructions"), 658_050.0),
            (key(&INTOS[0], "unprotected_instructions"), 329_025.0),
            ("rtos.geomean_own".to_owned(), 2.0),
        ]);
        let text = part("programs", &f).unwrap();
        let row = "| bc | 329,025 | 435,242 | 329,025 | 658,050 | 2.00 | 2.00 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| geometric mean |  |  |  |  | - | 2.00 |"),
            "{text}"
        );
        let svg = &plots(&f).unwrap()[0].1;
        assert!(svg.contains("train") && svg.contains("ours, protected"));
        assert!(plots(&Figures::new()).unwrap().is_empty());
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
