//! `cargo xtask firmware`: the images of all machines.

use crate::abi::{ARM, ARMV6M, MACHINES, MSP430, Machine, runs_on};
use crate::project::{Project, has_sources, has_target, linker, nightly};
use crate::run::{Step, cargo, cargo_nightly};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the firmware images of the test scenarios and prints where they are
#[derive(clap::Args)]
pub struct Args {
    /// Only this machine
    #[arg(long, value_name = "M", value_parser = ["arm", "riscv", "msp430"])]
    machine: Option<String>,
}

/// The packages of the images: those of the firmware, and those of the lab.
const IMAGES: [&str; 2] = ["relume-firmware", "lab-images"];
/// How the name of a program begins; a group's name comes next.
const IMAGE: &str = "image-";

/// The program of one machine for one group of scenarios.
pub struct Image {
    pub machine: &'static Machine,
    pub group: String,
    pub path: PathBuf,
}

pub fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    crate::install::install_rust()?;
    let step = Step::alone(project.target.join("xtask/firmware.log"), "firmware");
    for m in &MACHINES {
        if a.machine.as_ref().is_none_or(|n| m.name == n) {
            for image in build(&project, m, &step)? {
                let Image {
                    machine,
                    group,
                    path,
                } = image;
                println!("{:6} {group:8} {}", machine.name, path.display());
            }
        }
    }
    Ok(())
}

/// What is missing to build for a machine, as a person must type it.
pub fn missing(m: &Machine) -> Option<String> {
    if m.target == MSP430.target {
        (nightly().is_none() || !has_sources("nightly") || linker("nightly").is_none())
            .then(|| "rustup toolchain install nightly -c rust-src".into())
    } else {
        (!has_target("", m.target)).then(|| format!("rustup target add {}", m.target))
    }
}

/// Builds images for the Cortex-M0, on which `checkpoint` and the switch of `nv-rtos` have other
/// assembly than on the Cortex-M4. Always the group in which a checkpoint is refused in a handler,
/// and one of the kernel's; with `all` the other one of checkpoints, too.
///
/// **Errors**: as [`build`].
pub fn build_v6(project: &Project, all: bool, s: &Step) -> Result<Vec<Image>> {
    if let Some(how) = missing(&ARMV6M) {
        bail!("the {} images need:\n  {how}", ARMV6M.name);
    }
    let mut groups = vec!["checkpoint-interrupt", "rtos"];
    if all {
        groups.push("checkpoint");
    }
    let program = |group: &str| format!("{IMAGE}{group}");
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["build", "--profile", "firmware"])
        .args(["--target", ARMV6M.target])
        .args(["-p", IMAGES[0]]);
    for group in &groups {
        c.args(["--bin", &program(group)]);
    }
    s.run(c)?;
    let dir = project.target.join(ARMV6M.target).join("firmware");
    let image = |group: &str| Image {
        machine: &ARMV6M,
        group: group.to_owned(),
        path: dir.join(program(group)),
    };
    Ok(groups.into_iter().map(image).collect())
}

/// Builds the images of one machine, one for each group of scenarios: those of the firmware, or,
/// if the project is the lab, those of the lab.
///
/// **Errors**: the build fails, or what it needs is [`missing`].
pub fn build(project: &Project, m: &'static Machine, s: &Step) -> Result<Vec<Image>> {
    build_some(project, m, |_| true, s)
}

/// The same for some groups.
///
/// **Errors**: as [`build`].
pub fn build_some(
    project: &Project,
    m: &'static Machine,
    wanted: impl Fn(&str) -> bool,
    s: &Step,
) -> Result<Vec<Image>> {
    if let Some(how) = missing(m) {
        bail!("the {} images need:\n  {how}", m.name);
    }
    let images = IMAGES.iter().find_map(|name| project.package(name));
    let images = images.context("no package of images")?;
    let narrow = m.target == MSP430.target;
    let groups = images.targets.iter().filter(|t| t.1 == "bin");
    let groups = groups.filter_map(|t| t.0.strip_prefix(IMAGE));
    let groups: Vec<_> = groups.filter(|g| runs_on(g, m.name) && wanted(g)).collect();
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let mut c = project.with(if narrow { cargo_nightly() } else { cargo() });
    c.args(["build", "--profile", "firmware"])
        .args(["--target", m.target])
        .args(["-p", &images.name]);
    for group in &groups {
        c.args(["--bin", &format!("{IMAGE}{group}")]);
    }
    if narrow {
        // What is optimised for speed does not fit below 64 KiB.
        c.args(["--config", "profile.firmware.opt-level=\"s\""]);
        for_msp430(&mut c)?;
    }
    s.run(c)?;
    let dir = project.target.join(m.target).join("firmware");
    if narrow {
        frames(&dir.join("deps"))?;
    }
    let image = |group: &str| {
        let path = dir.join(format!("{IMAGE}{group}"));
        if !path.is_file() {
            bail!("{} was not built", path.display());
        }
        Ok(Image {
            machine: m,
            group: group.to_owned(),
            path,
        })
    };
    groups.into_iter().map(image).collect()
}

/// Builds the program of a thermometer on QEMU's I2C bus.
///
/// **Errors**: as [`build`].
pub fn build_tmp105(project: &Project, s: &Step) -> Result<Image> {
    if let Some(how) = missing(&ARM) {
        bail!("the {} images need:\n  {how}", ARM.name);
    }
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["build", "--profile", "firmware"])
        .args(["--target", ARM.target])
        .args(["-p", "relume-firmware-tmp105"]);
    s.run(c)?;
    let dir = project.target.join(ARM.target).join("firmware");
    Ok(Image {
        machine: &ARM,
        group: "tmp105".to_owned(),
        path: dir.join("tmp105"),
    })
}

/// Builds the program whose threads overflow their stacks, in the profile dev or release.
///
/// An MSP430 has no room for what the profile dev makes. There it keeps the checks of that profile,
/// and is optimised for size. Its core library is built here, and has no checks of its own, as the
/// one that comes with the compiler for the other targets.
///
/// **Errors**: as [`build`].
pub fn build_stacks(project: &Project, target: &str, dev: bool, s: &Step) -> Result<PathBuf> {
    let narrow = target == MSP430.target;
    let profile = if dev { "dev" } else { "release" };
    let mut c = project.with(if narrow { cargo_nightly() } else { cargo() });
    c.args(["build", "--profile", profile, "--target", target])
        .args(["-p", "relume-firmware-stacks"]);
    if narrow {
        if let Some(how) = missing(&MSP430) {
            bail!("the {} images need:\n  {how}", MSP430.name);
        }
        for setting in ["opt-level=\"s\"", "lto=\"fat\"", "codegen-units=1"] {
            c.args(["--config", &format!("profile.{profile}.{setting}")]);
        }
        let core = format!("profile.{profile}.package.core.debug-assertions=false");
        // An incremental build makes other code, and CI makes none.
        c.args(["--config", &core]).env("CARGO_INCREMENTAL", "0");
        for_msp430(&mut c)?;
        // Without the names of the sources' files it fits.
        c.args([
            "--config",
            "target.msp430-none-elf.rustflags=[\"-Zlocation-detail=none\"]",
        ]);
    }
    s.run(c)?;
    let dir = if dev { "debug" } else { "release" };
    Ok(project.target.join(target).join(dir).join("stacks"))
}

/// Builds the programs of a package of the workspace for the MSP430, with this `opt-level`. The
/// folder that they are in, and what was wrong if some of them could not be built; the others are
/// there.
///
/// **Errors**: what the build needs is missing, or a variable asks for an alignment that the stack
/// does not have.
pub fn build_for_msp430(
    project: &Project,
    package: &str,
    opt_level: &str,
    s: &Step,
) -> Result<(PathBuf, Option<anyhow::Error>)> {
    if let Some(how) = missing(&MSP430) {
        bail!("the {} images need:\n  {how}", MSP430.name);
    }
    let dir = project.target.join(MSP430.target).join("firmware");
    let programs = project.package(package);
    let programs = programs.with_context(|| format!("no package {package}"))?;
    // What is there is that of an earlier build, which may have succeeded.
    for program in programs.targets.iter().filter(|t| t.1 == "bin") {
        let _ = std::fs::remove_file(dir.join(&program.0));
    }
    let mut c = project.with(cargo_nightly());
    c.args(["build", "--bins", "--keep-going", "--profile", "firmware"])
        .args(["--target", MSP430.target, "-p", package])
        .arg("--config")
        .arg(format!("profile.firmware.opt-level={opt_level}"));
    for_msp430(&mut c)?;
    let wrong = s.run(c).err();
    frames(&dir.join("deps"))?;
    Ok((dir, wrong))
}

/// What a build for MSP430 needs: the core library from its sources, the toolchain's linker, and
/// the intermediate code for [`frames`].
fn for_msp430(c: &mut Command) -> Result<()> {
    c.arg("-Zbuild-std=core").env(
        "CARGO_TARGET_MSP430_NONE_ELF_LINKER",
        linker("nightly").context("no linker")?,
    );
    c.args([
        "--config",
        "target.msp430-none-elf.rustflags=[\"--emit=llvm-ir\"]",
    ]);
    Ok(())
}

/// What the compiler takes a stack to be aligned to on MSP430, and what it is.
const FRAME: u32 = 2;

/// Looks for variables on the stack that ask for more than [`FRAME`] in what was compiled for
/// MSP430.
///
/// LLVM does not realign the stack there, but relies on the alignment: it computes a field's
/// address by setting bits that it assumes to be clear, and gets the address of another field. Such
/// a variable comes from `#[repr(align(4))]`, in a crate or in a program.
///
/// **Errors**: there is one, or nothing was found to look at.
fn frames(deps: &Path) -> Result<()> {
    // The newest of each crate: older ones are of other flags.
    let mut newest = BTreeMap::new();
    for entry in std::fs::read_dir(deps).with_context(|| deps.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "ll") {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem
            .rsplit_once('-')
            .map_or(&*stem, |(name, _)| name)
            .to_owned();
        let at = path.metadata()?.modified()?;
        if newest.get(&name).is_none_or(|(known, _)| *known < at) {
            newest.insert(name, (at, path));
        }
    }
    // What the toolchain brings along, before it is used by anything here.
    newest.retain(|name, _| !matches!(&**name, "core" | "compiler_builtins"));
    if newest.is_empty() {
        bail!("{}: no LLVM IR", deps.display());
    }
    for (_, path) in newest.values() {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        if let Some(said) = asks_for_more(&text) {
            bail!("{}: {said}", path.display());
        }
    }
    Ok(())
}

/// The first variable in this intermediate code that asks for more than [`FRAME`].
fn asks_for_more(ir: &str) -> Option<String> {
    let mut function = "";
    for line in ir.lines() {
        if line.starts_with("define ") {
            function = line;
        }
        let Some((_, align)) = line.rsplit_once(", align ") else {
            continue;
        };
        let (align, _) = align.split_once(',').unwrap_or((align, ""));
        let is_more = align.trim().parse().is_ok_and(|n: u32| n > FRAME);
        if is_more && line.contains(" = alloca ") {
            return Some(format!(
                "a variable asks for an alignment of {align}, the stack of MSP430 has {FRAME}:\n{line}\nin {function}"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_ask_for_too_much() {
        let code = |align: &str| {
            format!(
                "define void @f() {{\n  %p = alloca [8 x i8], align {align}\n  store i32 0, ptr %q, align 8\n}}\n"
            )
        };
        assert_eq!(asks_for_more(&code("2")), None);
        for align in ["4", "16", "8, !dbg !7"] {
            let said = asks_for_more(&code(align)).unwrap();
            assert!(said.contains("%p") && said.contains("@f"), "{said}");
        }
    }
}
