//! What is shown, and the figures.

use crate::flash::COST;
use crate::life::{Ended, Life};
use crate::time::milliseconds;
use serde_json::{Map, Value};
use std::fmt;

/// All lives, the one without cuts first.
pub struct Report<'a> {
    pub uncut: &'a Life,
    pub lives: &'a [(&'a str, Life)],
    pub period: u32,
}

/// How long it runs without a cut.
pub fn length(uncut: &Life) -> String {
    format!(
        "{} million instructions, {:.0} s with its checkpoints",
        uncut.instructions.div_ceil(1_000_000),
        milliseconds(uncut.cycles) / 1000.0
    )
}

fn microjoules(life: &Life) -> u64 {
    COST.energy_nj(&life.work).div_ceil(1000)
}

impl Report<'_> {
    fn same(&self, life: &Life) -> bool {
        matches!(life.ended, Ended::Finished(_)) && life.ended == self.uncut.ended
    }

    /// In how many modes the result is that of the run without cuts.
    pub fn identical(&self) -> usize {
        self.lives.iter().filter(|l| self.same(&l.1)).count()
    }

    /// The figures.
    pub fn json(&self) -> Value {
        let mut out = Map::new();
        let mut put = |key: String, v: u64| out.insert(format!("checkpoint_demo.{key}"), v.into());
        for (mode, l) in self.lives {
            let mut put = |key: &str, v: u64| put(format!("{mode}.{key}"), v);
            put("boots", l.boots);
            put("cuts", l.cuts);
            put("checkpoints", l.taken);
            put("restores", l.restored);
            put("bytes", l.work.written);
            put("erases", l.work.erases);
            put("energy_uj", microjoules(l));
            put("instructions", l.instructions);
        }
        put("modes".into(), self.lives.len() as u64);
        put("identical".into(), self.identical() as u64);
        put("uncut_instructions".into(), self.uncut.instructions);
        put("period_ms".into(), self.period.into());
        Value::Object(out)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<15} {:>6} {:>6} {:>11} {:>11} {:>7} {:>9} {:>8} {:>6}  result",
            "mode",
            "boots",
            "cuts",
            "checkpoints",
            "programmed",
            "erases",
            "energy",
            "core",
            "on for"
        )?;
        for (mode, l) in self.lives {
            let result = match &l.ended {
                Ended::Finished(_) if self.same(l) => "identical".to_owned(),
                Ended::Finished(_) => "DIFFERENT".to_owned(),
                other => other.to_string(),
            };
            writeln!(
                f,
                "{mode:<15} {:>6} {:>6} {:>11} {:>9} B {:>7} {:>6.0} mJ {:>6} M {:>4.0} s  {result}",
                l.boots,
                l.cuts,
                l.taken,
                grouped(l.work.written),
                l.work.erases,
                microjoules(l) as f64 / 1000.0,
                l.instructions.div_ceil(1_000_000),
                milliseconds(l.cycles) / 1000.0
            )?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "Energy: of the flash, with an STM32L1's {} µJ for each half page of 128 bytes and each erase of 256, and {:.1} nJ\n\
             for a byte read. Core: its instructions. The mode `Stack` is not for this program, which has a heap.",
            f64::from(COST.program_nj) / 1000.0,
            f64::from(COST.read_pj) / 1000.0
        )
    }
}

/// With a comma for each three digits.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
