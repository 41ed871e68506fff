//! What deny.toml says of licences, banned crates and sources, held against every lock file of the
//! repository.
//!
//! The rules are cargo-deny's, and where that program is installed it judges too. It takes longer
//! to build than all other steps together, so these three of its checks are repeated here, where
//! nothing has to be installed.

use super::Ctx;
use crate::project::has_program;
use crate::run::{Outcome, Step, capture, cargo};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use std::collections::BTreeMap;
use std::path::Path;

/// The workspaces that this repository holds, each with its own lock file.
const WORKSPACES: [&str; 3] = [".", "fuzz", "firmware/rig"];

pub fn deny(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let root = &ctx.project.root;
    let rules = Rules::read(&root.join("deny.toml"))?;
    let (mut judged, mut wrong) = (0, Vec::new());
    for w in WORKSPACES.map(|w| root.join(w).join("Cargo.toml")) {
        if !w.is_file() {
            continue;
        }
        s.says("licences, bans, sources");
        let mut c = cargo();
        c.args([
            "metadata",
            "--format-version=1",
            "--all-features",
            "--manifest-path",
        ])
        .arg(&w);
        let packages: Value = serde_json::from_str(&capture(c)?).context("cargo metadata")?;
        let packages = packages["packages"].as_array().cloned().unwrap_or_default();
        judged += packages.iter().filter(|p| !p["source"].is_null()).count();
        wrong.extend(rules.judge(&packages));
    }
    wrong.sort();
    wrong.dedup();
    if judged == 0 {
        bail!("no dependency was judged");
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let by = if has_program("cargo-deny") {
        let mut c = cargo();
        c.current_dir(root)
            .args(["deny", "check", "licenses", "bans", "sources"]);
        s.run(c)?;
        ", cargo-deny too"
    } else {
        ""
    };
    Ok(format!("licences, bans and sources of {judged} locked packages{by}").into())
}

/// What deny.toml says, as far as it is judged here.
struct Rules {
    allow: Vec<Licensee>,
    /// For one crate alone.
    except: BTreeMap<String, Vec<Licensee>>,
    /// A banned crate, and those that may depend on it all the same.
    ban: BTreeMap<String, Vec<String>>,
}

impl Rules {
    fn read(path: &Path) -> Result<Self> {
        let t: toml::Table = std::fs::read_to_string(path)?.parse()?;
        let licensees = |v: Option<&toml::Value>| {
            let names = strings(v);
            let parsed = names
                .iter()
                .map(|n| Licensee::parse_mode(n, ParseMode::LAX));
            parsed
                .collect::<Result<Vec<_>, _>>()
                .context("deny.toml: licenses")
        };
        let licenses = t.get("licenses").context("deny.toml: no [licenses]")?;
        let mut except = BTreeMap::new();
        for e in tables(licenses.get("exceptions")) {
            except.insert(name(e), licensees(e.get("allow"))?);
        }
        let bans = t.get("bans").context("deny.toml: no [bans]")?;
        let ban = tables(bans.get("deny")).map(|b| (name(b), strings(b.get("wrappers"))));
        Ok(Rules {
            allow: licensees(licenses.get("allow"))?,
            except,
            ban: ban.collect(),
        })
    }

    fn judge(&self, packages: &[Value]) -> Vec<String> {
        let mut wrong = Vec::new();
        for p in packages {
            let (name, version) = (text(&p["name"]), text(&p["version"]));
            if let Some(source) = p["source"].as_str() {
                if source != "registry+https://github.com/rust-lang/crates.io-index" {
                    wrong.push(format!("{name} {version} comes from {source}"));
                }
                if let Err(e) = self.license(name, text(&p["license"])) {
                    wrong.push(format!("{name} {version}: {e}"));
                }
            }
            for d in p["dependencies"].as_array().into_iter().flatten() {
                let d = text(&d["name"]);
                if self
                    .ban
                    .get(d)
                    .is_some_and(|w| !w.iter().any(|w| w == name))
                {
                    wrong.push(format!("{name} {version} depends on {d}, which is banned"));
                }
            }
        }
        wrong
    }

    fn license(&self, name: &str, said: &str) -> Result<()> {
        let e = Expression::parse_mode(said, ParseMode::LAX)
            .with_context(|| format!("licence {said:?}"))?;
        let own = self.except.get(name).into_iter().flatten();
        let fine: Vec<_> = self.allow.iter().chain(own).collect();
        if !e.evaluate(|req| fine.iter().any(|l| l.satisfies(req))) {
            bail!("licence {said} is not allowed by deny.toml");
        }
        Ok(())
    }
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

fn strings(v: Option<&toml::Value>) -> Vec<String> {
    let all = v.and_then(toml::Value::as_array).into_iter().flatten();
    all.filter_map(|s| Some(s.as_str()?.to_owned())).collect()
}

fn tables(v: Option<&toml::Value>) -> impl Iterator<Item = &toml::Table> {
    let all = v.and_then(toml::Value::as_array).into_iter().flatten();
    all.filter_map(toml::Value::as_table)
}

fn name(t: &toml::Table) -> String {
    let n = t.get("crate").or_else(|| t.get("name"));
    n.and_then(toml::Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RULES: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0 WITH LLVM-exception"]
        exceptions = [{ allow = ["GPL-2.0"], crate = "engine" }]
        [bans]
        deny = [{ crate = "engine", wrappers = ["rig"] }]
    "#;

    fn judge(packages: &[Value]) -> Vec<String> {
        let file =
            std::env::temp_dir().join(format!("deny-{}-{:p}.toml", std::process::id(), packages));
        std::fs::write(&file, RULES).unwrap();
        let rules = Rules::read(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        rules.judge(packages)
    }

    fn package(name: &str, license: &str, depends: &[&str]) -> Value {
        let depends: Vec<_> = depends.iter().map(|d| json!({ "name": d })).collect();
        json!({ "name": name, "version": "1.0.0", "license": license, "dependencies": depends,
            "source": "registry+https://github.com/rust-lang/crates.io-index" })
    }

    #[test]
    fn what_is_allowed_passes() {
        let all = [
            package("a", "MIT OR GPL-3.0", &[]),
            package("b", "MIT/Apache-2.0", &["a"]),
            package("engine", "GPL-2.0", &[]),
            package("rig", "MIT", &["engine"]),
        ];
        assert_eq!(judge(&all), [""; 0]);
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let mut foreign = package("d", "MIT", &[]);
        foreign["source"] = json!("git+https://example.org/d");
        let all = [
            package("a", "GPL-2.0", &[]),
            package("b", "MIT AND GPL-3.0", &[]),
            package("c", "MIT", &["engine"]),
            package("e", "", &[]),
            foreign,
        ];
        let wrong = judge(&all);
        for (i, start) in ["a 1", "b 1", "c 1", "e 1", "d 1"].iter().enumerate() {
            assert!(wrong[i].starts_with(start), "{wrong:?}");
        }
    }
}
