//! The figures of whole programs: what each build costs, and whether all find the same.

use crate::campaign::{Done, Figures, Job};
use crate::cost::Cost;
use crate::explore::Explored;
use relume_suite::abi::{figure, section};

/// The figures of a program in a report: what it has found.
fn results(figures: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let is_result = |f: &&(u16, u16)| f.0 >= figure::RESULTS;
    figures.iter().filter(is_result).copied().collect()
}

/// What the same figures are of the reference.
fn reference(words: [u32; 4]) -> Vec<(u16, u16)> {
    let halves = words.into_iter().flat_map(|w| [w as u16, (w >> 16) as u16]);
    (figure::RESULTS..).zip(halves).collect()
}

/// Adds the figures of the programs of a machine: for each build its instructions and the bytes
/// that it stores; for each program whether all builds find what the reference finds, and how often
/// one was cut.
pub fn figures(out: &mut Figures, machine: &str, all: &[&&(Job, Done)]) {
    for (job, done) in all {
        let group = &job.source.group;
        let Some(name) = group.strip_prefix("program-") else {
            continue;
        };
        let e = &done.explored;
        let Some(wanted) = job.wanted else {
            parts(
                out,
                &format!("machine.{machine}.program_{name}"),
                &job.case.name,
                e,
            );
            continue;
        };
        let program = format!("machine.{machine}.program_{name}");
        let cost = |n: u16| {
            let found = e.sections.iter().find(|s| s.0 == n);
            found.map_or(Cost::default(), |s| s.1)
        };
        for (part, cost) in [
            ("", cost(section::PROGRAM)),
            ("open_", cost(section::PROGRAM_OPEN)),
        ] {
            let build = job.case.name.rsplit('_').next().unwrap_or_default();
            let build = format!("{program}.{build}.{part}");
            out.insert(format!("{build}instructions"), cost.instructions as f64);
            out.insert(format!("{build}nvm_bytes"), cost.bytes as f64);
        }
        let wanted = reference(wanted);
        let runs = e.others.iter().chain([&e.figures]);
        let same = runs.into_iter().all(|r| results(r) == wanted) && e.failures == 0;
        // Once for all builds that were run.
        let identical = out.entry(format!("{program}.identical")).or_insert(1.0);
        *identical *= f64::from(u8::from(same));
        if let Some(r) = e.repeated {
            out.insert(format!("{program}.cut_every"), r.every as f64);
            let ratio = r.taken as f64 / r.uncut as f64;
            out.insert(format!("{program}.cut_ratio"), ratio);
            out.insert(format!("{program}.boot_instructions"), r.boot as f64);
            out.insert(format!("{program}.restart_instructions"), r.restart as f64);
        }
        if let Some(s) = e.steps {
            let longest = s.instructions as f64;
            out.insert(format!("{program}.max_step_instructions"), longest);
            out.insert(format!("{program}.steps"), s.steps as f64);
        }
        if let Some(r) = e.restart {
            let mut put = |key: &str, n: u64| out.insert(format!("{program}.{key}"), n as f64);
            put("full_restart_instructions", r.full.instructions);
            put("full_rollback_instructions", r.full.rollback);
            put("longest_restart_instructions", r.any);
            put("rollback_instructions", r.rollback);
            put("restart_cuts", r.cuts);
        }
        *out.entry(format!("{program}.cuts")).or_default() += e.cuts as f64;
        *out.entry(format!("{program}.failures")).or_default() += e.failures as f64;
    }
}

/// The figures of what is no program with a reference: variants of programs, which compare by
/// themselves, and threads that wait.
fn parts(out: &mut Figures, group: &str, name: &str, e: &Explored) {
    let mut put = |key: &str, n: u64| out.insert(format!("{group}.{name}.{key}"), n as f64);
    if let Some((_, cost)) = e.sections.iter().find(|s| s.0 == section::PROGRAM) {
        put("instructions", cost.instructions);
        put("nvm_bytes", cost.bytes);
    }
    if let Some(j) = e.journals {
        put("all.restart_instructions", j.all.instructions);
        put("all.rollback_instructions", j.all.rollback);
        put("one.restart_instructions", j.one.instructions);
        put("one.rollback_instructions", j.one.rollback);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Source;
    use crate::explore::{Case, Limits};

    fn job(group: &str) -> Job {
        Job {
            source: Source {
                machine: "arm".into(),
                group: group.into(),
                path: "none".into(),
            },
            case: Case {
                name: "protected".into(),
                ..crate::tests::case(0)
            },
            reach: Limits {
                depth: Some(0),
                first_only: false,
                most: 1,
                sample: None,
            },
            planted: None,
            wanted: relume_suite::programs::wanted(group),
            repeats: false,
            runs: 0,
        }
    }

    #[test]
    fn one_other_result_shows() {
        let right = reference(relume_suite::programs::wanted("program-etl").unwrap());
        let mut other = right.clone();
        other[3].1 ^= 1;
        for (others, identical) in [
            (vec![right.clone(), right.clone()], 1.0),
            (vec![right.clone(), other], 0.0),
            (vec![right.clone(), vec![]], 0.0),
        ] {
            let explored = Explored {
                figures: right.clone(),
                others,
                cuts: 3,
                ..Explored::default()
            };
            let done = Done {
                explored,
                report: None,
            };
            let all = (job("program-etl"), done);
            let mut out = Figures::new();
            figures(&mut out, "arm", &[&&all]);
            assert_eq!(out["machine.arm.program_etl.identical"], identical);
            assert_eq!(out["machine.arm.program_etl.cuts"], 3.0);
        }
    }
}
