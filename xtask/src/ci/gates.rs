//! The gated figures: promises of speed and size that must not get worse.
//!
//! [`GATED`] lists them with a reason each. Their values are those of [`COSTS`].

use super::Ctx;
use crate::figures::{COSTS, Figures, has_grown, printed, read};
use crate::machine::{self, Which};
use crate::project::Project;
use crate::run::{Outcome, Step, cargo};
use crate::sizes;
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

/// The list.
pub const GATED: &str = "docs/gated.toml";

/// A gated figure.
pub struct Gate {
    key: String,
    tier: Tier,
}

/// Where a figure is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// On a host, with the stable toolchain.
    Test,
    /// By the rig.
    Ci,
}

/// The list.
///
/// **Errors**: an entry has no key, tier or reason.
pub fn gates(project: &Project) -> Result<Vec<Gate>> {
    let text = std::fs::read_to_string(project.root.join(GATED)).context(GATED)?;
    let list: toml::Table = text.parse().context(GATED)?;
    let list = list.get("figure").and_then(|f| f.as_array());
    let list = list.with_context(|| format!("{GATED} lists no figure"))?;
    let gate = |entry: &toml::Value| {
        let of = |name: &str| entry.get(name).and_then(|v| v.as_str()).unwrap_or_default();
        let key = of("key").to_owned();
        let tier = match of("tier") {
            "test" => Tier::Test,
            "ci" => Tier::Ci,
            other => bail!("{GATED}: {key}: no tier `{other}`: it is test or ci"),
        };
        ensure!(!of("reason").is_empty(), "{GATED}: {key} has no reason");
        Ok(Gate { key, tier })
    };
    list.iter().map(gate).collect()
}

/// The step `figures`: stores that a host counts, and code sizes on a Cortex-M4.
pub fn on_a_host(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let mut c = cargo();
    c.current_dir(&ctx.project.root)
        .args(["build", "-p", "cost-probes", "--bin", "stores"])
        .args(["--features", "instrument"]);
    s.run(c)?;
    let stores = Command::new(ctx.project.target.join("debug/stores"));
    let mut now = printed(&s.run(stores)?);
    now.extend(sizes::on_cortex_m4(&ctx.project, s)?);
    let kernel = sizes::kernel_code(&ctx.project, s)?;
    now.insert("rtos.kernel.code".to_owned(), kernel as f64);
    compare(ctx, Tier::Test, &now)
}

/// The step `figures-machine`: instructions and stores on a Cortex-M4.
pub fn on_machines(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    if let Some(how) = machine::missing() {
        return Ok(Outcome::Skipped(how));
    }
    let which = Which {
        machine: Some("arm"),
        ..Which::default()
    };
    let now = machine::costs(&ctx.project, which, s)?;
    compare(ctx, Tier::Ci, &now)
}

fn compare(ctx: &Ctx, tier: Tier, now: &Figures) -> Result<Outcome> {
    let committed = read(&ctx.project.root.join(COSTS))?;
    let mut wrong = Vec::new();
    let mut n = 0;
    for Gate { key, .. } in gates(&ctx.project)?.iter().filter(|g| g.tier == tier) {
        match (committed.get(key), now.get(key)) {
            (None, _) => wrong.push(format!("{key} is not in {COSTS}")),
            (_, None) => wrong.push(format!("{key} was not measured")),
            (Some(was), Some(now)) if has_grown(*was, *now) => {
                wrong.push(format!("{key}: {was} became {now}"))
            }
            _ => n += 1,
        }
    }
    if !wrong.is_empty() {
        bail!(
            "{}\nif this is meant: cargo xtask evaluate --check --json {COSTS}",
            wrong.join("\n")
        );
    }
    ensure!(n > 0, "{GATED} has no figure of this step");
    Ok(format!("{n} figures as in {COSTS}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_gated_figure_is_committed_and_listed_once() {
        let project = Project::load().unwrap();
        let all = gates(&project).unwrap();
        let keys: BTreeSet<_> = all.iter().map(|g| g.key.as_str()).collect();
        assert_eq!(keys.len(), all.len());
        let committed = read(&project.root.join(COSTS)).unwrap();
        for key in keys {
            assert!(committed.contains_key(key), "{key} is not in {COSTS}");
        }
    }

    #[test]
    fn every_published_crate_that_runs_on_a_device_has_a_figure() {
        let project = Project::load().unwrap();
        let all = gates(&project).unwrap();
        for p in project.embedded() {
            let code = match &*p.name {
                // Of the kernel alone, without the crates below it.
                "nv-rtos" => "rtos.kernel.code".to_owned(),
                name => format!("{name}.thumbv7em.code"),
            };
            assert!(all.iter().any(|g| g.key == code), "{code} is not gated");
        }
    }
}
