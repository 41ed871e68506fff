//! The programs of tests that plant bugs: built once, run often.

use crate::project::Project;
use crate::run::{Step, cargo};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A test program.
pub struct TestProgram {
    pub package: String,
    /// `lib`, or the name of the integration test.
    pub name: String,
    pub program: PathBuf,
}

/// Builds the programs of these names with the features `sabotage`: of one package, or of the whole
/// workspace. Of the workspace the step `test` has built them, with the same features.
///
/// **Errors**: one does not build.
pub fn build<'a>(
    project: &Project,
    step: &Step,
    package: Option<&str>,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<TestProgram>> {
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["test", "--no-run"])
        .arg("--message-format=json-render-diagnostics");
    for name in names {
        match name {
            "lib" => c.arg("--lib"),
            name => c.args(["--test", name]),
        };
    }
    match package {
        Some(package) => c.args(["-p", package, "--features", "sabotage"]),
        None => c.args(["--workspace", "--features", &project.sabotage()]),
    };
    let mut built = Vec::new();
    for line in step.run(c)?.lines() {
        let Ok(v) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let Some(program) = v["executable"].as_str() else {
            continue;
        };
        if v["profile"]["test"] != true {
            continue;
        }
        let owner = v["manifest_path"].as_str().unwrap_or_default();
        let mut packages = project.packages.iter();
        let package = packages.find(|p| p.dir.join("Cargo.toml").as_os_str() == owner);
        let lib = v["target"]["kind"][0] != "test";
        built.push(TestProgram {
            package: package
                .context("a test program of no package")?
                .name
                .clone(),
            name: if lib {
                "lib".into()
            } else {
                v["target"]["name"].as_str().unwrap_or_default().into()
            },
            program: program.into(),
        });
    }
    Ok(built)
}

impl TestProgram {
    /// The folder and the variables with which `cargo test` would run it.
    pub fn as_cargo_runs_it(&self, project: &Project, c: &mut Command) {
        let package = project.package(&self.package);
        let dir = package.map_or(&project.root, |p| &p.dir);
        c.current_dir(dir)
            .env("CARGO_MANIFEST_DIR", dir)
            .env("CARGO_PKG_NAME", &self.package);
    }
}
