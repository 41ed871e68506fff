//! What a new user meets, as figures: examples and guide in packages of their own, boards, the
//! oldest compiler, the packages as a registry gets them.

use crate::ci::{Ctx, packages};
use crate::figures::Figures;
use crate::project::Project;
use crate::run::{Outcome, Step};
use crate::{boards, consumers};
use anyhow::Result;

/// The figures, and the first thing that is wrong.
///
/// **Errors**: a command cannot be started.
pub fn figures(project: &Project, step: &Step) -> Result<(Figures, Option<String>)> {
    let ctx = Ctx::load(false)?;
    let mut all = Figures::new();
    let mut wrong = None;
    let mut says = |what: &str, e: String| {
        let text = format!("{what}: {e}");
        wrong.get_or_insert(text);
    };
    let (found, result) = consumers::figures(project, step)?;
    all.extend(found);
    if let Err(e) = result {
        says("consumers", format!("{e:#}"));
    }
    match packages::msrv(&ctx, step) {
        Ok(Outcome::Passed(_)) => drop(all.insert("adoption.msrv_ok".into(), 1.0)),
        Ok(Outcome::Skipped(why)) => says("msrv", why),
        Err(e) => says("msrv", format!("{e:#}")),
    }
    match packages::publish(&ctx, step) {
        Ok(_) => {
            let packages = project.published().count() as f64;
            all.insert("adoption.publish_ok".into(), packages);
        }
        Err(e) => says("publish", format!("{e:#}")),
    }
    match boards::figures(project, step) {
        Ok(found) => all.extend(found),
        Err(e) => says("boards", format!("{e:#}")),
    }
    for key in ["adoption.msrv_ok", "adoption.publish_ok"] {
        all.entry(key.to_owned()).or_insert(0.0);
    }
    Ok((all, wrong))
}
