//! `cargo xtask sizes`: what each crate adds to a program, on each target.

mod decode;
mod elf;
mod own;
mod stack;

use crate::figures::Figures;
use crate::project::{BARE, Project, has_sources, has_target, linker, nightly};
use crate::run::{Outcome, Step, capture, cargo, cargo_nightly};
use anyhow::{Context, Result, bail};
use elf::Size;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Measures what each crate adds to a program, and writes lab/SIZES.md
///
/// The programs are those of xtask/size-probes, built for the bare targets.
#[derive(clap::Args)]
pub struct Args {
    /// Compare with lab/SIZES.md instead of writing it: more than 2 % (and 16 bytes) larger is a
    /// failure
    #[arg(long)]
    check: bool,
    /// Where to write `<package>.<target>.code`, `.code_own`, `.rodata`, `.ram`, `.nvm` and, where
    /// it is known, `.stack`, as one flat JSON object; those of other programs as
    /// `probe.<program>.<target>.code`, …
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

const DOC: &str = "lab/SIZES.md";

/// The 16-bit target. It needs a nightly toolchain.
const MSP430: &str = "msp430-none-elf";

/// A Cortex-M4.
const CORTEX_M4: &str = "thumbv7em-none-eabihf";

/// How the names of whole programs begin, which are no part of the table.
const PROGRAM: &str = "program_";

/// Program and target.
type Table = BTreeMap<(String, String), Size>;

/// What was measured.
struct Measured {
    table: Table,
    /// Bytes of a medium of 4 KiB that a crate keeps for itself, by package and size of the atomic
    /// unit.
    overhead: Overhead,
    packages: Vec<String>,
}

/// `cargo xtask sizes`.
pub fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    crate::install::install_rust()?;
    let step = Step::alone(project.target.join("xtask/sizes.log"), "sizes");
    let all = measure(&project, &step)?;
    if let Some(path) = a.json {
        std::fs::write(
            &path,
            crate::figures::json(&figures(&all.table, &all.overhead, &all.packages)),
        )
        .with_context(|| path.display().to_string())?;
    }
    let committed = project.root.join(DOC);
    if a.check {
        let said = compare(&all.table, &std::fs::read_to_string(committed)?)?;
        drop(step);
        println!("{said}");
        return Ok(());
    }
    let doc = render(&all);
    drop(step);
    std::fs::write(committed, &doc)?;
    print!("{doc}");
    Ok(())
}

/// The step of `cargo xtask ci`.
pub fn check(project: &Project, step: &Step) -> Result<Outcome> {
    if let Some(how) = missing() {
        return Ok(Outcome::Skipped(how));
    }
    let doc = std::fs::read_to_string(project.root.join(DOC))
        .with_context(|| format!("{DOC}: run cargo xtask sizes"))?;
    Ok(compare(&measure(project, step)?.table, &doc)?.into())
}

/// What is missing to build the probes, as a person must type it.
fn missing() -> Option<String> {
    if let Some(t) = BARE.iter().find(|t| !has_target("", t)) {
        return Some(format!("needs: rustup target add {t}"));
    }
    let narrow = nightly().is_some() && has_sources("nightly") && linker("nightly").is_some();
    (!narrow).then(|| "needs: rustup toolchain install nightly -c rust-src".into())
}

/// Compares with the committed table. **Errors**: something grew, or the table is not of these
/// programs.
fn compare(now: &Table, doc: &str) -> Result<String> {
    let committed = parse(doc);
    let mut wrong = Vec::new();
    for (key, size) in now {
        let Some(was) = committed.get(key) else {
            wrong.push(format!("{} on {} is not in {DOC}", key.0, key.1));
            continue;
        };
        let flash = was.code + was.constants;
        let deeper = |(now, was): (u64, u64)| now > was + (was / 50).max(16);
        if size.code + size.constants > flash + (flash / 50).max(16)
            || size.ram > was.ram
            || size.stack.zip(was.stack).is_some_and(deeper)
        {
            wrong.push(format!("{} on {}: {was:?} became {size:?}", key.0, key.1));
        }
    }
    for key in committed.keys().filter(|k| !now.contains_key(*k)) {
        wrong.push(format!(
            "{} on {} is in {DOC} but not measured",
            key.0, key.1
        ));
    }
    if !wrong.is_empty() {
        bail!("{}\nif this is meant: cargo xtask sizes", wrong.join("\n"));
    }
    Ok(format!("{} programs as in {DOC}", now.len()))
}

/// Every probe on every target, less the empty program.
///
/// **Errors**: a crate's minimal program, the one with the crate's name, holds code that panics or
/// formats.
fn measure(project: &Project, step: &Step) -> Result<Measured> {
    if let Some(how) = missing() {
        bail!(how);
    }
    let packages: Vec<_> = project.published().map(|p| p.name.clone()).collect();
    let mut table = Table::new();
    for target in BARE.into_iter().chain([MSP430]) {
        table.extend(measure_on(project, target, &packages, step)?);
    }
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["run", "--quiet", "-p", "size-probes", "--bin", "overhead"]);
    let mut overhead = BTreeMap::new();
    for line in capture(c)?.lines() {
        let [package, unit, bytes] = line.split(' ').collect::<Vec<_>>()[..] else {
            bail!("overhead: `{line}`");
        };
        overhead.insert((package.to_owned(), unit.to_owned()), bytes.parse()?);
    }
    Ok(Measured {
        table,
        overhead,
        packages,
    })
}

/// Every probe on one target, less the empty program.
///
/// **Errors**: as [`measure`].
fn measure_on(project: &Project, target: &str, packages: &[String], step: &Step) -> Result<Table> {
    let probes = project
        .package("size-probes")
        .context("no package size-probes")?;
    let bins = probes.targets.iter().filter(|t| t.1 == "bin");
    let names = bins.map(|t| t.0.as_str());
    let names = names.filter(|n| !matches!(*n, "empty" | "overhead") && !n.starts_with(PROGRAM));
    let narrow = target == MSP430;
    let mut c = if narrow { cargo_nightly() } else { cargo() };
    c.current_dir(&project.root)
        .args(["build", "-p", "size-probes", "--profile", "size"])
        .args(["--bins", "--target", target]);
    if narrow {
        let ld = linker("nightly").context("no linker")?;
        c.arg("-Zbuild-std=core")
            .env("CARGO_TARGET_MSP430_NONE_ELF_LINKER", ld);
    }
    step.run(c)?;
    let one = |name: &str| {
        let path = project.target.join(target).join("size").join(name);
        std::fs::read(&path).with_context(|| path.display().to_string())
    };
    let empty = elf::size(&one("empty")?)?;
    let mut table = Table::new();
    let mut heavy = Vec::new();
    for name in names {
        let program = one(name)?;
        let minimal = packages.iter().any(|p| p.replace('-', "_") == name);
        if minimal && let Some(symbol) = elf::heavy(&program)? {
            heavy.push(format!("{name} on {target} holds {symbol}"));
        }
        let key = (name.to_owned(), target.to_owned());
        table.insert(key, elf::size(&program)?.less(empty));
    }
    if !heavy.is_empty() {
        bail!(
            "a minimal program neither panics nor formats\n{}",
            heavy.join("\n")
        );
    }
    Ok(table)
}

/// The figures of the probes on a Cortex-M4.
///
/// **Errors**: as `cargo xtask sizes`.
pub fn on_cortex_m4(project: &Project, step: &Step) -> Result<Figures> {
    let packages: Vec<_> = project.published().map(|p| p.name.clone()).collect();
    let table = measure_on(project, CORTEX_M4, &packages, step)?;
    Ok(figures(&table, &BTreeMap::new(), &packages))
}

/// Bytes of code that the source of `nv-rtos` makes in a program with two threads and an object of
/// each kind, on `thumbv7em`, with `opt-level = "s"`. Its port does nothing.
pub fn kernel_code(project: &Project, step: &Step) -> Result<u64> {
    own::code(&cortex_m4(project, "rtos", step)?, "/crates/rtos/src/")
}

/// Bytes of code and constants of a whole program of `examples/programs`, on `thumbv7em`, with
/// `opt-level = "s"`.
pub fn program_code(project: &Project, name: &str, step: &Step) -> Result<u64> {
    let path = cortex_m4(project, &format!("{PROGRAM}{name}"), step)?;
    let program = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let size = elf::size(&program)?;
    Ok(size.code + size.constants)
}

/// Builds a probe for `thumbv7em`, with `opt-level = "s"`. Where it is.
fn cortex_m4(project: &Project, name: &str, step: &Step) -> Result<PathBuf> {
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["build", "-p", "size-probes", "--bin", name])
        .args(["--profile", "size", "--config", "profile.size.debug=1"])
        .args(["--target", CORTEX_M4]);
    step.run(c)?;
    Ok(project.target.join(CORTEX_M4).join("size").join(name))
}

/// Bytes of a medium that a crate keeps for itself, by package and size of the atomic unit.
type Overhead = BTreeMap<(String, String), u64>;

/// The figures of the minimal programs, which are named like a package, by its name; of the other
/// probes by `probe.` and theirs.
fn figures(table: &Table, overhead: &Overhead, packages: &[String]) -> Figures {
    let mut out = Figures::new();
    for ((name, target), size) in table {
        let package = packages.iter().find(|p| p.replace('-', "_") == *name);
        let p = package.map_or_else(|| format!("probe.{name}"), String::clone);
        let short = target.split('-').next().unwrap_or_default();
        let short = short.strip_suffix("eabihf").unwrap_or(short);
        let mut put = |what: &str, v: u64| out.insert(format!("{p}.{short}.{what}"), v as f64);
        put("code", size.code);
        put("code_own", size.own);
        put("rodata", size.constants);
        put("ram", size.ram);
        if let Some(v) = size.stack {
            put("stack", v);
        }
        let unit = if target == MSP430 { "2" } else { "4" };
        if let Some(v) = overhead.get(&(p.clone(), unit.into())) {
            put("nvm", *v);
        }
    }
    out
}

fn render(all: &Measured) -> String {
    let mut out = String::from(
        "# Sizes\n\n\
         Generated by `cargo xtask sizes`; checked by `cargo xtask ci`.\n\n\
         What each program of `xtask/size-probes/src/bin` takes beyond one that does nothing, in bytes: `opt-level = \"s\"`, fat LTO,\n\
         no default features; stable Rust, and the nightly for MSP430. A program that has the name of a crate is its minimal program. Everything\n\
         in it counts: its own types and closures, the functions of other crates, and those of the compiler that it needs; own code is without\n\
         the compiler's (copying, filling, comparing, division), which most programs have anyway, and without the probe's medium. The checks of `open` are\n\
         on. RAM is static data: the number of the next session, which tells handles of earlier openings apart, where handles leave transactions.\n\
         The stack is the deepest way of calls from the entry in the program's machine code, each function with all that it ever takes; \
         what interrupts need comes on top.\n\
         There is none where a function is called through a pointer, or calls itself. What a pool checks is called so, one function for each type, and\n\
         shows its handles by such a call again, as a step's work calls the step's body: machine code does not say that none of them comes back to\n\
         one that runs, so no deepest way can be told from it. `cargo xtask machine` measures it: `machine.M.stack` in [costs.json](../docs/costs.json).\n\
         The minimal program of vnv-heap has the policy with the least code, `Lru`; `vnv_heap_predict` is the same with the default one.\n\
         That the minimal programs hold neither panics nor formatting is checked by their symbols.\n\n\
         | program | target | code | own | constants | RAM | stack |\n|---|---|---:|---:|---:|---:|---:|\n",
    );
    for ((name, target), s) in &all.table {
        let _ = writeln!(
            out,
            "| {name} | {target} | {} | {} | {} | {} | {} |",
            s.code,
            s.own,
            s.constants,
            s.ram,
            s.stack.map_or("-".into(), |v| v.to_string())
        );
    }
    out += "\n## Non-volatile memory\n\n\
            What a crate keeps for itself of a region of 4,096 bytes with the default configuration, and one root; each object has a header of one\n\
            atomic unit besides. A replayed program's table is part of it.\n\n\
            | crate | atomic unit | bytes |\n|---|---:|---:|\n";
    for ((package, unit), bytes) in &all.overhead {
        let _ = writeln!(out, "| {package} | {unit} | {bytes} |");
    }
    out
}

fn parse(doc: &str) -> Table {
    doc.lines()
        .filter_map(|l| {
            let c: Vec<_> = l.split('|').map(str::trim).collect();
            let [_, name, target, code, own, constants, ram, stack, _] = c[..] else {
                return None;
            };
            let size = Size {
                code: code.parse().ok()?,
                own: own.parse().ok()?,
                constants: constants.parse().ok()?,
                ram: ram.parse().ok()?,
                stack: stack.parse().ok(),
            };
            Some(((name.to_owned(), target.to_owned()), size))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u64) -> Size {
        Size {
            code,
            own: code,
            constants: 5,
            ram: 3,
            stack: Some(code / 4),
        }
    }

    fn all(code: u64) -> Measured {
        Measured {
            table: [(("pmem_tx".into(), "thumbv7em-none-eabihf".into()), of(code))].into(),
            overhead: [(("pmem-tx".into(), "4".into()), 7)].into(),
            packages: vec!["pmem-tx".into()],
        }
    }

    #[test]
    fn the_table_reads_back() {
        let a = all(12);
        assert_eq!(parse(&render(&a)), a.table);
    }

    #[test]
    fn growth_is_a_failure() {
        let doc = render(&all(1000));
        assert!(compare(&all(1010).table, &doc).is_ok());
        assert!(compare(&all(1030).table, &doc).is_err());
        assert!(compare(&Table::new(), &doc).is_err());
    }

    #[test]
    fn figures_have_the_names_of_packages() {
        let all = all(12);
        let v = figures(&all.table, &all.overhead, &all.packages);
        assert_eq!(v["pmem-tx.thumbv7em.code"], 12.0);
        assert_eq!(v["pmem-tx.thumbv7em.nvm"], 7.0);
        assert_eq!(v["pmem-tx.thumbv7em.stack"], 3.0);
        let v = figures(&all.table, &all.overhead, &[]);
        assert_eq!(v["probe.pmem_tx.thumbv7em.code"], 12.0);
    }
}
