//! The worst stack of a linked program, from its machine code: what each function takes, along the
//! deepest way of calls.

use anyhow::{Context, Result};
use object::{Architecture, Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};

/// What one function does to the stack, and whom it calls.
#[derive(Debug, Default, PartialEq)]
pub struct Frame {
    /// Bytes that it takes, all that it ever takes added up.
    pub bytes: u64,
    /// Calls: the callee's stack comes on top.
    pub calls: BTreeSet<u32>,
    /// Jumps out of it: its own stack is gone by then.
    pub jumps: BTreeSet<u32>,
}

/// Functions that call themselves, once at most: parts of their mangled names, and why.
const ONCE: &[[&str; 2]] = &[
    // For a region that nobody has marked as being formatted, the mark is written first; that call
    // finds no reason for another.
    ["10superblock", "6commit"],
];

/// Instructions of a function: halfwords from `start` on. `None`: it calls what the code does not
/// name, or takes as much as a register says.
type Decoder = fn(start: u32, code: &[u16]) -> Option<Frame>;

/// Bytes from the entry down. `None` where it cannot be told: a call through a pointer, recursion,
/// a frame whose size is computed.
pub fn worst(elf: &[u8]) -> Result<Option<u64>> {
    let file = object::File::parse(elf)?;
    let (decode, return_address): (Decoder, u64) = match file.architecture() {
        Architecture::Arm => (super::decode::thumb, 0),
        Architecture::Riscv32 => (super::decode::riscv, 0),
        _ => (super::decode::msp430, 2),
    };
    let mut code = BTreeMap::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        if sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0 {
            code.insert(section.address() as u32, section.data()?);
        }
    }
    // Where functions begin, and where in them data does, and ends.
    let thumb = file.architecture() == Architecture::Arm;
    let mut starts = BTreeSet::new();
    let mut data = BTreeMap::new();
    let mut once = BTreeSet::new();
    for s in file.symbols().filter(|s| s.section_index().is_some()) {
        let at = s.address() as u32;
        let name = s.name().unwrap_or_default();
        if s.kind() == SymbolKind::Text && !name.starts_with('$') {
            let at = if thumb { at & !1 } else { at };
            starts.insert(at);
            if ONCE
                .iter()
                .any(|n| n.iter().all(|part| name.contains(part)))
            {
                once.insert(at);
            }
        } else if name.starts_with('$') {
            data.insert(at, name.starts_with("$d"));
        }
    }
    let entry = file.symbols().find(|s| s.name() == Ok("_start"));
    let entry = entry.context("no _start")?.address() as u32;
    let entry = if thumb { entry & !1 } else { entry };
    let mut frames = BTreeMap::new();
    let mut open = vec![entry];
    while let Some(at) = open.pop() {
        if frames.contains_key(&at) {
            continue;
        }
        let Some((base, bytes)) = code.range(..=at).next_back() else {
            return Ok(None);
        };
        let end = base + bytes.len() as u32;
        let end = starts.range(at + 1..).next().map_or(end, |s| end.min(*s));
        let Some(bytes) = bytes.get((at - base) as usize..(end.max(at) - base) as usize) else {
            return Ok(None);
        };
        let mut words: Vec<u16> = (bytes.as_chunks::<2>().0.iter())
            .map(|b| u16::from_le_bytes(*b))
            .collect();
        // A table in the middle is no code; a zero does nothing on any of them.
        for (i, w) in words.iter_mut().enumerate() {
            let last = data.range(..=at + 2 * i as u32).next_back();
            if last.is_some_and(|(a, is)| *is && *a >= at) {
                *w = 0;
            }
        }
        let Some(mut frame) = decode(at, &words) else {
            return Ok(None);
        };
        if once.contains(&at) && frame.calls.remove(&at) {
            frame.bytes = 2 * frame.bytes + return_address;
        }
        open.extend(frame.calls.iter().chain(&frame.jumps));
        frames.insert(at, frame);
    }
    let mut known = BTreeMap::new();
    Ok(deepest(&frames, entry, return_address, &mut known))
}

/// `None` for recursion. `known` holds what was found, and `None` for those on the way.
fn deepest(
    all: &BTreeMap<u32, Frame>,
    at: u32,
    return_address: u64,
    known: &mut BTreeMap<u32, Option<u64>>,
) -> Option<u64> {
    if let Some(k) = known.get(&at) {
        return *k;
    }
    known.insert(at, None);
    let f = all.get(&at)?;
    let mut worst = f.bytes;
    for c in &f.calls {
        worst = worst.max(f.bytes + return_address + deepest(all, *c, return_address, known)?);
    }
    for j in &f.jumps {
        worst = worst.max(deepest(all, *j, return_address, known)?);
    }
    known.insert(at, Some(worst));
    Some(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: u64, calls: &[u32], jumps: &[u32]) -> Frame {
        Frame {
            bytes,
            calls: calls.iter().copied().collect(),
            jumps: jumps.iter().copied().collect(),
        }
    }

    #[test]
    fn the_deepest_way_counts() {
        let all = [
            (0, frame(8, &[10, 20], &[])),
            (10, frame(4, &[30], &[])),
            (20, frame(16, &[], &[30])),
            (30, frame(100, &[], &[])),
        ];
        let all = all.into();
        assert_eq!(
            deepest(&all, 0, 2, &mut BTreeMap::new()),
            Some(8 + 2 + 4 + 2 + 100)
        );
    }

    #[test]
    fn recursion_has_no_bound() {
        let all = [(0, frame(8, &[10], &[])), (10, frame(4, &[10], &[]))].into();
        assert_eq!(deepest(&all, 0, 0, &mut BTreeMap::new()), None);
    }
}
