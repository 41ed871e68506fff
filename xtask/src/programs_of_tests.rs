//! How many programs the integration tests of a package are: one. A program takes a second or more
//! to link, and tens of megabytes.

use crate::project::{Package, Project};

/// How the first line of a program begins that must not be in its package's one. Its reason
/// follows.
const APART: &str = "//! Apart from the suite: ";

/// The programs of the package's integration tests that give no reason.
fn together(p: &Package) -> Vec<&str> {
    let tests = p.targets.iter().filter(|t| t.1 == "test");
    let names = tests.map(|t| t.0.as_str());
    let apart = |name: &&str| {
        let tests = p.dir.join("tests");
        let files = [format!("{name}.rs"), format!("{name}/main.rs")];
        let mut texts = files
            .iter()
            .flat_map(|f| std::fs::read_to_string(tests.join(f)));
        texts.any(|text| text.starts_with(APART))
    };
    names.filter(|name| !apart(name)).collect()
}

#[test]
fn each_package_has_one_at_most() {
    let project = Project::load().expect("cargo answers");
    let packages = project.packages.iter();
    let found: Vec<_> = packages.map(|p| (&p.name, together(p))).collect();
    let of = |name: &str| found.iter().find(|f| f.0 == name).map(|f| &*f.1);
    assert_eq!(of("nvmem"), Some(&["suite"][..]));
    let several: Vec<_> = found.iter().filter(|f| f.1.len() > 1).collect();
    assert!(
        several.is_empty(),
        "make these modules of one program, or begin their first line with `{APART}`: {several:?}"
    );
}
