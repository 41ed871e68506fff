//! What is printed about a failure.

use crate::explore::{Case, Failure, Why, differ, wrong};
use crate::machine::{Boot, End, Machine};
use crate::replay::{Cut, Line};
use crate::state::{BENCH, Log, NVM, State, Store};
use anyhow::{Result, bail};
use relume_suite::abi::{self, cell};
use std::fmt::Write;

/// Instructions after which a boot hangs, when a failure is repeated: the same multiple as in an
/// exploration is not needed.
const LIMIT: u64 = 20_000_000;
/// Stores shown before a cut.
const STORES: usize = 6;

/// Repeats the cuts, and says what each of them was and how the boot after the last one ended.
///
/// The second part is whether something was wrong in it.
///
/// **Errors**: a cut is at no instruction of its boot.
pub fn repeat(
    m: &mut dyn Machine,
    case: &Case,
    cuts: &[Cut],
    limit: u64,
) -> Result<(String, bool)> {
    let mut out = String::new();
    let blank = case.blank();
    let mut state = blank.clone();
    let mut log = Log::default();
    let mut uncut = Log::default();
    m.boot(&detailed(&blank, 0, limit), &mut uncut);
    for (i, cut) in cuts.iter().enumerate() {
        let ran = case.boot(m, i, &detailed(&state, 0, limit), &mut log);
        let Some(n) = cut.stores(&log, ran.instructions) else {
            bail!(
                "boot {} has no place {cut}: it has {} instructions",
                i + 1,
                ran.instructions
            );
        };
        let mut other = Log::default();
        let until = detailed(&state, 0, u64::from(cut.instructions));
        let there = case.boot(m, i, &until, &mut other);
        let _ = writeln!(
            out,
            "cut {} at {cut}: before {}",
            i + 1,
            place(m, there.pc, cut.units)
        );
        disassembly(&mut out, m, there.pc);
        stores(&mut out, m, &state, &log.stores[..n]);
        apply(&mut state, &log.stores[..n], cut.torn);
    }
    let ran = case.boot(m, cuts.len(), &detailed(&state, 0, limit), &mut log);
    let mut now = blank.clone();
    m.state(&mut now);
    let mut why = wrong(case, &state, &log, &now, &ran);
    for seed in 1..4 {
        if why.is_none() {
            let mut other = Log::default();
            case.boot(m, cuts.len(), &detailed(&state, seed, limit), &mut other);
            why = differ(&log, &other).map(Why::Garbage);
        }
    }
    let after = if cuts.is_empty() {
        "the first boot"
    } else {
        "the boot after it"
    };
    let Some(why) = &why else {
        let _ = writeln!(
            out,
            "{after} finished in {} instructions; nothing was wrong",
            ran.instructions
        );
        return Ok((out, false));
    };
    let _ = writeln!(
        out,
        "{after}, {} instructions: {}",
        ran.instructions,
        said(m, why)
    );
    if matches!(why, Why::Ended(End::Fault(_) | End::Limit, _)) {
        let _ = writeln!(out, "  at {}", place(m, ran.pc, 0));
        disassembly(&mut out, m, ran.pc);
    }
    stores(&mut out, m, &state, &log.stores);
    differences(&mut out, m, case, &uncut, &state, &now);
    Ok((out, true))
}

/// Makes stores, the last of them torn in this way.
fn apply(state: &mut State, stores: &[Store], torn: u8) {
    for (i, s) in stores.iter().enumerate() {
        let last = i + 1 == stores.len() && torn != 0;
        let made = if last { s.torn(state, torn) } else { *s };
        state.apply(&made, &mut 0);
    }
}

fn detailed(state: &State, seed: u64, limit: u64) -> Boot<'_> {
    Boot {
        state,
        seed,
        limit,
        detail: true,
    }
}

/// The report of a failure that an exploration has found, and its line.
pub fn failure(
    m: &mut dyn Machine,
    group: &str,
    case: &Case,
    f: &Failure,
    limit: u64,
) -> Result<String> {
    let mut cuts = Vec::new();
    let (mut state, mut log) = (case.blank(), Log::default());
    let case = &Case {
        interrupt: f.interrupt,
        instants: f.instants.clone(),
        ..case.clone()
    };
    for (i, (n, torn)) in f.cuts.iter().zip(&f.torn).enumerate() {
        case.boot(m, i, &detailed(&state, 0, LIMIT), &mut log);
        let torn = *torn;
        cuts.push(Cut {
            torn,
            ..Cut::after(*n, &log)
        });
        apply(&mut state, &log.stores[..(*n).min(log.stores.len())], torn);
    }
    let (text, failed) = repeat(m, case, &cuts, limit)?;
    let line = Line::new(m.map().name, group, case, m.image().hash, cuts);
    let mut out = format!(
        "{}/{group}/{}: power lost {} times\n{text}",
        m.map().name,
        case.name,
        f.cuts.len()
    );
    if !failed {
        let _ = writeln!(out, "when it was found: {}", said(m, &f.why));
    }
    let _ = writeln!(out, "replay this:  cargo xtask machine --replay '{line}'");
    Ok(out)
}

/// An address with its name and its line.
fn place(m: &dyn Machine, pc: u32, units: u32) -> String {
    let lines = m.image().lines(pc);
    let mut out = format!("{pc:#x} {}", m.image().name(pc));
    if units > 0 {
        let _ = write!(out, ", of whose stores {units} were made");
    }
    if let Some(first) = lines.first() {
        let _ = write!(out, "  ({first}");
        for l in lines.iter().skip(1).take(2) {
            let _ = write!(out, ", in {l}");
        }
        out.push(')');
    }
    out
}

fn disassembly(out: &mut String, m: &dyn Machine, pc: u32) {
    // From the function's start, else instructions may be taken apart wrongly.
    let from = m
        .image()
        .function(pc)
        .filter(|f| pc - f < 0x4000)
        .unwrap_or(pc);
    let all = m.disassemble(from, pc + 16);
    let Some(here) = all.iter().position(|i| i.0 == pc) else {
        return;
    };
    for (at, text) in &all[here.saturating_sub(4)..all.len().min(here + 3)] {
        let mark = if *at == pc { "->" } else { "  " };
        let _ = writeln!(out, "    {mark} {at:8x}  {text}");
    }
}

/// The last stores, each with what was there before.
fn stores(out: &mut String, m: &dyn Machine, from: &State, all: &[Store]) {
    let _ = writeln!(out, "  its last stores:");
    let mut state = from.clone();
    let first = all.len().saturating_sub(STORES);
    for (i, s) in all.iter().enumerate() {
        let at = usize::from(s.at);
        let was = number(&state.0[at..at + s.bytes().len()]);
        state.apply(s, &mut 0);
        if i < first {
            continue;
        }
        let to = match s.mailbox_write() {
            Some((cell, _)) => format!("mailbox {cell}"),
            None if s.on_bench() => format!("bench {}", at - BENCH),
            None => format!("nvm {at:#05x}"),
        };
        let by = m.image().name(s.pc);
        let _ = writeln!(
            out,
            "    i{:<6} {to:10} {was} -> {}  by {by}",
            s.instruction,
            number(s.bytes())
        );
    }
}

fn number(bytes: &[u8]) -> String {
    let digits: Vec<_> = bytes.iter().rev().map(|b| format!("{b:02x}")).collect();
    digits.concat()
}

/// The bytes in which the memory differs from the nearest state that the run without cuts had
/// between two operations: at its start, its end, and when it wrote to the mailbox.
fn differences(
    out: &mut String,
    m: &dyn Machine,
    case: &Case,
    uncut: &Log,
    at_cut: &State,
    now: &State,
) {
    for (title, state) in [("found by that boot", at_cut), ("left by it", now)] {
        let mut s = case.blank();
        let unlike = |a: &State| {
            a.nvm()
                .iter()
                .zip(state.nvm())
                .filter(|(a, b)| a != b)
                .count()
        };
        let (mut best, mut fewest, mut after) = (s.clone(), unlike(&s), None);
        for x in &uncut.stores {
            s.apply(x, &mut 0);
            let told = x
                .mailbox_write()
                .is_some_and(|(c, _)| c >= cell::OWN || c == cell::STATUS);
            if !told {
                continue;
            }
            let n = unlike(&s);
            // Of equals the latest.
            if n <= fewest {
                (best, fewest, after) = (s.clone(), n, Some(x));
            }
        }
        let near = match after {
            Some(x) => format!("after i{} ({})", x.instruction, m.image().name(x.pc)),
            None => "at its start".into(),
        };
        let _ = write!(
            out,
            "  the memory {title}, nearest to the run without cuts {near}: "
        );
        if fewest == 0 {
            let _ = writeln!(out, "equal");
            continue;
        }
        let _ = writeln!(out, "{fewest} bytes are other ones");
        let unit = m.map().unit as usize;
        let units = (0..NVM)
            .step_by(unit)
            .filter(|i| best.0[*i..i + unit] != state.0[*i..i + unit]);
        for i in units.take(16) {
            let (a, b) = (number(&best.0[i..i + unit]), number(&state.0[i..i + unit]));
            let _ = writeln!(out, "    nvm {i:#05x}  {a}, here {b}");
        }
    }
}

/// What was wrong, in words.
fn said(m: &dyn Machine, why: &Why) -> String {
    match why {
        Why::Ended(End::Status(abi::FAILED), code) => match abi::source_line(*code) {
            _ if *code == abi::NO_SCENARIO => "there is no such scenario".into(),
            _ if *code == abi::FAULT => "a fault, or an interrupt that was not enabled".into(),
            _ if *code & abi::PANICKED == abi::PANICKED => {
                format!("it panicked, in line {}", code & 0x7FF)
            }
            Some((file, line)) => format!("the check at {file}:{line} of the suite failed"),
            None => format!("it failed with code {code:#06x}"),
        },
        Why::Ended(End::Status(s), _) => format!("it ended with status {s}"),
        Why::Ended(End::Fault(f), _) => format!("{f}"),
        Why::Ended(End::Limit, _) => "it hangs".into(),
        Why::Outside(s) => {
            let by = if s.pc == 0 {
                String::new()
            } else {
                format!(" by {}", m.image().name(s.pc))
            };
            format!(
                "a store to {:#05x}{by}, outside of the scenario's region",
                s.at
            )
        }
        Why::Device(what) => format!("the devices: {what}"),
        Why::Unseen => "the memory is not what its stores made of it".into(),
        Why::Garbage(i) => {
            format!(
                "with other garbage in RAM and registers, store {i} of the boot is another one: it depends on what a cut destroys"
            )
        }
    }
}
